"""Receiving and settling."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from penstock.codecs.http.shapes import GroupName, Place
from penstock.codecs.http.spans import Lease, Wait

MOST_RECEIVED = 1000
MOST_SETTLED = 10_000


ConsumerName = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class ReceiveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    group: GroupName = "default"
    """made if it is not there"""
    max: Annotated[int, msgspec.Meta(ge=1, le=MOST_RECEIVED)] = 10
    wait: Wait = 0
    """for the first message, up to 30s"""
    visibility: Lease | None = None
    """so long the messages are the caller's; without it the queue's delivery_timeout"""
    encoding: Literal["auto", "base64"] = "auto"
    start: Place = "earliest"
    """where a group begins that is made now: earliest, latest, a time, or a duration: so long ago"""
    consumer: ConsumerName | None = None
    """who asks. A key whose messages are in flight at one consumer is given to no other: without a name each request is
    a consumer of its own"""


class ClaimBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    group: GroupName = "default"
    max: Annotated[int, msgspec.Meta(ge=1, le=MOST_RECEIVED)] = 10
    idle: Lease = 30
    """so long ago at least they were handed out"""
    visibility: Lease | None = None
    """so long the messages are the caller's; without it the queue's delivery_timeout"""
    encoding: Literal["auto", "base64"] = "auto"
    consumer: ConsumerName | None = None
    """who asks, as in receive"""


class AckBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    receipts: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MOST_SETTLED)]


class NackBody(AckBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    delay: Lease | None = None
    """until they come again; without it the queue's backoff"""
    reason: str = ""


class RejectBody(AckBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    reason: str = ""
    """goes with the dead letter"""


class ExtendBody(AckBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    visibility: Lease = 30
    """from now on"""


class SettledReceipt(msgspec.Struct, frozen=True):
    receipt: str
    status: str
    """settled; stale: the delivery is not current any more; restarted: it is of before the server was started again;
    gone: there is no such queue or group here; malformed"""


class SettleReport(msgspec.Struct, frozen=True):
    settled: int
    stale: int
    """those that are not settled, for whatever reason"""
    results: list[SettledReceipt]
    advice: str | None = None
    """why some are not settled, and what to do"""
