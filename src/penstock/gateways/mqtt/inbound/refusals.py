"""What a publisher is told of an error."""

from __future__ import annotations

from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import ErrorCode, PenstockError
from penstock.gateways.mqtt.inbound.answers import Refused

REASONS = {
    ErrorCode.QUEUE_FULL: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.DISK_LOW: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.TOO_LARGE: ReasonCode.QUOTA_EXCEEDED,
    ErrorCode.NO_SUCH_QUEUE: ReasonCode.TOPIC_NAME_INVALID,
    ErrorCode.NO_SUCH_EXCHANGE: ReasonCode.TOPIC_NAME_INVALID,
    ErrorCode.EXCHANGE_INTERNAL: ReasonCode.NOT_AUTHORIZED,
    ErrorCode.INVALID_ARGUMENT: ReasonCode.TOPIC_NAME_INVALID,
}


def refusal_of(error: PenstockError) -> Refused:
    """What a publisher is told."""
    return Refused(REASONS.get(error.code, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR), str(error))


OF_EVERYBODY = frozenset(
    {
        ErrorCode.DISK_LOW,
        ErrorCode.JOURNAL_FAILED,
        ErrorCode.JOURNAL_DAMAGED,
        ErrorCode.LOG_POISONED,
        ErrorCode.LOG_STOPPED,
        ErrorCode.LOG_DAMAGED,
        ErrorCode.OUTCOME_UNKNOWN,
        ErrorCode.CLOSED,
    }
)
"""What storage refuses for is no client's doing, and every one of them meets it."""
