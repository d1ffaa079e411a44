"""What a writer under fire has told: commits begun, commits acknowledged. And whether a directory keeps those
promises."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from tests.support.loop import run as run_loop

from penstock.core.errors import PenstockError
from penstock.core.types import Durability
from penstock.log.batch import Batch
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.reading.bounds import OFFSET_GAP
from penstock.log.shard import Shard


class Opening(msgspec.Struct, frozen=True, tag=True):
    run: int


class Opened(msgspec.Struct, frozen=True, tag=True):
    run: int
    numbers: dict[str, int]


class Begun(msgspec.Struct, frozen=True, tag=True):
    """Before the commit is staged: (log, records) of each part."""

    run: int
    writer: int
    number: int
    level: Durability
    parts: list[tuple[str, int]]

    @property
    def id(self) -> tuple[int, int, int]:
        return self.run, self.writer, self.number


class Acked(msgspec.Struct, frozen=True, tag=True):
    """After it was acknowledged: the first offset of each part."""

    run: int
    writer: int
    number: int
    offsets: list[int]

    @property
    def id(self) -> tuple[int, int, int]:
        return self.run, self.writer, self.number


class Refused(msgspec.Struct, frozen=True, tag=True):
    run: int
    writer: int
    number: int
    code: str
    text: str


class Trimming(msgspec.Struct, frozen=True, tag=True):
    run: int
    log: str
    start: int


class Trimmed(msgspec.Struct, frozen=True, tag=True):
    run: int
    log: str
    start: int


Event = Opening | Opened | Begun | Acked | Refused | Trimming | Trimmed
EventId = tuple[int, int, int]
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode_event(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def read_events(path: Path) -> list[Event]:
    """The last line may be cut by the death of its writer."""
    return decode_events(path.read_bytes())


def decode_events(data: bytes) -> list[Event]:
    return [_decoder.decode(line) for line in data.split(b"\n")[:-1]]


def value_of(commit: EventId, part: int, row: int) -> bytes:
    """What the writer puts there: its own name, then bytes that only this name gives."""
    label = b"%d.%d.%d.%d.%d " % (*commit, part, row)
    rng = random.Random(label)
    return label + rng.randbytes(int(4 ** rng.uniform(0, 5)))


def name_of(value: bytes) -> tuple[EventId, int, int]:
    run, writer, number, part, row = map(int, value.split(b" ", 1)[0].split(b"."))
    return (run, writer, number), part, row


@dataclass
class Contents:
    """A log as it was read back."""

    start: int
    end: int
    durability: Durability
    records: dict[int, bytes]
    fault: PenstockError | None = None


def read_back(directory: Path, options: ShardOptions) -> dict[str, Contents]:
    """Recover the directory, read every log whole, close it."""

    async def main() -> dict[str, Contents]:
        async with await Shard.open(directory, options) as shard:
            return {log.name: _contents(shard, log) for log in shard.logs if log.number != 0}

    return run_loop(main())


def _contents(shard: Shard, log: Log) -> Contents:
    records: dict[int, bytes] = {}
    for data in shard.reader.batches(log, log.start):
        for row in Batch.parse(data):
            if row.offset >= log.start:
                assert row.offset not in records, f"offset {row.offset} of {log.name} twice"
                records[row.offset] = row.value
    return Contents(log.start, log.end, log.settings.durability, records, log.fault)


class BrokenPromise(AssertionError):
    pass


@dataclass
class Promises:
    """Checks a directory after each crash against all that was told until then."""

    survives: Durability
    """the weakest durability that must survive this kind of crash"""
    kept: dict[str, Contents] = field(default_factory=dict)
    """as the last check found them: recovered once, never lost again"""
    named: dict[tuple[str, int], EventId] = field(default_factory=dict)
    """which commit was acknowledged at an offset, also of records that were allowed to go"""
    checked_events: int = 0
    acknowledged: int = 0

    def check(self, events: list[Event], found: dict[str, Contents]) -> None:
        fresh, self.checked_events = events[self.checked_events :], len(events)
        begun = {event.id: event for event in fresh if isinstance(event, Begun)}
        acked = {event.id: event for event in fresh if isinstance(event, Acked)}
        for contents in found.values():
            _require(contents.fault is None, f"{contents.fault}")
        told = {log for event in begun.values() if event.id in acked for log, _ in event.parts} | set(self.kept)
        _require(told <= set(found), f"logs {sorted(told - set(found))} are gone")
        self._check_bounds(fresh, found)
        self._check_names(begun, acked)
        self._check_kept(found)
        self._check_acknowledged(begun, acked, found)
        self._check_whole(begun, acked, found)
        for name, contents in found.items():
            _check_no_holes(name, contents)
        self.kept = found
        self.acknowledged += len(acked)

    def _check_bounds(self, events: list[Event], found: dict[str, Contents]) -> None:
        wanted: dict[str, int] = {}
        for event in events:
            if isinstance(event, Trimming):
                wanted[event.log] = event.start
            if isinstance(event, Trimmed):
                start = found[event.log].start
                _require(start >= event.start, f"{event.log} starts at {start}, was trimmed to {event.start}")
        for name, contents in found.items():
            allowed = max(wanted.get(name, 0), self.kept[name].start if name in self.kept else 0)
            _require(contents.start <= allowed, f"{name} starts at {contents.start}, nobody trimmed beyond {allowed}")

    def _check_names(self, begun: dict[EventId, Begun], acked: dict[EventId, Acked]) -> None:
        """An offset never names two messages."""
        for commit, event in acked.items():
            for (log, count), first in zip(begun[commit].parts, event.offsets, strict=True):
                for offset in range(first, first + count):
                    other = self.named.setdefault((log, offset), commit)
                    _require(other == commit, f"offset {offset} of {log} named {other} and now {commit}")

    def _check_kept(self, found: dict[str, Contents]) -> None:
        for name, before in self.kept.items():
            now = found[name]
            for offset, value in before.records.items():
                if offset >= now.start:
                    _require(now.records.get(offset) == value, f"offset {offset} of {name} was recovered, then lost")

    def _check_acknowledged(
        self, begun: dict[EventId, Begun], acked: dict[EventId, Acked], found: dict[str, Contents]
    ) -> None:
        for commit, event in acked.items():
            if begun[commit].level < self.survives:
                continue
            for offset, name, value in _records(begun[commit], event.offsets):
                if offset >= found[name].start:
                    got = found[name].records.get(offset)
                    _require(
                        got == value, f"{commit} was acknowledged at {offset} of {name}, found {got and got[:40]!r}"
                    )

    def _check_whole(
        self, begun: dict[EventId, Begun], acked: dict[EventId, Acked], found: dict[str, Contents]
    ) -> None:
        """Everything found was begun, is what it says, and is there with all the rest of its commit."""
        seen: dict[EventId, set[tuple[int, int]]] = {}
        for name, contents in found.items():
            old = self.kept[name].records if name in self.kept else {}
            for offset, value in contents.records.items():
                if offset in old:
                    continue
                commit, part, row = name_of(value)
                _require(commit in begun, f"{commit} at {offset} of {name} was never begun")
                _require(value == value_of(commit, part, row), f"offset {offset} of {name} is not what was written")
                _require(begun[commit].parts[part][0] == name, f"{commit} part {part} is in {name}")
                rows = seen.setdefault(commit, set())
                _require((part, row) not in rows, f"{commit} row {row} of part {part} twice")
                rows.add((part, row))
        for commit, rows in seen.items():
            wanted = {(part, row) for part, (_, count) in enumerate(begun[commit].parts) for row in range(count)}
            if commit in acked:
                wanted -= _trimmed(begun[commit], acked[commit], found)
            _require(rows == wanted, f"{commit} is there in part: {len(rows)} of {len(wanted)} records")


def _records(begun: Begun, offsets: list[int]) -> Iterator[tuple[int, str, bytes]]:
    for part, ((name, count), first) in enumerate(zip(begun.parts, offsets, strict=True)):
        for row in range(count):
            yield first + row, name, value_of(begun.id, part, row)


def _trimmed(begun: Begun, acked: Acked, found: dict[str, Contents]) -> set[tuple[int, int]]:
    return {
        (part, row)
        for part, ((name, count), first) in enumerate(zip(begun.parts, acked.offsets, strict=True))
        for row in range(count)
        if first + row < found[name].start
    }


def _check_no_holes(name: str, contents: Contents) -> None:
    """Offsets follow each other; a log that may lose acknowledged records steps over 2^32 after each unclean stop."""
    last = None
    for offset in contents.records:
        step = 1 if last is None else offset - last
        is_gap = step > 1 and (step - 1) % OFFSET_GAP == 0 and contents.durability is not Durability.COMMIT
        _require(step == 1 or is_gap, f"{name} goes from {last} to {offset}")
        last = offset
    _require(last is None or last < contents.end, f"{name} ends at {contents.end} and has a record at {last}")
    _require(
        contents.durability is not Durability.COMMIT or len(contents.records) == contents.end - contents.start,
        f"{name} has {len(contents.records)} records between {contents.start} and {contents.end}",
    )


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenPromise(what)
