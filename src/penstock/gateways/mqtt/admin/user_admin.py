"""`$admin/user/…` and `$admin/acl/…`: users and rules of a running server, changed by publishing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from penstock.broker.auth.access import Access
from penstock.broker.auth.administration import UserAdministration
from penstock.broker.auth.rules import rule_of
from penstock.core.errors import InvalidArgument

logger = logging.getLogger("penstock.mqtt")

PREFIXES = ("$admin/user/", "$admin/acl/")
Said = Mapping[str, object]


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class _NewUser(_Request, forbid_unknown_fields=True):
    password: str | None = None
    """without one the user logs in by certificate or token"""
    roles: tuple[str, ...] = ()
    namespace: str | None = None
    """the admin's own, if none is said"""


class _NewPassword(_Request, forbid_unknown_fields=True, kw_only=True):
    password: str


class _NewRoles(_Request, forbid_unknown_fields=True, kw_only=True):
    roles: tuple[str, ...]


class UserAdmin:
    """For who has the role `admin` at the moment: a right to administer queues makes nobody a maker of admins."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def do(self, topic: str, said: Said, admin: str) -> None:
        """ValueError or PenstockError if it is not done; nothing of a password is in them."""
        users = self._access.users_for(admin)
        act = _ACTS.get(topic)
        if act is None:
            raise ValueError(f"{topic} is not a request: publish to one of {', '.join(_ACTS)}")
        await act(users, said)
        logger.info("users or rules changed by=%s request=%s about=%s", admin, topic, said.get("name", "a rule"))


async def _add(users: UserAdministration, said: Said) -> None:
    asked = msgspec.convert(said, _NewUser)
    password = None if asked.password is None else asked.password.encode()
    await users.add(asked.name, password, asked.roles, asked.namespace)


async def _set_password(users: UserAdministration, said: Said) -> None:
    asked = msgspec.convert(said, _NewPassword)
    await users.set_password(asked.name, asked.password.encode())


async def _set_roles(users: UserAdministration, said: Said) -> None:
    asked = msgspec.convert(said, _NewRoles)
    await users.set_roles(asked.name, asked.roles)


async def _remove(users: UserAdministration, said: Said) -> None:
    await users.remove(msgspec.convert(said, _Request).name)


async def _add_rule(users: UserAdministration, said: Said) -> None:
    await users.add_rule(rule_of({"namespace": users.namespace, **said}))


async def _remove_rule(users: UserAdministration, said: Said) -> None:
    gone = rule_of({"namespace": users.namespace, **said})
    if not await users.remove_rule(gone):
        raise InvalidArgument(f"there is no rule {gone}: name it as it was added")


# The verbs of `penstock user` and `penstock acl`.
_ACTS: Mapping[str, Callable[[UserAdministration, Said], Awaitable[None]]] = {
    "$admin/user/add": _add,
    "$admin/user/passwd": _set_password,
    "$admin/user/roles": _set_roles,
    "$admin/user/rm": _remove,
    "$admin/acl/add": _add_rule,
    "$admin/acl/rm": _remove_rule,
}
