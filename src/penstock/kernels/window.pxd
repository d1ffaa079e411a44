cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport batch, hashing, memory
from penstock.kernels.keytable cimport KeyTable
from penstock.kernels.retries cimport Retries

cdef int64_t _NOT_PLAIN

@cython.locals(first_byte=int64_t, start=int64_t, stop=int64_t)
cdef uint64_t _key_of(const unsigned char[::1] data, int64_t at, int64_t count, int64_t i) except? 0xFFFFFFFFFFFFFFFF

cdef int _DEAD, _INFLIGHT, _LEASED, _BACKOFF, _READY, _PARKED


@cython.final
cdef class Window(Retries):
    cdef readonly Py_ssize_t stopped_row, skipped_last

    @cython.locals(given=Py_ssize_t)
    cpdef Py_ssize_t deliver(
        self,
        const long long[::1] offsets,
        const unsigned long long[::1] keys,
        const unsigned char[::1] skip,
        Py_ssize_t row,
        Py_ssize_t stop_row,
        int consumer,
        Py_ssize_t room,
        int64_t now,
        int64_t deadline,
        int64_t limit,
        int[::1] out_rows,
    ) except -1

    @cython.locals(
        i=Py_ssize_t, at=Py_ssize_t, given=Py_ssize_t, state=int, time=int64_t, column="long long[::1]",
        times="long long[::1]", firsts="long long[::1]", consumers="int[::1]", counts="unsigned short[::1]",
        states="signed char[::1]",
    )
    cdef Py_ssize_t _deliver_run(
        self,
        const long long[::1] offsets,
        Py_ssize_t row,
        Py_ssize_t stop_row,
        int consumer,
        int64_t now,
        int64_t deadline,
        int[::1] out_rows,
    ) except -1

    @cython.locals(i=Py_ssize_t, slot=Py_ssize_t, table=KeyTable)
    cdef int _deliver_one(self, int64_t offset, uint64_t key, int consumer, int64_t now, int64_t deadline) except -1

    @cython.locals(count=int64_t, at=int64_t)
    cpdef Py_ssize_t deliver_whole(
        self,
        const unsigned char[::1] data,
        bint by_key,
        int consumer,
        int64_t now,
        int64_t room,
        int64_t too_old=*,
    ) except -1

    @cython.locals(count=int64_t, row=int64_t, given=int64_t, at=int64_t)
    cpdef Py_ssize_t deliver_some(
        self,
        const unsigned char[::1] data,
        bint by_key,
        int consumer,
        int64_t now,
        int64_t room,
        int64_t too_old=*,
    ) except -1

    cdef bint _is_plain(self, const unsigned char[::1] data, int consumer, int64_t too_old) except -1

    @cython.locals(i=int64_t, key=uint64_t)
    cdef Py_ssize_t _deliver_rows(
        self,
        const unsigned char[::1] data,
        int64_t at,
        int64_t count,
        int64_t row,
        int64_t stop,
        int consumer,
        int64_t now,
    ) except -1

    @cython.locals(i=int64_t, slot=Py_ssize_t, key=uint64_t, table=KeyTable)
    cdef int64_t _free_rows(
        self, const unsigned char[::1] data, int64_t at, int64_t count, int64_t row, int64_t stop, int consumer
    ) except -1

    @cython.locals(i=Py_ssize_t, given=Py_ssize_t)
    cpdef Py_ssize_t take(
        self,
        int consumer,
        Py_ssize_t room,
        int64_t now,
        int64_t deadline,
        int64_t below,
        long long[::1] out_offsets,
        int[::1] out_deliveries,
    ) except -1

    cpdef int pass_to(self, int64_t offset) except -1

    @cython.locals(settled=Py_ssize_t)
    cpdef Py_ssize_t ack(
        self,
        const long long[::1] offsets,
        const int[::1] deliveries,
        int consumer,
        long long[::1] out_settled,
        unsigned char[::1] out_stale=*,
    ) except -1

    @cython.locals(at=Py_ssize_t, count=Py_ssize_t, i=Py_ssize_t)
    cpdef bint ack_whole(self, int64_t first, int64_t stop, int consumer) except -1

    @cython.locals(
        k=Py_ssize_t, at=Py_ssize_t, count=Py_ssize_t, settled=Py_ssize_t, leases=Py_ssize_t, state=int,
        column="long long[::1]", states="signed char[::1]", consumers="int[::1]", counts="unsigned short[::1]",
    )
    cdef Py_ssize_t _ack_run(
        self,
        const long long[::1] offsets,
        const int[::1] deliveries,
        int consumer,
        long long[::1] out_settled,
        unsigned char[::1] out_stale,
    ) except -1

    @cython.locals(k=Py_ssize_t, at=Py_ssize_t, settled=Py_ssize_t)
    cdef Py_ssize_t _ack_each(
        self,
        const long long[::1] offsets,
        const int[::1] deliveries,
        int consumer,
        long long[::1] out_settled,
        unsigned char[::1] out_stale,
    ) except -1

    cpdef Py_ssize_t settle_below(self, int64_t offset) except -1

    @cython.locals(settled=Py_ssize_t, offset=int64_t)
    cpdef Py_ssize_t settle_range(self, int64_t first, int64_t stop) except -1

    @cython.locals(k=Py_ssize_t, settled=Py_ssize_t)
    cpdef Py_ssize_t settle(self, const long long[::1] offsets) except -1

    @cython.locals(i=Py_ssize_t, settled=Py_ssize_t)
    cpdef Py_ssize_t settle_unheld(self, long long[::1] out_settled) except -1

    @cython.locals(i=Py_ssize_t, settled=Py_ssize_t)
    cdef Py_ssize_t _settle_between(self, int64_t first, int64_t stop) except -1
