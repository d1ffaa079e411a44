"""Arguments of a queue as RabbitMQ takes them: what each may be, and whether two declarations are the same.

The order of the checks and the texts are those of RabbitMQ 3.10.8: of several faults the same one is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from penstock.codecs.amqp091.errors import AmqpError, Fault, inequivalent, type_name
from penstock.codecs.amqp091.kinds import Field, Table

CLASSIC, QUORUM, STREAM = "classic", "quorum", "stream"
TYPES: Final = (CLASSIC, QUORUM, STREAM)
QUEUE_TYPE: Final = "x-queue-type"
DEAD_LETTER_EXCHANGE, DEAD_LETTER_KEY = "x-dead-letter-exchange", "x-dead-letter-routing-key"

_INTEGERS: Final = frozenset("bBsuIilL")
_MOST_MS = 315_360_000_000  # ten years
_AGE_MS: Final = {
    "Y": 31_536_000_000,
    "M": 2_592_000_000,
    "D": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
}
_AGE = re.compile("([0-9]+)([YMDhms])")
ARGUMENTS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    CLASSIC: (
        *("x-expires", "x-message-ttl", DEAD_LETTER_EXCHANGE, DEAD_LETTER_KEY, "x-max-length", "x-max-length-bytes"),
        *("x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version", "x-single-active-consumer"),
        *(QUEUE_TYPE, "x-queue-master-locator"),
    ),
    QUORUM: (
        *(DEAD_LETTER_EXCHANGE, DEAD_LETTER_KEY, "x-dead-letter-strategy", "x-expires", "x-max-length"),
        *("x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-overflow"),
        *("x-single-active-consumer", QUEUE_TYPE, "x-quorum-initial-group-size", "x-delivery-limit"),
        *("x-message-ttl", "x-queue-leader-locator"),
    ),
    STREAM: (
        *("x-max-length-bytes", QUEUE_TYPE, "x-max-age", "x-stream-max-segment-size-bytes"),
        *("x-initial-cluster-size", "x-queue-leader-locator"),
    ),
}
"""Those that mean something to a type, in the order in which they are compared. Others are kept, and mean nothing."""
_OF_SOME = frozenset(name for names in ARGUMENTS_OF.values() for name in names)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a client said of a queue when it declared it."""

    is_durable: bool = True
    is_exclusive: bool = False
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)

    @property
    def type(self) -> str:
        return type_of(self.arguments)


class At(NamedTuple):
    """`what` it is about, as codecs.amqp091.errors.named() writes it, and where an error is answered."""

    what: str
    channel: int = 0
    method: tuple[int, int] = (50, 10)

    def error(self, fault: Fault, **facts: object) -> AmqpError:
        return AmqpError(fault, self.channel, self.method, what=self.what, **facts)


def type_of(arguments: Table) -> str:
    found = arguments.get(QUEUE_TYPE)
    return CLASSIC if found is None else str(found.value)


def check(declared: Declared, at: At, *, is_server_named: bool = False) -> None:
    """AmqpError, as RabbitMQ tells it, for a new queue that cannot be."""
    arguments = declared.arguments
    exchange = arguments.get(DEAD_LETTER_EXCHANGE)
    if exchange is not None and exchange.kind != "S":
        raise at.error(Fault.INVALID_ARG_TYPE, type=type_name(exchange), arg=DEAD_LETTER_EXCHANGE)
    _check_values(arguments, {QUEUE_TYPE: _queue_type}, at)
    kind = declared.type
    mine = ARGUMENTS_OF[kind]
    _check_values(arguments, {name: rule for name, rule in _RULES.items() if name in mine}, at)
    for name in arguments:
        if name in _OF_SOME and name not in mine:
            raise at.error(Fault.INVALID_ARG_OF_TYPE, arg=name, type=f"rabbit_{kind}_queue")
    if kind == CLASSIC:
        return
    if is_server_named:
        raise at.error(Fault.SERVER_NAMED, type=f"rabbit_{kind}_queue")
    for is_wrong, name in (
        (declared.auto_delete, "auto-delete"),
        (declared.is_exclusive, "exclusive-owner"),
        (not declared.is_durable, "non-durable"),
    ):
        if is_wrong:
            raise at.error(Fault.INVALID_PROPERTY, property=name)


def check_value(name: str, arguments: Table, at: At) -> None:
    """AmqpError unless an argument may have this value in some queue."""
    rule = _natural if name == "x-delivery-limit" else _RULES.get(name)
    if rule is not None:
        _check_values(arguments, {name: rule}, at)


def refuse_difference(current: Declared, wanted: Declared, at: At, *, is_ours: bool = False) -> None:
    """AmqpError unless a queue that is there is the one that is declared. Whether it is another connection's is not
    asked here, and for an exclusive one not whether it is durable. `is_ours`: it was made by another protocol, so what
    its arguments would be counts only where the client says something else."""
    if not current.is_exclusive:
        _refuse_other("durable", current.is_durable, wanted.is_durable, at)
    _refuse_other("auto_delete", current.auto_delete, wanted.auto_delete, at)
    for name in ARGUMENTS_OF[current.type]:
        mine, theirs = current.arguments.get(name), wanted.arguments.get(name)
        if is_ours and theirs is None:
            continue
        if not _are_equal(name, mine, theirs):
            raise inequivalent(name, at.what, theirs, mine, at.channel, at.method)


def age_ms(text: str) -> int:
    """Of x-max-age, like 7D."""
    found = _AGE.fullmatch(text)
    return 0 if found is None else int(found[1]) * _AGE_MS[found[2]]


def number(arguments: Table, name: str) -> int | None:
    found = arguments.get(name)
    return found.value if found is not None and isinstance(found.value, int) and found.kind in _INTEGERS else None


def text(arguments: Table, name: str) -> str | None:
    found = arguments.get(name)
    return found.value if found is not None and isinstance(found.value, str) else None


def is_on(arguments: Table, name: str) -> bool:
    found = arguments.get(name)
    return found is not None and found.value is True


def _refuse_other(name: str, mine: bool, theirs: bool, at: At) -> None:
    if mine != theirs:
        raise inequivalent(name, at.what, Field("t", theirs), Field("t", mine), at.channel, at.method)


def _are_equal(name: str, mine: Field | None, theirs: Field | None) -> bool:
    """All whole numbers are of one kind, all floats of another."""
    if name == QUEUE_TYPE and {None if each is None else each.value for each in (mine, theirs)} == {None, CLASSIC}:
        return True
    if mine is None or theirs is None:
        return mine is theirs
    if mine == theirs:
        return True
    return _class_of(mine) == _class_of(theirs) and mine.value == theirs.value


def _class_of(each: Field) -> str:
    if each.kind in _INTEGERS:
        return "int"
    return "float" if each.kind in "Dfd" else each.kind


Rule = Callable[[Field, Table], str | None]
"""What is wrong with a value, as Erlang prints it; None where nothing is."""


def _check_values(arguments: Table, rules: Mapping[str, Rule], at: At) -> None:
    for name, rule in rules.items():
        found = arguments.get(name)
        if found is not None and (reason := rule(found, arguments)) is not None:
            raise at.error(Fault.INVALID_ARG, arg=name, reason=reason)


def _whole(found: Field, _: Table) -> str | None:
    return None if found.kind in _INTEGERS else f'"expected integer, got {type_name(found)}"'


def _natural(found: Field, arguments: Table) -> str | None:
    return _whole(found, arguments) or (f"{{value_negative,{_value(found)}}}" if _value(found) < 0 else None)


def _natural_not_zero(found: Field, arguments: Table) -> str | None:
    return _natural(found, arguments) or (f"{{value_zero,{_value(found)}}}" if _value(found) == 0 else None)


def _duration(found: Field, arguments: Table) -> str | None:
    wrong = _natural(found, arguments)
    return wrong or (f"{{value_too_large,{_value(found)}}}" if _value(found) > _MOST_MS else None)


def _duration_not_zero(found: Field, arguments: Table) -> str | None:
    return _natural_not_zero(found, arguments) or _duration(found, arguments)


def _priority(found: Field, arguments: Table) -> str | None:
    wrong = _natural(found, arguments)
    return wrong or (f"{{max_value_exceeded,{_value(found)}}}" if _value(found) > 255 else None)


def _flag(found: Field, _: Table) -> str | None:
    return None if found.kind == "t" else _unacceptable(found)


def _string(found: Field, _: Table) -> str | None:
    return None if found.kind == "S" else _unacceptable(found)


def _routing_key(found: Field, arguments: Table) -> str | None:
    if found.kind == "S" and DEAD_LETTER_EXCHANGE not in arguments:
        return "routing_key_but_no_dlx_defined"
    return _string(found, arguments)


def _one_of(reason: str, *allowed: str) -> Rule:
    def rule(found: Field, arguments: Table) -> str | None:
        if found.kind == "S" and found.value not in allowed:
            return reason.format(value=found.value)
        return _string(found, arguments)

    return rule


def _version(found: Field, arguments: Table) -> str | None:
    wrong = _natural(found, arguments)
    return wrong or (None if found.value in (1, 2) else f"\"unsupported queue version '{_value(found)}'\"")


def _age(found: Field, arguments: Table) -> str | None:
    if found.kind == "S" and not age_ms(str(found.value)):
        return "invalid_max_age"
    return _string(found, arguments)


def _unacceptable(found: Field) -> str:
    return f"{{unacceptable_type,{type_name(found)}}}"


def _value(found: Field) -> int:
    return found.value if isinstance(found.value, int) else 0


_queue_type = _one_of("\"unsupported queue type '{value}'\"", *TYPES)
_RULES: Final[Mapping[str, Rule]] = {
    "x-expires": _duration_not_zero,
    "x-message-ttl": _duration,
    DEAD_LETTER_EXCHANGE: _string,
    DEAD_LETTER_KEY: _routing_key,
    "x-dead-letter-strategy": _one_of("invalid_dlx_strategy", "at-most-once", "at-least-once"),
    "x-max-length": _natural,
    "x-max-length-bytes": _natural,
    "x-max-in-memory-length": _natural,
    "x-max-in-memory-bytes": _natural,
    "x-max-priority": _priority,
    "x-overflow": _one_of("invalid_overflow", "drop-head", "reject-publish", "reject-publish-dlx"),
    "x-queue-mode": _one_of("\"unsupported queue mode '{value}'\"", "default", "lazy"),
    "x-queue-version": _version,
    "x-single-active-consumer": _flag,
    "x-quorum-initial-group-size": _natural_not_zero,
    "x-max-age": _age,
    "x-stream-max-segment-size-bytes": _natural,
    "x-initial-cluster-size": _natural_not_zero,
    "x-queue-leader-locator": _one_of(
        "invalid_queue_locator_arg", "client-local", "random", "balanced", "least-leaders"
    ),
}
