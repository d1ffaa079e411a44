from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run
from tests.support.staging import staged, stored

from penstock.broker.staging.epochs import QUERY_KEPT_MS
from penstock.core.errors import InvalidArgument, PipelineKnown


async def commit(s: Stage, query: str, epoch: int, value: bytes, *, reset: bool = False) -> bool:
    rows = await staged(s, s.broker.queue("q"), value)
    done = await s.broker.staging.commit(query, epoch, [rows], pipeline="totals", reset=reset)
    return done.is_repeated


def test_another_query_under_a_known_name_is_refused_until_it_is_reset_on_purpose(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue()
            await commit(s, "first", 0, b"a")
            await commit(s, "first", 1, b"b")
            with pytest.raises(PipelineKnown, match="'totals' belongs to query 'first'"):
                await commit(s, "second", 0, b"lost checkpoint")
            assert await stored(s) == [b"a", b"b"]
            await commit(s, "second", 0, b"c", reset=True)
            with pytest.raises(PipelineKnown, match="'totals' belongs to query 'second'"):
                await commit(s, "first", 2, b"too late")
            assert await commit(s, "first", 1, b"again")  # what was done is told, whoever has the name now
            assert await stored(s) == [b"a", b"b", b"c"]

    run(main())


def test_of_two_queries_that_begin_a_name_at_once_one_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue()
            commits = [commit(s, query, 0, query.encode()) for query in ("first", "second")]
            outcomes = await asyncio.gather(*commits, return_exceptions=True)
            assert [outcome for outcome in outcomes if not isinstance(outcome, PipelineKnown)] == [False]
            assert len(await stored(s)) == 1

    run(main())


def test_a_binding_is_there_after_a_restart_and_goes_with_its_query(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue()
            await commit(s, "first", 0, b"a")
            await s.broker.close()
            await s.open()
            with pytest.raises(PipelineKnown):
                await commit(s, "second", 0, b"b")
            assert s.broker.staging.epochs("first") == [0]
            await s.broker.staging.keep_up(s.broker.now() + QUERY_KEPT_MS)
            assert s.broker.staging.epochs("first") == []
            await commit(s, "second", 0, b"c")
            await s.broker.close()
            await s.open()
            with pytest.raises(PipelineKnown, match="'second'"):
                await commit(s, "first", 5, b"d")

    run(main())


def test_an_epoch_without_rows_binds_a_name_and_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            staging = s.broker.staging
            assert (await staging.commit("first", 0, [], pipeline="totals")).placed == ()
            assert (await staging.commit("first", 0, [], pipeline="totals")).is_repeated
            assert (staging.commits, staging.repeated_commits) == (1, 1)
            with pytest.raises(PipelineKnown):
                await staging.commit("second", 0, [], pipeline="totals")
            with pytest.raises(InvalidArgument, match="a pipeline's name"):
                await staging.commit("first", 1, [], pipeline="x" * 256)

    run(main())
