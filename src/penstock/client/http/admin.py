"""What operators ask of a server, one function a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TypeVar

from penstock.client.http.answers import DeadLetters, Facts, MessagePage, Page
from penstock.client.http.requests import Ask, ask, segment
from penstock.codecs.http.administration import (
    Committed,
    CreatedKey,
    Purged,
    QueueSummary,
    ResetReport,
    TemplateDescription,
)
from penstock.codecs.http.dead_letters import DeadLetterQueue, DropReport, RetryReport
from penstock.codecs.http.exchanges import BindingDescription, ExchangeDescription, NewBinding, NewExchange
from penstock.codecs.http.policies import ApplyTo, ImportReport, NewPolicy, PolicyDescription
from penstock.core.descriptions import GroupDescription, KeyDescription, QueueDescription, UserDescription

T = TypeVar("T")

_PAGE = 1000


def _listed(path: str, page: type[Page[T]], **query: object) -> Ask[Page[T]]:
    return ask("GET", path, page, query={"limit": _PAGE, **query})


def _given(**fields: object) -> dict[str, object]:
    """Those that were said."""
    return {name: value for name, value in fields.items() if value is not None}


# Queues


def queues() -> Ask[Page[QueueSummary]]:
    """All that the caller may see."""
    return _listed("/queues", Page[QueueSummary])


def queue(name: str) -> Ask[QueueDescription]:
    """With its partitions, groups and settings."""
    return ask("GET", f"/queues/{segment(name)}", QueueDescription)


def create_queue(
    name: str, settings: Mapping[str, object] | None = None, if_absent: bool = False
) -> Ask[QueueDescription]:
    """With settings as in a configuration file. One that is there is an error, unless `if_absent`."""
    body = {**(settings or {}), "name": name}
    query = {"if_absent": True} if if_absent else {}
    return ask("POST", "/queues", QueueDescription, body, query=query, is_repeatable=if_absent)


def update_queue(name: str, settings: Mapping[str, object]) -> Ask[Facts]:
    """All settings as they are then; what is not named stays as it is."""
    return ask("PUT", f"/queues/{segment(name)}/config", Facts, settings)


def delete_queue(name: str, dry_run: bool = False) -> Ask[None]:
    return ask("DELETE", f"/queues/{segment(name)}", NoneType, query={"dry_run": dry_run})


def queue_stats(name: str) -> Ask[Facts]:
    return ask("GET", f"/queues/{segment(name)}/stats", Facts)


def queue_consumers(name: str) -> Ask[Facts]:
    return ask("GET", f"/queues/{segment(name)}/consumers", Facts)


def purge(name: str, dry_run: bool = False) -> Ask[Purged]:
    """All messages are gone, for every group."""
    return ask("POST", f"/queues/{segment(name)}/purge", Purged, query={"dry_run": dry_run}, is_repeatable=True)


def pause(name: str, group: str | None = None) -> Ask[None]:
    """Nothing is handed out, to anybody or to that group, until resume()."""
    return ask("POST", f"{_queue_or_group(name, group)}/pause", NoneType, is_repeatable=True)


def resume(name: str, group: str | None = None) -> Ask[None]:
    return ask("POST", f"{_queue_or_group(name, group)}/resume", NoneType, is_repeatable=True)


def _queue_or_group(name: str, group: str | None) -> str:
    return f"/queues/{segment(name)}" + ("" if group is None else f"/groups/{segment(group)}")


def messages(
    name: str,
    from_: str | None = None,
    until: str | None = None,
    partition: int | None = None,
    filter: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Ask[MessagePage]:
    """A part of what browse() gives."""
    query = {"from": from_, "until": until, "partition": partition, "filter": filter, "limit": limit, "cursor": cursor}
    return ask("GET", f"/queues/{segment(name)}/messages", MessagePage, query=query)


def templates() -> Ask[Page[TemplateDescription]]:
    """Settings for queues whose name matches a pattern, in the order in which they apply."""
    return ask("GET", "/templates", Page[TemplateDescription])


def put_template(match: str, settings: Mapping[str, object]) -> Ask[TemplateDescription]:
    return ask("PUT", f"/templates/{segment(match)}", TemplateDescription, settings)


def drop_template(match: str) -> Ask[None]:
    """Queues that were made from it stay as they are."""
    return ask("DELETE", f"/templates/{segment(match)}", NoneType)


# Exchanges


def exchanges() -> Ask[Page[ExchangeDescription]]:
    """All that the caller may see."""
    return _listed("/exchanges", Page[ExchangeDescription])


def exchange(name: str) -> Ask[ExchangeDescription]:
    """The default exchange is `amq.default`."""
    return ask("GET", f"/exchanges/{segment(name)}", ExchangeDescription)


def declare_exchange(
    name: str,
    type: str = "direct",
    *,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    alternate: str | None = None,
    arguments: Mapping[str, object] | None = None,
) -> Ask[ExchangeDescription]:
    """One that is there has to be the same in everything."""
    body = NewExchange(name, type, durable, auto_delete, internal, alternate, dict(arguments or {}))
    return ask("POST", "/exchanges", ExchangeDescription, body, is_repeatable=True)


def delete_exchange(name: str, if_unused: bool = False) -> Ask[None]:
    """With its bindings."""
    return ask("DELETE", f"/exchanges/{segment(name)}", NoneType, query={"if_unused": if_unused})


def bindings(
    source: str | None = None, *, queue: str | None = None, exchange: str | None = None
) -> Ask[Page[BindingDescription]]:
    """All, or those from an exchange, to a queue or to an exchange. The topics of queues are bindings of amq.topic."""
    return _listed("/bindings", Page[BindingDescription], source=source, queue=queue, exchange=exchange)


def bind(
    source: str,
    queue: str | None = None,
    key: str = "",
    *,
    exchange: str | None = None,
    arguments: Mapping[str, object] | None = None,
) -> Ask[BindingDescription]:
    """A queue, or an exchange, to the exchange `source`. Binding again changes nothing."""
    body = NewBinding(source, queue, exchange, key, dict(arguments or {}))
    return ask("POST", "/bindings", BindingDescription, body, is_repeatable=True)


def unbind(
    source: str,
    queue: str | None = None,
    key: str = "",
    *,
    exchange: str | None = None,
    arguments: Mapping[str, object] | None = None,
) -> Ask[None]:
    body = NewBinding(source, queue, exchange, key, dict(arguments or {}))
    return ask("DELETE", "/bindings", NoneType, body)


# Policies


def policies() -> Ask[Page[PolicyDescription]]:
    return _listed("/policies", Page[PolicyDescription])


def policy(name: str) -> Ask[PolicyDescription]:
    return ask("GET", f"/policies/{segment(name)}", PolicyDescription)


def put_policy(
    name: str,
    pattern: str,
    definition: Mapping[str, object],
    *,
    apply_to: ApplyTo = "queues",
    priority: int = 0,
) -> Ask[PolicyDescription]:
    """Queues whose names match the pattern follow it at once."""
    body = NewPolicy(pattern, dict(definition), apply_to, priority)
    return ask("PUT", f"/policies/{segment(name)}", PolicyDescription, body)


def remove_policy(name: str) -> Ask[None]:
    return ask("DELETE", f"/policies/{segment(name)}", NoneType)


def import_rabbitmq(definitions: Mapping[str, object]) -> Ask[ImportReport]:
    """What `rabbitmqctl export_definitions` wrote: all of it, or nothing."""
    return ask("POST", "/import/rabbitmq", ImportReport, dict(definitions))


# Groups


def groups(queue: str | None = None) -> Ask[Page[GroupDescription]]:
    """Of one queue, or of all."""
    return _listed("/groups" if queue is None else f"/queues/{segment(queue)}/groups", Page[GroupDescription])


def group(queue: str, name: str) -> Ask[GroupDescription]:
    return ask("GET", _queue_or_group(queue, name), GroupDescription)


def create_group(queue: str, name: str, start: str = "earliest") -> Ask[GroupDescription]:
    """`start`: earliest, latest, an offset, a time, or a duration: so long ago."""
    return ask("POST", f"/queues/{segment(queue)}/groups", GroupDescription, {"name": name, "start": start})


def delete_group(queue: str, name: str, dry_run: bool = False) -> Ask[None]:
    return ask("DELETE", _queue_or_group(queue, name), NoneType, query={"dry_run": dry_run})


def reset_group(
    queue: str, name: str, to: str, partitions: Sequence[int] | None = None, dry_run: bool = False
) -> Ask[ResetReport]:
    """`to` as `start` of create_group()."""
    body = _given(to=to, partitions=partitions, dry_run=dry_run)
    return ask("POST", f"{_queue_or_group(queue, name)}/reset", ResetReport, body)


def commit(queue: str, group: str, offsets: Mapping[int, int]) -> Ask[Committed]:
    """All below the offset is done with, by partition."""
    body = {"offsets": {str(partition): offset for partition, offset in offsets.items()}}
    return ask("POST", f"{_queue_or_group(queue, group)}/commit", Committed, body, is_repeatable=True)


# Dead letters


def dead_letter_queues() -> Ask[Page[DeadLetterQueue]]:
    return ask("GET", "/dlq", Page[DeadLetterQueue])


def dead_letters(
    queue: str,
    group: str | None = None,
    reason: str | None = None,
    limit: int | None = None,
    *,
    source: str | None = None,
    id: str | None = None,
) -> Ask[DeadLetters]:
    query = {"group": group, "reason": reason, "limit": limit, "source": source, "id": id}
    return ask("GET", f"/queues/{segment(queue)}/dlq", DeadLetters, query=query)


def redrive(
    queue: str,
    ids: Sequence[str] = (),
    *,
    group: str | None = None,
    reason: str | None = None,
    source: str | None = None,
    to: str | None = None,
    to_all_groups: bool | None = None,
    rate: float | None = None,
    limit: int | None = None,
    dry_run: bool | None = None,
) -> Ask[RetryReport]:
    """Dead letters are sent again: those that all of this holds for, without any all of them. `rate` a second."""
    body = _given(
        ids=list(ids) or None,
        group=group,
        reason=reason,
        source=source,
        to=to,
        to_all_groups=to_all_groups,
        rate=rate,
        limit=limit,
        dry_run=dry_run,
    )
    return ask("POST", f"/queues/{segment(queue)}/dlq/retry", RetryReport, body)


def drop_dead_letters(
    queue: str,
    ids: Sequence[str] = (),
    *,
    group: str | None = None,
    reason: str | None = None,
    source: str | None = None,
    limit: int | None = None,
    dry_run: bool | None = None,
) -> Ask[DropReport]:
    """Chosen as by redrive(); they are gone."""
    body = _given(ids=list(ids) or None, group=group, reason=reason, source=source, limit=limit, dry_run=dry_run)
    return ask("POST", f"/queues/{segment(queue)}/dlq/drop", DropReport, body)


def drop_dead_letter(queue: str, id: str) -> Ask[None]:
    return ask("DELETE", f"/queues/{segment(queue)}/dlq/{segment(id)}", NoneType)


# Clients and topics


def clients(connected: bool | None = None) -> Ask[Page[Facts]]:
    return _listed("/clients", Page[Facts], connected=connected)


def client(client_id: str) -> Ask[Facts]:
    return ask("GET", f"/clients/{segment(client_id)}", Facts)


def disconnect_client(client_id: str) -> Ask[None]:
    return ask("DELETE", f"/clients/{segment(client_id)}", NoneType)


def subscriptions() -> Ask[Page[Facts]]:
    return _listed("/subscriptions", Page[Facts])


def topics() -> Ask[Page[Facts]]:
    return _listed("/topics", Page[Facts])


def retained(filter: str = "#", limit: int = 100) -> Ask[Facts]:
    return ask("GET", "/retained", Facts, query={"filter": filter, "limit": limit})


def delete_retained(topic: str) -> Ask[None]:
    return ask("DELETE", f"/retained/{segment(topic)}", NoneType)


# Users


def users() -> Ask[Page[UserDescription]]:
    return _listed("/users", Page[UserDescription])


def user(name: str) -> Ask[UserDescription]:
    return ask("GET", f"/users/{segment(name)}", UserDescription)


def create_user(
    name: str,
    password: str | None = None,
    roles: Sequence[str] = (),
    namespace: str | None = None,
    scram: bool | None = None,
) -> Ask[UserDescription]:
    """Without a namespace: the caller's. `scram`: whether keys for SCRAM-SHA-256 are kept, as they are if nothing is
    said."""
    body = _given(name=name, password=password, roles=list(roles), namespace=namespace, scram=scram)
    return ask("POST", "/users", UserDescription, body)


def update_user(
    name: str, password: str | None = None, roles: Sequence[str] | None = None, scram: bool | None = None
) -> Ask[UserDescription]:
    """What is not given stays as it is."""
    return ask("PATCH", f"/users/{segment(name)}", UserDescription, _given(password=password, roles=roles, scram=scram))


def delete_user(name: str) -> Ask[None]:
    return ask("DELETE", f"/users/{segment(name)}", NoneType)


def keys() -> Ask[Page[KeyDescription]]:
    return _listed("/keys", Page[KeyDescription])


def create_key(
    roles: Sequence[str] = (),
    description: str = "",
    namespace: str | None = None,
    expires_in: str | float | None = None,
) -> Ask[CreatedKey]:
    body = _given(roles=list(roles), description=description, namespace=namespace, expires_in=expires_in)
    return ask("POST", "/keys", CreatedKey, body)


def delete_key(id: str) -> Ask[None]:
    return ask("DELETE", f"/keys/{segment(id)}", NoneType)


def rules() -> Ask[Page[Facts]]:
    """Of who may do what."""
    return ask("GET", "/acl", Page[Facts])


def create_rule(rule: Mapping[str, object]) -> Ask[Facts]:
    return ask("POST", "/acl", Facts, rule)


def delete_rule(rule: Mapping[str, object], dry_run: bool = False) -> Ask[bytes]:
    return ask("DELETE", "/acl", bytes, rule, query={"dry_run": dry_run})


def check_rule(user: str, action: str, topic: str, client_id: str = "") -> Ask[Facts]:
    """May this user do that there, and why?"""
    body = {"user": user, "action": action, "topic": topic, "client_id": client_id}
    return ask("POST", "/acl/check", Facts, body, is_repeatable=True)


# The server


def overview() -> Ask[Facts]:
    return ask("GET", "/overview", Facts)


def config() -> Ask[Facts]:
    """Without secrets."""
    return ask("GET", "/config", Facts)


def config_diff() -> Ask[Facts]:
    """What a reload would change."""
    return ask("GET", "/config/diff", Facts)


def reload() -> Ask[Facts]:
    return ask("POST", "/config/reload", Facts, is_repeatable=True)


def log_level() -> Ask[Facts]:
    return ask("GET", "/log/level", Facts)


def set_log_level(level: str) -> Ask[Facts]:
    return ask("PUT", "/log/level", Facts, {"level": level})


def backup(target: str) -> Ask[Facts]:
    """Into a directory of the server's machine."""
    return ask("POST", "/backup", Facts, {"target": target})


def cluster_status() -> Ask[Facts]:
    return ask("GET", "/cluster/status", Facts)


def health() -> Ask[Facts]:
    return Ask("GET", "/health", Facts)


def ready() -> Ask[Facts]:
    """HttpRefused with status 503 while the server is not."""
    return Ask("GET", "/ready", Facts)


def version() -> Ask[Facts]:
    return Ask("GET", "/version", Facts)


def metrics() -> Ask[bytes]:
    """In the text format of Prometheus."""
    return Ask("GET", "/metrics", bytes)
