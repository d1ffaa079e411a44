"""An audit finds settlements that were lost or point at nothing, and dead letters without an origin."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from tests.support.auditing import Books, audited, kinds, silent
from tests.support.broker import Stage, retries, stage
from tests.support.loop import run
from tests.support.staging import QUERY, staged

from penstock.broker.publish.request import ProducerCall
from penstock.broker.queues import snapshots
from penstock.jobs.findings import Kind, Verdict

DATA, STATE = "default/q/0", "default/q/0/state"
LETTERS = "default/%24dlq%2Fq/0"


def written(directory: Path, act: Callable[[Stage], Awaitable[None]], *, journal: bool = False) -> Path:
    """What a broker left that was closed; without a journal that could help, unless it is to."""

    async def main() -> None:
        async with stage(directory) as made:
            await act(made)

    run(main())
    silent(directory)
    if not journal:
        shutil.rmtree(directory / "journal")
    return directory


async def settled_one_by_one(s: Stage) -> None:
    """Ten messages, each settled in a frame of its own."""
    queue = await s.queue()
    consumer = await s.consumer(queue)
    for number in range(10):
        await s.put(queue, b"%d" % number)
    for message in await s.receive(consumer):
        await s.ack(consumer, message)


async def rejected(s: Stage) -> None:
    queue = await s.queue(retry_policy=retries(0))
    consumer = await s.consumer(queue)
    await s.put(queue, b"one")
    await s.put(queue, b"two")
    s.clock.advance(1)
    for message in await s.receive(consumer):
        await s.reject(consumer, message, detail="no")
        s.clock.advance(1)


def test_a_lost_settlement_in_the_middle_is_found(tmp_path: Path) -> None:
    directory = written(tmp_path, settled_one_by_one)
    books = Books(directory, STATE)
    books.rewrite(lambda batches: [*batches[:4], *batches[5:]])
    report = audited(directory)
    assert [(found.kind, found.log) for found in report.findings] == [(Kind.SETTLEMENT, STATE)]
    assert "settlements are lost" in report.findings[0].reason
    assert report.verdict is Verdict.INCONSISTENT


def test_lost_settlements_at_the_end_are_found_while_the_journal_has_them(tmp_path: Path) -> None:
    directory = written(tmp_path, settled_one_by_one, journal=True)
    books = Books(directory, STATE)
    books.end_at(len(books.batches()) - 2)
    [finding] = audited(directory).findings
    assert (finding.kind, finding.log) == (Kind.SETTLEMENT, STATE)


def test_a_settlement_that_moved_a_dead_letter_and_was_lost_is_found(tmp_path: Path) -> None:
    directory = written(tmp_path, rejected)
    assert audited(directory).checked.dead_letters == 2
    books = Books(directory, STATE)
    books.end_at(len(books.batches()) - 1)
    findings = audited(directory).findings
    assert [(found.kind, found.log, found.offset) for found in findings] == [(Kind.SETTLEMENT, LETTERS, 1)]


def test_settlements_of_messages_that_are_not_there_are_found(tmp_path: Path) -> None:
    directory = written(tmp_path, settled_one_by_one)
    Books(directory, DATA).end_at(5)
    assert kinds(directory) == {"settlement"}


def test_a_dead_letter_whose_origin_is_missing_is_found(tmp_path: Path) -> None:
    directory = written(tmp_path, rejected)
    Books(directory, DATA).end_at(1)
    assert "dead-letter" in kinds(directory)


def test_a_state_log_that_does_not_reach_its_snapshot_is_found(tmp_path: Path) -> None:
    async def act(s: Stage) -> None:
        queue = await s.queue()
        consumer = await s.consumer(queue)
        for _ in range(2):
            await s.put(queue, *[b"%d" % number for number in range(5)])
            for message in await s.receive(consumer):
                await s.ack(consumer, message)
            if not queue.units[0].snapshot_starts:
                await snapshots.write(s.broker.shard, queue, queue.units[0], s.clock.now_ms())

    directory = written(tmp_path, act)
    books = Books(directory, STATE)
    end = books.state.end
    books.book(lambda state: msgspec.structs.replace(state, start=end - 1))
    assert kinds(directory) == {"settlement"}


def test_calls_of_producers_are_held_against_their_messages(tmp_path: Path) -> None:
    async def act(s: Stage) -> None:
        queue = await s.queue(partitions=1)
        for number in range(5):
            await s.put(queue, b"%d" % number, producer=ProducerCall(b"p", 0, number))

    directory = written(tmp_path, act)
    assert audited(directory).checked.producer_calls == 5
    Books(directory, DATA).end_at(3)
    assert kinds(directory) == {"producer"}


def test_a_call_that_was_recorded_in_another_order_is_found(tmp_path: Path) -> None:
    async def act(s: Stage) -> None:
        queue = await s.queue(partitions=1)
        for number in range(5):
            await s.put(queue, b"%d" % number, producer=ProducerCall(b"p", 0, number))

    directory = written(tmp_path, act)
    Books(directory, STATE).rewrite(lambda batches: [batches[1], batches[0], *batches[2:]])
    assert {"order", "duplicate"} <= kinds(directory)


@pytest.mark.parametrize("rows", [3, 300], ids=["one frame", "adopted segments"])
def test_epochs_that_were_committed_are_held_against_their_messages(tmp_path: Path, rows: int) -> None:
    async def act(s: Stage) -> None:
        queue = await s.queue()
        for epoch in range(2):
            values = [b"%d" % number * 500 for number in range(rows)]
            found = [await staged(s, queue, *values[at : at + 50]) for at in range(0, rows, 50)]
            await s.broker.staging.commit(QUERY, epoch, found)
        await s.put(queue, b"behind")

    directory = written(tmp_path, act)
    books = Books(directory, DATA)
    last = len(books.segments) - 1
    end = books.segments[last].base
    books.book(lambda state: msgspec.structs.replace(state, end=end, active=None, sealed=state.sealed[:last]))
    if rows == 3:
        assert kinds(directory) == {"staged-epoch"}
    else:
        assert kinds(directory) == set()


async def _audited_in_a_thread(directory: Path) -> None:
    await asyncio.to_thread(silent, directory)


def test_a_broker_at_work_is_audited_in_silence(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue(partitions=3)
            consumer = await s.consumer(queue)
            looking = asyncio.ensure_future(_look_again_and_again(tmp_path))
            for number in range(100):
                s.clock.advance(0.3)
                await s.put(queue, *[b"%d" % number] * 5, keys=[b"%d" % k for k in range(5)])
                for message in await s.receive(consumer):
                    await s.ack(consumer, message)
                if number % 25 == 24:
                    for unit in queue.units.values():
                        await snapshots.write(s.broker.shard, queue, unit, s.clock.now_ms())
            looking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await looking
            await s.broker.shard.checkpoint()
            await _audited_in_a_thread(tmp_path)

    run(main())


async def _look_again_and_again(directory: Path) -> None:
    while True:
        await _audited_in_a_thread(directory)


@pytest.mark.parametrize("name", [DATA, STATE, LETTERS])
def test_a_log_whose_file_is_gone_is_told_once(tmp_path: Path, name: str) -> None:
    directory = written(tmp_path, rejected, journal=True)
    Books(directory, name).path().unlink()
    assert [(found.kind, found.log) for found in audited(directory).findings] == [(Kind.MISSING_FILE, name)]
