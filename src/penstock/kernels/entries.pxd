cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels.heap cimport IndexHeap
from penstock.kernels.keytable cimport KeyTable

cdef int _DEAD, _INFLIGHT, _LEASED, _BACKOFF, _READY, _PARKED
cdef int64_t _NEVER
cdef int _MOST_COUNTED
cdef Py_ssize_t _KEPT_CAPACITY
cdef long long[::1] _NO_WORDS
cdef unsigned long long[::1] _NO_HASHES
cdef int[::1] _NO_INTS
cdef unsigned short[::1] _NO_SHORTS
cdef signed char[::1] _NO_BYTES


cdef class Entries:
    cdef readonly int64_t next, next_due
    cdef public Py_ssize_t slack
    cdef readonly Py_ssize_t head, count, live, capacity
    cdef bint keyed, faulted
    cdef long long[::1] tally
    cdef KeyTable table
    cdef IndexHeap heap
    cdef dict holders
    cdef int run_consumer
    cdef int64_t run_change
    cdef list columns
    cdef long long[::1] offset, time, first
    cdef int[::1] consumer, link
    cdef unsigned short[::1] deliveries, failures, returns
    cdef signed char[::1] state
    cdef unsigned long long[::1] key

    cdef int hold_columns(self) except -1
    cdef int let_go_of_columns(self) except -1
    cdef int resize(self, Py_ssize_t capacity) except -1

    @cython.locals(needed=Py_ssize_t)
    cdef int make_room(self, Py_ssize_t more) except -1

    cdef int use_keys(self) except -1
    cdef int tidy(self) except -1
    cdef int clear(self) except -1
    cpdef int give_memory_back(self) except -1

    @cython.locals(i=Py_ssize_t)
    cdef int clear_faults(self, Py_ssize_t start) except -1

    @cython.locals(i=Py_ssize_t, to=Py_ssize_t)
    cdef int compact(self) except -1

    cdef int copy_entry(self, Py_ssize_t to, Py_ssize_t i) except -1

    @cython.locals(low=Py_ssize_t, high=Py_ssize_t, step=Py_ssize_t, middle=Py_ssize_t)
    cdef Py_ssize_t seek(self, int64_t offset, Py_ssize_t hint) except -1

    @cython.locals(i=Py_ssize_t)
    cdef Py_ssize_t find(self, int64_t offset) except -2

    cdef Py_ssize_t seek_held(
        self, int64_t offset, int deliveries, int consumer, Py_ssize_t hint
    ) except? -9223372036854775807

    @cython.locals(i=Py_ssize_t)
    cdef Py_ssize_t append(self, int64_t offset, uint64_t key, int state) except -1

    @cython.locals(table=KeyTable)
    cdef int join_key(self, Py_ssize_t i, Py_ssize_t slot) except -1

    cdef int move(self, Py_ssize_t i, int state) except -1
    cdef int count_held(self, int consumer, int64_t change) except -1
    cdef int end_run(self) except -1
    cdef int hold(self, Py_ssize_t i, int consumer, int64_t now, int64_t deadline) except -1

    @cython.locals(slot=Py_ssize_t, follower=Py_ssize_t)
    cdef int take_ready(self, Py_ssize_t i, int consumer, int64_t now, int64_t deadline) except -1

    @cython.locals(follower=Py_ssize_t)
    cdef Py_ssize_t live_after(self, Py_ssize_t i) except -1

    cdef int wake(self, Py_ssize_t i) except -1
    cdef int make_ready(self, Py_ssize_t i) except -1

    @cython.locals(heap=IndexHeap, k=Py_ssize_t)
    cdef int sift_heap(self) except -1

    cdef int let_go(self, Py_ssize_t i) except -1

    @cython.locals(slot=Py_ssize_t)
    cdef int step_back(self, Py_ssize_t i, int64_t until) except -1

    @cython.locals(behind=Py_ssize_t)
    cdef int take_back_behind(self, Py_ssize_t i, Py_ssize_t slot) except -1

    @cython.locals(state=int)
    cdef int settle_at(self, Py_ssize_t i) except -1

    @cython.locals(table=KeyTable, slot=Py_ssize_t, lowest=Py_ssize_t)
    cdef int leave_key(self, Py_ssize_t i, int state) except -1

    @cython.locals(i=Py_ssize_t, state=Py_ssize_t)
    cpdef int rebuild(self) except -1

    @cython.locals(state=int)
    cdef int enter(self, Py_ssize_t i) except -1

    @cython.locals(table=KeyTable, is_free=bint)
    cdef int enter_key(self, Py_ssize_t i, Py_ssize_t slot) except -1
