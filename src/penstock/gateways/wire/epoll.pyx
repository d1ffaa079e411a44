"""The reactor on epoll: a turn is a loop in C (wire.h), without the interpreter. See reactor.py for what it does."""

cimport cython
from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

import os
from array import array as _array

from penstock.core.errors import Closed, InvalidArgument
from penstock.gateways.wire.columns import width, zeros
from penstock.gateways.wire.foreign import Foreign
from penstock.gateways.wire.reactor import MAX_COLUMNS, MAX_LISTENERS, Accepted, Counters


cdef extern from "<sys/socket.h>" nogil:
    enum: AF_INET, AF_INET6, AF_UNIX
    cdef struct sockaddr_storage:
        uint16_t ss_family


cdef extern from "<netinet/in.h>" nogil:
    cdef struct in_addr:
        pass
    cdef struct in6_addr:
        pass
    cdef struct sockaddr_in:
        uint16_t sin_port
        in_addr sin_addr
    cdef struct sockaddr_in6:
        uint16_t sin6_port
        uint32_t sin6_flowinfo
        uint32_t sin6_scope_id
        in6_addr sin6_addr
    uint16_t ntohs(uint16_t value)
    uint32_t ntohl(uint32_t value)


cdef extern from "<sys/un.h>" nogil:
    cdef struct sockaddr_un:
        char sun_path[108]


cdef extern from "<arpa/inet.h>" nogil:
    const char *inet_ntop(int family, const void *source, char *to, uint32_t size)


cdef extern from "wire.h" nogil:
    ctypedef struct wire_bytes_t:
        uint8_t *data
        int32_t at, end, room
    ctypedef struct wire_conn_t:
        int32_t fd, expected
        wire_bytes_t kept, unsent
        uint8_t state, foreign, parked, overfull, broken, in_dirty
    ctypedef struct wire_list_t:
        int32_t *items
        int32_t count
    ctypedef struct wire_listener_t:
        int32_t fd, number
        uint32_t served
        int64_t rests_until_ms
    ctypedef struct wire_accepted_t:
        int32_t slot, number
        sockaddr_storage address
    ctypedef struct wire_column_t:
        void *cells
        int64_t initial
        int32_t width
    ctypedef struct wire_counters_t:
        int64_t turns, empty_turns, polls, receives, sends, received_bytes, sent_bytes, accepts, accept_rests
        int64_t watch_changes
    ctypedef struct wire_t:
        int32_t max_slots, arena_bytes, arena_room, per_turn_bytes, max_kept_bytes, max_packet_bytes, begun_slots
        int64_t max_pieces_bytes, linger_ms, accept_rest_ms
        uint8_t *arena
        int64_t *heard_ms
        int64_t *received_bytes
        int64_t *high_water
        int32_t *generation
        int32_t *listener
        int epoll_fd
        wire_conn_t *conns
        int32_t connections
        wire_list_t dirty_foreign, lost, clogged, drained, overfull
        wire_listener_t listeners[16]
        int32_t listener_count
        wire_column_t columns[64]
        int32_t column_count
        uint32_t turn
        int64_t now_ms, unsent_bytes, kept_bytes
        int32_t *slots
        int32_t *starts
        int32_t *stops
        int32_t regions, are_offered
        wire_accepted_t *accepted
        int32_t accepted_count
        wire_counters_t counters
    wire_t *wire_new(int32_t max_slots, int32_t accepts_per_turn)
    void wire_delete(wire_t *r)
    int wire_turn(wire_t *r)
    void wire_take_all(wire_t *r, const int32_t *positions, const uint8_t *again)
    int32_t wire_begin(wire_t *r, int fd, int32_t number)
    int wire_is_open(const wire_t *r, int32_t i, int32_t generation)
    int32_t wire_length(const wire_bytes_t *b)
    void wire_drop_unsent(wire_t *r, int32_t i)
    void wire_feed(wire_t *r, int32_t i, const uint8_t *data, int32_t size)
    void wire_end_feed(wire_t *r, int32_t i)
    void wire_note(wire_t *r, int32_t i, int is_clogged)
    void wire_resume(wire_t *r, int32_t i)
    void wire_write(wire_t *r, int32_t i, const uint8_t *data, int32_t size)
    void wire_write_many(
        wire_t *r, const int32_t *slots, const int32_t *generations, const uint8_t *data, const int32_t *starts,
        const int32_t *stops, int64_t count
    )
    void wire_flush(wire_t *r)
    void wire_end(wire_t *r, int32_t i, int with_unsent)
    int wire_watch_listener(wire_t *r, int32_t k, int how)
    int wire_make_nonblocking(int fd)
    enum: EPOLL_CTL_ADD, EPOLL_CTL_DEL


cdef array.array _INTS = _array("i")
cdef array.array _LONGS = _array("q")
cdef int32_t _MOST_BYTES = 1 << 30


cdef array.array _copy(const int32_t *items, int32_t count):
    cdef array.array made = array.clone(_INTS, count, False)
    if count:
        memcpy(made.data.as_ints, items, 4 * <size_t> count)
    return made


@cython.final
cdef class EpollReactor:
    """See reactor.Reactor."""

    cdef wire_t *_wire
    cdef bint _is_busy, _is_found, _is_told
    cdef object _options, _foreign, _none
    cdef list _listening, _door_columns
    cdef int64_t[::1] _heard_cells, _received_cells, _water_cells
    cdef int32_t[::1] _generation_cells, _listener_cells
    cdef uint8_t[::1] _arena_cells
    cdef readonly object arena, generation, listener, heard_ms, received_bytes, high_water
    cdef readonly object slots, generations, starts, stops, lost, clogged, drained, overfull
    cdef readonly list accepted

    def __cinit__(self, options):
        cdef int32_t count = options.max_connections
        cdef wire_t *made
        self._options, self._foreign = options, Foreign()
        self._listening, self._door_columns, self._is_told = [], [], True
        self._none = _array("i")
        self.slots = self.generations = self.starts = self.stops = self._none
        self.lost = self.clogged = self.drained = self.overfull = self._none
        self.accepted = []
        self.generation, self.listener = zeros("i", count), zeros("i", count)
        self.heard_ms, self.received_bytes, self.high_water = zeros("q", count), zeros("q", count), zeros("q", count)
        # A multiple of pages, so that what is behind can be given back.
        cdef int32_t arena_bytes = (options.arena_bytes + 0xFFFF) & ~0xFFFF
        cdef int32_t arena_room = arena_bytes + <int32_t> options.longest_region
        arena = zeros("B", arena_room)
        self.arena = arena.toreadonly()
        self._arena_cells = arena
        self._generation_cells, self._listener_cells = self.generation, self.listener
        self._heard_cells, self._received_cells, self._water_cells = self.heard_ms, self.received_bytes, self.high_water
        made = wire_new(count, options.accepts_per_turn)
        if made == NULL:
            raise OSError(errno, os.strerror(errno))
        made.arena, made.arena_bytes, made.arena_room = &self._arena_cells[0], arena_bytes, arena_room
        made.generation, made.listener = &self._generation_cells[0], &self._listener_cells[0]
        made.heard_ms, made.received_bytes = &self._heard_cells[0], &self._received_cells[0]
        made.high_water = &self._water_cells[0]
        made.per_turn_bytes, made.max_kept_bytes = options.per_turn_bytes, options.max_kept_bytes
        made.max_packet_bytes, made.max_pieces_bytes = options.max_packet_bytes, options.max_pieces_bytes
        made.linger_ms, made.accept_rest_ms = options.linger_ms, options.accept_rest_ms
        made.columns[0].cells, made.columns[0].initial, made.columns[0].width = made.high_water, options.high_water_bytes, 8
        made.column_count = 1
        self._wire = made

    def __dealloc__(self):
        if self._wire != NULL:
            wire_delete(self._wire)
            self._wire = NULL

    cdef wire_t *_open(self) except NULL:
        if self._wire == NULL:
            raise Closed("the reactor is closed")
        if self._is_busy:
            raise RuntimeError("a reactor is called from one thread")
        return self._wire

    cdef wire_t *_named(self, int32_t slot) except NULL:
        cdef wire_t *r = self._open()
        if slot < 0 or slot >= r.max_slots:
            raise InvalidArgument(f"no connection has slot {slot}")
        return r

    # What the last turn brought

    @property
    def now_ms(self):
        return self._open().now_ms

    @property
    def unsent_bytes(self):
        return self._open().unsent_bytes

    @property
    def kept_bytes(self):
        return self._open().kept_bytes

    @property
    def connections(self):
        return self._open().connections

    def counters(self):
        cdef wire_counters_t found = self._open().counters
        return Counters(**found)

    # Columns

    def add_column(self, str typecode, int64_t initial=0):
        cdef wire_t *r = self._open()
        cdef int32_t size = width(typecode), i
        cdef wire_column_t *column
        cdef int32_t[::1] ints
        cdef int64_t[::1] longs
        if r.column_count == MAX_COLUMNS:
            raise InvalidArgument(f"a reactor has at most {MAX_COLUMNS} columns")
        if size == 4 and not -(1 << 31) <= initial < 1 << 31:
            raise InvalidArgument(f"{initial} is no int32")
        made = zeros(typecode, r.max_slots)
        self._door_columns.append(made)
        column = &r.columns[r.column_count]
        column.initial, column.width = initial, size
        if size == 4:
            ints = made
            column.cells = &ints[0]
            for i in range(r.begun_slots):
                ints[i] = <int32_t> initial
        else:
            longs = made
            column.cells = &longs[0]
            for i in range(r.begun_slots):
                longs[i] = initial
        r.column_count += 1
        return made

    def values(self, column):
        cdef wire_t *r = self._open()
        cdef array.array made
        cdef const int32_t[::1] ints
        cdef const int64_t[::1] longs
        cdef int32_t k
        if len(column) != r.max_slots:
            raise InvalidArgument("a column has a cell for each slot")
        if column.itemsize == 4:
            ints = column
            made = array.clone(_INTS, r.regions, False)
            for k in range(r.regions):
                made.data.as_ints[k] = ints[r.slots[k]]
        else:
            longs = column
            made = array.clone(_LONGS, r.regions, False)
            for k in range(r.regions):
                made.data.as_longlongs[k] = longs[r.slots[k]]
        return made

    # Connections

    def fileno(self):
        return self._open().epoll_fd

    def listen(self, sock, int32_t number):
        cdef wire_t *r = self._open()
        cdef wire_listener_t *made
        if r.listener_count == MAX_LISTENERS:
            raise InvalidArgument(f"a reactor has at most {MAX_LISTENERS} listeners")
        if any([known == number for known, _ in self._listening]):
            raise InvalidArgument(f"there is a listener {number} already")
        sock.setblocking(False)
        made = &r.listeners[r.listener_count]
        made.fd, made.number, made.rests_until_ms, made.served = sock.fileno(), number, 0, r.turn - 1
        if wire_watch_listener(r, r.listener_count, EPOLL_CTL_ADD) < 0:
            raise OSError(errno, os.strerror(errno))
        r.listener_count += 1
        self._listening.append((number, sock))

    def unlisten(self, int32_t number):
        cdef wire_t *r = self._open()
        cdef int32_t k
        for k in range(r.listener_count):
            if r.listeners[k].number == number:
                wire_watch_listener(r, k, EPOLL_CTL_DEL)
                r.listener_count -= 1
                r.listeners[k] = r.listeners[r.listener_count]
                self._listening = [each for each in self._listening if each[0] != number]
                return

    def add(self, int fd, int32_t number, received=b""):
        cdef wire_t *r = self._open()
        cdef int32_t slot
        if wire_make_nonblocking(fd) < 0:
            raise InvalidArgument(f"no descriptor {fd}")
        slot = wire_begin(r, fd, number)
        if slot < 0:
            raise InvalidArgument(f"there are {r.connections} connections, and the limit is {r.max_slots}")
        if received:
            self._keep(slot, received)
        return slot

    def add_foreign(self, transport, int32_t number):
        cdef wire_t *r = self._open()
        cdef int32_t slot = wire_begin(r, -1, number)
        if slot < 0:
            raise InvalidArgument(f"there are {r.connections} connections, and the limit is {r.max_slots}")
        self._foreign.add(slot, transport)
        return slot

    def feed(self, int32_t slot, int32_t generation, data):
        cdef wire_t *r = self._named(slot)
        if not wire_is_open(r, slot, generation):
            return
        if not r.conns[slot].foreign:
            raise InvalidArgument("only a connection without a socket of its own is fed")
        self._keep(slot, data)
        if self._is_full(slot):
            self._foreign.fill(slot)

    cdef _keep(self, int32_t slot, data):
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if view.len > _MOST_BYTES:
                raise InvalidArgument(f"{view.len} bytes at once")
            wire_feed(self._wire, slot, <const uint8_t *> view.buf, <int32_t> view.len)
        finally:
            PyBuffer_Release(&view)

    cdef bint _is_full(self, int32_t slot):
        cdef wire_conn_t *c = &self._wire.conns[slot]
        cdef int32_t most = self._wire.max_kept_bytes + self._wire.per_turn_bytes
        return wire_length(&c.kept) >= max(most, c.expected)

    def foreign_ended(self, int32_t slot, int32_t generation):
        cdef wire_t *r = self._named(slot)
        if wire_is_open(r, slot, generation) and r.conns[slot].foreign:
            wire_end_feed(r, slot)

    def foreign_drained(self, int32_t slot, int32_t generation):
        cdef wire_t *r = self._named(slot)
        if wire_is_open(r, slot, generation) and r.conns[slot].foreign:
            wire_note(r, slot, 0)

    # A turn

    def turn(self):
        cdef wire_t *r = self._open()
        cdef int32_t k
        if self._is_told:  # if not, something was raised on the way: the same is told again
            if r.dirty_foreign.count:
                self._flush_foreign()
            self._is_busy, self._is_told = True, False
            with nogil:
                self._is_found = wire_turn(r)
            self._is_busy = False
        self.slots, self.starts, self.stops = self._found(r.slots), self._found(r.starts), self._found(r.stops)
        self.generations = self.values(self.generation) if r.regions else self._none
        self.lost, self.clogged = self._listed(&r.lost), self._listed(&r.clogged)
        self.drained, self.overfull = self._listed(&r.drained), self._listed(&r.overfull)
        self.accepted = [_accepted(&r.accepted[k]) for k in range(r.accepted_count)]
        for k in range(r.lost.count):
            if r.conns[r.lost.items[k]].foreign:
                self._foreign.abort(r.lost.items[k])
        self._is_told = True
        return self._is_found

    cdef array.array _found(self, const int32_t *items):
        return _copy(items, self._wire.regions) if self._wire.regions else self._none

    cdef array.array _listed(self, const wire_list_t *found):
        return _copy(found.items, found.count) if found.count else self._none

    def taken(self, const int32_t[::1] positions, const uint8_t[::1] again=None):
        cdef wire_t *r = self._open()
        cdef const uint8_t *flags = NULL
        cdef int32_t k
        if not r.are_offered and r.regions:
            raise InvalidArgument("the regions of this turn are taken already")
        if positions.shape[0] != r.regions or (again is not None and again.shape[0] != r.regions):
            raise InvalidArgument(f"{positions.shape[0]} positions for {r.regions} regions")
        if not r.regions:
            return
        for k in range(r.regions):
            if positions[k] < r.starts[k] or positions[k] > r.stops[k]:
                raise InvalidArgument(f"position {positions[k]} is outside {r.starts[k]}..{r.stops[k]}, its region")
        if again is not None:
            flags = &again[0]
        wire_take_all(r, &positions[0], flags)
        if self._foreign.full:
            for slot in list(self._foreign.full):
                if not self._is_full(slot):
                    self._foreign.empty(slot)

    def expect(self, int32_t slot, int32_t generation, int64_t size):
        cdef wire_t *r = self._named(slot)
        if size < 0 or size > r.max_packet_bytes:
            raise InvalidArgument(f"a packet of {size} bytes, and the limit is {r.max_packet_bytes}")
        if wire_is_open(r, slot, generation):
            r.conns[slot].expected = <int32_t> size
            if slot in self._foreign.full and not self._is_full(slot):
                self._foreign.empty(slot)

    def park(self, int32_t slot, int32_t generation):
        cdef wire_t *r = self._named(slot)
        if wire_is_open(r, slot, generation) and not r.conns[slot].parked:
            r.conns[slot].parked = 1
            if r.conns[slot].foreign:
                self._foreign.park(slot)

    def resume(self, int32_t slot, int32_t generation):
        cdef wire_t *r = self._named(slot)
        if wire_is_open(r, slot, generation) and r.conns[slot].parked:
            wire_resume(r, slot)
            if r.conns[slot].foreign:
                self._foreign.resume(slot)

    # What goes out

    def write(self, int32_t slot, int32_t generation, data):
        cdef wire_t *r = self._named(slot)
        cdef Py_buffer view
        if not wire_is_open(r, slot, generation):
            return
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if view.len > _MOST_BYTES:
                raise InvalidArgument(f"{view.len} bytes at once")
            wire_write(r, slot, <const uint8_t *> view.buf, <int32_t> view.len)
        finally:
            PyBuffer_Release(&view)

    def write_many(
        self,
        const int32_t[::1] slots,
        const int32_t[::1] generations,
        data,
        const int32_t[::1] starts,
        const int32_t[::1] stops,
    ):
        cdef wire_t *r = self._open()
        cdef Py_ssize_t count = slots.shape[0], k
        cdef Py_buffer view
        if generations.shape[0] != count or starts.shape[0] != count or stops.shape[0] != count:
            raise InvalidArgument("each segment has a slot, a generation, a start and a stop")
        if not count:
            return
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            for k in range(count):
                if slots[k] < 0 or slots[k] >= r.max_slots:
                    raise InvalidArgument(f"no connection has slot {slots[k]}")
                if starts[k] < 0 or stops[k] < starts[k] or stops[k] > view.len:
                    raise InvalidArgument(f"segment {starts[k]}..{stops[k]} leaves the buffer")
            wire_write_many(r, &slots[0], &generations[0], <const uint8_t *> view.buf, &starts[0], &stops[0], count)
        finally:
            PyBuffer_Release(&view)

    def flush(self):
        cdef wire_t *r = self._open()
        self._is_busy = True
        with nogil:
            wire_flush(r)
        self._is_busy = False
        if r.dirty_foreign.count:
            self._flush_foreign()

    cdef _flush_foreign(self):
        """Transports may call back."""
        cdef wire_t *r = self._wire
        cdef int32_t i
        cdef int64_t held
        dirty = _copy(r.dirty_foreign.items, r.dirty_foreign.count)
        r.dirty_foreign.count = 0
        for i in dirty:
            r.conns[i].in_dirty = 0
        for i in dirty:
            if not wire_is_open(r, i, r.generation[i]) or not wire_length(&r.conns[i].unsent):
                continue
            held = self._foreign.write(i, self._unsent(i))
            if self._wire == NULL:
                return
            if held < 0:
                self._foreign.abort(i)
                wire_end(r, i, 0)
            elif held > r.high_water[i]:
                wire_note(r, i, 1)

    cdef bytes _unsent(self, int32_t slot):
        """Taken out."""
        cdef wire_conn_t *c = &self._wire.conns[slot]
        cdef bytes data = PyBytes_FromStringAndSize(<char *> c.unsent.data + c.unsent.at, wire_length(&c.unsent))
        self._wire.counters.sends += 1
        self._wire.counters.sent_bytes += len(data)
        wire_drop_unsent(self._wire, slot)
        return data

    def backlog(self, int32_t slot, int32_t generation):
        cdef wire_t *r = self._named(slot)
        if not wire_is_open(r, slot, generation):
            return 0
        if r.conns[slot].foreign:
            return wire_length(&r.conns[slot].unsent) + self._foreign.backlog(slot)
        return wire_length(&r.conns[slot].unsent)

    # The end

    def is_open(self, int32_t slot, int32_t generation):
        cdef wire_t *r = self._named(slot)
        return bool(wire_is_open(r, slot, generation))

    def end(self, int32_t slot, int32_t generation):
        cdef wire_t *r = self._named(slot)
        cdef bytes data = b""
        if not wire_is_open(r, slot, generation):
            return
        if r.conns[slot].foreign and wire_length(&r.conns[slot].unsent):
            data = self._unsent(slot)
        wire_end(r, slot, 1)
        if r.conns[slot].foreign:
            self._foreign.end(slot, data)

    def abort(self, int32_t slot, int32_t generation):
        cdef wire_t *r = self._named(slot)
        if not wire_is_open(r, slot, generation):
            return
        wire_end(r, slot, 0)
        if r.conns[slot].foreign:
            self._foreign.abort(slot)

    def close(self):
        cdef wire_t *r = self._wire
        if r == NULL:
            return
        if self._is_busy:
            raise RuntimeError("a reactor is called from one thread")
        self._wire = NULL
        wire_delete(r)
        self._listening = []
        self._foreign.close()


cdef object _accepted(wire_accepted_t *found):
    return Accepted(found.slot, found.number, _address(&found.address))


cdef object _address(const sockaddr_storage *address):
    """As Python's socket module has it."""
    cdef char text[64]
    cdef const sockaddr_in *four = <const sockaddr_in *> address
    cdef const sockaddr_in6 *six = <const sockaddr_in6 *> address
    cdef const sockaddr_un *unix = <const sockaddr_un *> address
    if address.ss_family == AF_INET:
        inet_ntop(AF_INET, &four.sin_addr, text, sizeof(text))
        return (<bytes> text).decode(), ntohs(four.sin_port)
    if address.ss_family == AF_INET6:
        inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof(text))
        return (<bytes> text).decode(), ntohs(six.sin6_port), ntohl(six.sin6_flowinfo), six.sin6_scope_id
    return os.fsdecode(<bytes> unix.sun_path) if address.ss_family == AF_UNIX and unix.sun_path[0] else ""
