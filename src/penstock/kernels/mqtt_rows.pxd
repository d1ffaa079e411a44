cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport memory

cdef int _HAS_ALIAS, _HAS_EXPIRY, _ALIAS_BYTES, _EXPIRY_BYTES
cdef int _FORMAT, _EXPIRY, _TOPIC_ALIAS, _USER_PROPERTY
cdef uint64_t _LOW_64, _FIRST, _SECOND


@cython.locals(i=Py_ssize_t, count=int64_t)
cpdef int64_t pick_rows(const int[::1] heads, int mask, int value, int[::1] out) except -1


@cython.locals(distinct=int64_t, rows=int64_t, room=int64_t, i=int64_t, start=int64_t, end=int64_t, alias=int, number=int64_t, slot=int64_t)
cpdef int64_t group_topics(
    const unsigned char[::1] data,
    const int[::1] starts,
    const int[::1] ends,
    const int[::1] aliases,
    int[::1] alias_numbers,
    uint64_t seed,
    int[::1] table,
    int[::1] numbers,
    int[::1] firsts,
) except -1


@cython.locals(size=int64_t, at=int64_t)
cdef bint _is_same(
    const unsigned char[::1] data, int64_t start, int64_t end, int64_t other, int64_t other_end
) except -1


@cython.locals(state=uint64_t, word=uint64_t, byte=uint64_t, at=int64_t, i=int64_t)
cdef uint64_t _hash(const unsigned char[::1] data, int64_t start, int64_t end, uint64_t seed) except? 0xFFFFFFFFFFFFFFFF


@cython.locals(i=Py_ssize_t, count=int64_t, seconds=int64_t)
cpdef int64_t expiry_times(
    const unsigned char[::1] data, const int[::1] present, const int[::1] expiry_at, int64_t now_ms, long long[::1] out
) except -1


@cython.locals(word=uint64_t)
cdef int64_t _big_endian(const unsigned char[::1] data, int64_t at) except -1


@cython.locals(i=Py_ssize_t, count=int64_t, expiry=int64_t, alias=int64_t)
cpdef int64_t drop_hop_by_hop(
    unsigned char[::1] data,
    const int[::1] present,
    const int[::1] expiry_at,
    const int[::1] alias_at,
    int[::1] property_starts,
) except -1


@cython.locals(held=uint64_t, byte=uint64_t, i=int64_t)
cdef int _move_to_front(unsigned char[::1] data, int64_t start, int64_t at, int64_t size) except -1


@cython.locals(i=Py_ssize_t, count=int64_t, at=int64_t)
cpdef int64_t find_user_property(
    const unsigned char[::1] data,
    const int[::1] property_starts,
    const int[::1] property_ends,
    const unsigned char[::1] name,
    int[::1] out_starts,
    int[::1] out_ends,
) except -1


@cython.locals(kind=int, size=int64_t, value=int64_t)
cdef int64_t _value_of(
    const unsigned char[::1] data, int64_t at, int64_t end, const unsigned char[::1] name
) except -1


@cython.locals(same=Py_ssize_t)
cdef bint _is_name(const unsigned char[::1] data, int64_t at, const unsigned char[::1] name) except -1


@cython.locals(high=int64_t)
cdef int64_t _short(const unsigned char[::1] data, int64_t at) except -1
