cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport memory

cdef int _PUBLISHES, _SETTLEMENTS, _HEARTBEATS, _PUBLISH, _HEARTBEAT, _MULTIPLE, _LONG


@cython.locals(row=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t runs(
    const int[::1] kinds, const int[::1] channels, const int[::1] regions, int[::1] firsts
) except -1


cpdef int sort_of(int kind) except -1


cdef int _sort(int kind) noexcept nogil


@cython.locals(i=Py_ssize_t, found=int64_t)
cpdef int64_t union(const int[::1] values) except -1


@cython.locals(row=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t tag_runs(
    const int[::1] kinds, const int[::1] flags, const int64_t[::1] tags, int[::1] firsts
) except -1


@cython.locals(i=Py_ssize_t, count=Py_ssize_t, before=int)
cpdef Py_ssize_t standing(const int[::1] ends) except -1


@cython.locals(i=Py_ssize_t, longest=int64_t)
cpdef int64_t longest_time(const int64_t[::1] times) except -1


@cython.locals(i=Py_ssize_t)
cpdef int expiries(const int64_t[::1] left_ms, int64_t now_ms, int64_t[::1] out) except -1


@cython.locals(i=Py_ssize_t, count=Py_ssize_t, at=Py_ssize_t)
cpdef Py_ssize_t find_text(
    const unsigned char[::1] data, const int[::1] places, const unsigned char[::1] text, int[::1] found
) except -1


@cython.locals(i=Py_ssize_t, same=Py_ssize_t)
cdef bint _is(const unsigned char[::1] data, Py_ssize_t at, const unsigned char[::1] text) noexcept


@cython.locals(
    i=Py_ssize_t,
    size=Py_ssize_t,
    count=Py_ssize_t,
    field=Py_ssize_t,
    at=Py_ssize_t,
    table=Py_ssize_t,
    held=int64_t,
    flags=int,
    whole="unsigned char[::1]",
)
cpdef bytearray with_number(
    const unsigned char[::1] data,
    const int[::1] starts,
    const int[::1] ends,
    const unsigned char[::1] name,
    const int64_t[::1] values,
    int[::1] out_ends,
)


cdef Py_ssize_t _table_at(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end, int flags) except -1
