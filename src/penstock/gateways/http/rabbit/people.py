"""Users, permissions, and who asks."""

from __future__ import annotations

from penstock.broker.auth.passwords import RABBIT_HASHES, rabbit_hash
from penstock.broker.auth.rabbit_rights import Permission, permission_of, roles_of, rules_of, tags_of
from penstock.broker.auth.store import User
from penstock.core.errors import InvalidArgument, NoSuchUser
from penstock.gateways.http.rabbit.asked import (
    Json,
    at_vhost,
    bad_request,
    body_of,
    known_namespaces,
    listed,
    not_found,
    shown,
    text_of,
)
from penstock.gateways.http.rabbit.policies import require_admin
from penstock.gateways.http.rabbit.queues import CREATED
from penstock.gateways.http.rabbit.rows import route
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import NO_CONTENT, Reply
from penstock.gateways.http.server.rights import Right
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.queues.vhosts import vhost_of_namespace

SHA256 = "rabbit_password_hashing_sha256"


async def whoami(exchange: Exchange) -> Reply:
    user = exchange.ports.access.users.find(exchange.identity.name)
    roles = (*exchange.identity.roles, *(() if user is None else user.roles))
    tags = tags_of(roles) or (["administrator"] if exchange.permissions.is_server_admin else ["management"])
    return shown(exchange, {"name": exchange.identity.name, "tags": tags, "is_internal_user": user is not None})


def user_told(user: User) -> Json:
    """Hashes are shown to nobody, so they are not part of an export."""
    return {
        "name": user.name,
        "tags": tags_of(user.roles),
        "password_hash": "",
        "hashing_algorithm": SHA256,
        "limits": {},
    }


async def list_users(exchange: Exchange) -> Reply:
    return listed(exchange, [user_told(user) for user in exchange.users.all()])


async def show_user(exchange: Exchange) -> Reply:
    return shown(exchange, user_told(_user(exchange)))


async def put_user(exchange: Exchange) -> Reply:
    """With a password, a hash of one, or neither; what there is, is replaced."""
    body, name = await body_of(exchange), exchange.parameters["name"]
    roles, password, hashed = roles_of(tags_in(body)), password_in(body), hash_in(body)
    users = exchange.ports.access.users
    is_new = users.find(name) is None
    if is_new:
        await exchange.users.add(name, password, roles, DEFAULT_NAMESPACE, with_scram=False)
    else:
        exchange.users.user(name)
        await users.set_roles(name, roles)
        if password is not None:
            await users.set_password(name, password)
    if hashed is not None:
        await users.set_password_hash(name, hashed)
    return CREATED if is_new else NO_CONTENT


def tags_in(body: Json) -> list[str]:
    said = body.get("tags", "")
    if isinstance(said, str):
        return [tag for tag in (part.strip() for part in said.split(",")) if tag]
    if isinstance(said, list) and all(isinstance(tag, str) for tag in said):
        return list(said)
    raise bad_request("tags is neither a text with commas nor a list of texts")


def password_in(body: Json) -> bytes | None:
    return text_of(body, "password").encode() if body.get("password") else None


def hash_in(body: Json) -> str | None:
    """InvalidArgument for one that nobody could log in with."""
    if body.get("password") or not body.get("password_hash"):
        return None
    algorithm = text_of(body, "hashing_algorithm", SHA256)
    if algorithm not in RABBIT_HASHES:
        raise bad_request(f"hashing_algorithm {algorithm[:80]!r} is not one of {', '.join(RABBIT_HASHES)}")
    return rabbit_hash(algorithm, text_of(body, "password_hash"))


async def delete_user(exchange: Exchange) -> Reply:
    _user(exchange)
    await exchange.users.remove(exchange.parameters["name"])
    return NO_CONTENT


async def permissions_of_user(exchange: Exchange) -> Reply:
    user = _user(exchange)
    found = [told for space in known_namespaces(exchange) if (told := _permission(exchange, user.name, space))]
    return listed(exchange, found)


async def list_permissions(exchange: Exchange) -> Reply:
    users = exchange.users.all()
    spaces = known_namespaces(exchange)
    return listed(
        exchange, [told for user in users for space in spaces if (told := _permission(exchange, user.name, space))]
    )


async def permissions_of_vhost(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    require_admin(at)
    users = exchange.ports.access.users.all()
    return listed(exchange, [told for user in users if (told := _permission(exchange, user.name, at.namespace))])


async def show_permission(exchange: Exchange) -> Reply:
    at = at_vhost(exchange)
    require_admin(at)
    told = _permission(exchange, exchange.parameters["user"], at.namespace)
    if told is None:
        raise not_found()
    return shown(exchange, told)


async def put_permission(exchange: Exchange) -> Reply:
    """Instead of what was allowed to the user there by name."""
    at, body, name = at_vhost(exchange), await body_of(exchange), exchange.parameters["user"]
    require_admin(at)
    users = exchange.ports.access.users
    if users.find(name) is None:
        raise bad_request(f"user {name!r} does not exist")
    wanted = rules_of(name, at.namespace, permission_in(body))
    is_new = _permission(exchange, name, at.namespace) is None
    await users.replace_rules(name, at.namespace, wanted)
    return CREATED if is_new else NO_CONTENT


def permission_in(body: Json) -> Permission:
    return Permission(text_of(body, "configure"), text_of(body, "write"), text_of(body, "read"))


async def delete_permission(exchange: Exchange) -> Reply:
    at, name = at_vhost(exchange), exchange.parameters["user"]
    require_admin(at)
    if _permission(exchange, name, at.namespace) is None:
        raise not_found()
    await exchange.ports.access.users.replace_rules(name, at.namespace, [])
    return NO_CONTENT


def permission_told(user: str, namespace: str, found: Permission) -> Json:
    return {"user": user, "vhost": vhost_of_namespace(namespace), **found._asdict()}


def _permission(exchange: Exchange, user: str, namespace: str) -> Json | None:
    rules = [each for each in exchange.ports.access.users.rules if each.user == user and each.namespace == namespace]
    found = permission_of(rules)
    return None if found is None else permission_told(user, namespace, found)


def _user(exchange: Exchange) -> User:
    try:
        return exchange.users.user(exchange.parameters["name"])
    except NoSuchUser:
        raise not_found() from None


async def topic_permissions(exchange: Exchange) -> Reply:
    """Rights on keys of an exchange are rules about `$exchange/<name>/<key>`: none are listed here."""
    return listed(exchange, [])


async def authenticate(exchange: Exchange) -> Reply:
    if exchange.is_anonymous and not exchange.permissions.is_admin:
        raise InvalidArgument("nobody is logged in")
    return shown(exchange, {"oauth_enabled": False})


ROUTES = (
    route("GET", "/api/whoami", whoami, "Who asks"),
    route("GET", "/api/auth", authenticate, "How to log in"),
    route("GET", "/api/users", list_users, "List users", Right.ADMIN),
    route("GET", "/api/users/{name}", show_user, "Show a user", Right.ADMIN),
    route("PUT", "/api/users/{name}", put_user, "Put a user", Right.SERVER),
    route("DELETE", "/api/users/{name}", delete_user, "Delete a user", Right.SERVER),
    route("GET", "/api/users/{name}/permissions", permissions_of_user, "List permissions of a user", Right.ADMIN),
    route("GET", "/api/permissions", list_permissions, "List permissions", Right.ADMIN),
    route("GET", "/api/vhosts/{vhost}/permissions", permissions_of_vhost, "List permissions of a virtual host"),
    route("GET", "/api/permissions/{vhost}/{user}", show_permission, "Show a permission"),
    route("PUT", "/api/permissions/{vhost}/{user}", put_permission, "Put a permission"),
    route("DELETE", "/api/permissions/{vhost}/{user}", delete_permission, "Remove a permission"),
    route("GET", "/api/topic-permissions", topic_permissions, "List topic permissions: none"),
)
