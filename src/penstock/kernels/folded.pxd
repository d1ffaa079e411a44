cimport cython
from libc.stdint cimport int64_t

from penstock.kernels._native cimport FrameEntry
from penstock.kernels.staged cimport Span


cdef int64_t _STEP_BYTES


cdef class OpenSegment:
    cdef public int64_t end, written_bytes, records, first_timestamp, max_timestamp, pending_bytes, index_due
    cdef public object index
    cdef public list pending

    @cython.locals(position=int64_t)
    cpdef append(self, FrameEntry entry)


cdef class FoldedLog:
    cdef public Span bounds
    cdef public int64_t segment_bytes, segment_age_ms
    cdef public OpenSegment active

    @cython.locals(active=OpenSegment, size_bytes=int64_t)
    cpdef bint has_taken(self, FrameEntry entry) except -1


@cython.locals(i=Py_ssize_t, entry=FrameEntry, log=FoldedLog, active=OpenSegment)
cpdef Py_ssize_t fold(
    list entries, Py_ssize_t first, dict logs, int64_t apart, int64_t large_bytes, list large
) except -1
