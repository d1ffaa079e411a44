cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport hashing


@cython.locals(i=Py_ssize_t)
cpdef int place_by_key(
    const unsigned char[::1] source, const int[::1] starts, const int[::1] ends, int64_t[::1] places
) except -1


@cython.locals(i=Py_ssize_t, total=int64_t)
cpdef int64_t count_targets(const int[::1] index, const int[::1] begins) except -1


@cython.locals(i=Py_ssize_t, count=Py_ssize_t, target=int, queue=int, size=int, place=int64_t, at=int64_t)
cpdef Py_ssize_t lay_out(
    const int[::1] index,
    const int[::1] begins,
    const int[::1] queues,
    const int64_t[::1] places,
    const int[::1] first_lanes,
    const int[::1] partitions,
    const int[::1] steps,
    const int[::1] starts,
    const int[::1] ends,
    int[::1] rows,
    int[::1] lanes,
    int[::1] counts,
    int[::1] longest,
) except -1
