cimport cython
from libc.stdint cimport int64_t

cdef int _BITS
cdef int64_t _PLACE


@cython.final
cdef class Flight:
    cdef readonly list owners, deliveries, packet_ids
    cdef const int[::1] stops
    cdef int[::1] lefts
    cdef readonly int64_t left

    cpdef int64_t start(self, Py_ssize_t part) except -1

    cpdef int64_t stop(self, Py_ssize_t part) except -1

    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cdef Py_ssize_t part_of(self, int64_t place, Py_ssize_t hint) except -1

    cpdef int64_t answered(self, Py_ssize_t part, int64_t count) except -1


@cython.locals(word=int64_t)
cpdef int add(dict words, dict flights, int64_t number, Flight flight) except -1


@cython.locals(
    runs=Py_ssize_t, i=Py_ssize_t, count=Py_ssize_t, part=Py_ssize_t, number=int64_t, flight=Flight, word=int64_t,
    place=int64_t, first=int64_t, following=int64_t, end=int64_t,
)
cpdef Py_ssize_t take(
    dict words, dict flights, list packet_ids, list deliveries, int[::1] firsts, int[::1] stops
) except -1
