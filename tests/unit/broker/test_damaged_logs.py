"""A damaged batch of what a broker needs to start: it starts, with what is whole, and says what is not."""

from __future__ import annotations

import asyncio
import errno
import shutil
from array import array
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.support.broker import Stage, begin_to_delete, retries, stage
from tests.support.loop import run
from tests.support.sessions import session_stage

from penstock.broker.auth.store import Store, User, key_of
from penstock.broker.queues import snapshots
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import SessionOptions
from penstock.core.errors import LogDamaged
from penstock.log.batch import read_header
from penstock.log.columns import Columns
from penstock.log.partition import Log
from penstock.log.upkeep.faults import SyncFailed

Work = Callable[[Stage], Awaitable[None]]


def spoil(directory: Path, log: str, batch: int | None = None, mask: int = 1) -> None:
    """Change a bit of a batch of the log, the last one if none is named; the journal cannot help."""
    shutil.rmtree(directory / "journal", ignore_errors=True)
    [path] = sorted((directory / "logs").glob(f"{log}@*/*.seg"))[-1:]
    data = bytearray(path.read_bytes())
    places, at = [], 0
    while at < len(data):
        places.append(at)
        at += read_header(data, at).total_bytes
    data[places[-1 if batch is None else batch] + 70] ^= mask
    path.write_bytes(data)


async def stop(s: Stage, log: Log) -> None:
    """Its files cannot be synced until the directory is opened again."""
    files = s.broker.shard._engine.keeper.files
    sync = files.sync

    def fail(path: str) -> None:
        if f"@{log.number}/" in path:
            raise SyncFailed(errno.EIO, "I/O error", path)
        sync(path)

    files.sync = fail  # type: ignore[method-assign]
    await s.broker.shard.checkpoint()
    while log.fault is None:  # noqa: ASYNC110  # a thread tells the loop
        await asyncio.sleep(0.01)


async def declared(s: Stage) -> None:
    for name in ("a", "b", "c"):
        await s.broker.group(await s.queue(name), "g")


@pytest.mark.parametrize("copy", ["%40configuration", "%40configuration.2"])
def test_one_copy_of_the_configuration_is_enough_and_the_other_is_written_anew(
    copy: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def first() -> None:
        async with stage(tmp_path) as s:
            await declared(s)

    async def again() -> None:
        async with stage(tmp_path) as s:
            assert {queue.name for queue in s.broker.queues} >= {"a", "b", "c"}
            assert [str(key) for key in s.broker.queue("b").groups] == ["g"]

    run(first())
    spoil(tmp_path, copy, 1)
    run(again())
    assert "written anew from its copy" in caplog.text
    caplog.clear()
    run(again())
    assert "written anew" not in caplog.text


@pytest.mark.parametrize("number", [0, 1])
def test_what_was_declared_while_one_copy_was_stopped_is_there_after_a_restart(number: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            gone = await s.queue("before")
            copied = s.broker.declaring._configuration._copied
            await stop(s, (copied.log, copied.copy)[number])
            await s.put(await s.queue("after"), b"acknowledged")
            await s.broker.declaring.delete(gone)
            for _ in range(2):
                await s.restart()
                assert {queue.name for queue in s.broker.queues} == {"after"}
                assert s.broker.queue("after").units[0].data.end == 1

    run(main())


@pytest.mark.parametrize("number", [0, 1])
def test_a_user_who_was_removed_while_one_copy_was_stopped_does_not_come_back(number: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            store = await Store.open(s.broker.shard)
            await store.write([(key_of(user := User(name)), user) for name in ("ada", "bob")])
            await stop(s, (store._copied.log, store._copied.copy)[number])
            await store.write([(key_of(User("ada")), None)])
            for _ in range(2):
                await s.restart()
                assert list((await Store.open(s.broker.shard)).read().users) == ["bob"]

    run(main())


def test_a_copy_that_was_half_written_anew_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken_off(*_: object) -> None:
        raise LogDamaged("@auth", "", 0, "broken off")

    async def main() -> None:
        async with stage(tmp_path) as s:
            store = await Store.open(s.broker.shard)
            await store.write([(key_of(user := User(name)), user) for name in ("ada", "bob")])
            await stop(s, store._copied.log)
            await store.write([(key_of(User("ada")), None)])
            await s.restart()
            with monkeypatch.context() as patch, pytest.raises(LogDamaged):
                patch.setattr(s.broker.shard, "trim", broken_off)
                await Store.open(s.broker.shard)
            await s.restart()
            assert list((await Store.open(s.broker.shard)).read().users) == ["bob"]

    run(main())


def test_a_broker_starts_with_what_is_whole_of_two_damaged_copies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbers: list[int] = []

    async def first() -> None:
        async with stage(tmp_path) as s:
            await declared(s)
            numbers.append(s.group_of("c", "g").number)

    async def again() -> None:
        async with stage(tmp_path) as s:
            assert "a" in {queue.name for queue in s.broker.queues}
            queue = await s.queue("new")
            group = await s.broker.group(queue, "g")
            assert group.number > numbers[0] + 1000

    run(first())
    for copy in ("%40configuration", "%40configuration.2"):
        spoil(tmp_path, copy)
    run(again())
    assert "records are lost" in caplog.text


def test_users_and_rules_are_there_twice_and_never_in_part(tmp_path: Path) -> None:
    async def first() -> None:
        async with stage(tmp_path) as s:
            store = await Store.open(s.broker.shard)
            for name in ("ada", "bob"):
                await store.write([(key_of(user := User(name)), user)])

    async def again() -> list[str]:
        async with stage(tmp_path) as s:
            return list((await Store.open(s.broker.shard)).read().users)

    run(first())
    spoil(tmp_path, "%40auth")
    found: list[list[str]] = []

    async def look() -> None:
        found.append(await again())

    run(look())
    assert found == [["ada", "bob"]]
    for copy in ("%40auth", "%40auth.2"):
        spoil(tmp_path, copy)
    with pytest.raises(LogDamaged):
        run(look())


def test_a_damaged_batch_of_retained_messages_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main(check: Callable[[Retained], Awaitable[None]]) -> None:
        async with stage(tmp_path) as s:
            retained = await Retained.open(s.broker.shard)
            await check(retained)
            retained.close()

    async def fill(retained: Retained) -> None:
        space = await retained.space()
        for topic in (b"a", b"b", b"c"):
            columns = Columns.of([b"v"], topics=[topic])
            await retained._shard.commit(space.parts(columns, array("i", [0])))

    async def look(retained: Retained) -> None:
        space = await retained.space()
        assert [space.find(topic) >= 0 for topic in (b"a", b"b", b"c")] == [True, False, True]
        assert len(retained._shard.damages) == 1

    run(main(fill))
    spoil(tmp_path, "%40retained/default", 1)
    run(main(look))
    assert "damaged records passed over" in caplog.text


async def _with_snapshots(s: Stage, count: int) -> None:
    queue = await s.queue(retry_policy=retries(20, "1h"))
    consumer = await s.consumer(queue)
    for number in range(count):
        await s.put(queue, *[b"v"] * 4)
        for message in await s.receive(consumer, 4):
            await s.ack(consumer, message)
        unit = queue.units[0]
        await snapshots.write(s.broker.shard, queue, unit, s.clock.now_ms() + number)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_damaged_snapshot_is_replaced_by_an_older_one_or_the_whole_state_log(tmp_path: Path, count: int) -> None:
    async def first() -> None:
        async with stage(tmp_path) as s:
            await _with_snapshots(s, count)

    async def again() -> None:
        async with stage(tmp_path) as s:
            queue = s.broker.queue("q")
            assert len(s.broker.shard.damages) == 1
            consumer = await s.consumer(queue)
            assert consumer.group.cursor(queue.units[0]).window.floor == 4 * count
            await asyncio.sleep(0)

    run(first())
    spoil(tmp_path, "default/q/0/snapshots")
    run(again())


def test_a_damaged_batch_of_settlements_does_not_keep_other_queues_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def first() -> None:
        async with stage(tmp_path) as s:
            for name in ("q", "other"):
                queue = await s.queue(name)
                consumer = await s.consumer(queue)
                await s.put(queue, b"1", b"2")
                [one, _] = await s.receive(consumer, 2)
                await s.ack(consumer, one)

    async def again() -> None:
        async with stage(tmp_path) as s:
            assert s.group_of("other").cursor(s.broker.queue("other").units[0]).window.floor == 1
            assert s.broker.shard.damages

    run(first())
    spoil(tmp_path, "default/q/0/state")
    run(again())
    assert "default/q/0/state" in caplog.text


def gone(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [gone, cut, flipped])
def test_messages_in_flight_that_are_damaged_keep_no_other_queue_from_starting(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    async def first() -> None:
        async with stage(tmp_path) as s:
            for name in ("q", "other"):
                queue = await s.queue(name)
                consumer = await s.consumer(queue)
                await s.put(queue, b"1")
                await s.put(queue, b"2")
                await s.receive(consumer, 2)

    async def again() -> None:
        async with stage(tmp_path) as s:
            assert [message.value for message in await s.receive(await s.consumer(s.broker.queue("other")))] == [
                b"1",
                b"2",
            ]
            assert any("default/q/0" in damage for damage in s.broker.shard.damages)
            with pytest.raises(LogDamaged):
                await s.receive(await s.consumer(s.broker.queue("q")))

    run(first())
    shutil.rmtree(tmp_path / "journal")
    [path] = (tmp_path / "logs").glob("default/q/0@*/*.seg")
    harm(path)
    run(again())


def test_keys_of_messages_in_flight_are_known_past_damage(tmp_path: Path) -> None:
    async def first() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            for key in (b"a", b"b", b"c"):
                await s.put(queue, b"v", keys=[key])
            await s.receive(consumer)

    async def again() -> None:
        async with stage(tmp_path) as s:
            window = s.group_of("q").cursor(s.broker.queue("q").units[0]).window
            entries = [window.entry(offset) for offset in range(3)]
            assert [entry is not None and entry.key != 0 for entry in entries] == [True, False, True]

    run(first())
    spoil(tmp_path, "default/q/0", 1)
    run(again())


@pytest.mark.parametrize("harm", [gone, cut, flipped])
@pytest.mark.parametrize("log", ["state", "snapshots", "messages/0"])
def test_a_damaged_log_of_the_sessions_does_not_keep_the_broker_from_starting(
    log: str, harm: Callable[[Path], None], tmp_path: Path
) -> None:
    options = SessionOptions(message_logs=1)

    async def first() -> None:
        async with session_stage(tmp_path, options) as s:
            one = await s.begin("one")
            await s.send(b"1", b"2", to=[one])
            await s.sessions._snapshots.write(s.clock.now_ms())
            await s.begin("other")

    async def again() -> None:
        async with session_stage(tmp_path, options) as s:
            if harm is not flipped:  # behind a snapshot nobody looks, until it is asked for
                assert [unquote(log.name) for log in s.shard.faulty_logs] == [f"@sessions/{log}"]
            assert not any(session.is_connected for session in s.sessions)

    run(first())
    shutil.rmtree(tmp_path / "0" / "journal")
    [path] = (tmp_path / "0" / "logs").glob(f"%40sessions/{log}@*/*.seg")
    harm(path)
    run(again())


def test_messages_of_a_session_that_was_lost_to_damage_reach_nobody_else(tmp_path: Path) -> None:
    async def first() -> None:
        async with session_stage(tmp_path) as s:
            await s.send(b"private", to=[await s.begin("one")])

    async def again() -> None:
        async with session_stage(tmp_path) as s:
            assert s.sessions.find("one") is None
            other = await s.begin("other")
            await s.restart()
            assert s.find("other").number == other.number
            assert s.find("other").queued == 0

    run(first())
    spoil(tmp_path / "0", "%40sessions/state", 0)
    run(again())


@pytest.mark.parametrize("harm", [gone, cut, flipped])
def test_damaged_retained_messages_or_a_damaged_book_do_not_keep_the_broker_from_starting(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    async def first() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.broker.staging.stage(queue, Columns.of([b"v"]), writer="w")
            retained = await Retained.open(s.broker.shard)
            space = await retained.space()
            await s.broker.shard.commit(space.parts(Columns.of([b"v"], topics=[b"a"]), array("i", [0])))
            retained.close()

    async def again() -> None:
        async with stage(tmp_path) as s:
            (await Retained.open(s.broker.shard)).close()
            told = unquote(" ".join(s.broker.shard.damages))
            assert "@retained/default" in told
            assert "@staging/book" in told
            await s.put(s.broker.queue("q"), b"1")

    run(first())
    shutil.rmtree(tmp_path / "journal")
    for log in ("%40retained/default", "%40staging/book"):
        [path] = (tmp_path / "logs").glob(f"{log}@*/*.seg")
        harm(path)
    run(again())


def test_a_queue_that_was_being_deleted_does_not_keep_a_broker_from_starting_that_can_note_nothing(
    tmp_path: Path,
) -> None:
    async def first() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.put(queue, b"1")
            await begin_to_delete(s, queue)
            await s.queue("other")

    async def again() -> None:
        async with stage(tmp_path) as s:
            assert "q" not in {queue.name for queue in s.broker.queues}

    run(first())
    shutil.rmtree(tmp_path / "journal")
    for path in (tmp_path / "logs").glob("%40configuration*/*.seg"):
        with path.open("ab") as file:
            file.truncate(path.stat().st_size - 1)
    run(again())


def test_what_a_stopped_log_has_aside_is_passed_over_and_told(tmp_path: Path) -> None:
    """The state log of a queue, of which what is aside cannot be put back: messages come again."""

    async def first() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            consumer = await s.consumer(queue)
            await s.put(queue, b"1", b"2")
            [one, _] = await s.receive(consumer, 2)
            await s.ack(consumer, one)
            await stop(s, queue.units[0].state_log)

    async def again() -> None:
        async with stage(tmp_path) as s:
            assert any("default/q/0/state" in damage for damage in s.broker.shard.damages)
            assert [log.name for log in s.broker.shard.faulty_logs] == ["default/q/0/state"]

    run(first())
    for path in (tmp_path / "aside").iterdir():
        path.unlink()
    run(again())
