"""What a listener says of the connections that come by it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

Inner = asyncio.Protocol | asyncio.BufferedProtocol
"""what a protocol makes of a connection"""


@dataclass(frozen=True, slots=True)
class ListenerFacts:
    name: str
    is_loopback: bool
    certificate_identity: bool = False
    """a verified certificate of a client is its login"""
