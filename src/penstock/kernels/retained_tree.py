"""Which topics have a retained message, and where it lies: a tree of levels in integer arrays.

A node's record (8 words) begins with a hash, by which an open-addressed table finds it; the bytes of the levels lie in
one arena. Number 0 is the root, or none. Offsets are below 2**63, sizes below 2**31, a tree has fewer than 2**28 nodes.
A filter that begins with a wildcard matches no topic that begins with `$`."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.core.ports import Buffer
from penstock.kernels import memory, slots

MAX_LEVELS = 256
"""of a topic: each is a node, and a walk remembers two numbers for each"""
STACK_WORDS = 2 + 4 * 260
"""of a walk: how many words are filled, then a node and what to do with it, for at most two nodes a level"""

_HASH, _PARENT, _LEVEL_AT, _LEVEL_BYTES, _CHILD, _NEXT, _PREVIOUS, _EXPIRES = range(8)
_PLUS_SIGN, _DOLLAR, _SLASH, _HASH_SIGN = b"+$/#"
_FREE = -1
"""length of the level of a node that is free"""
_NOTHING = -1
"""offset of a node without a message"""
# Times are seconds since 2020, which fit 31 bits until 2088; later ones mean never.
_FIRST_SECOND = 1_577_836_800
_LAST_NUMBER = (1 << 28) - 1
_LAST_ARENA_BYTE = (1 << 31) - 1
# Named, because Cython takes a literal above 2**31 for a Python object.
_LOW_64 = 0xFFFFFFFFFFFFFFFF
_LOW_31 = 0x7FFFFFFF
_ODD = 0x9E3779B97F4A7C15


class RetainedTree:
    """One thread at a time. `seed` keys the hashes: give a random one where strangers choose the topics. Numbers of
    nodes are good while the tree is pinned."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed & _LOW_64
        self._nodes = array("i", [0]) * (8 * 8)
        self._offsets = array("q", [_NOTHING]) * 8
        self._sizes = array("i", [0]) * 8
        self._node_end, self._node_free, self._node_count = 1, 0, 0
        self._edges = array("i", [0]) * 16
        self._arena = bytearray(64)
        self._arena_end, self._arena_kept = 0, 0
        self._level_hash = 0
        self._pins = 0
        self._emptied: list[int] = []
        self._messages, self._bytes = 0, 0

    def __len__(self) -> int:
        """How many messages are retained."""
        return self._messages

    def message_bytes(self) -> int:
        """Of all of them, as they were told."""
        return self._bytes

    def memory_bytes(self) -> int:
        """What the arrays take, filled or not."""
        return 4 * (len(self._nodes) + len(self._sizes) + len(self._edges)) + 8 * len(self._offsets) + len(self._arena)

    def put(self, topic: Buffer, start: int, stop: int, offset: int, size: int, expires_s: int) -> int:
        """The message of topic[start:stop] lies at `offset`; one that came later stands. InvalidArgument for more
        levels than MAX_LEVELS."""
        self._reserve(_level_count(topic, start, stop), stop - start)
        node = self._plant(topic, start, stop)
        if self._offsets[node] >= offset:
            return 0
        if self._offsets[node] < 0:
            self._messages += 1
        self._bytes += size - self._sizes[node]
        self._offsets[node] = offset
        self._sizes[node] = size
        self._nodes[8 * node + _EXPIRES] = 0
        if 0 < expires_s - _FIRST_SECOND <= _LOW_31:
            self._nodes[8 * node + _EXPIRES] = expires_s - _FIRST_SECOND
        return 0

    def drop(self, topic: Buffer, start: int, stop: int, offset: int) -> bool:
        """The message goes, unless it came after `offset`. False if there was none."""
        node = self._walk(topic, start, stop)
        if node <= 0 or self._offsets[node] < 0 or self._offsets[node] > offset:
            return False
        self._offsets[node] = _NOTHING
        self._bytes -= self._sizes[node]
        self._sizes[node] = 0
        self._messages -= 1
        if self._pins:
            self._emptied.append(node)
        else:
            self._prune(node)
        return True

    def find(self, topic: bytes) -> int:
        """The offset; -1 if nothing is retained."""
        node = self._walk(topic, 0, len(topic))
        return self._offsets[node] if node > 0 else _NOTHING

    def apply(self, body: Buffer, layout: array[int], count: int, offsets: array[int]) -> int:
        """Fold the records of a checked batch: the key is the topic, an empty value takes the message away."""
        if layout[7] < 0:
            return 0
        for row in range(count):
            start = layout[8] + memory.load_i32(body, layout[7] + 4 * row)
            stop = layout[8] + memory.load_i32(body, layout[7] + 4 * row + 4)
            size = _entry_bytes(body, layout[13], row)
            if start == stop:
                continue
            if size == 0:
                self.drop(body, start, stop, offsets[row])
                continue
            expires_s = 0
            if layout[2] >= 0:
                expires_s = (memory.load_i64(body, layout[2] + 8 * row) + 999) // 1000
            size += stop - start + _entry_bytes(body, layout[9], row)
            self.put(body, start, stop, offsets[row], size, expires_s)
        return 0

    def keep_current(self, body: Buffer, layout: array[int], rows: array[int], offsets: array[int]) -> int:
        """Of rows (-1: none) of a batch with these offsets, those move to the front that are still what is retained
        under their key; how many."""
        kept = 0
        for i in range(len(rows)):
            row = rows[i]
            if row < 0 or layout[7] < 0:
                continue
            start = layout[8] + memory.load_i32(body, layout[7] + 4 * row)
            stop = layout[8] + memory.load_i32(body, layout[7] + 4 * row + 4)
            node = self._walk(body, start, stop)
            if node > 0 and self._offsets[node] == offsets[row]:
                rows[kept] = row
                kept += 1
        return kept

    def pin(self) -> int:
        """Until unpin(), no number of a node changes its meaning."""
        self._pins += 1
        return 0

    def unpin(self) -> int:
        self._pins -= 1
        if self._pins == 0 and self._emptied:
            emptied, self._emptied = self._emptied, []
            for node in emptied:
                if self._nodes[8 * node + _LEVEL_BYTES] != _FREE:
                    self._prune(node)
        return 0

    def advance(
        self, filter: bytes, starts: array[int], ends: array[int], stack: array[int], budget: int, out: array[int]
    ) -> int:
        """Go on with a walk: look at up to `budget` nodes, as many as `out` has room for. Offsets of what matches go
        to `out`; how many. `starts` and `ends` are the filter's levels; `stack` was begun with begin() and is empty
        (stack[0] == 2) at the end. The tree must be pinned for as long as the walk lasts."""
        levels = len(starts)
        has_rest = (
            levels > 0 and ends[levels - 1] == starts[levels - 1] + 1 and filter[starts[levels - 1]] == _HASH_SIGN
        )
        levels -= has_rest
        top, found = stack[0], 0
        while top > 2 and budget > 0:
            budget -= 1
            top -= 2
            node, depth = stack[top], stack[top + 1] >> 1
            if stack[top + 1] & 1:
                if self._nodes[8 * node + _NEXT]:
                    stack[top] = self._nodes[8 * node + _NEXT]
                    top += 2
                if self._is_hidden(node):
                    continue
            if depth == levels and self._offsets[node] >= 0:
                out[found] = self._offsets[node]
                found += 1
            child, how = 0, 0
            if depth == levels:
                if has_rest:
                    child, how = self._nodes[8 * node + _CHILD], 2 * depth + 1
            elif ends[depth] == starts[depth] + 1 and filter[starts[depth]] == _PLUS_SIGN:
                child, how = self._nodes[8 * node + _CHILD], 2 * depth + 3
            else:
                self._read_level(filter, starts[depth], ends[depth])
                child, how = self._find_child(node, filter, starts[depth], ends[depth]), 2 * depth + 2
            if child:
                stack[top], stack[top + 1] = child, how
                top += 2
        stack[0] = top
        return found

    def expired(self, first: int, budget: int, now_s: int, out: array[int]) -> int:
        """Numbers of up to `budget` nodes from `first` on whose message has expired go behind out[0], which gets the
        node to go on from, 0 behind the last. How many."""
        found = 0
        stop = min(first + budget, self._node_end)
        for node in range(max(first, 1), stop):
            time = self._nodes[8 * node + _EXPIRES]
            if time and self._offsets[node] >= 0 and time <= now_s - _FIRST_SECOND:
                found += 1
                out[found] = node
        out[0] = stop if stop < self._node_end else 0
        return found

    def topic_of(self, node: int) -> bytes:
        levels: list[bytes] = []
        while node:
            at = self._nodes[8 * node + _LEVEL_AT]
            levels.append(bytes(self._arena[at : at + self._nodes[8 * node + _LEVEL_BYTES]]))
            node = self._nodes[8 * node + _PARENT]
        return b"/".join(reversed(levels))

    def offset_of(self, node: int) -> int:
        return self._offsets[node]

    def _is_hidden(self, node: int) -> bool:
        """From a wildcard: the first level of a topic that begins with `$`."""
        if self._nodes[8 * node + _PARENT] != 0 or self._nodes[8 * node + _LEVEL_BYTES] < 1:
            return False
        return self._arena[self._nodes[8 * node + _LEVEL_AT]] == _DOLLAR

    def _read_level(self, source: Buffer, at: int, stop: int) -> int:
        """Where the level at `at` ends; its hash is in `_level_hash`."""
        state = self._seed
        word = 0
        first = at
        while at < stop and source[at] != _SLASH:
            byte = source[at]
            word = word << 8 | byte
            at += 1
            if (at - first) & 7 == 0:
                state = _stir(state, word)
                word = 0
        self._level_hash = _stir(state, word ^ (at - first) << 56)
        return at

    def _find_child(self, node: int, source: Buffer, at: int, stop: int) -> int:
        """The child of the level in source[at:stop], the one read last; 0 if there is none."""
        wanted = _stir(self._level_hash, node) & _LOW_31
        mask = len(self._edges) - 1
        slot = wanted & mask
        child = self._edges[slot]
        while child:
            record = 8 * child
            if (
                self._nodes[record] == wanted
                and self._nodes[record + _PARENT] == node
                and self._nodes[record + _LEVEL_BYTES] == stop - at
                and self._is_level(self._nodes[record + _LEVEL_AT], source, at, stop)
            ):
                return child
            slot = (slot + 1) & mask
            child = self._edges[slot]
        return 0

    def _is_level(self, level_at: int, source: Buffer, at: int, stop: int) -> bool:
        while at < stop and self._arena[level_at] == source[at]:
            level_at += 1
            at += 1
        return at == stop

    def _walk(self, source: Buffer, start: int, stop: int) -> int:
        """The node of the topic in source[start:stop]; -1 if there is none."""
        node, at = 0, start
        while at <= stop:
            level_stop = self._read_level(source, at, stop)
            node = self._find_child(node, source, at, level_stop)
            if not node:
                return -1
            at = level_stop + 1
        return node

    def _plant(self, source: Buffer, start: int, stop: int) -> int:
        """As `_walk`, with the nodes made that are missing. `_reserve` comes first."""
        node, at = 0, start
        while at <= stop:
            level_stop = self._read_level(source, at, stop)
            child = self._find_child(node, source, at, level_stop)
            node = child if child else self._new_child(node, source, at, level_stop)
            at = level_stop + 1
        return node

    def _new_child(self, parent: int, source: Buffer, at: int, stop: int) -> int:
        node = self._node_free
        if node:
            self._node_free = self._nodes[8 * node + _PARENT]
        else:
            node = self._node_end
            self._node_end += 1
        self._node_count += 1
        record, following = 8 * node, self._nodes[8 * parent + _CHILD]
        self._nodes[record] = _stir(self._level_hash, parent) & _LOW_31
        self._nodes[record + _PARENT] = parent
        self._nodes[record + _LEVEL_AT] = self._arena_end
        self._nodes[record + _LEVEL_BYTES] = stop - at
        self._nodes[record + _CHILD] = 0
        self._nodes[record + _NEXT] = following
        self._nodes[record + _PREVIOUS] = 0
        self._nodes[record + _EXPIRES] = 0
        self._offsets[node] = _NOTHING
        self._sizes[node] = 0
        if following:
            self._nodes[8 * following + _PREVIOUS] = node
        self._nodes[8 * parent + _CHILD] = node
        memory.copy_bytes(self._arena, self._arena_end, source, at, stop - at)
        self._arena_end += stop - at
        self._arena_kept += stop - at
        slots.place(self._edges, node, self._nodes[record])
        return node

    def _prune(self, node: int) -> int:
        """Free the node if nothing hangs on it, then its parent, up to the root."""
        while node:
            record = 8 * node
            if self._offsets[node] >= 0 or self._nodes[record + _CHILD]:
                return 0
            parent = self._nodes[record + _PARENT]
            self._unlink(node, parent)
            slots.vacate(self._edges, node, self._nodes, 8)
            self._arena_kept -= self._nodes[record + _LEVEL_BYTES]
            self._nodes[record + _LEVEL_BYTES] = _FREE
            self._nodes[record + _EXPIRES] = 0
            self._nodes[record + _PARENT] = self._node_free
            self._node_free = node
            self._node_count -= 1
            node = parent
        return 0

    def _unlink(self, node: int, parent: int) -> int:
        following, previous = self._nodes[8 * node + _NEXT], self._nodes[8 * node + _PREVIOUS]
        if previous:
            self._nodes[8 * previous + _NEXT] = following
        else:
            self._nodes[8 * parent + _CHILD] = following
        if following:
            self._nodes[8 * following + _PREVIOUS] = previous
        return 0

    def _reserve(self, levels: int, topic_bytes: int) -> int:
        """Room for one more topic, so that nothing can fail half-way through adding it."""
        if levels > MAX_LEVELS:
            raise InvalidArgument(f"a retained message's topic has at most {MAX_LEVELS} levels, this one has {levels}")
        if self._node_end + levels > _LAST_NUMBER:
            raise TooLarge("tree of retained messages", self.memory_bytes(), 52 * _LAST_NUMBER)
        if len(self._sizes) < self._node_end + levels:
            entries = _with_slack(self._node_end + levels)
            self._nodes = slots.grown(self._nodes, "i", 8 * entries)
            self._offsets = slots.grown(self._offsets, "q", entries)
            self._sizes = slots.grown(self._sizes, "i", entries)
        while 4 * (self._node_count + levels) > 3 * len(self._edges):
            self._edges = slots.spread(self._edges, self._nodes, 8)
        if len(self._arena) < self._arena_end + topic_bytes:
            self._move_arena(self._arena_kept + topic_bytes)
        return 0

    def _move_arena(self, least_bytes: int) -> int:
        """Copy the levels of living nodes to a new arena. A byte a node is left free, so that moves stay rare."""
        room_bytes = _with_slack(least_bytes + self._node_count)
        if room_bytes > _LAST_ARENA_BYTE:
            raise TooLarge("levels of retained topics", room_bytes, _LAST_ARENA_BYTE)
        room = bytearray(room_bytes)
        self._arena_end = self._copy_levels(room)
        self._arena = room
        return 0

    def _copy_levels(self, room: bytearray) -> int:
        filled = 0
        for node in range(1, self._node_end):
            size = self._nodes[8 * node + _LEVEL_BYTES]
            if size > 0:
                memory.copy_bytes(room, filled, self._arena, self._nodes[8 * node + _LEVEL_AT], size)
                self._nodes[8 * node + _LEVEL_AT] = filled
                filled += size
        return filled


def begin() -> array[int]:
    """The stack of a new walk."""
    stack = array("i", bytes(4 * STACK_WORDS))
    stack[0] = 4
    return stack


def _level_count(source: Buffer, start: int, stop: int) -> int:
    if start < 0 or stop < start or stop > len(source):
        raise InvalidArgument("a span leaves its source")
    count = 1
    for i in range(start, stop):
        count += source[i] == _SLASH
    return count


def _entry_bytes(body: Buffer, offsets_at: int, entry: int) -> int:
    if offsets_at < 0:
        return 0
    return memory.load_i32(body, offsets_at + 4 * entry + 4) - memory.load_i32(body, offsets_at + 4 * entry)


def _stir(state: int, word: int) -> int:
    state = ((state ^ word) * _ODD) & _LOW_64
    return state ^ state >> 32


def _with_slack(entries: int) -> int:
    """An eighth more: with doubling, half of the memory of a large tree could lie idle."""
    return entries + entries // 8
