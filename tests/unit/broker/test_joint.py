"""What several put in one turn of the loop is one frame, and each is told of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run

from penstock.broker.publish.commit import Intake
from penstock.broker.publish.joint import JointPuts, Row
from penstock.broker.queues.queue import Placed, Queue
from penstock.core.errors import Closed, InvalidArgument, OutcomeUnknown, PenstockError, QueueFull, TooLarge
from penstock.log.batch import Batch

_MANY = 24
Answers = list[Placed | BaseException]


async def put_together(s: Stage, queues: Sequence[Queue], joint: JointPuts | None = None) -> Answers:
    """From as many publishers, in one turn of the loop; the number of each as its value."""
    joint = joint or s.broker.publishing.joint
    puts = [
        joint.put_and_wait(queues[n % len(queues)], Row(b"%d" % n), s.broker.publisher(), None) for n in range(_MANY)
    ]
    return await asyncio.gather(*puts, return_exceptions=True)


async def stored(s: Stage, queue: Queue) -> dict[tuple[int, int], bytes]:
    """By partition and offset."""
    found: dict[tuple[int, int], bytes] = {}
    for unit in queue.units.values():
        read = await s.broker.shard.read(unit.data, 0, 1 << 20) if unit.data.end else []
        rows = [batch.value(row) for batch in map(Batch.parse, read) for row in range(len(batch.offsets()))]
        found |= {(unit.partition, offset): value for offset, value in enumerate(rows)}
    return found


async def made(s: Stage, name: str = "orders", **settings: Any) -> Queue:
    """With all its partitions there."""
    queue = await s.queue(name, **settings)
    await queue.make(list(range(queue.settings.partitions)))
    return queue


def test_one_frame_over_the_partitions_of_their_senders_and_over_queues(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queues = [await made(s, "a", partitions=3), await made(s, "b", partitions=2)]
            before = s.broker.shard.metrics.frames
            answers = await put_together(s, queues)
            assert s.broker.shard.metrics.frames == before + 1
            for number, answer in enumerate(answers):
                assert isinstance(answer, Placed) and answer.rows == 1
                there = await stored(s, queues[number % 2])
                assert there[answer.partition, answer.base_offset] == b"%d" % number
            assert [queue.published for queue in queues] == [_MANY // 2] * 2
            assert len({answer.partition for answer in answers[::2] if isinstance(answer, Placed)}) == 3

    run(main())


def test_keys_partitions_and_properties_are_those_of_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, joint = await made(s, partitions=4), s.broker.publishing.joint
            rows = [Row(b"%d" % n, b"k%d" % (n % 3) if n % 2 else None) for n in range(_MANY)]
            puts = [
                joint.put_and_wait(queue, row, s.publisher, 3 if n % 5 == 0 else None) for n, row in enumerate(rows)
            ]
            answers = await asyncio.gather(*puts)
            alone = [await s.broker.publishing.joint.put_and_wait(queue, row, s.publisher) for row in rows]
            for n, answer in enumerate(answers):
                assert answer.partition == (3 if n % 5 == 0 else alone[n].partition)

    run(main())


def test_a_refusal_is_for_whom_it_is_about_and_counted_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            small, other = await made(s, "small", limits={"max_message_size": "10B"}), await made(s, "other")
            joint = s.broker.publishing.joint
            puts = [joint.put_and_wait(small, Row(b"x" * (11 if n == 7 else 3)), s.publisher) for n in range(_MANY)]
            puts += [
                joint.put_and_wait(other, Row(b"v"), s.publisher, 9),
                joint.put_and_wait(other, Row(b"v"), s.publisher),
            ]
            *answers, nowhere, fine = await asyncio.gather(*puts, return_exceptions=True)
            assert isinstance(answers[7], TooLarge) and isinstance(nowhere, InvalidArgument)
            assert isinstance(fine, Placed)
            assert sum(isinstance(answer, Placed) for answer in answers) == _MANY - 1

    run(main())


def test_those_for_whom_there_is_room_are_stored_and_the_others_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await made(s, limits={"max_queue_depth": _MANY - 3})
            await s.consumer(queue)
            answers = await put_together(s, [queue])
            assert [type(answer) for answer in answers] == [Placed] * (_MANY - 3) + [QueueFull] * 3
            assert (queue.refused, queue.published, queue.depth()) == (3, _MANY - 3, _MANY - 3)

    run(main())


def test_who_has_to_wait_stays_in_order_with_those_behind_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, joint = await made(s), s.broker.publishing.joint
            await queue.gate.close()
            puts = [asyncio.ensure_future(joint.put_and_wait(queue, Row(b"%d" % n), s.publisher)) for n in range(5)]
            await asyncio.sleep(0.02)
            late = asyncio.ensure_future(joint.put_and_wait(queue, Row(b"late"), s.publisher))
            await asyncio.sleep(0.02)
            assert joint.is_busy and not any(put.done() for put in puts)
            queue.gate.open()
            await asyncio.gather(*puts, late)
            there = await stored(s, queue)
            assert [there[place] for place in sorted(there)] == [b"0", b"1", b"2", b"3", b"4", b"late"]
            assert not joint.is_busy

    run(main())


def test_what_comes_while_a_frame_is_under_way_comes_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, joint = await made(s), s.broker.publishing.joint
            before = s.broker.shard.metrics.frames
            first = asyncio.ensure_future(joint.put_and_wait(queue, Row(b"first"), s.publisher))
            for _ in range(2):  # its turn ends
                await asyncio.sleep(0)
            answers = await put_together(s, [queue])
            await first
            assert all(isinstance(answer, Placed) for answer in answers)
            assert s.broker.shard.metrics.frames == before + 2

    run(main())


def test_steps_of_a_queue_that_spreads_are_taken_back_where_it_comes_to_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, joint = await made(s, partitions=5, unkeyed="spread"), s.broker.publishing.joint
            begun = s.publisher.partition(queue)
            with mock.patch.object(Intake, "try_stage", side_effect=Closed("the log")):
                puts = [joint.put_and_wait(queue, Row(b"v"), s.publisher) for _ in range(3)]
                await asyncio.gather(*puts, return_exceptions=True)
            assert s.publisher.partition(queue) == begun
            answers = await asyncio.gather(*[joint.put_and_wait(queue, Row(b"v"), s.publisher) for _ in range(5)])
            assert len({answer.partition for answer in answers}) == 5

    run(main())


def test_a_wait_that_is_cancelled_harms_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, joint = await made(s), s.broker.publishing.joint
            puts = [asyncio.ensure_future(joint.put_and_wait(queue, Row(b"%d" % n), s.publisher)) for n in range(3)]
            await asyncio.sleep(0)
            puts[1].cancel()
            await asyncio.gather(*puts, return_exceptions=True)
            assert len(await stored(s, queue)) == 3

    run(main())


class _Failing(Intake):
    def __init__(self, outcome: Callable[[Callable[[PenstockError | None], None]], object]) -> None:
        self._outcome = outcome

    def try_stage(self, puts: object, done: Callable[[PenstockError | None], None], *_: object) -> mock.Mock:
        self._outcome(done)
        return mock.Mock(placed=list)


def _raises(error: Exception) -> Callable[[object], object]:
    return mock.Mock(side_effect=error)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (_raises(PenstockError("refused")), PenstockError),
        (_raises(RuntimeError("a mistake")), RuntimeError),
        (lambda done: done(OutcomeUnknown("the log")), OutcomeUnknown),
    ],
)
def test_nobody_is_left_waiting_when_staging_or_the_commit_fails(
    tmp_path: Path, outcome: Callable[[Callable[[PenstockError | None], None]], object], told: type
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            found = await put_together(s, [await made(s)], JointPuts(_Failing(outcome)))
            assert {type(each) for each in found} == {told}
            assert len({id(each) for each in found}) == _MANY

    run(main())


def test_all_are_told_when_the_loop_has_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue, joint = await made(s), JointPuts(_Failing(lambda done: None))
            told: list[BaseException | None] = []
            joint.put(queue, Row(b"under way"), s.publisher, None, lambda placed, error: told.append(error))
            for _ in range(2):
                await asyncio.sleep(0)
            joint.put(queue, Row(b"waits"), s.publisher, None, lambda placed, error: told.append(error))
            joint.refuse(Closed("gone"))
            assert [type(each) for each in told] == [Closed, Closed] and not joint.is_busy

    run(main())
