cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport hashing
from penstock.kernels.takers cimport Taker


@cython.locals(i=Py_ssize_t)
cpdef int place_by_key(
    const unsigned char[::1] source, const int[::1] starts, const int[::1] ends, int64_t[::1] places
) except -1


@cython.locals(
    i=Py_ssize_t, total=Py_ssize_t, count=Py_ssize_t, target=int, queue=int, size=int, lane=int, place=int64_t,
    at=int64_t, taker=Taker, refusing=Py_ssize_t, too_long=int, lane_of="int[::1]", out="int[::1]", lanes="int[::1]",
    sizes="int[::1]", filled="int[::1]",
)
cpdef tuple lay_out(
    list queues,
    const int[::1] index,
    const int[::1] begins,
    const int[::1] numbers,
    const int64_t[::1] places,
    const int[::1] steps,
    const int[::1] starts,
    const int[::1] ends,
    int[::1] counts,
)


@cython.locals(i=Py_ssize_t, place=int, out="int[::1]", at="int[::1]")
cdef object _scattered(const int[::1] fed, const int[::1] lanes, const int[::1] counts)
