cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport memory, slots

cdef int _HASH, _PARENT, _LEVEL_AT, _LEVEL_BYTES, _PLUS, _SUBSCRIPTIONS, _REST, _CHILDREN
cdef int _LIST, _NEXT, _PREVIOUS
cdef int _PLUS_SIGN, _DOLLAR, _SLASH, _NO_LEVEL
cdef int64_t _LAST_NUMBER, _LAST_ARENA_BYTE
cdef uint64_t _LOW_64, _LOW_31, _ODD


@cython.final
cdef class SubscriptionTree:
    cdef uint64_t _seed, _level_hash
    cdef int[::1] _nodes, _edges, _links, _members, _path
    cdef long long[::1] _subscribers, _found
    cdef unsigned char[::1] _arena, _name
    cdef int64_t _node_end, _node_free, _node_count
    cdef int64_t _link_end, _link_free, _link_count
    cdef int64_t _arena_end, _arena_kept, _found_count

    @cython.locals(list_number=int64_t)
    cpdef bint add(self, bytes filter, int64_t subscriber) except -1

    @cython.locals(node=int64_t, link=int64_t)
    cpdef bint remove(self, bytes filter, int64_t subscriber) except -1

    cpdef int64_t match(self, const unsigned char[::1] topic, int64_t start, int64_t stop, object out) except -1

    @cython.locals(i=Py_ssize_t, before=int64_t)
    cpdef int64_t match_many(
        self,
        const unsigned char[::1] source,
        const int[::1] starts,
        const int[::1] ends,
        int[::1] counts,
        object out,
    ) except -1

    cdef int _hold(self, const unsigned char[::1] source, int64_t start, int64_t stop) except -1

    @cython.locals(
        is_open=cython.bint,
        begin=int64_t,
        end=int64_t,
        at=int64_t,
        level_stop=int64_t,
        fill=int64_t,
        i=int64_t,
        node=int64_t,
        child=int64_t,
    )
    cdef int _collect(self, int64_t stop) except -1

    cdef int _take(self, int64_t link) except -1

    cdef int _give(self, object out) except -1

    @cython.locals(state=uint64_t, word=uint64_t, first=int64_t)
    cdef int64_t _read_level(self, int64_t at, int64_t stop) except -1

    @cython.locals(wanted=int64_t, mask=int64_t, slot=int64_t, child=int64_t, record=int64_t)
    cdef int64_t _find_child(self, int64_t node, int64_t at, int64_t stop) except -1

    cdef bint _is_level(self, int64_t level_at, int64_t at, int64_t stop) except -1

    @cython.locals(node=int64_t, at=int64_t, level_stop=int64_t)
    cdef int64_t _walk(self, int64_t stop) except? -1

    @cython.locals(node=int64_t, at=int64_t, level_stop=int64_t)
    cdef int64_t _plant(self, int64_t stop) except -1

    @cython.locals(node=int64_t)
    cdef int64_t _new_plus(self, int64_t parent) except -1

    @cython.locals(node=int64_t)
    cdef int64_t _new_child(self, int64_t parent, int64_t at, int64_t stop) except -1

    @cython.locals(node=int64_t, i=int64_t)
    cdef int64_t _new_node(self, int64_t parent) except -1

    @cython.locals(record=int64_t, parent=int64_t)
    cdef int _prune(self, int64_t node) except -1

    cdef int64_t _link_hash(self, int64_t list_number, int64_t subscriber) except -1

    @cython.locals(mask=int64_t, slot=int64_t, link=int64_t)
    cdef int64_t _find_link(self, int64_t list_number, int64_t subscriber) except -1

    @cython.locals(link=int64_t, head=int64_t, following=int64_t)
    cdef int _insert_link(self, int64_t list_number, int64_t subscriber) except -1

    @cython.locals(list_number=int64_t, following=int64_t, previous=int64_t)
    cdef int _drop_link(self, int64_t link) except -1

    cdef int _reserve(self, int64_t levels, int64_t filter_bytes) except -1

    @cython.locals(room_bytes=int64_t)
    cdef int _move_arena(self, int64_t least_bytes) except -1

    @cython.locals(filled=int64_t, node=int64_t, size=int64_t)
    cdef int64_t _copy_levels(self, unsigned char[::1] room) except -1


cdef int64_t _path_bytes(bytes filter) except? -1

cdef uint64_t _stir(uint64_t state, uint64_t word) noexcept

cdef int64_t _with_slack(int64_t entries) noexcept
