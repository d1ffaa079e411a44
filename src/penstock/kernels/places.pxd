cimport cython
from libc.stdint cimport int64_t, uint32_t

from penstock.kernels.staged cimport StagedLog
from penstock.kernels.window cimport Window

cdef int64_t _DELIVERED, _SETTLED, _PART_BYTES, _RECORD_BYTES
cdef int _GROUP_BITS


cdef class Place:
    cdef public int64_t group
    cdef public Window window
    cdef public object tally, settled_ranges, settled
    cdef public int64_t logged_next
    cdef public set touched, leaving
    cdef public bint is_placed

    @cython.locals(last=Py_ssize_t)
    cpdef note_acked(self, int64_t first, int64_t stop)

    cpdef bint is_plain(self) except -1


cdef class Partition:
    cdef public int partition
    cdef public StagedLog data, state
    cdef public dict cursors
    cdef public int64_t records_since_snapshot, bytes_since_snapshot


@cython.final
cdef class Said:
    cdef public int64_t room
    cdef readonly object words, starts, ends
    cdef readonly list units, counts, nexts

    cdef int end_record(self, int64_t start) except -1


@cython.locals(i=Py_ssize_t)
cpdef Py_ssize_t say(list units, Py_ssize_t first, Said said) except -1


@cython.locals(
    place=Place, before=int64_t, records=Py_ssize_t, following=int64_t, at=int64_t, count=int64_t, size=int64_t
)
cdef bint say_one(Partition unit, Said said) except -1

cdef Place only_place(dict cursors)

cdef Place as_place(Place place)


@cython.locals(i=Py_ssize_t, at=int64_t)
cpdef strike_off(Said said, dict units)


@cython.locals(place=Place, count=int64_t)
cdef int strike_off_one(Partition unit, Said said, Py_ssize_t i, int64_t first) except -1
