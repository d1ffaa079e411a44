"""In which namespaces somebody works: the own one, and those where a rule lets the user in.

A built-in role holds in the user's own namespace only; an admin of `default` administers all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.broker.auth.identity import Identity
from penstock.broker.auth.permissions import NO_VERDICTS, Verdicts, verdicts_of
from penstock.broker.auth.roles import ADMIN_ROLE, BUILT_IN_ROLES, is_implied
from penstock.broker.auth.rules import EVERYWHERE, Effect, Rule
from penstock.broker.auth.users import Users
from penstock.core.errors import NamespaceRefused, NoSuchNamespace
from penstock.queues.names import DEFAULT_NAMESPACE, check_namespace

_BUILT_IN = frozenset(role.name for role in BUILT_IN_ROLES)


class Working:
    def __init__(self, users: Users) -> None:
        self._users = users
        self.is_declared: Callable[[str], bool] = lambda namespace: namespace == DEFAULT_NAMESPACE
        """whether there is something in a namespace; the server puts in what its broker knows"""

    def knows(self, namespace: str) -> bool:
        """Whether there is such a namespace: something was declared there, or a user, key or rule names it."""
        return self.is_declared(namespace) or namespace in self._users.namespaces()

    def enter(self, identity: Identity, roles: Sequence[str], namespace: str) -> Identity:
        """As who works there. NoSuchNamespace, NamespaceRefused, InvalidArgument."""
        if namespace == identity.home:
            return replace(identity, namespace=namespace)
        check_namespace(namespace)
        if not self.knows(namespace):
            raise NoSuchNamespace(namespace)
        is_admin = _is_server_admin(identity, roles)
        if not is_admin and not any(rule.effect is Effect.ALLOW for rule in self._rules(identity, roles, namespace)):
            raise NamespaceRefused(identity.name, namespace)
        return replace(identity, namespace=namespace, own_namespace=identity.home, is_admin=is_admin)

    def namespaces(self, identity: Identity, roles: Sequence[str], among: Sequence[str]) -> list[str]:
        """Those of them in which somebody works."""
        if _is_server_admin(identity, roles):
            return list(among)
        found = []
        for namespace in among:
            rules = self._rules(identity, roles, namespace)
            if namespace == identity.home or any(rule.effect is Effect.ALLOW for rule in rules):
                found.append(namespace)
        return found

    def verdicts(self, identity: Identity, roles: Sequence[str] | None, client_id: str) -> Verdicts:
        """Of who has these roles in the own namespace; None for who is not there any more."""
        if roles is None:
            return NO_VERDICTS
        name, namespace = identity.name, identity.namespace
        if namespace == identity.home:
            rules = self._users.rules_about(name, roles, namespace)
            return verdicts_of(roles, [*rules, *identity.rules], client_id, name, namespace)
        mine = (ADMIN_ROLE,) if _is_server_admin(identity, roles) else ()
        return verdicts_of(mine, self._rules(identity, roles, namespace), client_id, name, namespace)

    def _rules(self, identity: Identity, roles: Sequence[str], namespace: str) -> list[Rule]:
        """Those that somebody has written."""
        mine = [role for role in roles if role not in _BUILT_IN]
        found = [rule for rule in self._users.rules_about(identity.name, mine, namespace) if not is_implied(rule)]
        return found + [rule for rule in identity.rules if rule.namespace in (namespace, EVERYWHERE)]


def _is_server_admin(identity: Identity, roles: Sequence[str]) -> bool:
    return ADMIN_ROLE in roles and identity.home == DEFAULT_NAMESPACE
