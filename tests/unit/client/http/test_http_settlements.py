"""Settlements that did not count are no silent miss."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.support.loop import run

from penstock.client.http.incoming import Verdict
from penstock.client.http.requests import Ask
from penstock.client.http.settlements import Settlements
from penstock.codecs.http.deliveries import SettledReceipt, SettleReport


async def restarted(ask: Ask[SettleReport]) -> SettleReport:
    """A server that knows the receipt of before its start no more."""
    results = [SettledReceipt("old", "restarted"), SettledReceipt("new", "settled")]
    return SettleReport(1, 1, results, "receive them again")


def test_the_caller_is_told_and_the_log_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    async def settle() -> list[bool]:
        settlements = Settlements(restarted)
        promises: list[asyncio.Future[bool]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
        for receipt, promise in zip(("old", "new"), promises, strict=True):
            settlements.put(Verdict(receipt, "ack"), promise)
        await settlements.flush()
        return [await promise for promise in promises]

    with caplog.at_level(logging.WARNING, logger="penstock.client"):
        assert run(settle()) == [False, True]
    [record] = caplog.records
    assert record.getMessage() == "settlements did not count verb=ack count=1 why=receive them again"
