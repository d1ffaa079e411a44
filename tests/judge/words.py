"""What the reference says, in the words of each protocol."""

from __future__ import annotations

import re

from tests.judge import reference as said

from penstock.codecs.mqtt.reasons import ReasonCode

Wire = tuple[object, ...]
"""an answer as a door gives it"""

MQTT = {
    said.OK: ReasonCode.SUCCESS,
    said.NOT_ALLOWED: ReasonCode.NOT_AUTHORIZED,
    said.RESERVED: ReasonCode.NOT_AUTHORIZED,
    said.INVALID: ReasonCode.TOPIC_NAME_INVALID,
    said.NO_QUEUE: ReasonCode.TOPIC_NAME_INVALID,
    said.TOO_LARGE: ReasonCode.QUOTA_EXCEEDED,
    said.FULL: ReasonCode.QUOTA_EXCEEDED,
    said.OUT_OF_ORDER: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    said.FENCED: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    said.STALE: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    said.NO_SUBSCRIPTION: ReasonCode.NO_SUBSCRIPTION_EXISTED,
}
HTTP = {
    said.OK: (200, said.OK),
    said.NOT_ALLOWED: (403, said.NOT_ALLOWED),
    said.RESERVED: (400, said.INVALID),
    said.INVALID: (400, said.INVALID),
    said.NO_QUEUE: (404, said.NO_QUEUE),
    said.TOO_LARGE: (413, said.TOO_LARGE),
    said.FULL: (429, said.FULL),
    said.OUT_OF_ORDER: (409, said.OUT_OF_ORDER),
    said.FENCED: (409, said.FENCED),
    said.STALE: (409, said.STALE),
}

_PLACEHOLDER = re.compile(r"(?<![^/])x(?![^/])")


def named(text: str, prefix: str) -> str:
    """A topic, filter or queue of a program, as this run calls it."""
    return _PLACEHOLDER.sub(prefix, text, count=1)


def unnamed(text: str, prefix: str) -> str:
    return text.replace(prefix, "x", 1)
