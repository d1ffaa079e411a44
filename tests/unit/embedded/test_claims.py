from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.loop import run
from tests.unit.embedded.conftest import SMALL

import penstock
from penstock.core.errors import StaleSettlement


def test_a_consumer_takes_over_what_another_does_not_settle(tmp_path: Path) -> None:
    with penstock.open(tmp_path, options=SMALL) as db:
        db.declare("jobs", partitions=1)
        with db.consume("jobs") as stuck, db.consume("jobs") as idle:
            db.put("jobs", b"job")
            owner, other = (stuck, idle) if (held := stuck.get(timeout=0.05)) is not None else (idle, stuck)
            held = held or owner.get(timeout=5)
            assert held is not None
            assert len(owner.claim(idle=0)) == 0, "its own messages stay where they are"
            assert len(other.claim(idle=60)) == 0
            [claimed] = other.claim(idle=0)
            assert (claimed.value, claimed.delivery_count) == (b"job", 2)
            with pytest.raises(StaleSettlement):
                held.ack()
            claimed.extend()
            claimed.ack()
        assert db.describe("jobs").groups[0].depth == 0


def test_what_was_claimed_is_free_when_its_claimant_is_closed(tmp_path: Path) -> None:
    with penstock.open(tmp_path, options=SMALL) as db:
        db.declare("jobs", partitions=1)
        with db.consume("jobs") as owner:
            db.put("jobs", b"job")
            assert owner.get(timeout=5) is not None
            with db.consume("jobs") as other:
                assert len(other.claim(idle=0)) == 1
                assert owner.get(timeout=0) is None
            again = owner.get(timeout=5)
            assert again is not None and again.delivery_count == 3
            again.ack()


def test_claims_awaited(tmp_path: Path) -> None:
    async def main() -> None:
        async with penstock.open_async(tmp_path, options=SMALL) as db:
            await db.declare("jobs", partitions=1)
            async with db.consume("jobs") as owner:
                await db.put("jobs", b"job")
                assert await owner.get(timeout=5) is not None
                async with db.consume("jobs") as other:
                    claimed = await other.claim(idle=0)
                    assert claimed.values() == [b"job"]
                    assert (await other.ack_many(claimed)).done == 1

    run(main())
