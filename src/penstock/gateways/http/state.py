"""What all requests of a gateway share."""

from __future__ import annotations

import asyncio

from penstock.broker.broker import Broker
from penstock.gateways.http.counters import HttpCounters
from penstock.gateways.http.events import Streams
from penstock.gateways.http.feed import Feeds
from penstock.gateways.http.gathering import Gathering
from penstock.gateways.http.metrics.sources import MetricSources
from penstock.gateways.http.receipts import Receipts
from penstock.gateways.http.topic_feed import TopicFeeds


class GatewayState:
    def __init__(self, broker: Broker) -> None:
        self.receipts = Receipts(broker)
        self.is_draining = asyncio.Event()
        """set when the server ends: streams do too"""
        self.metrics: MetricSources
        """where the numbers of the whole server come from"""
        self.streams = Streams(self.is_draining)
        self.counters = HttpCounters(lambda: self.streams.count)
        self.feeds = Feeds()
        self.gathering = Gathering(broker.publishing)
        self.topic_feeds = TopicFeeds(broker.taps, broker.clock)
