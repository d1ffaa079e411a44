"""What `penstock bench` counts."""

from __future__ import annotations

from penstock.cli.bench_load import Share, percentiles_ms


def test_percentiles_are_values_that_were_measured() -> None:
    found = percentiles_ms([number / 1000 for number in range(1, 101)])
    assert found == {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 100.0, "max": 100.0}
    assert percentiles_ms([0.002]) == dict.fromkeys(found, 2.0)
    assert percentiles_ms([]) == {}


def test_connections_share_the_messages_and_take_no_more() -> None:
    share = Share(25)
    assert [share.take(10) for _ in range(4)] == [10, 10, 5, 0]
