"""Which subscriptions a topic reaches, by the rules of MQTT: `+` is one level, `#` the rest and the level before it, an
empty level is a level, and a filter that begins with a wildcard matches no topic that begins with `$`.

A tree of levels in integer arrays. A node's record (8 words) and a subscription's (4 words) begin with a hash, by which
an open-addressed table finds them; the bytes of the levels lie in one arena. Number 0 is the root, or none.
Subscribers are numbers of 64 bits, signed; a tree has fewer than 2**28 nodes and as many subscriptions."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.core.ports import Buffer
from penstock.kernels import memory, slots

MAX_NAME_BYTES = 65_535
# Each level is a node: without a bound, one filter of slashes would take 65,536 of them.
MAX_FILTER_LEVELS = 256

# Words of a node. SUBSCRIPTIONS and REST are heads of lists; the list of a node's `#` is its REST.
_HASH, _PARENT, _LEVEL_AT, _LEVEL_BYTES, _PLUS, _SUBSCRIPTIONS, _REST, _CHILDREN = range(8)
# Words of a subscription behind its hash. A list is numbered 2 * node, or 2 * node + 1 if it is the node's REST.
_LIST, _NEXT, _PREVIOUS = range(1, 4)
_PLUS_SIGN, _DOLLAR, _SLASH = b"+$/"
_NO_LEVEL = -1
"""length of the level of `+` and of a node that is free: no bytes in the arena"""

_LAST_NUMBER = (1 << 28) - 1
_LAST_ARENA_BYTE = (1 << 31) - 1
# Named, because Cython takes a literal above 2**31 for a Python object.
_LOW_64 = 0xFFFFFFFFFFFFFFFF
_LOW_31 = 0x7FFFFFFF
_ODD = 0x9E3779B97F4A7C15


class SubscriptionTree:
    """One thread at a time. `seed` keys the hashes: give a random one where strangers choose the names."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed & _LOW_64
        self._nodes = array("i", [0]) * (8 * 8)
        self._node_end, self._node_free, self._node_count = 1, 0, 0
        self._edges = array("i", [0]) * 16
        self._links = array("i", [0]) * (4 * 8)
        self._subscribers = array("q", [0]) * 8
        self._link_end, self._link_free, self._link_count = 1, 0, 0
        self._members = array("i", [0]) * 16
        self._arena = bytearray(64)
        self._arena_end, self._arena_kept = 0, 0
        self._name = bytearray(256)
        self._path = array("i", [0]) * 16
        self._found = array("q", [0]) * 16
        self._found_count = 0
        self._level_hash = 0

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return self._link_count

    def node_count(self) -> int:
        return self._node_count

    def memory_bytes(self) -> int:
        """What the arrays take, filled or not."""
        words = len(self._nodes) + len(self._edges) + len(self._links) + len(self._members) + len(self._path)
        return 4 * words + 8 * (len(self._subscribers) + len(self._found)) + len(self._arena) + len(self._name)

    def add(self, filter: bytes, subscriber: int) -> bool:
        """False if the subscriber has this filter already; InvalidArgument if it is none (`check_filter`)."""
        check_filter(filter)
        self._reserve(filter.count(b"/") + 1, len(filter))
        self._hold(filter, 0, len(filter))
        list_number = 2 * self._plant(_path_bytes(filter)) + filter.endswith(b"#")
        if self._find_link(list_number, subscriber):
            return False
        self._insert_link(list_number, subscriber)
        return True

    def remove(self, filter: bytes, subscriber: int) -> bool:
        """False if the subscriber does not have this filter. Nodes that lead nowhere are free for the next one."""
        check_filter(filter)
        self._hold(filter, 0, len(filter))
        node = self._walk(_path_bytes(filter))
        if node < 0:
            return False
        link = self._find_link(2 * node + filter.endswith(b"#"), subscriber)
        if not link:
            return False
        self._drop_link(link)
        self._prune(node)
        return True

    def match(self, topic: Buffer, start: int, stop: int, out: array[int]) -> int:
        """Append to `out` ('q') the subscriber of every filter that matches topic[start:stop], in no order, once for
        each filter of his; how many. The topic is not checked: a wildcard in it matches nothing but wildcards."""
        self._found_count = 0
        self._hold(topic, start, stop)
        self._collect(stop - start)
        self._give(out)
        return self._found_count

    def match_many(
        self, source: Buffer, starts: array[int], ends: array[int], counts: array[int], out: array[int]
    ) -> int:
        """`match` for each span of the source: `out` gets all their subscribers, topic after topic, and counts[i] how
        many of them are topic i's. `out` stays as it is if a span leaves the source."""
        if len(ends) < len(starts) or len(counts) < len(starts):
            raise InvalidArgument("there are more topics than ends or counts")
        self._found_count = 0
        before = 0
        for i in range(len(starts)):
            self._hold(source, starts[i], ends[i])
            self._collect(ends[i] - starts[i])
            counts[i] = self._found_count - before
            before = self._found_count
        self._give(out)
        return self._found_count

    def _hold(self, source: Buffer, start: int, stop: int) -> int:
        """The topic or filter that the methods below work on; copied, because handing a view from one compiled method
        to the next costs more."""
        if start < 0 or stop < start or stop > len(source):
            raise InvalidArgument("a span leaves its source")
        if len(self._name) < stop - start:
            self._name = bytearray(2 * (stop - start))
        return memory.copy_bytes(self._name, 0, source, start, stop - start)

    def _collect(self, stop: int) -> int:
        """Walk the tree level by level, all nodes of a depth at once: `_path` holds them, depth behind depth."""
        is_open = stop == 0 or self._name[0] != _DOLLAR
        if is_open:
            self._take(self._nodes[_REST])
        self._path[0] = 0
        begin, end, at = 0, 1, 0
        while begin < end and at <= stop:
            level_stop = self._read_level(at, stop)
            if len(self._path) < end + 2 * (end - begin):
                self._path = slots.grown(self._path, "i", 2 * end + 2 * (end - begin))
            fill = end
            for i in range(begin, end):
                node = self._path[i]
                child = self._nodes[8 * node + _PLUS]
                if child and (node or is_open):
                    self._path[fill] = child
                    fill += 1
                    self._take(self._nodes[8 * child + _REST])
                child = self._find_child(node, at, level_stop)
                if child:
                    self._path[fill] = child
                    fill += 1
                    self._take(self._nodes[8 * child + _REST])
            begin, end, at = end, fill, level_stop + 1
        for i in range(begin, end):
            self._take(self._nodes[8 * self._path[i] + _SUBSCRIPTIONS])
        return 0

    def _take(self, link: int) -> int:
        """All of a list goes to `_found`."""
        while link:
            if self._found_count == len(self._found):
                self._found = slots.grown(self._found, "q", 2 * self._found_count)
            self._found[self._found_count] = self._subscribers[link]
            self._found_count += 1
            link = self._links[4 * link + _NEXT]
        return 0

    def _give(self, out: array[int]) -> None:
        out.frombytes(memoryview(self._found).cast("B")[: 8 * self._found_count])

    def _read_level(self, at: int, stop: int) -> int:
        """Where the level at `at` ends; its hash is in `_level_hash`."""
        state = self._seed
        word = 0
        first = at
        while at < stop and self._name[at] != _SLASH:
            word = word << 8 | self._name[at]
            at += 1
            if (at - first) & 7 == 0:
                state = _stir(state, word)
                word = 0
        self._level_hash = _stir(state, word ^ (at - first) << 56)
        return at

    def _find_child(self, node: int, at: int, stop: int) -> int:
        """The child of the literal level in _name[at:stop], the one read last; 0 if there is none."""
        if not self._nodes[8 * node + _CHILDREN]:
            return 0
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
                and self._is_level(self._nodes[record + _LEVEL_AT], at, stop)
            ):
                return child
            slot = (slot + 1) & mask
            child = self._edges[slot]
        return 0

    def _is_level(self, level_at: int, at: int, stop: int) -> bool:
        while at < stop and self._arena[level_at] == self._name[at]:
            level_at += 1
            at += 1
        return at == stop

    def _walk(self, stop: int) -> int:
        """The node of the levels in _name[:stop], `+` for `+`; -1 if there is none."""
        node, at = 0, 0
        while at <= stop:
            level_stop = self._read_level(at, stop)
            if level_stop == at + 1 and self._name[at] == _PLUS_SIGN:
                node = self._nodes[8 * node + _PLUS]
            else:
                node = self._find_child(node, at, level_stop)
            if not node:
                return -1
            at = level_stop + 1
        return node

    def _plant(self, stop: int) -> int:
        """As `_walk`, with the nodes made that are missing. `_reserve` comes first."""
        node, at = 0, 0
        while at <= stop:
            level_stop = self._read_level(at, stop)
            if level_stop == at + 1 and self._name[at] == _PLUS_SIGN:
                node = self._nodes[8 * node + _PLUS] or self._new_plus(node)
            else:
                node = self._find_child(node, at, level_stop) or self._new_child(node, at, level_stop)
            at = level_stop + 1
        return node

    def _new_plus(self, parent: int) -> int:
        node = self._new_node(parent)
        self._nodes[8 * node + _LEVEL_BYTES] = _NO_LEVEL
        self._nodes[8 * parent + _PLUS] = node
        return node

    def _new_child(self, parent: int, at: int, stop: int) -> int:
        node = self._new_node(parent)
        self._nodes[8 * node] = _stir(self._level_hash, parent) & _LOW_31
        self._nodes[8 * node + _LEVEL_AT] = self._arena_end
        self._nodes[8 * node + _LEVEL_BYTES] = stop - at
        memory.copy_bytes(self._arena, self._arena_end, self._name, at, stop - at)
        self._arena_end += stop - at
        self._arena_kept += stop - at
        self._nodes[8 * parent + _CHILDREN] += 1
        slots.place(self._edges, node, self._nodes[8 * node])
        return node

    def _new_node(self, parent: int) -> int:
        node = self._node_free
        if node:
            self._node_free = self._nodes[8 * node + _PARENT]
        else:
            node = self._node_end
            self._node_end += 1
        self._node_count += 1
        for i in range(8):
            self._nodes[8 * node + i] = 0
        self._nodes[8 * node + _PARENT] = parent
        return node

    def _prune(self, node: int) -> int:
        """Free the node if nothing hangs on it, then its parent, up to the root."""
        while node:
            record = 8 * node
            if self._nodes[record + _SUBSCRIPTIONS] or self._nodes[record + _REST]:
                return 0
            if self._nodes[record + _CHILDREN] or self._nodes[record + _PLUS]:
                return 0
            parent = self._nodes[record + _PARENT]
            if self._nodes[record + _LEVEL_BYTES] == _NO_LEVEL:
                self._nodes[8 * parent + _PLUS] = 0
            else:
                slots.vacate(self._edges, node, self._nodes, 8)
                self._nodes[8 * parent + _CHILDREN] -= 1
                self._arena_kept -= self._nodes[record + _LEVEL_BYTES]
                self._nodes[record + _LEVEL_BYTES] = _NO_LEVEL
            self._nodes[record + _PARENT] = self._node_free
            self._node_free = node
            self._node_count -= 1
            node = parent
        return 0

    def _link_hash(self, list_number: int, subscriber: int) -> int:
        return _stir(_stir(self._seed, list_number), subscriber) & _LOW_31

    def _find_link(self, list_number: int, subscriber: int) -> int:
        mask = len(self._members) - 1
        slot = self._link_hash(list_number, subscriber) & mask
        link = self._members[slot]
        while link and (self._links[4 * link + _LIST] != list_number or self._subscribers[link] != subscriber):
            slot = (slot + 1) & mask
            link = self._members[slot]
        return link

    def _insert_link(self, list_number: int, subscriber: int) -> int:
        link = self._link_free
        if link:
            self._link_free = self._links[4 * link + _NEXT]
        else:
            link = self._link_end
            self._link_end += 1
        self._link_count += 1
        head = 8 * (list_number >> 1) + _SUBSCRIPTIONS + (list_number & 1)
        following = self._nodes[head]
        self._nodes[head] = link
        if following:
            self._links[4 * following + _PREVIOUS] = link
        self._subscribers[link] = subscriber
        self._links[4 * link] = self._link_hash(list_number, subscriber)
        self._links[4 * link + _LIST] = list_number
        self._links[4 * link + _NEXT] = following
        self._links[4 * link + _PREVIOUS] = 0
        return slots.place(self._members, link, self._links[4 * link])

    def _drop_link(self, link: int) -> int:
        list_number = self._links[4 * link + _LIST]
        following, previous = self._links[4 * link + _NEXT], self._links[4 * link + _PREVIOUS]
        if previous:
            self._links[4 * previous + _NEXT] = following
        else:
            self._nodes[8 * (list_number >> 1) + _SUBSCRIPTIONS + (list_number & 1)] = following
        if following:
            self._links[4 * following + _PREVIOUS] = previous
        slots.vacate(self._members, link, self._links, 4)
        self._links[4 * link + _NEXT] = self._link_free
        self._link_free = link
        self._link_count -= 1
        return 0

    def _reserve(self, levels: int, filter_bytes: int) -> None:
        """Room for one more filter, so that nothing can fail half-way through adding it."""
        if self._node_end + levels > _LAST_NUMBER or self._link_end >= _LAST_NUMBER:
            raise TooLarge("subscription tree", self.memory_bytes(), 40 * _LAST_NUMBER)
        if len(self._nodes) < 8 * (self._node_end + levels):
            self._nodes = slots.grown(self._nodes, "i", 8 * _with_slack(self._node_end + levels))
        if len(self._subscribers) <= self._link_end:
            self._subscribers = slots.grown(self._subscribers, "q", _with_slack(self._link_end + 1))
            self._links = slots.grown(self._links, "i", 4 * len(self._subscribers))
        while 4 * (self._node_count + levels) > 3 * len(self._edges):
            self._edges = slots.spread(self._edges, self._nodes, 8)
        while 4 * (self._link_count + 1) > 3 * len(self._members):
            self._members = slots.spread(self._members, self._links, 4)
        if len(self._arena) < self._arena_end + filter_bytes:
            self._move_arena(self._arena_kept + filter_bytes)

    def _move_arena(self, least_bytes: int) -> None:
        """Copy the levels of living nodes to a new arena. A byte a node is left free, so that moves stay rare."""
        room_bytes = _with_slack(least_bytes + self._node_count)
        if room_bytes > _LAST_ARENA_BYTE:
            raise TooLarge("levels of subscriptions", room_bytes, _LAST_ARENA_BYTE)
        room = bytearray(room_bytes)
        self._arena_end = self._copy_levels(room)
        self._arena = room

    def _copy_levels(self, room: bytearray) -> int:
        filled = 0
        for node in range(1, self._node_end):
            size = self._nodes[8 * node + _LEVEL_BYTES]
            if size > 0:
                memory.copy_bytes(room, filled, self._arena, self._nodes[8 * node + _LEVEL_AT], size)
                self._nodes[8 * node + _LEVEL_AT] = filled
                filled += size
        return filled


def check_filter(filter: bytes) -> None:
    """InvalidArgument, with the reason, unless the bytes are a topic filter."""
    _check_name(filter, "filter")
    levels = filter.split(b"/")
    if len(levels) > MAX_FILTER_LEVELS:
        raise InvalidArgument(f"a topic filter has at most {MAX_FILTER_LEVELS} levels, this one has {len(levels)}")
    if b"#" in filter and (levels.pop() != b"#" or filter.count(b"#") > 1):
        raise InvalidArgument(f"'#' is the whole last level of a topic filter or not in it: {filter!r}")
    if b"+" in filter and any(b"+" in level and level != b"+" for level in levels):
        raise InvalidArgument(f"'+' is a whole level of a topic filter or not in it: {filter!r}")


def check_topic(topic: bytes) -> None:
    """InvalidArgument, with the reason, unless the bytes are a topic to publish to."""
    _check_name(topic, "name")
    if b"+" in topic or b"#" in topic:
        raise InvalidArgument(f"a topic to publish to has no wildcards: {topic!r}")


def _check_name(name: bytes, kind: str) -> None:
    if not name:
        raise InvalidArgument(f"a topic {kind} is not empty")
    if len(name) > MAX_NAME_BYTES:
        raise InvalidArgument(f"a topic {kind} has at most {MAX_NAME_BYTES} bytes, this one has {len(name)}")
    if b"\0" in name:
        raise InvalidArgument(f"a topic {kind} has no NUL: {name!r}")
    try:
        name.decode()
    except UnicodeDecodeError as fault:
        raise InvalidArgument(f"a topic {kind} is UTF-8, this one is not at byte {fault.start}: {name!r}") from None


def _path_bytes(filter: bytes) -> int:
    """The end of the levels before a `#`; -1 if there are none."""
    return len(filter) - 2 if filter.endswith(b"#") else len(filter)


def _stir(state: int, word: int) -> int:
    state = ((state ^ word) * _ODD) & _LOW_64
    return state ^ state >> 32


def _with_slack(entries: int) -> int:
    """A quarter more: with doubling, half of the memory of a large tree could lie idle."""
    return entries + entries // 4
