cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels.pending cimport Pending

cdef int _DEAD, _INFLIGHT, _LEASED, _BACKOFF, _READY, _PARKED
cdef int64_t _NEVER
cdef int _MOST_COUNTED


cdef class Retries(Pending):
    cdef readonly Py_ssize_t stale_last, exhausted_last

    @cython.locals(k=Py_ssize_t, at=Py_ssize_t, failed=Py_ssize_t, highest=int64_t)
    cpdef Py_ssize_t nack(
        self,
        const long long[::1] offsets,
        const int[::1] deliveries,
        int consumer,
        int64_t now,
        int64_t delay,
        const long long[::1] backoff_ms,
        int64_t max_age_ms,
        long long[::1] out_failed,
        long long[::1] out_exhausted,
    ) except -1

    @cython.locals(k=Py_ssize_t)
    cdef bint is_among(self, int64_t offset, long long[::1] found, Py_ssize_t count) except -1

    @cython.locals(failures=Py_ssize_t, wait=int64_t)
    cdef int fail(
        self, Py_ssize_t i, int64_t now, int64_t delay, const long long[::1] backoff_ms, int64_t max_age_ms
    ) except -1

    @cython.locals(i=Py_ssize_t, left=int64_t, highest=int)
    cpdef Py_ssize_t give_back(
        self,
        int consumer,
        bint counted,
        int64_t max_returns,
        int64_t now,
        long long[::1] out_returned,
        long long[::1] out_exhausted,
        bint leases=*,
    ) except -1

    @cython.locals(i=Py_ssize_t, k=Py_ssize_t, left=int64_t, last=int, is_among=bint)
    cpdef Py_ssize_t give_back_many(
        self,
        const int[::1] consumers,
        set spared,
        bint counted,
        int64_t max_returns,
        int64_t now,
        long long[::1] out_returned,
        long long[::1] out_exhausted,
    ) except -1

    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cdef bint is_one_of(self, int consumer, const int[::1] consumers) except -1

    @cython.locals(k=Py_ssize_t, at=Py_ssize_t)
    cpdef Py_ssize_t give_back_some(
        self,
        const long long[::1] offsets,
        int consumer,
        bint counted,
        int64_t max_returns,
        int64_t now,
        long long[::1] out_returned,
        long long[::1] out_exhausted,
    ) except -1

    @cython.locals(i=Py_ssize_t, k=Py_ssize_t, returned=Py_ssize_t, exhausted=Py_ssize_t)
    cdef Py_ssize_t return_all(
        self,
        int[::1] indexes,
        bint counted,
        int64_t max_returns,
        long long[::1] out_returned,
        long long[::1] out_exhausted,
    ) except -1

    @cython.locals(i=Py_ssize_t, left=int64_t, due=int64_t, found=Py_ssize_t)
    cpdef Py_ssize_t expire(self, int64_t now, long long[::1] out_leases) except -1

    @cython.locals(k=Py_ssize_t, at=Py_ssize_t, extended=Py_ssize_t)
    cpdef Py_ssize_t extend(
        self, const long long[::1] offsets, const int[::1] deliveries, int consumer, int64_t deadline
    ) except -1

    @cython.locals(k=Py_ssize_t, at=Py_ssize_t, i=Py_ssize_t, slot=Py_ssize_t, claimed=Py_ssize_t, key=uint64_t)
    cpdef Py_ssize_t claim(
        self,
        const long long[::1] offsets,
        int from_consumer,
        int to_consumer,
        int64_t now,
        int64_t deadline,
        long long[::1] out_claimed,
    ) except -1

    cdef int hand_over(
        self, Py_ssize_t i, Py_ssize_t slot, int consumer, int64_t now, int64_t deadline
    ) except -1

    cdef int check_out(self, const long long[::1] offsets, const int[::1] deliveries, long long[::1] out) except -1
