"""What is on a simulated disk, and what a power cut leaves of it.

- Of a file, its synced contents and any subset of the writes and truncations since, each write whole, torn at 512 bytes
  (any subset of its sectors), or only as growth: zeros where the file grew, old contents elsewhere.
- Of a directory, its synced entries and a prefix of the changes since, or any subset of them. A file's sync says
  nothing about its name, nor a directory's about its own name in its parent. A rename across directories is two
  changes, one in each: whoever syncs the source first may lose the file.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass, field

SECTOR_BYTES = 512


class Fate(enum.Enum):
    """What becomes of one unsynced write."""

    WHOLE = enum.auto()
    LOST = enum.auto()
    TORN = enum.auto()
    GROWN = enum.auto()
    """the file has its new size, the data never came"""


# A torn write has many shapes, the others one each.
ANY_FATE = (Fate.WHOLE, Fate.LOST, Fate.GROWN, Fate.TORN, Fate.TORN)


@dataclass(frozen=True, slots=True)
class Write:
    position: int
    data: bytes

    def land(self, content: bytearray, fate: Fate, rng: random.Random) -> None:
        if fate is Fate.WHOLE:
            _put(content, self.position, self.data)
        elif fate is Fate.TORN:
            self._tear(content, rng)
        if fate is Fate.GROWN or (fate is Fate.TORN and rng.random() < 0.5):
            _grow(content, self.position + len(self.data))

    def _tear(self, content: bytearray, rng: random.Random) -> None:
        start, end = self.position, self.position + len(self.data)
        first_sector = start // SECTOR_BYTES
        survivors = _some_sectors(-(-end // SECTOR_BYTES) - first_sector, rng)
        while survivors:
            index = (survivors & -survivors).bit_length() - 1
            survivors &= survivors - 1
            sector = (first_sector + index) * SECTOR_BYTES
            low, high = max(sector, start), min(sector + SECTOR_BYTES, end)
            _put(content, low, self.data[low - start : high - start])


@dataclass(frozen=True, slots=True)
class Truncate:
    size: int

    def land(self, content: bytearray, fate: Fate, rng: random.Random) -> None:
        if fate is Fate.WHOLE:
            del content[self.size :]
            _grow(content, self.size)


def _some_sectors(count: int, rng: random.Random) -> int:
    """A mask of sectors: a first part (the usual tear), a last part (reordered), or any of them."""
    every, cut, shape = (1 << count) - 1, rng.randrange(count + 1), rng.randrange(3)
    if shape == 0:
        return (1 << cut) - 1
    return every & ~((1 << cut) - 1) if shape == 1 else rng.getrandbits(count)


def _grow(content: bytearray, size: int) -> None:
    if size > len(content):
        content.extend(bytes(size - len(content)))


def _put(content: bytearray, position: int, data: bytes) -> None:
    if data:
        _grow(content, position)
        content[position : position + len(data)] = data


@dataclass(slots=True, eq=False)
class Inode:
    """`now` is the page cache; `synced` the medium; `unsynced` what a sync would carry from one to the other. After a
    failed sync the two differ and nothing is left to carry."""

    now: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    unsynced: list[Write | Truncate] = field(default_factory=list)

    def change(self, operation: Write | Truncate, rng: random.Random) -> None:
        operation.land(self.now, Fate.WHOLE, rng)
        self.unsynced.append(operation)

    def sync(self, rng: random.Random) -> None:
        operations, self.unsynced = self.unsynced, []
        for operation in operations:
            operation.land(self.synced, Fate.WHOLE, rng)

    def fail_sync(self, rng: random.Random) -> None:
        self.synced, self.unsynced = self.after_crash(rng), []

    def after_crash(self, rng: random.Random) -> bytearray:
        content = bytearray(self.synced)
        if self.unsynced:
            for operation, fate in zip(self.unsynced, _fates(len(self.unsynced), rng), strict=True):
                operation.land(content, fate, rng)
        return content


def _fates(count: int, rng: random.Random) -> list[Fate]:
    """All, none, up to one that is damaged, or each for itself: left to independent chances, the first three would
    hardly ever come when there are many writes."""
    shape = rng.randrange(5)
    if shape < 2:
        return [Fate.WHOLE if shape else Fate.LOST] * count
    if shape == 2:
        whole = rng.randrange(count)
        return [Fate.WHOLE] * whole + [rng.choice(ANY_FATE)] + [Fate.LOST] * (count - whole - 1)
    return [rng.choice(ANY_FATE) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class EntryChange:
    """Takes a name away, gives one, or both at once (a rename inside a directory is atomic)."""

    gone: str | None = None
    come: str | None = None
    node: Inode | Directory | None = None

    def land(self, entries: dict[str, Inode | Directory]) -> None:
        if self.gone is not None:
            entries.pop(self.gone, None)
        if self.come is not None and self.node is not None:
            entries[self.come] = self.node


@dataclass(slots=True, eq=False)
class Directory:
    now: dict[str, Inode | Directory] = field(default_factory=dict)
    synced: dict[str, Inode | Directory] = field(default_factory=dict)
    unsynced: list[EntryChange] = field(default_factory=list)

    def change(self, change: EntryChange) -> None:
        change.land(self.now)
        self.unsynced.append(change)

    def sync(self) -> None:
        changes, self.unsynced = self.unsynced, []
        for change in changes:
            change.land(self.synced)

    def fail_sync(self, rng: random.Random, any_subset: bool) -> None:
        self.synced, self.unsynced = self.after_crash(rng, any_subset), []

    def after_crash(self, rng: random.Random, any_subset: bool) -> dict[str, Inode | Directory]:
        entries = dict(self.synced)
        if self.unsynced:
            kept = rng.randrange(len(self.unsynced) + 1)
            for index, change in enumerate(self.unsynced):
                if (rng.random() < 0.5) if any_subset else index < kept:
                    change.land(entries)
        return entries


Node = Inode | Directory


def inodes(directory: Directory) -> set[Inode]:
    found: set[Inode] = set()
    for node in directory.now.values():
        found |= {node} if isinstance(node, Inode) else inodes(node)
    return found


class Aftermath:
    """One outcome of a power cut: each node is decided once, however many names it has."""

    def __init__(self, rng: random.Random, any_subset_of_entries: bool) -> None:
        self._rng, self._any_subset = rng, any_subset_of_entries
        self._made: dict[Node, Node] = {}

    def directory(self, old: Directory) -> Directory:
        new = Directory()
        for name, node in old.after_crash(self._rng, self._any_subset).items():
            # A directory moved between two others may be in both now; a real check of the file system drops one.
            if isinstance(node, Inode) or node not in self._made:
                new.now[name] = self._node(node)
        new.synced = dict(new.now)
        return new

    def _node(self, old: Node) -> Node:
        if old not in self._made:
            self._made[old] = self.directory(old) if isinstance(old, Directory) else self._inode(old)
        return self._made[old]

    def _inode(self, old: Inode) -> Inode:
        content = old.after_crash(self._rng)
        return Inode(content, bytearray(content))


class Copy:
    """The same tree in new objects, what is unsynced included."""

    def __init__(self) -> None:
        self._made: dict[Node, Node] = {}

    def directory(self, old: Directory) -> Directory:
        new = Directory()
        self._made[old] = new
        new.now = {name: self._node(node) for name, node in old.now.items()}
        new.synced = {name: self._node(node) for name, node in old.synced.items()}
        new.unsynced = [self._change(change) for change in old.unsynced]
        return new

    def _change(self, old: EntryChange) -> EntryChange:
        return EntryChange(old.gone, old.come, None if old.node is None else self._node(old.node))

    def _node(self, old: Node) -> Node:
        if old not in self._made:
            if isinstance(old, Directory):
                return self.directory(old)
            self._made[old] = Inode(bytearray(old.now), bytearray(old.synced), list(old.unsynced))
        return self._made[old]
