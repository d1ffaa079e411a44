cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport memory, slots

cdef int _HASH, _PARENT, _LEVEL_AT, _LEVEL_BYTES, _CHILD, _NEXT, _PREVIOUS, _EXPIRES
cdef int _PLUS_SIGN, _DOLLAR, _SLASH, _HASH_SIGN, _FREE, _NOTHING
cdef int64_t _FIRST_SECOND, _LAST_NUMBER, _LAST_ARENA_BYTE
cdef uint64_t _LOW_64, _ODD
cdef int64_t _LOW_31


@cython.final
cdef class RetainedTree:
    cdef uint64_t _seed, _level_hash
    cdef int[::1] _nodes, _edges, _sizes
    cdef long long[::1] _offsets
    cdef unsigned char[::1] _arena
    cdef int64_t _node_end, _node_free, _node_count
    cdef int64_t _arena_end, _arena_kept, _pins, _messages, _bytes
    cdef list _emptied

    @cython.locals(node=int64_t)
    cpdef int put(
        self,
        const unsigned char[::1] topic,
        int64_t start,
        int64_t stop,
        int64_t offset,
        int64_t size,
        int64_t expires_s,
    ) except -1

    @cython.locals(node=int64_t)
    cpdef bint drop(self, const unsigned char[::1] topic, int64_t start, int64_t stop, int64_t offset) except -1

    @cython.locals(node=int64_t)
    cpdef int64_t find(self, bytes topic) except? -2

    @cython.locals(row=Py_ssize_t, start=int64_t, stop=int64_t, size=int64_t, expires_s=int64_t)
    cpdef int apply(
        self,
        const unsigned char[::1] body,
        const long long[::1] layout,
        Py_ssize_t count,
        const long long[::1] offsets,
    ) except -1

    @cython.locals(i=Py_ssize_t, kept=Py_ssize_t, row=int64_t, start=int64_t, stop=int64_t, node=int64_t)
    cpdef Py_ssize_t keep_current(
        self,
        const unsigned char[::1] body,
        const long long[::1] layout,
        int[::1] rows,
        const long long[::1] offsets,
    ) except -1

    cpdef int pin(self) except -1

    cpdef int unpin(self) except -1

    @cython.locals(
        levels=int64_t,
        has_rest=cython.bint,
        top=int64_t,
        found=int64_t,
        node=int64_t,
        depth=int64_t,
        child=int64_t,
        how=int64_t,
    )
    cpdef int64_t advance(
        self,
        const unsigned char[::1] filter,
        const int[::1] starts,
        const int[::1] ends,
        int[::1] stack,
        int64_t budget,
        long long[::1] out,
    ) except -1

    @cython.locals(found=int64_t, stop=int64_t, node=int64_t, time=int64_t)
    cpdef int64_t expired(self, int64_t first, int64_t budget, int64_t now_s, int[::1] out) except -1

    @cython.locals(at=int64_t)
    cpdef bytes topic_of(self, int64_t node)

    cpdef int64_t offset_of(self, int64_t node) except? -2

    cdef bint _is_hidden(self, int64_t node) except -1

    @cython.locals(state=uint64_t, word=uint64_t, byte=uint64_t, first=int64_t)
    cdef int64_t _read_level(self, const unsigned char[::1] source, int64_t at, int64_t stop) except -1

    @cython.locals(wanted=int64_t, mask=int64_t, slot=int64_t, child=int64_t, record=int64_t)
    cdef int64_t _find_child(self, int64_t node, const unsigned char[::1] source, int64_t at, int64_t stop) except -1

    cdef bint _is_level(self, int64_t level_at, const unsigned char[::1] source, int64_t at, int64_t stop) except -1

    @cython.locals(node=int64_t, at=int64_t, level_stop=int64_t)
    cdef int64_t _walk(self, const unsigned char[::1] source, int64_t start, int64_t stop) except? -1

    @cython.locals(node=int64_t, at=int64_t, level_stop=int64_t, child=int64_t)
    cdef int64_t _plant(self, const unsigned char[::1] source, int64_t start, int64_t stop) except -1

    @cython.locals(node=int64_t, record=int64_t, following=int64_t)
    cdef int64_t _new_child(self, int64_t parent, const unsigned char[::1] source, int64_t at, int64_t stop) except -1

    @cython.locals(record=int64_t, parent=int64_t)
    cdef int _prune(self, int64_t node) except -1

    @cython.locals(following=int64_t, previous=int64_t)
    cdef int _unlink(self, int64_t node, int64_t parent) except -1

    @cython.locals(entries=int64_t)
    cdef int _reserve(self, int64_t levels, int64_t topic_bytes) except -1

    @cython.locals(room_bytes=int64_t)
    cdef int _move_arena(self, int64_t least_bytes) except -1

    @cython.locals(filled=int64_t, node=int64_t, size=int64_t)
    cdef int64_t _copy_levels(self, unsigned char[::1] room) except -1


@cython.locals(count=int64_t, i=int64_t)
cdef int64_t _level_count(const unsigned char[::1] source, int64_t start, int64_t stop) except -1

cdef int64_t _entry_bytes(const unsigned char[::1] body, int64_t offsets_at, int64_t entry) except? -1

cdef uint64_t _stir(uint64_t state, uint64_t word) noexcept

cdef int64_t _with_slack(int64_t entries) noexcept
