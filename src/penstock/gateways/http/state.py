"""What all requests of a gateway share."""

from __future__ import annotations

import asyncio

from penstock.broker.broker import Broker
from penstock.gateways.http.events import Streams
from penstock.gateways.http.feed import Feeds
from penstock.gateways.http.receipts import Receipts
from penstock.gateways.http.topic_feed import TopicFeeds


class GatewayState:
    def __init__(self, broker: Broker) -> None:
        self.receipts = Receipts(broker)
        self.is_draining = asyncio.Event()
        """set when the server ends: streams do too"""
        self.streams = Streams(self.is_draining)
        self.feeds = Feeds()
        self.topic_feeds = TopicFeeds(broker.taps, broker.clock)
        self.failures = 0
        """requests that ended in a mistake of ours"""
