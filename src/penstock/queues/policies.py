"""Policies: settings that operators lay over queues by their names, and take away again. Rules without I/O.

Of the policies that match a queue the one of the highest priority counts, alone. What the queue was declared with goes
before it, but for numbers, of which the lesser counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.codecs.amqp091.errors import AmqpError
from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.wire import table_of
from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.regexes import regex_of
from penstock.queues.names import check_exchange_name
from penstock.queues.rabbit_arguments import (
    CLASSIC,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_KEY,
    STREAM,
    At,
    Declared,
    check_value,
)
from penstock.queues.rabbit_settings import argument_settings
from penstock.queues.settings import QueueSettings, change

MAX_POLICIES, MAX_DEFINITION_BYTES = 1000, 16 << 10
APPLY_TO: Final = ("all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges")
NO_EFFECT: Final = frozenset(
    (
        *("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown"),
        *("ha-promote-on-failure", "queue-mode", "queue-version", "queue-master-locator", "queue-leader-locator"),
        *("max-in-memory-length", "max-in-memory-bytes", "dead-letter-strategy", "stream-max-segment-size-bytes"),
        *("initial-cluster-size", "alternate-exchange", "federation-upstream", "federation-upstream-set"),
    )
)
"""what a policy may say that means nothing here"""
_EFFECTIVE: Final = frozenset(
    (
        *("message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "delivery-limit", "max-age"),
        *("dead-letter-exchange", "dead-letter-routing-key"),
    )
)
_LESSER: Final = {
    ("limits", "message_ttl"): ("limits", "message_ttl_ms"),
    ("limits", "max_ready"): ("limits", "max_ready"),
    ("limits", "max_ready_bytes"): ("limits", "max_ready_bytes_"),
    ("expires_after",): ("expires_after_ms",),
    ("max_deliveries",): ("max_deliveries",),
    ("retention", "time"): ("retention", "time_ms"),
    ("retention", "bytes"): ("retention", "bytes"),
}
"""by paths as people write them: where the numbers are"""


class PolicyRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    name: str
    pattern: str
    definition: dict[str, Any]
    apply_to: str = "all"
    priority: int = 0


def policy_key(namespace: str, name: str) -> str:
    return f"policy:{msgspec.json.encode([namespace, name]).decode()}"


@dataclass(frozen=True, slots=True)
class Policy:
    """Made by policy()."""

    record: PolicyRecord
    matching: re.Pattern[str]

    @property
    def name(self) -> str:
        return self.record.name

    def is_for_queue(self, name: str, kind: str) -> bool:
        wanted = self.record.apply_to
        kinds = {"all": True, "queues": True, "classic_queues": kind == CLASSIC, "quorum_queues": kind == "quorum"}
        return kinds.get(wanted, wanted == "streams" and kind == STREAM) and self.matching.search(name) is not None

    def is_for_exchange(self, name: str) -> bool:
        return self.record.apply_to in ("all", "exchanges") and self.matching.search(name) is not None

    @property
    def without_effect(self) -> list[str]:
        return [key for key in self.record.definition if key in NO_EFFECT]


def policy(record: PolicyRecord) -> Policy:
    """InvalidArgument unless it can be one."""
    check_exchange_name(record.name)
    if record.apply_to not in APPLY_TO:
        raise InvalidArgument(f"apply-to is {record.apply_to[:80]!r}: give one of {', '.join(APPLY_TO)}")
    if not record.definition:
        raise InvalidArgument(f"policy {record.name!r} says nothing: its definition is empty")
    if len(repr(record.definition)) > MAX_DEFINITION_BYTES:
        raise InvalidArgument(f"the definition of policy {record.name!r} is over {MAX_DEFINITION_BYTES} bytes")
    matching = regex_of(record.pattern)
    unknown = [key for key in record.definition if key not in NO_EFFECT and key not in _EFFECTIVE]
    if unknown:
        raise InvalidArgument(f"policy {record.name!r} says {', '.join(unknown)}, which no policy can")
    _check_values(record)
    return Policy(record, matching)


def _check_values(record: PolicyRecord) -> None:
    arguments = _arguments(record.definition)
    for name in arguments:
        if name.removeprefix("x-") in _EFFECTIVE:
            try:
                check_value(name, {**arguments, DEAD_LETTER_EXCHANGE: Field("S", "")}, At(f"policy '{record.name}'"))
            except AmqpError as error:
                raise InvalidArgument(error.fault.text.format(**error.facts)) from None


def chosen(policies: Iterable[Policy], name: str, kind: str = CLASSIC) -> Policy | None:
    """The one that counts for a queue. Of several with one priority, the first by name."""
    mine = [each for each in policies if each.is_for_queue(name, kind)]
    return min(mine, key=lambda each: (-each.record.priority, each.name), default=None)


def effective(own: QueueSettings, declared: Declared | None, counting: Policy | None) -> QueueSettings:
    """What a queue does, of its own settings and a policy. `declared`: as which it was declared over AMQP, None if by
    another protocol. InvalidSetting where they cannot go together."""
    if counting is None:
        return own
    arguments, kind = _arguments(counting.record.definition), CLASSIC if declared is None else declared.type
    wanted = argument_settings(arguments, kind)
    if "x-delivery-limit" not in arguments:
        wanted.pop(("max_deliveries",), None)
        wanted.pop(("count_requeues",), None)
    written: dict[str, object] = {}
    for path, value in wanted.items():
        if _goes_before(path, value, own, declared):
            section = written
            for part in path[:-1]:
                found = section.setdefault(part, {})
                assert isinstance(found, dict)
                section = found
            section[path[-1]] = value
    letters = written.get("dlq_config")
    if isinstance(letters, dict) and "exchange" in letters:
        letters["topic"] = None
    return change(own, written)


def _goes_before(path: tuple[str, ...], value: object, own: QueueSettings, declared: Declared | None) -> bool:
    """What a policy says, before what the queue has itself."""
    if path in _LESSER:
        current, asked = _number(own, _LESSER[path]), _number(_with(own, path, value), _LESSER[path])
        return current is None or (asked is not None and asked < current)
    if path == ("count_requeues",):
        return True
    arguments: Mapping[str, object] = {} if declared is None else declared.arguments
    if path[0] == "dlq_config":
        if declared is None:
            return not own.dlq_config.enabled
        return (DEAD_LETTER_KEY if path[-1] == "routing_key" else DEAD_LETTER_EXCHANGE) not in arguments
    return "x-overflow" not in arguments


def _with(own: QueueSettings, path: tuple[str, ...], value: object) -> QueueSettings:
    changes: dict[str, object] = {path[-1]: value}
    for part in reversed(path[:-1]):
        changes = {part: changes}
    try:
        return change(own, changes)
    except InvalidSetting:
        return own


def _number(settings: object, path: tuple[str, ...]) -> int | None:
    for part in path:
        settings = getattr(settings, part, None)
    return settings if isinstance(settings, int) else None


def _arguments(definition: Mapping[str, Any]) -> dict[str, Field]:
    return table_of({f"x-{name}": value for name, value in definition.items()})
