cimport cython
from libc.stdint cimport int64_t

from penstock.kernels.entries cimport Entries

cdef int _DEAD, _INFLIGHT, _LEASED, _BACKOFF, _READY, _PARKED


cdef class Pending(Entries):
    cpdef int state_of(self, int64_t offset) except -1

    @cython.locals(k=Py_ssize_t, at=Py_ssize_t, found=Py_ssize_t)
    cpdef Py_ssize_t counts(
        self, const long long[::1] offsets, int[::1] deliveries, int[::1] failures, long long[::1] firsts
    ) except -1

    @cython.locals(held=int64_t)
    cpdef int64_t held_by(self, int consumer) except -1

    @cython.locals(i=Py_ssize_t)
    cpdef int64_t oldest_held(self, int consumer) except? -1

    @cython.locals(i=Py_ssize_t, oldest=int64_t)
    cpdef int64_t oldest_time(self, int consumer) except? -1

    @cython.locals(i=Py_ssize_t, at=Py_ssize_t, found=Py_ssize_t)
    cpdef int64_t pending_from(self, int64_t offset) except -1

    @cython.locals(i=Py_ssize_t)
    cpdef offsets(self, int state=*, int64_t limit=*)

    @cython.locals(i=Py_ssize_t)
    cpdef in_flight_since(self, int64_t time, int spared=*, int64_t limit=*)

    cpdef ranges(self, int64_t first, int64_t stop)

    @cython.locals(i=Py_ssize_t, run_first=int64_t, run_stop=int64_t)
    cpdef int add_ranges(self, int64_t first, int64_t stop, found) except -1

    @cython.locals(offset=int64_t)
    cpdef int restore_range(self, int64_t first, int64_t stop) except -1

    @cython.locals(k=Py_ssize_t, i=Py_ssize_t)
    cpdef int set_keys(self, const long long[::1] offsets, const unsigned long long[::1] keys) except -1
