from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.broker import LARGE, Stage, stage
from tests.support.loop import run

from penstock.broker.feed.stored import StoredBatch
from penstock.broker.letters.letters import (
    REDRIVE,
    Selection,
    dead_letter_queue_of,
    dead_letter_queues,
    letters,
    waiting,
)
from penstock.broker.letters.redrive import RedriveOptions, Report, drop, redrive
from penstock.broker.queues.queue import Queue
from penstock.core.errors import InvalidArgument, QueueFull
from penstock.log.batch import Row, select_rows
from penstock.log.columns import Columns
from penstock.log.offline.backup import create_backup, restore_backup
from penstock.log.properties import user_property
from penstock.queues.deadletter import REDRIVE_GROUP, Reason
from penstock.queues.properties import encode_user_properties

SHARED = {"topic": "$dlq/shared"}


async def rejected(on: Stage, queue: Queue, *messages: bytes, group: str = "g", detail: str = "") -> Queue:
    """The dead letters of a queue, after a group has rejected these messages too."""
    consumer = await on.consumer(queue, group)
    await on.put(queue, *messages)
    await on.reject(consumer, *await on.receive(consumer), detail=detail)
    consumer.leave()
    found = dead_letter_queue_of(on.broker, queue.name)
    assert found is not None
    return found


async def given(on: Stage, queue: Queue, group: str = "g") -> list[bytes]:
    """What a group gets now, and acknowledges."""
    consumer = await on.consumer(queue, group)
    found = await on.receive(consumer)
    for message in found:
        await on.ack(consumer, message)
    consumer.leave()
    return [message.value for message in found]


async def waiting_values(on: Stage, queue: Queue, selection: Selection | None = None) -> list[bytes]:
    return [letter.message.row.value async for letter in letters(on.broker, queue, selection or Selection())]


def test_all_letters_go_back_to_the_group_that_gave_up_on_them_and_to_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            letters_queue = await rejected(on, queue, b"a", b"b")
            assert await given(on, queue, "other") == [b"a", b"b"]
            report = await redrive(on.broker, letters_queue)
            assert (report.done, report.total, dict(report.left)) == (2, 2, {})
            assert await given(on, queue) == [b"a", b"b"]
            assert await given(on, queue, "other") == []
            assert await given(on, queue, "later") == [b"a", b"b"]
            other = on.group_of(group="other")
            assert other.cursor(queue.units[0]).tally.filtered == 2
            assert other.depth() == 0

    run(main())


def test_a_redriven_letter_is_not_redriven_again_also_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            letters_queue = await rejected(on, await on.queue(), b"a", b"b", b"c")
            assert (await redrive(on.broker, letters_queue, RedriveOptions(limit=1))).done == 1
            assert waiting(letters_queue) == 2
            await on.restart()
            letters_queue = on.broker.queue("$dlq/q")
            assert await waiting_values(on, letters_queue) == [b"b", b"c"]
            assert (await redrive(on.broker, letters_queue)).done == 2
            assert (await redrive(on.broker, letters_queue)).done == 0
            assert await given(on, on.broker.queue("q")) == [b"a", b"b", b"c"]

    run(main())


def test_the_group_to_which_messages_were_redriven_is_heeded_after_a_restart_and_in_the_files(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            await redrive(on.broker, await rejected(on, queue, b"a"))
            await on.broker.shard.checkpoint()
            await on.restart()
            queue = on.broker.queue("q")
            assert await given(on, queue, "other") == [b"a"]
            assert await given(on, queue, "g") == [b"a"]

    run(main())


def test_the_group_to_which_messages_were_redriven_is_heeded_after_compaction(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue(compaction={"enabled": True, "lag": "0s", "interval": "1s"})
            consumer = await on.consumer(queue)
            await on.put(queue, *[b"%d" % i for i in range(4)], keys=[b"k", b"l", b"k", b"m"])
            await on.reject(consumer, *await on.receive(consumer))
            consumer.leave()
            await redrive(on.broker, on.broker.queue("$dlq/q"))
            unit = queue.units[0]
            batch = (await on.broker.shard.read(unit.data, 4, 1))[0]
            thinned = StoredBatch.of(select_rows(batch, array("i", [1, 3])))
            marks = on.group_of().skipped(thinned, on.clock.now_ms())
            assert marks == bytearray(2)
            other = await on.broker.group(queue, "other")
            assert other.skipped(thinned, on.clock.now_ms()) == bytearray(b"\x01\x01")

    run(main())


def test_all_groups_get_them_if_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            letters_queue = await rejected(on, queue, b"a")
            await given(on, queue, "other")
            await redrive(on.broker, letters_queue, RedriveOptions(is_to_all_groups=True))
            assert await given(on, queue, "other") == [b"a"]
            assert await given(on, queue) == [b"a"]

    run(main())


def test_in_another_queue_all_groups_get_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            letters_queue = await rejected(on, await on.queue(), b"a")
            other = await on.queue("repair")
            assert (await redrive(on.broker, letters_queue, RedriveOptions(to=other))).done == 1
            assert await given(on, other, "mechanics") == [b"a"]
            assert await given(on, on.broker.queue("q")) == []

    run(main())


def test_one_letter_is_named_by_its_own_id_or_by_that_of_the_message_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            letters_queue = await rejected(on, queue, b"a", b"b", b"c", b"d")
            own = f"{letters_queue.message_id_prefix(0)}1"
            source = f"{queue.message_id_prefix(0)}3"
            missing = f"{queue.message_id_prefix(0)}99"
            selection = Selection(ids=frozenset({own, source, missing}))
            report = await redrive(on.broker, letters_queue, RedriveOptions(selection=selection))
            assert report.done == 2
            assert report.missing == {missing}
            assert await given(on, queue) == [b"b", b"d"]
            assert await waiting_values(on, letters_queue) == [b"a", b"c"]

    run(main())


def test_letters_are_chosen_by_group_reason_and_source(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            retried = await on.queue("retried", dlq_config=SHARED, retry_policy={"max_retries": 0})
            queue = await on.queue(dlq_config=SHARED)
            letters_queue = await rejected(on, queue, b"a", group="billing")
            assert await rejected(on, queue, b"b", group="audit") is letters_queue
            consumer = await on.consumer(retried)
            await on.put(retried, b"c")
            await on.fail(consumer, *await on.receive(consumer))
            by_group = Selection(groups=frozenset({"billing"}))
            by_reason = Selection(reasons=frozenset({Reason.MAX_RETRIES}))
            by_source = Selection(sources=frozenset({"q"}))
            assert await waiting_values(on, letters_queue, by_group) == [b"a"]
            assert await waiting_values(on, letters_queue, by_reason) == [b"c"]
            assert await waiting_values(on, letters_queue, by_source) == [b"a", b"a", b"b"]
            assert (await redrive(on.broker, letters_queue, RedriveOptions(selection=by_reason))).done == 1
            assert [one.value for one in await on.receive(consumer)] == [b"c"]

    run(main())


def test_dropped_letters_are_neither_listed_nor_redriven(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            letters_queue = await rejected(on, queue, b"a", b"b")
            first = Selection(ids=frozenset({f"{letters_queue.message_id_prefix(0)}0"}))
            assert (await drop(on.broker, letters_queue, first)).done == 1
            await on.restart()
            letters_queue = on.broker.queue("$dlq/q")
            assert await waiting_values(on, letters_queue) == [b"b"]
            assert (await redrive(on.broker, letters_queue)).done == 1
            assert await given(on, on.broker.queue("q")) == [b"b"]

    run(main())


def test_letters_of_a_queue_or_group_that_is_gone_stay_and_are_reported(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            gone, queue = await on.queue("gone", dlq_config=SHARED), await on.queue(dlq_config=SHARED)
            letters_queue = await rejected(on, gone, b"a")
            await rejected(on, queue, b"b", group="billing")
            await on.broker.declaring.delete(gone)
            await on.broker.declaring.delete_group(on.group_of(group="billing"))
            report = await redrive(on.broker, letters_queue)
            assert report.done == 0
            assert dict(report.left) == {"queue 'gone' is not there": 1, "queue 'q' has no group 'billing'": 1}
            assert waiting(letters_queue) == 2
            everywhere = RedriveOptions(to=queue, is_to_all_groups=True)
            assert (await redrive(on.broker, letters_queue, everywhere)).done == 2

    run(main())


def test_a_full_queue_takes_what_fits_and_the_rest_stays(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue(limits={"max_queue_depth": 6})
            letters_queue = await rejected(on, queue, *[b"%d" % i for i in range(6)])
            await on.put(queue, b"x", b"y")
            said: list[int] = []
            with pytest.raises(QueueFull):
                await redrive(on.broker, letters_queue, None, lambda report: said.append(report.done))
            assert said[-1] == 4
            assert waiting(letters_queue) == 2
            assert await given(on, queue) == [b"x", b"y", b"0", b"1", b"2", b"3"]
            assert (await redrive(on.broker, letters_queue)).done == 2

    run(main())


def test_an_edit_changes_what_is_published_and_the_facts_of_the_move_are_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            consumer = await on.consumer(queue)
            own = encode_user_properties([("colour", "red")])
            await on.broker.publishing.put(queue, Columns.of([b"a"], properties=[own]), on.publisher)
            await on.reject(consumer, *await on.receive(consumer))
            options = RedriveOptions(edit=lambda row: row._replace(value=row.value + b"!"))
            await redrive(on.broker, on.broker.queue("$dlq/q"), options)
            [delivery] = await consumer.receive(10)
            batch = delivery.stored.batch
            properties = batch.properties(0) or b""
            assert batch.value(0) == b"a!"
            assert user_property(properties, b"colour") == b"red"
            assert user_property(properties, REDRIVE_GROUP.encode()) == b"g"
            assert user_property(properties, b"dlq-reason") is None

    run(main())


def test_the_rate_is_kept_by_pauses_between_chunks(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            letters_queue = await rejected(on, await on.queue(), *[b"%d" % i for i in range(10)])
            pauses: list[float] = []

            async def sleep(seconds: float) -> None:
                pauses.append(seconds)

            report = await redrive(on.broker, letters_queue, RedriveOptions(rate=40, sleep=sleep))
            assert report.done == 10
            assert pauses == [0.1, 0.1]
            with pytest.raises(InvalidArgument):
                RedriveOptions(rate=0)

    run(main())


def test_what_comes_back_while_it_runs_is_left_for_the_next_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            letters_queue = await rejected(on, queue, b"a", b"b")
            consumer = await on.consumer(queue)

            async def reject_all(_: float) -> None:
                await on.reject(consumer, *await on.receive(consumer))

            report = await redrive(on.broker, letters_queue, RedriveOptions(rate=1, sleep=reject_all))
            assert report.done == 2
            assert await waiting_values(on, letters_queue) == [b"a"]

    run(main())


def test_two_runs_at_a_time_do_not_take_the_same_letters(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            letters_queue = await rejected(on, queue, b"a", b"b")
            found: list[Report] = []

            async def again(_: float) -> None:
                found.append(await redrive(on.broker, letters_queue))

            assert (await redrive(on.broker, letters_queue, RedriveOptions(rate=1, sleep=again))).done == 2
            assert [report.done for report in found] == [0]
            assert await given(on, queue) == [b"a", b"b"]

    run(main())


def test_a_failed_publish_leaves_the_letters_where_they_are(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            queue = await on.queue()
            letters_queue = await rejected(on, queue, b"a")

            def refuse(_: Row) -> Row:
                raise RuntimeError("not this one")

            with pytest.raises(RuntimeError):
                await redrive(on.broker, letters_queue, RedriveOptions(edit=refuse))
            assert await waiting_values(on, letters_queue) == [b"a"]
            assert await given(on, queue) == []
            assert (await redrive(on.broker, letters_queue)).done == 1

    run(main())


def test_the_group_that_remembers_what_was_redriven_never_expires(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            letters_queue = await rejected(on, await on.queue(), b"a")
            await redrive(on.broker, letters_queue)
            await on.restart()
            letters_queue = on.broker.queue("$dlq/q")
            on.clock.advance(400 * 24 * 3600)
            await on.broker.keep_up(on.broker.now())
            assert REDRIVE in letters_queue.groups
            assert (await redrive(on.broker, letters_queue)).done == 0

    run(main())


def test_letters_of_many_partitions_and_more_than_a_chunk_keep_the_order_of_their_keys(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path, shard=LARGE) as on:
            queue = await on.queue(partitions=3, max_in_flight=10_000)
            consumer = await on.consumer(queue)
            names = [b"k%d" % (i % 7) for i in range(1500)]
            await on.put(queue, *[b"%d" % i for i in range(1500)], keys=names)
            found = await on.receive(consumer, 10_000)
            for partition in queue.units:
                await on.reject(consumer, *[one for one in found if one.partition == partition])
            seen: list[tuple[int, int]] = []
            letters_queue = on.broker.queue("$dlq/q")
            report = await redrive(on.broker, letters_queue, None, lambda now: seen.append((now.done, now.total)))
            assert report.done == report.seen == 1500
            assert seen[-1] == (1500, 1500)
            again = await on.receive(consumer, 10_000)
            assert _by_key(names, [one.value for one in again]) == _by_key(names, [b"%d" % i for i in range(1500)])

    run(main())


def _by_key(names: Sequence[bytes], messages: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for message in messages:
        found.setdefault(names[int(message)], []).append(message)
    return found


def test_queues_for_dead_letters_are_known_by_name_or_because_a_queue_names_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as on:
            named = await on.queue("named", dlq_config={"topic": "$queue/morgue"})
            queue = await on.queue()
            assert dead_letter_queue_of(on.broker, "q") is None
            await on.queue("careless", dlq_config={"enabled": False})
            with pytest.raises(InvalidArgument):
                dead_letter_queue_of(on.broker, "careless")
            await rejected(on, named, b"a")
            await rejected(on, queue, b"b")
            assert [found.name for found in dead_letter_queues(on.broker)] == ["$dlq/q", "morgue"]
            assert dead_letter_queue_of(on.broker, "named") is on.broker.queue("morgue")
            assert dead_letter_queue_of(on.broker, "q.dlq") is on.broker.queue("$dlq/q")
            assert (await redrive(on.broker, on.broker.queue("morgue"))).done == 1
            assert await given(on, named) == [b"a"]

    run(main())


def test_after_a_crash_in_the_middle_each_letter_is_redriven_once(tmp_path: Path) -> None:
    """What a backup finds in the middle of a run is what a crash there leaves."""

    async def main() -> None:
        async with stage(tmp_path / "data") as on:
            letters_queue = await rejected(on, await on.queue(), *[b"%d" % i for i in range(5)])

            async def crash(_: float) -> None:
                if not (tmp_path / "backup").exists():
                    create_backup(tmp_path / "data", tmp_path / "backup", lambda what, done, total: None)

            await redrive(on.broker, letters_queue, RedriveOptions(rate=20, sleep=crash))
        restore_backup(tmp_path / "backup", tmp_path / "restored", lambda what, done, total: None)
        async with stage(tmp_path / "restored") as on:
            letters_queue = on.broker.queue("$dlq/q")
            assert await waiting_values(on, letters_queue) == [b"2", b"3", b"4"]
            assert (await redrive(on.broker, letters_queue)).done == 3
            assert await given(on, on.broker.queue("q")) == [b"0", b"1", b"2", b"3", b"4"]

    run(main())
