"""A filter of a session, as the router and the fan-out look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.gateways.mqtt.session import Session


@dataclass(slots=True, eq=False)
class Subscription:
    session: Session
    filter: str
    """as the client said it, `$share/…` included"""
    topic_filter: str
    """without `$share/<name>/`"""
    share: str | None
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None
    number: int = -1
    """in the router; -1: not there"""
