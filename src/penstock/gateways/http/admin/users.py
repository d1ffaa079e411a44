"""Users, API keys and rules."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.broker.auth.descriptions import describe_key, describe_user
from penstock.broker.auth.keys import KEY_USER_PREFIX, NoSuchKey
from penstock.broker.auth.rules import Action, Effect, Rule, rule_of
from penstock.broker.auth.store import User
from penstock.broker.auth.verdicts import AskedAction, Verdict
from penstock.codecs.http.administration import CreatedKey
from penstock.codecs.http.shapes import RULE_PATTERN, KeyText, Namespace, PersonName, UserName
from penstock.codecs.http.spans import LONGEST_KEY_S, SHORTEST_KEY_S, KeyAge
from penstock.core.descriptions import KeyDescription, UserDescription
from penstock.gateways.http.admin.queues import DryRunQuery
from penstock.gateways.http.server.durations import seconds_of
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.pages import PageQuery, page
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import NO_CONTENT, Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route

_TAG = "Users and rules"


class Users(msgspec.Struct, frozen=True):
    items: list[UserDescription]
    next: str | None


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: UserName
    password: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """without one the user logs in by certificate or token"""
    roles: list[PersonName] = []
    namespace: Namespace | None = None
    """the caller's own, or that of the request, if none is said"""
    scram: bool = True
    """keep keys for SCRAM-SHA-256 too: name and password must be such that SASLprep (RFC 4013) allows them"""


class UserChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    password: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    roles: list[PersonName] | None = None
    scram: bool = True
    """with a password: keep keys for SCRAM-SHA-256 too; it must be one that SASLprep (RFC 4013) allows"""


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    roles: list[PersonName] = []
    namespace: Namespace | None = None
    description: KeyText = ""
    expires_in: KeyAge | None = None


class Keys(msgspec.Struct, frozen=True):
    items: list[KeyDescription]
    next: str | None


class Rules(msgspec.Struct, frozen=True):
    items: list[Rule]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Check whether a user may do something"""

    user: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    """of any kind of login: tokens and certificates have names of other shapes than users here"""
    action: AskedAction
    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=65535)]
    """a topic, a filter or the name of a queue; what is none of them is nothing that a rule could allow"""
    client_id: str = ""


async def list_users(exchange: Exchange) -> Reply:
    part, following = page(exchange.users.all(), lambda user: user.name, exchange.query(PageQuery))
    return json_reply(Users([describe_user(user) for user in part], following))


async def add_user(exchange: Exchange) -> Reply:
    body = await exchange.read(NewUser)
    password = None if body.password is None else body.password.encode()
    user = await exchange.users.add(body.name, password, body.roles, body.namespace, with_scram=body.scram)
    return json_reply(describe_user(user), 201)


async def describe(exchange: Exchange) -> Reply:
    return json_reply(describe_user(_user(exchange)))


async def change_user(exchange: Exchange) -> Reply:
    body, users, name = await exchange.read(UserChange), exchange.users, exchange.parameters["name"]
    _user(exchange)
    if body.password is not None:
        await users.set_password(name, body.password.encode(), with_scram=body.scram)
    if body.roles is not None:
        await users.set_roles(name, body.roles)
    return json_reply(describe_user(_user(exchange)))


async def remove_user(exchange: Exchange) -> Reply:
    await exchange.users.remove(exchange.parameters["name"])
    return NO_CONTENT


async def list_keys(exchange: Exchange) -> Reply:
    keys = sorted(exchange.users.all_keys(), key=lambda key: key.id)
    part, following = page(keys, lambda key: key.id, exchange.query(PageQuery))
    return json_reply(Keys([describe_key(key) for key in part], following))


async def add_key(exchange: Exchange) -> Reply:
    body = await exchange.read(NewKey)
    expires_ms = None
    if body.expires_in is not None:
        left_s = seconds_of(body.expires_in, "expires_in", LONGEST_KEY_S, SHORTEST_KEY_S)
        expires_ms = exchange.ports.broker.wall() + round(1000 * left_s)
    key, text = await exchange.users.add_key(body.roles, body.namespace, body.description, expires_ms=expires_ms)
    return json_reply(CreatedKey(text, describe_key(key)), 201, [(b"cache-control", b"no-store")])


async def remove_key(exchange: Exchange) -> Reply:
    await exchange.users.remove_key(exchange.parameters["id"])
    return NO_CONTENT


async def list_rules(exchange: Exchange) -> Reply:
    return json_reply(Rules(exchange.users.rules))


async def add_rule(exchange: Exchange) -> Reply:
    rule = _rule(exchange, await exchange.read(dict[str, object]))
    is_new = await exchange.users.add_rule(rule)
    return json_reply(rule, 201 if is_new else 200)


async def remove_rule(exchange: Exchange) -> Reply:
    rule, users = _rule(exchange, await exchange.read(dict[str, object])), exchange.users
    is_dry = exchange.query(DryRunQuery).dry_run
    if not (rule in users.rules if is_dry else await users.remove_rule(rule)):
        raise Refusal(404, "not-found", f"there is no rule {str(rule)!r}: GET {API}/acl lists them")
    return NO_CONTENT


async def check(exchange: Exchange) -> Reply:
    asked = await exchange.read(Question)
    _require_known(exchange, asked.user)
    return json_reply(exchange.ports.access.may(asked.user, asked.action, asked.topic, asked.client_id))


def _require_known(exchange: Exchange, user: str) -> None:
    """NoSuchUser, NoSuchKey for who is of another namespace."""
    if exchange.permissions.is_server_admin:
        return
    if user.startswith(KEY_USER_PREFIX):
        if user.removeprefix(KEY_USER_PREFIX) not in [key.id for key in exchange.users.all_keys()]:
            raise NoSuchKey(user.removeprefix(KEY_USER_PREFIX))
    else:
        exchange.users.user(user)


def _rule(exchange: Exchange, written: dict[str, object]) -> Rule:
    """In the caller's namespace, or that of the request, if it names none."""
    return rule_of({"namespace": exchange.namespace, **written})


def _user(exchange: Exchange) -> User:
    return exchange.users.user(exchange.parameters["name"])


_RULE_HINT = "A rule is like {effect: allow, action: publish, pattern: a/#, user: u}, or with a role, or for everyone."

_NAME_OR_NONE = {"type": ["string", "null"], "pattern": "^[!-~]+( [!-~]+)*$"}
RULE: dict[str, object] = {
    "type": "object",
    "properties": {
        "effect": {"enum": [each.value for each in Effect]},
        "action": {"enum": [each.value for each in Action]},
        "pattern": {"type": "string", "pattern": f"^({RULE_PATTERN})$", "minLength": 1},
        "user": _NAME_OR_NONE,
        "role": _NAME_OR_NONE,
        "namespace": {"type": "string", "pattern": r"^[^\x00-\x1f\x7f/+#|$][^\x00-\x1f\x7f/+#|]*$"},
    },
    "required": ["effect", "action", "pattern"],
    "additionalProperties": False,
    "anyOf": [{"properties": {"user": {"type": "null"}}}, {"properties": {"role": {"type": "null"}}}],
}

ROUTES = (
    Route("GET", f"{API}/users", list_users, Right.ADMIN, _TAG, "List users", query=PageQuery, answers={200: Users}),
    Route(
        "POST", f"{API}/users", add_user, Right.ADMIN, _TAG, "Add a user", body=NewUser, answers={201: UserDescription}
    ),
    Route(
        "GET", f"{API}/users/{{name}}", describe, Right.ADMIN, _TAG, "Describe a user", answers={200: UserDescription}
    ),
    Route(
        "PATCH",
        f"{API}/users/{{name}}",
        change_user,
        Right.ADMIN,
        _TAG,
        "Change password or roles",
        body=UserChange,
        answers={200: UserDescription},
    ),
    Route(
        "DELETE",
        f"{API}/users/{{name}}",
        remove_user,
        Right.ADMIN,
        _TAG,
        "Delete a user and their rules",
        answers={204: None},
    ),
    Route("GET", f"{API}/keys", list_keys, Right.ADMIN, _TAG, "List API keys", query=PageQuery, answers={200: Keys}),
    Route(
        "POST", f"{API}/keys", add_key, Right.ADMIN, _TAG, "Create an API key", body=NewKey, answers={201: CreatedKey}
    ),
    Route("DELETE", f"{API}/keys/{{id}}", remove_key, Right.ADMIN, _TAG, "Revoke an API key", answers={204: None}),
    Route("GET", f"{API}/acl", list_rules, Right.ADMIN, _TAG, "List rules", answers={200: Rules}),
    Route(
        "POST",
        f"{API}/acl",
        add_rule,
        Right.ADMIN,
        _TAG,
        "Add a rule",
        _RULE_HINT,
        body=dict[str, object],
        body_schema=RULE,
        answers={201: Rule, 200: Rule},
    ),
    Route(
        "DELETE",
        f"{API}/acl",
        remove_rule,
        Right.ADMIN,
        _TAG,
        "Remove a rule",
        _RULE_HINT,
        query=DryRunQuery,
        body=dict[str, object],
        body_schema=RULE,
        answers={204: None},
    ),
    Route(
        "POST",
        f"{API}/acl/check",
        check,
        Right.ADMIN,
        _TAG,
        "Check whether a user may do something",
        body=Question,
        answers={200: Verdict},
    ),
)
