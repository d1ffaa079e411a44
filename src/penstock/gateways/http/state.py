"""What all requests of a gateway share."""

from __future__ import annotations

import asyncio

from penstock.broker.broker import Broker
from penstock.broker.clients import ClientDirectory
from penstock.gateways.http.counters import HttpCounters
from penstock.gateways.http.events.events import Streams
from penstock.gateways.http.events.feed import Feeds
from penstock.gateways.http.events.glance import Glances
from penstock.gateways.http.events.topic_feed import TopicFeeds
from penstock.gateways.http.messages.receipts import Receipts
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.http.rabbit.rates import Rates
from penstock.gateways.http.server.memory import HttpMemory
from penstock.telemetry.sources import MetricSources


class GatewayState:
    def __init__(self, broker: Broker, clients: ClientDirectory, options: HttpOptions) -> None:
        self.glances = Glances(broker, clients)
        self.receipts = Receipts(broker)
        self.is_draining = asyncio.Event()
        """set when the server ends: streams do too"""
        self.metrics: MetricSources
        """where the numbers of the whole server come from"""
        self.streams = Streams(self.is_draining)
        self.counters = HttpCounters(lambda: self.streams.count)
        self.memory = HttpMemory(options, self.counters)
        self.rates = Rates()
        self.feeds = Feeds()
        self.topic_feeds = TopicFeeds(broker.taps, broker.clock)
