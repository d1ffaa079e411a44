"""How much memory and how many files sessions and retained messages take: `python -m tests.soak_stores`.

100,000 sessions that are away, with 10 messages of 256 bytes each, must fit 500 MiB and 100 files; 1,000,000 retained
messages 400 MiB. Both are looked at after they came and after the directory was opened again; then a server opens a
directory with both, with all that it has beside them. `--scale 0.01` is a hundredth of it."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from array import array
from collections.abc import Callable, Coroutine
from multiprocessing import get_context
from pathlib import Path

from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.records import Subscription
from penstock.broker.sessions.session import Session
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.sessions.targets import Targets
from penstock.codecs.mqtt.kinds import Version
from penstock.core.clock import SystemClock
from penstock.log.columns import Columns
from penstock.log.options import ShardOptions
from penstock.log.shard import Shard
from tests.support.live_server import live_server
from tests.support.mqtt_client import MqttClient

SESSIONS, MESSAGES_EACH, RETAINED = 100_000, 10, 1_000_000
SESSIONS_MIB, RETAINED_MIB, MOST_FILES = 500, 400, 100
# A process with nothing in it may take this much.
EMPTY_MIB = 80
VALUE = b"v" * 256


def now() -> int:
    return SystemClock().now_ms()


async def fill_sessions(directory: Path, count: int) -> None:
    async with await Shard.open(directory, ShardOptions(disk_reserve_bytes=0)) as shard:
        sessions = await Sessions.open(shard, now)
        for first in range(0, count, 500):
            await asyncio.gather(*(begin(sessions, number) for number in range(first, min(first + 500, count))))
        everybody = list(sessions)
        for number in range(MESSAGES_EACH):
            for first in range(0, count, 500):
                await send(shard, sessions, everybody[first : first + 500], number)
            await sessions.keep_up(now())
        say("sessions filled", directory, SESSIONS_MIB * count // SESSIONS)
        assert sessions.queued_messages == count * MESSAGES_EACH
        await sessions.close()


async def begin(sessions: Sessions, number: int) -> None:
    subscriptions = {f"devices/{number}/#": Subscription(1)}
    session = await sessions.begin(f"device-{number:08}", owner="devices", expiry_s=86400, subscriptions=subscriptions)
    await sessions.disconnected(session, keeps_will=False)


async def send(shard: Shard, sessions: Sessions, some: list[Session], number: int) -> None:
    targets = Targets()
    topics = [b"devices/%d/%d" % (session.number, number) for session in some]
    for row, session in enumerate(some):
        targets.add(session, array("i", [row]), 1)
    accepted = sessions.accept(Columns.of([VALUE] * len(some), topics=topics), targets)
    await shard.commit(accepted.parts)
    accepted.close()


async def open_sessions(directory: Path, count: int) -> None:
    async with await Shard.open(directory, ShardOptions(disk_reserve_bytes=0)) as shard:
        begun = time.monotonic()
        sessions = await Sessions.open(shard, now)
        print(f"  opened in {time.monotonic() - begun:.1f} s")
        assert sessions.queued_messages == count * MESSAGES_EACH
        session = sessions.find(f"device-{count // 2:08}")
        assert session is not None
        found = 0
        while taken := await session.take(100, 1 << 20):
            found += sum(len(one.rows) for one in taken)
        assert found == MESSAGES_EACH
        say("sessions opened again", directory, SESSIONS_MIB * count // SESSIONS)
        await sessions.close()


async def fill_retained(directory: Path, count: int) -> None:
    async with await Shard.open(directory, ShardOptions(disk_reserve_bytes=0)) as shard:
        retained = await Retained.open(shard)
        space = await retained.space()
        for first in range(0, count, 1000):
            topics = [b"site/%d/device/%d/state" % (n % 100, n) for n in range(first, min(first + 1000, count))]
            columns = Columns.of([VALUE] * len(topics), topics=topics)
            await shard.commit(space.parts(columns, array("i", range(len(topics)))))
        assert space.count == count
        await read_retained(directory, retained, "retained filled", count)


async def open_retained(directory: Path, count: int) -> None:
    async with await Shard.open(directory, ShardOptions(disk_reserve_bytes=0)) as shard:
        begun = time.monotonic()
        retained = await Retained.open(shard)
        print(f"  opened in {time.monotonic() - begun:.1f} s")
        await read_retained(directory, retained, "retained opened again", count)


async def read_retained(directory: Path, retained: Retained, what: str, count: int) -> None:
    space = await retained.space()
    begun = time.monotonic()
    matched = await space.matched(b"#", count)
    seconds = time.monotonic() - begun
    found = 0
    async for _, rows in space.read(matched):
        found += len(rows)
    read_s, index_mib = time.monotonic() - begun - seconds, space.index_bytes >> 20
    print(f"  matched {len(matched)} in {seconds:.2f} s, read in {read_s:.2f} s; index {index_mib} MiB")
    assert found == count
    say(what, directory, RETAINED_MIB * count // RETAINED)
    retained.close()


def serve_both(place: Path, sessions: int, retained: int) -> None:
    """A server over a directory that has both: how long it takes to open, what it takes, and that it is all there."""
    for fill, count in ((fill_sessions, sessions), (fill_retained, retained)):
        alone(fill, place / "data", count)
    begun = time.monotonic()
    with live_server(place, ["storage.disk_reserve=0"]) as server:
        print(f"  a server with {sessions} sessions and {retained} retained: ready in {time.monotonic() - begun:.1f} s")
        device = MqttClient(server.address, Version.V3_1_1, f"device-{sessions // 2:08}")
        assert device.connect(clean=False).session_present
        for _ in range(MESSAGES_EACH):
            assert device.expect_message().payload == VALUE
        watcher = MqttClient(server.address, Version.V5, "watcher")
        watcher.connect()
        watcher.subscribe("site/7/device/7/state")
        assert watcher.expect_message().payload == VALUE
        limit_mib = (SESSIONS_MIB * sessions // SESSIONS) + (RETAINED_MIB * retained // RETAINED)
        say("a server with both", place / "data", limit_mib, server.process.pid)
        for client in (device, watcher):
            client.close()


def say(what: str, directory: Path, limit_mib: int, pid: int | str = "self") -> None:
    """Pages of segment files that are mapped are the system's, which takes them back when it needs them."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    own_mib, mapped_mib = (int(status[name].split()[0]) >> 10 for name in ("RssAnon", "RssFile"))
    limit_mib += EMPTY_MIB * (limit_mib < min(SESSIONS_MIB, RETAINED_MIB))
    files = sum(path.is_file() for path in directory.rglob("*"))
    print(f"{what}: {own_mib} MiB of {limit_mib} (and {mapped_mib} mapped), {files} files of {MOST_FILES}", flush=True)
    assert own_mib < limit_mib and files < MOST_FILES


def alone(main: Callable[[Path, int], Coroutine[None, None, None]], directory: Path, count: int) -> None:
    """In a process of its own, whose memory is that of this and nothing else."""
    process = get_context("spawn").Process(target=run, args=(main, directory, count))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def run(main: Callable[[Path, int], Coroutine[None, None, None]], directory: Path, count: int) -> None:
    asyncio.run(main(directory, count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    scale = parser.parse_args().scale
    with tempfile.TemporaryDirectory() as place:
        for fill, reopen, count in (
            (fill_sessions, open_sessions, int(SESSIONS * scale)),
            (fill_retained, open_retained, int(RETAINED * scale)),
        ):
            directory = Path(place) / fill.__name__
            alone(fill, directory, count)
            alone(reopen, directory, count)
            shutil.rmtree(directory)
        both = Path(place) / "server"
        both.mkdir()
        serve_both(both, int(SESSIONS * scale), int(RETAINED * scale))


if __name__ == "__main__":
    main()
