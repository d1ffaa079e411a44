"""A broker whose system calls fail: every kind that storage makes, with every error it can meet, then a restart or a
kill. What was acknowledged, settled and declared is counted."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import mmap
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.rounds import Report
from tests.support.broker import got

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.core.errors import PenstockError
from penstock.log import disk
from penstock.log.columns import Columns
from penstock.log.journal.commit import CommitOptions
from penstock.log.journal.journal import JournalOptions
from penstock.log.options import ShardOptions
from penstock.log.segments.keeper import KeeperOptions

OPTIONS = BrokerOptions(
    ShardOptions(
        journal=JournalOptions(256 << 10, 1 << 20, 64 << 10),
        keeper=KeeperOptions(
            flush_bytes=1, flush_s=0.005, checkpoint_bytes=8 << 10, max_open_files=4, sync_together_files=6
        ),
        commit=CommitOptions(),
        disk_reserve_bytes=0,
        housekeeping_s=0.05,
    )
)
SHORT, NO_MEMORY = 0, -1
CODES = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.EDQUOT, errno.ENOMEM, NO_MEMORY)
CALLS = (
    *("open", "pwritev", "pwrite", "pread", "fdatasync", "fsync", "ftruncate", "fstat", "statvfs", "listdir"),
    *("replace", "link", "unlink", "mkdir", "rmdir", "mmap", "_syncfs"),
)
AT_ONCE = ("open", "mkdir", "pwritev", "fstat")
OF_ANY_FILE = ("open", "pwritev", "pwrite", "pread", "fstat", "fdatasync", "mmap")
PATIENCE_S = 3.0


@dataclass
class Faults:
    """Of the system calls below a directory. `left` of those that are due fail."""

    root: str
    call: str
    code: int
    part: str
    after: int
    left: int
    is_armed: bool = True
    """from the opening on; otherwise when it is done"""
    happened: int = 0

    def is_due(self, call: str, path: str) -> bool:
        if (
            not self.is_armed
            or call != self.call
            or not path.startswith(self.root)
            or self.part not in path
            or not self.left
        ):
            return False
        self.after -= 1
        if self.after >= 0:
            return False
        self.left -= 1
        self.happened += 1
        return True

    def name_of(self, target: object) -> str:
        if isinstance(target, int):
            try:
                return os.readlink(f"/proc/self/fd/{target}")  # noqa: PTH115  # it is patched beside
            except OSError:
                return ""
        return os.fspath(target) if isinstance(target, str | Path) else ""


@contextmanager
def failing(faults: Faults) -> Iterator[None]:
    """Calls of this process."""
    kept: list[tuple[Any, str, Any]] = [(disk, "at_once", vars(disk)["at_once"])]
    if faults.call in AT_ONCE and vars(disk)["at_once"] is not None:
        vars(disk)["at_once"] = PartlyAtOnce(faults, vars(disk)["at_once"])
    for call in CALLS:
        module = mmap if call == "mmap" else disk if call == "_syncfs" else os
        kept.append((module, call, getattr(module, call)))
        setattr(module, call, _failing(faults, call, kept[-1][2]))
    try:
        yield
    finally:
        for module, call, real in kept:
            setattr(module, call, real)


def _failing(faults: Faults, call: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def called(target: Any, *arguments: Any, **named: Any) -> Any:
        if call == faults.call and faults.is_due(call, faults.name_of(target)):
            if faults.code == SHORT:
                return _short(real, call, target, *arguments)
            if call == "_syncfs":
                ctypes.set_errno(max(faults.code, errno.ENOMEM))
                return -1
            if faults.code == NO_MEMORY:
                raise MemoryError  # as Python does when there is none for the answer
            raise OSError(faults.code, os.strerror(faults.code), faults.name_of(target))
        return real(target, *arguments, **named)

    return called


class PartlyAtOnce:
    """What fails of many calls at once is left, as when the system refuses it; the rest is done as it always is."""

    def __init__(self, faults: Faults, real: Any) -> None:
        self._faults, self._real = faults, real

    def open_all(self, root: int, paths: list[bytes], makes: bytes, *modes: int) -> list[int]:
        place = Path(self._faults.name_of(root))
        return [
            -1
            if self._is_refused(place / path.decode())
            else self._real.open_all(root, [path], bytes([made]), *modes)[0]
            for path, made in zip(paths, makes, strict=True)
        ]

    def _is_refused(self, path: Path) -> bool:
        if self._faults.is_due("open", str(path)):
            return True
        return not path.parent.is_dir() and self._faults.is_due("mkdir", str(path.parent))

    def write_all(self, descriptors: list[int], positions: list[int], buffers: list[list[Any]]) -> list[bool]:
        return [self._write(*each) for each in zip(descriptors, positions, buffers, strict=True)]

    def _write(self, descriptor: int, position: int, buffers: list[Any]) -> bool:
        name = self._faults.name_of(descriptor)
        if position and self._faults.is_due("fstat", name):
            return False
        if self._faults.is_due("pwritev", name):
            if self._faults.code == SHORT:
                _short(os.pwritev, "pwritev", descriptor, buffers, position)
            return False
        return bool(self._real.write_all([descriptor], [position], [buffers])[0])


def _short(real: Callable[..., Any], call: str, target: int, data: Any, position: int) -> int:
    """Half of the write, as a disk does that is about to be full."""
    whole = b"".join(data) if call == "pwritev" else bytes(data)
    half = whole[: max(1, len(whole) // 2)]
    return int(real(target, [half] if call == "pwritev" else half, position))


@dataclass
class Books:
    """What the broker has said, over all its lives."""

    acknowledged: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    settling: set[int] = field(default_factory=set)
    """sent, and not answered: they may come again or not"""
    declared: dict[str, list[int]] = field(default_factory=dict)
    """queue -> the settings that it may have, of which the last is the one that was asked for last; none if it is
    deleted, or may be"""

    def state(self) -> dict[str, object]:
        sets = {name: sorted(getattr(self, name)) for name in ("acknowledged", "sent", "settled", "settling")}
        return {**sets, "declared": self.declared}

    def become(self, state: dict[str, Any]) -> None:
        for name in ("acknowledged", "sent", "settled", "settling"):
            setattr(self, name, set(state[name]))
        self.declared = state["declared"]

    def check_declared(self, found: dict[str, int]) -> None:
        for name, may_be in self.declared.items():
            assert found.get(name, 0) in may_be, f"queue {name} has {found.get(name)}, not one of {may_be}"
            self.declared[name] = [found.get(name, 0)]

    def check(self, found: list[int]) -> None:
        there = set(found)
        missing = self.acknowledged - there - self.settled - self.settling
        assert not missing, f"{len(missing)} acknowledged messages are missing, the first is {min(missing)}"
        back = there & self.settled
        assert not back, f"{len(back)} settled messages came again, the first is {min(back)}"
        assert there <= self.sent, "messages that nobody sent"


async def _live(
    directory: Path,
    books: Books,
    rng: random.Random,
    faults: Faults | None,
    count: int,
    killed: Callable[[str], None] | None = None,
) -> str:
    """Publish, settle and declare until it is enough, or the broker gives up; what it said of that. Faults are over
    when it is closed, unless it is killed instead."""
    try:
        broker = await Broker.open(directory, OPTIONS)
    except (PenstockError, OSError, MemoryError) as error:
        return f"opening: {type(error).__name__}: {error}"
    said = ""
    try:
        if faults is not None:
            faults.is_armed = True
        async with asyncio.timeout(PATIENCE_S):
            await _work(broker, books, rng, count)
    except (PenstockError, TimeoutError, OSError, MemoryError) as error:
        said = f"{type(error).__name__}: {error}"
    if killed is not None:
        killed(said)
    if faults is not None:
        faults.left = 0
    await broker.close()
    return said


def _live_and_die(directory: Path, books: Books, rng: random.Random, faults: Faults, count: int) -> str:
    """As _live(), in a process that is killed with its faults in force, and says before what it was told."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:

        def killed(said: str) -> None:
            os.write(write, json.dumps({"said": said, "books": books.state(), "happened": faults.happened}).encode())
            os.kill(os.getpid(), signal.SIGKILL)

        try:
            killed(asyncio.run(_live(directory, books, rng, faults, count, killed)))
        finally:
            os._exit(1)
    os.close(write)
    with open(read, "rb") as pipe:  # noqa: PTH123  # a descriptor
        data = pipe.read()
    os.waitpid(child, 0)
    told = json.loads(data)
    books.become(told["books"])
    faults.happened = told["happened"]
    return f"killed; {told['said']}"


async def _work(broker: Broker, books: Books, rng: random.Random, count: int) -> None:
    queue = await broker.declare({"name": "q"}, if_absent=True)
    consumer, publisher = broker.join(await broker.group(queue, "g")), broker.publisher()
    for _ in range(count):
        number = len(books.sent)
        books.sent.add(number)
        await broker.publishing.put(queue, Columns.of([b"%d" % number + b"x" * rng.choice((0, 3000))]), publisher)
        books.acknowledged.add(number)
        if rng.random() < 0.3:
            for delivery in await consumer.receive(5):
                await _settle(broker, delivery, books)
        if rng.random() < 0.15:
            await _declare(broker, books, rng)


async def _declare(broker: Broker, books: Books, rng: random.Random) -> None:
    """A queue more, or another setting of one, or none of it any more."""
    name, wanted = f"d{rng.randrange(6)}", rng.randrange(1, 1000)
    queue = next((each for each in broker.queues if each.name == name), None)
    before = books.declared.get(name, [0])
    if queue is None:
        books.declared[name] = [*before, wanted]
        await broker.declare({"name": name, "partitions": 1, "max_in_flight": wanted})
    elif rng.random() < 0.3:
        wanted = 0
        books.declared[name] = [*before, wanted]
        await broker.declaring.delete(queue)
    else:
        books.declared[name] = [*before, wanted]
        await broker.declaring.change(queue, {"max_in_flight": wanted})
    books.declared[name] = [wanted]


async def _settle(broker: Broker, delivery: Delivery, books: Books) -> None:
    numbers = {number_of(message.value) for message in got([delivery])}
    books.settling |= numbers
    await broker.settling.ack(Held(delivery))
    books.settling -= numbers
    books.settled |= numbers


def number_of(value: bytes) -> int:
    return int(value.rstrip(b"x"))


async def _found(directory: Path, books: Books) -> list[int]:
    """What is handed out after a restart, when nothing fails any more."""
    broker = await Broker.open(directory, OPTIONS)
    try:
        assert not broker.shard.faulty_logs, [str(log.fault) for log in broker.shard.faulty_logs]
        books.check_declared({queue.name: queue.settings.max_in_flight for queue in broker.queues})
        queue = await broker.declare({"name": "q"}, if_absent=True)
        consumer = broker.join(await broker.group(queue, "g"), prefetch=1_000_000)
        found: list[int] = []
        while some := await consumer.receive(10_000):
            found += [number_of(message.value) for message in got(some)]
        return found
    finally:
        await broker.close()


def _drawn(directory: Path, rng: random.Random) -> Faults:
    call = rng.choice(CALLS)
    code = rng.choice((*CODES, SHORT)) if call in ("pwritev", "pwrite") else rng.choice(CODES)
    part = rng.choice(("", "/logs/", "/journal/", ".seg", "checkpoint")) if call in OF_ANY_FILE else ""
    after, left = rng.choice((0, 0, 3, 20)), rng.choice((1, 3, 10, 1000))
    return Faults(str(directory), call, code, part, after, left, is_armed=rng.random() < 0.2)


def storage_fault_rounds(place: Path, seed: int, count: int, report: Report) -> int:
    """How many faults there were."""
    rng, books, happened = random.Random(seed), Books(), 0
    directory = place / "data"
    asyncio.run(_live(directory, books, rng, None, 20))
    for number in range(count):
        faults = _drawn(directory, rng)
        with failing(faults):
            if rng.random() < 0.4:
                said = _live_and_die(directory, books, rng, faults, rng.choice((10, 60)))
            else:
                said = asyncio.run(_live(directory, books, rng, faults, rng.choice((10, 60))))
        happened += faults.happened
        report(f"round {number}: {faults.call} {faults.part!r} errno {faults.code}, {faults.happened} times: {said}")
        books.check(asyncio.run(_found(directory, books)))
    return happened
