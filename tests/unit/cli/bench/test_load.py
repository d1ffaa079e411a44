"""What `penstock bench` counts."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cli.bench import load as bench_load
from penstock.cli.bench.load import Arrivals, Load, Share, measured, percentiles_ms
from penstock.client.errors import ConnectionLost

_LOAD = Load("any", messages=25, size_bytes=1, connections=3, batch=5)


def test_percentiles_are_values_that_were_measured() -> None:
    found = percentiles_ms([number / 1000 for number in range(1, 101)])
    assert found == {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 100.0, "max": 100.0}
    assert percentiles_ms([0.002]) == dict.fromkeys(found, 2.0)
    assert percentiles_ms([]) == {}


def test_connections_share_the_messages_and_take_no_more() -> None:
    share = Share(25)
    assert [share.take(10) for _ in range(4)] == [10, 10, 5, 0]


def test_a_stream_ends_with_the_last_message_and_every_batch_is_a_step() -> None:
    async def endless(share: Share) -> None:
        arrivals = Arrivals(share, _LOAD.batch)
        while True:
            await asyncio.sleep(0)
            arrivals.note()

    result = asyncio.run(measured("stream", _LOAD, endless))
    assert result.messages == 25
    assert result.latency_ms["max"] > 0


def test_a_load_that_gets_nothing_more_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_load, "_STALLED_S", 0.05)

    async def silent(share: Share) -> None:
        share.arrived(1)
        await asyncio.Event().wait()

    with pytest.raises(ConnectionLost, match="after 3 messages"):
        asyncio.run(measured("stream", _LOAD, silent))


def test_what_one_connection_raises_ends_the_load() -> None:
    async def refused(share: Share) -> None:
        raise ConnectionLost("gone")

    with pytest.raises(ConnectionLost, match="gone"):
        asyncio.run(measured("any", _LOAD, refused))
