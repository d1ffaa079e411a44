cimport cython
from libc.stdint cimport int64_t


cdef class Passage:
    cdef public int64_t under_way
    cdef public bint is_closed, is_awaited

    cpdef leave(self)


cdef class Taker:
    cdef public Passage gate
    cdef public set changed, filled
    cdef public dict units, groups
    cdef public bint is_deleted, spreads
    cdef public int64_t expected, published, used_ms, allowance, depth_limit, largest_value
    cdef public int partitions

    cpdef note_change(self)


@cython.locals(i=Py_ssize_t, queue=Taker, found=list)
cpdef list spreading(list queues)


@cython.locals(
    i=Py_ssize_t, j=Py_ssize_t, total=Py_ssize_t, queues=list, known=dict, some=list, firsts="int[::1]",
    places="int[::1]",
)
cpdef tuple targets(list fed)


@cython.locals(i=Py_ssize_t, queue=Taker, count=int)
cpdef Py_ssize_t take(
    list queues, const int[::1] counts, Py_ssize_t first, int64_t now, bint is_kept, dict taken
) except -1


@cython.locals(queue=Taker, count=int64_t)
cpdef release(dict taken)


@cython.locals(queue=Taker, count=int64_t, rows=int64_t)
cpdef int64_t leave(dict taken, bint is_committed, bint is_published) except? -1


@cython.locals(i=Py_ssize_t, lane=Py_ssize_t, queue=Taker)
cpdef Py_ssize_t data_logs(list queues, const int[::1] first_lanes, const int[::1] counts, list logs) except? -2
