"""What all requests of a gateway share."""

from __future__ import annotations

import asyncio

from penstock.broker.broker import Broker
from penstock.gateways.http.counters import HttpCounters
from penstock.gateways.http.metrics.sources import MetricSources
from penstock.gateways.http.receipts import Receipts


class GatewayState:
    def __init__(self, broker: Broker) -> None:
        self.receipts = Receipts(broker)
        self.is_draining = asyncio.Event()
        """set when the server ends: streams do too"""
        self.counters = HttpCounters()
        self.metrics: MetricSources
        """where the numbers of the whole server come from"""
