"""What a client is told of an error of the broker: RabbitMQ's situation for it, where it has one."""

from __future__ import annotations

from typing import Any

from penstock.codecs.amqp091.errors import AmqpError, Fault, named
from penstock.core.errors import (
    DefaultExchange,
    ErrorCode,
    ExchangeInternal,
    ExchangeInUse,
    ExchangeReserved,
    GroupInUse,
    NoSuchExchange,
    NoSuchQueue,
    PenstockError,
)

Method = tuple[int, int]
"""class and method, as an error names them"""

OF_STORAGE = frozenset(
    {
        ErrorCode.JOURNAL_FAILED,
        ErrorCode.JOURNAL_DAMAGED,
        ErrorCode.LOG_POISONED,
        ErrorCode.LOG_STOPPED,
        ErrorCode.LOG_DAMAGED,
        ErrorCode.OUTCOME_UNKNOWN,
        ErrorCode.CLOSED,
    }
)
"""What storage refuses for is no client's doing: its connection ends, and nothing was confirmed."""


def fault_of(error: PenstockError, vhost: str, channel: int, at: Method = (0, 0)) -> AmqpError:
    if isinstance(error, AmqpError):
        return error
    fault, facts = _of(error, vhost)
    return AmqpError(fault, channel, at, **facts)


def _of(error: PenstockError, vhost: str) -> tuple[Fault, dict[str, Any]]:
    match error:
        case NoSuchQueue():
            return Fault.MISSING, {"what": named("queue", error.queue, vhost)}
        case NoSuchExchange():
            return Fault.MISSING, {"what": named("exchange", error.exchange, vhost)}
        case ExchangeInternal():
            return Fault.INTERNAL_EXCHANGE, {"what": named("exchange", error.exchange, vhost)}
        case ExchangeInUse():
            return Fault.IN_USE, {"what": named("exchange", error.exchange, vhost)}
        case ExchangeReserved():
            return Fault.RESERVED_NAME, {"kind": "exchange", "name": error.exchange}
        case DefaultExchange():
            return Fault.DEFAULT_EXCHANGE, {}
        case GroupInUse():
            return Fault.EXCLUSIVE_CONSUMER, {"what": named("queue", error.queue, vhost)}
    is_of_storage = error.code in OF_STORAGE
    return Fault.INTERNAL if is_of_storage else Fault.PRECONDITION, {"detail": str(error)}
