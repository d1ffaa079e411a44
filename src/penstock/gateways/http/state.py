"""What all requests of a gateway share."""

from __future__ import annotations

import asyncio

from penstock.broker.broker import Broker
from penstock.gateways.http.receipts import Receipts


class GatewayState:
    def __init__(self, broker: Broker) -> None:
        self.receipts = Receipts(broker)
        self.is_draining = asyncio.Event()
        """set when the server ends: streams do too"""
        self.streams = 0
        """event streams and WebSockets that are open"""
        self.failures = 0
        """requests that ended in a mistake of ours"""
