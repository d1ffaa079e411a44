"""What is under way between CONNECT, or an AUTH that begins anew, and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.auth.access import ScramLogin
from penstock.codecs.mqtt.packets import Connect


@dataclass(slots=True)
class Exchange:
    connect: Connect | None = None
    """None for a client that is let in"""
    scram: ScramLogin | None = None
    is_challenged: bool = False
