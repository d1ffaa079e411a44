"""What RabbitMQ's arguments and policies of a queue are as settings, and the other way round.

A policy says the same as an argument, without the `x-` in front; what only means something to a cluster of RabbitMQ is
kept, and becomes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from penstock.codecs.amqp091.kinds import Field, Table
from penstock.codecs.amqp091.wire import field_of
from penstock.core.errors import InvalidSetting
from penstock.queues import rabbit_arguments as said
from penstock.queues.rabbit_arguments import CLASSIC, QUORUM, STREAM, Declared
from penstock.queues.settings import QueueSettings, Settled, check_settings, queue_json

DEFAULT_GROUP: Final = "default"
"""whose messages a client of AMQP 0.9.1 gets"""
_MAX_MESSAGE_BYTES: Final = 63 << 18
_QUORUM_DELIVERIES: Final = 20
_MOST_LANES, _MOST_DELIVERIES = 31, 30_000
_OVERFLOWS: Final = {"drop-head": "drop-oldest", "reject-publish": "reject", "reject-publish-dlx": "reject-dead-letter"}

Settings = dict[str, object]


def queue_settings(declared: Declared) -> Settings:
    """As people write them, to be said beside name and namespace. The arguments were checked."""
    arguments, kind = declared.arguments, declared.type
    found = _profile(is_stream=kind == STREAM)
    for path, value in _of_arguments(arguments, kind).items():
        _put(found, path, value)
    return found


def argument_settings(arguments: Table, kind: str = CLASSIC) -> dict[tuple[str, ...], object]:
    """What arguments of a queue of this type ask for, by paths of settings."""
    return {path: value for path, value in _of_arguments(arguments, kind).items() if _is_there(path, value)}


def arguments_of(settings: QueueSettings) -> dict[str, Field]:
    """Of a queue that was declared by another protocol: what would be said of it."""
    written = queue_json(settings)
    found: dict[str, object] = {}
    for name, path in (
        ("x-message-ttl", ("limits", "message_ttl_ms")),
        ("x-max-length", ("limits", "max_ready")),
        ("x-max-length-bytes", ("limits", "max_ready_bytes_")),
        ("x-expires", ("expires_after_ms",)),
        (said.DEAD_LETTER_EXCHANGE, ("dlq_config", "exchange")),
        (said.DEAD_LETTER_KEY, ("dlq_config", "routing_key")),
    ):
        value: object = settings
        for part in path:
            value = getattr(value, part, None)
        if value is not None:
            found[name] = value
    if "x-max-length" in found or "x-max-length-bytes" in found:
        overflow = {ours: theirs for theirs, ours in _OVERFLOWS.items()}.get(str(written.get("overflow")))
        found |= {} if overflow is None else {"x-overflow": overflow}
    if settings.retention.settled is Settled.KEEP and settings.retention.time_ms is None:
        found = {said.QUEUE_TYPE: STREAM}
    return {name: field_of(value) for name, value in found.items()}


def _profile(*, is_stream: bool) -> Settings:
    found: Settings = {"partitions": 1, "ordering": "none"}
    for path, value in (
        (("retry_policy", "max_retries"), "none"),
        (("retry_policy", "total_timeout"), "none"),
        (("dlq_config", "enabled"), False),
        (("limits", "max_queue_depth"), "none"),
        (("limits", "message_ttl"), "none"),
        (("limits", "expiry"), "at-head"),
        (("limits", "max_message_size"), _MAX_MESSAGE_BYTES),
        (("performance", "delivery_timeout"), "none"),
        (("retention", "time"), "none"),
        (("retention", "settled"), "keep" if is_stream else "delete"),
        (("overflow",), "drop-oldest"),
        (("max_deliveries",), "none"),
        (("suspend_after",), "none"),
        (("group_expiry",), "none"),
    ):
        _put(found, path, value)
    return found


def _of_arguments(arguments: Table, kind: str) -> dict[tuple[str, ...], object]:
    found: dict[tuple[str, ...], object] = {}
    if (ttl := said.number(arguments, "x-message-ttl")) is not None:
        found["limits", "message_ttl"] = _milliseconds(ttl)
    if (expires := said.number(arguments, "x-expires")) is not None:
        found["expires_after",] = _milliseconds(expires)
    if (length := said.number(arguments, "x-max-length")) is not None:
        found["limits", "max_ready"] = length
    if (size := said.number(arguments, "x-max-length-bytes")) is not None:
        found[("retention", "bytes") if kind == STREAM else ("limits", "max_ready_bytes")] = size
    if (overflow := _OVERFLOWS.get(said.text(arguments, "x-overflow") or "")) is not None:
        found["overflow",] = overflow
    if (priority := said.number(arguments, "x-max-priority")) is not None:
        found["priority", "levels"] = min(priority, _MOST_LANES) + 1
        found["priority", "policy"] = "strict"
    limit = said.number(arguments, "x-delivery-limit")
    if limit is not None or kind == QUORUM:
        found["count_requeues",] = True
        found["max_deliveries",] = min(max(limit if limit is not None else _QUORUM_DELIVERIES, 1), _MOST_DELIVERIES)
    if (age := said.text(arguments, "x-max-age")) is not None:
        found["retention", "time"] = _milliseconds(said.age_ms(age))
    return found | _of_dead_letters(arguments)


def _of_dead_letters(arguments: Table) -> dict[tuple[str, ...], object]:
    exchange, key = said.text(arguments, said.DEAD_LETTER_EXCHANGE), said.text(arguments, said.DEAD_LETTER_KEY)
    if exchange is None:
        return {}
    found: dict[tuple[str, ...], object] = {("dlq_config", "enabled"): True, ("dlq_config", "exchange"): exchange}
    return found if key is None else {**found, ("dlq_config", "routing_key"): key}


def _milliseconds(value: int) -> str:
    """None is as short as nothing: a message that nobody waits for is gone."""
    return f"{max(value, 1)}ms"


def _put(into: Settings, path: tuple[str, ...], value: object) -> None:
    if not _is_there(path, value):
        return
    for part in path[:-1]:
        section = into.setdefault(part, {})
        assert isinstance(section, dict)
        into = section
    into[path[-1]] = value


@lru_cache(1024)
def _is_there(path: tuple[str, ...], value: object) -> bool:
    """Whether there is such a setting in this version, and may be so."""
    written: Mapping[str, object] = {path[-1]: value}
    for part in reversed(path[:-1]):
        written = {part: written}
    try:
        check_settings(written)
    except InvalidSetting:
        return False
    return True
