cimport cython
from libc.stdint cimport int64_t

cdef int64_t _SETTLED, _IN_FLIGHT, _HIDDEN, _CHUNK, _CHUNK_SHIFT


@cython.locals(size=int64_t, i=Py_ssize_t)
cpdef int64_t total_bytes(const long long[::1] entries) except? -1


@cython.locals(count=Py_ssize_t, i=Py_ssize_t)
cpdef Py_ssize_t living_offsets(const long long[::1] entries, long long[::1] out) except -1


@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
cpdef Py_ssize_t find(const long long[::1] entries, int64_t message_id) except -1


@cython.locals(count=Py_ssize_t, place=Py_ssize_t, size=int64_t, entry_count=Py_ssize_t, i=Py_ssize_t)
cpdef Py_ssize_t settle(long long[::1] entries, const long long[::1] message_ids, long long[::1] freed) except -1


@cython.locals(count=Py_ssize_t, size=int64_t, i=Py_ssize_t)
cpdef Py_ssize_t settle_below(long long[::1] entries, int64_t message_id, long long[::1] freed) except -1


@cython.locals(count=Py_ssize_t)
cpdef Py_ssize_t settled_prefix(const long long[::1] entries, Py_ssize_t head) except -1


@cython.locals(count=Py_ssize_t, i=Py_ssize_t, place=Py_ssize_t)
cpdef Py_ssize_t move(
    long long[::1] entries, const long long[::1] copies, long long[::1] freed, long long[::1] moved
) except -1


@cython.locals(i=Py_ssize_t, place=Py_ssize_t)
cpdef int mark_in_flight(long long[::1] entries, const long long[::1] message_ids) except -1


@cython.locals(count=Py_ssize_t)
cpdef Py_ssize_t next_open(const long long[::1] entries, Py_ssize_t place) except -1


@cython.locals(count=Py_ssize_t, size=int64_t, entry_count=Py_ssize_t, word=int64_t, offset=int64_t)
cpdef Py_ssize_t take(
    const long long[::1] entries,
    Py_ssize_t place,
    int64_t first,
    int64_t end,
    Py_ssize_t limit,
    int64_t limit_bytes,
    long long[::1] offsets,
    long long[::1] message_ids,
    unsigned char[::1] flags,
    long long[::1] stopped,
) except -1


@cython.locals(found=Py_ssize_t, i=Py_ssize_t, row=int64_t)
cpdef Py_ssize_t rows_of(const long long[::1] wanted, const long long[::1] offsets, int[::1] rows) except -1


@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
cdef int64_t _row(const long long[::1] offsets, int64_t wanted) except? -2


@cython.locals(count=Py_ssize_t, i=Py_ssize_t)
cpdef Py_ssize_t oldest(
    const long long[::1] entries, Py_ssize_t place, int64_t excess, int64_t excess_bytes, long long[::1] out
) except -1


cpdef Py_ssize_t add_living(int[::1] counts, int64_t chunk, const long long[::1] offsets, Py_ssize_t at, int change) except -1


@cython.locals(found=Py_ssize_t, i=Py_ssize_t)
cpdef Py_ssize_t count_living(const int[::1] counts, Py_ssize_t start, Py_ssize_t stop) except -1


cpdef Py_ssize_t first_living(const int[::1] counts, Py_ssize_t start) except -1
