cimport cython
from libc.stdint cimport int64_t

cdef int _PUBLISH, _HOP_BY_HOP, _PUBLISHES, _ACKNOWLEDGES, _IS_SPECIAL, _PUBACK_BYTES


@cython.locals(row=Py_ssize_t, region=Py_ssize_t)
cpdef int bounds(const int[::1] regions, int[::1] firsts) except -1


@cython.locals(row=Py_ssize_t, region=int)
cpdef int contents(const int[::1] heads, const int[::1] present, const int[::1] regions, int[::1] out) except -1


@cython.locals(row=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t pick_publishes(
    const int[::1] heads, const int[::1] regions, const int[::1] wanted, int[::1] out
) except -1


@cython.locals(i=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t pairs(const int[::1] regions, const int[::1] topics, int[::1] seen, int[::1] rows) except -1


@cython.locals(i=Py_ssize_t)
cpdef int spread(const int64_t[::1] values, const int[::1] regions, int64_t[::1] out) except -1


@cython.locals(i=Py_ssize_t, count=Py_ssize_t, at=Py_ssize_t)
cpdef Py_ssize_t answers(
    const int[::1] regions,
    const int[::1] packet_ids,
    unsigned char[::1] out,
    int[::1] owners,
    int[::1] starts,
    int[::1] stops,
) except -1


@cython.locals(i=Py_ssize_t)
cpdef int shift(int[::1] values, int by) except -1
