cimport cython
from libc.stdint cimport int64_t

from penstock.kernels._native cimport FrameEntry


cdef class Span:
    cdef public int64_t start, end, epoch


cdef class StagedLog:
    cdef public int64_t number, high_watermark, last_timestamp, adopted_base, hidden_end, cut_sequence, waiting_sequence
    cdef public int64_t written_sequence
    cdef public int waiting_level, durability
    cdef public bint is_apart
    cdef public Span bounds
    cdef public list tail, cuts
    cdef public dict listening
    cdef public object fault, on_commit

    cpdef Py_ssize_t append(self, FrameEntry entry) except -1

    @cython.locals(tail=list, keep=Py_ssize_t, entry=FrameEntry)
    cpdef list let_go(self, int64_t sequence)

    cpdef free(self, int64_t sequence)

    cpdef bint reached(self, int64_t end, int64_t sequence) except -1


@cython.locals(i=Py_ssize_t, log=StagedLog)
cpdef Py_ssize_t stamps(
    list logs,
    int64_t now,
    long long[::1] numbers,
    long long[::1] firsts,
    long long[::1] epochs,
    long long[::1] times,
) except? -2


@cython.locals(i=Py_ssize_t, entry=FrameEntry, size=int64_t)
cpdef int64_t entries_bytes(list entries) except -1


@cython.locals(i=Py_ssize_t, entry=FrameEntry, size=int64_t)
cpdef int64_t data_bytes(list entries) except -1


@cython.locals(i=Py_ssize_t, log=StagedLog, entry=FrameEntry, size=int64_t, records=int64_t)
cpdef tuple fold_all(list logs, list entries, int level, int64_t sequence)


@cython.locals(i=Py_ssize_t, log=StagedLog)
cpdef int strongest(list logs, int level) except -1


@cython.locals(i=Py_ssize_t, log=StagedLog)
cpdef bint any_apart(list logs) except -1


@cython.locals(i=Py_ssize_t, log=StagedLog)
cpdef wait_all(list logs, int level, int64_t sequence)


@cython.locals(i=Py_ssize_t, log=StagedLog, entry=FrameEntry, found=list, listening=dict)
cpdef list reached_all(dict logs, list entries, int64_t sequence)


@cython.locals(i=Py_ssize_t, log=StagedLog, size=int64_t, gone=list, listening=dict)
cpdef int64_t written_all(dict logs, list numbers, int64_t sequence, list followed) except -1
