"""Policies, and reports of imports, as HTTP has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

ApplyTo = Literal["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"]


class NewPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings that are laid over queues whose names match."""

    pattern: Annotated[str, msgspec.Meta(max_length=512)]
    """a regular expression; it is enough that a part of the name matches"""
    definition: dict[str, Any]
    """message-ttl, expires, max-length, max-length-bytes, overflow, delivery-limit, max-age, dead-letter-exchange,
    dead-letter-routing-key"""
    apply_to: ApplyTo = "queues"
    priority: Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)] = 0
    """of several that match, the one of the highest counts, alone"""


class PolicyDescription(msgspec.Struct, frozen=True):
    name: str
    pattern: str
    definition: dict[str, Any]
    apply_to: str
    priority: int


class ImportReport(msgspec.Struct, frozen=True):
    """`notes`: what has no meaning here, or less, a sentence each."""

    imported: dict[str, int]
    notes: list[str]
