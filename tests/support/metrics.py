"""Metrics of a broker without a server around it, and what their text says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.broker import Stage

from penstock.broker.auth.access import Access
from penstock.broker.auth.limits import RateLimits
from penstock.broker.auth.options import RateLimitOptions
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.sessions import Sessions
from penstock.core.metrics import ReloadMetrics
from penstock.telemetry.exposition import exposition
from penstock.telemetry.sources import Build, MetricOptions, MetricSources

_SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$")
_PAIR = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')
_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Read = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class CountedProtocol:
    """Numbers that a test chose."""

    accepted: int = 0
    received: int = 0
    sent: int = 0
    dropped: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    subscriptions: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    throttled: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)


@asynccontextmanager
async def sources_of(stage: Stage, protocol: CountedProtocol | None = None) -> AsyncIterator[MetricSources]:
    broker = stage.broker
    sessions = await Sessions.open(broker.shard, broker.now, SessionOptions())
    retained = await Retained.open(broker.shard)
    counted = protocol or CountedProtocol(
        1, 2, 3, 4, 5, 6, 7, {"quota-exceeded": 8}, {"message-rate": 9}, {"malformed-packet": 10}
    )
    try:
        yield MetricSources(
            broker=broker,
            access=Access.open_to_all(),
            limits=RateLimits(RateLimitOptions(), stage.clock),
            sessions=sessions,
            retained=retained,
            connections=lambda: {"mqtt-5": 11},
            protocols={"mqtt": counted},
            reloads=ReloadMetrics(),
            started_ms=1_700_000_000_000,
            build=Build("1.2.3", "compiled", "3.11.7"),
        )
    finally:
        retained.close()
        await sessions.close()


async def scrape(sources: MetricSources, options: MetricOptions | None = None) -> Read:
    return read(await exposition(sources, options or MetricOptions()))


def read(text: bytes) -> Read:
    """By name and labels; a sample that is there twice is an error."""
    found: Read = {}
    for line in text.decode().splitlines():
        if not line.startswith("#"):
            matched = _SAMPLE.match(line)
            assert matched is not None, line
            key = matched[1], frozenset(labels_in(matched[2] or ""))
            assert key not in found, line
            found[key] = float(matched[3])
    return found


def labels_in(text: str) -> list[tuple[str, str]]:
    pairs = [(name, re.sub(r"\\.", lambda found: _UNESCAPED[found[0]], value)) for name, value in _PAIR.findall(text)]
    assert _PAIR.sub("", text) == "", text
    return pairs


def of(found: Read, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]
