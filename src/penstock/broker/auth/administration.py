"""Users, keys and rules as one administrator may see and change them: those of its namespace, or all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.broker.auth.keys import NoSuchKey
from penstock.broker.auth.rules import Rule
from penstock.broker.auth.store import ApiKey, User
from penstock.broker.auth.users import Users
from penstock.core.errors import NoSuchUser, NotAuthorised


class UserAdministration:
    """What is of another namespace is not there, for who does not administer it."""

    def __init__(self, users: Users, namespace: str, administers: Callable[[str], bool]) -> None:
        """`namespace`: where things are made that name none."""
        self._users, self.namespace, self._administers = users, namespace, administers

    # Users

    def all(self) -> list[User]:
        """Sorted by name."""
        return [user for user in self._users.all() if self._administers(user.namespace)]

    def user(self, name: str) -> User:
        """NoSuchUser."""
        found = self._users.find(name)
        if found is None or not self._administers(found.namespace):
            raise NoSuchUser(name)
        return found

    async def add(
        self,
        name: str,
        password: bytes | None,
        roles: Iterable[str] = (),
        namespace: str | None = None,
        *,
        with_scram: bool = True,
    ) -> User:
        """NotAuthorised for another namespace, UserExists."""
        return await self._users.add(name, password, roles, self._where(namespace), with_scram=with_scram)

    async def set_password(self, name: str, password: bytes, *, with_scram: bool = True) -> None:
        self.user(name)
        await self._users.set_password(name, password, with_scram=with_scram)

    async def set_roles(self, name: str, roles: Iterable[str]) -> None:
        self.user(name)
        await self._users.set_roles(name, roles)

    async def remove(self, name: str) -> list[Rule]:
        self.user(name)
        return await self._users.remove(name)

    # Keys

    def all_keys(self) -> list[ApiKey]:
        found = self._users.keys()
        return [key for key in found if self._administers(key.namespace)]

    async def add_key(
        self,
        roles: Iterable[str],
        namespace: str | None,
        description: str,
        *,
        expires_ms: int | None = None,
    ) -> tuple[ApiKey, str]:
        return await self._users.add_key(roles, self._where(namespace), description, expires_ms=expires_ms)

    async def remove_key(self, key_id: str) -> list[Rule]:
        found = self._users.find_key(key_id)
        if found is None or not self._administers(found.namespace):
            raise NoSuchKey(key_id)
        return await self._users.remove_key(key_id)

    # Rules

    @property
    def rules(self) -> list[Rule]:
        """Those of all namespaces, `*`, are the server's."""
        return [rule for rule in self._users.rules if self._administers(rule.namespace)]

    async def add_rule(self, rule: Rule) -> bool:
        """NotAuthorised for one that counts elsewhere."""
        self._where(rule.namespace)
        return await self._users.add_rule(rule)

    async def remove_rule(self, rule: Rule) -> bool:
        self._where(rule.namespace)
        return await self._users.remove_rule(rule)

    def _where(self, namespace: str | None) -> str:
        wanted = self.namespace if namespace is None else namespace
        if not self._administers(wanted):
            raise NotAuthorised(
                f"namespace {wanted!r} is not yours to administer, {self.namespace!r} is: "
                f"an admin of the namespace 'default' administers all of them"
            )
        return wanted
