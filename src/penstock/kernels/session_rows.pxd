cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport memory

cdef int _PAIR_BYTES, _PLAIN, _COPIED, _PLAIN_BYTES, _COPIED_BYTES


@cython.locals(i=Py_ssize_t, last=Py_ssize_t, used=Py_ssize_t)
cpdef Py_ssize_t count_rows(const int[::1] rows, int[::1] firsts) except -1


@cython.locals(i=Py_ssize_t, fill="int[::1]")
cpdef int order_by_row(const int[::1] rows, const int[::1] firsts, int[::1] order) except -1


@cython.locals(at=int64_t, row_count=Py_ssize_t, before=Py_ssize_t, row=Py_ssize_t, place=Py_ssize_t)
cpdef int64_t write_lists(
    const int[::1] sessions,
    const unsigned char[::1] flags,
    const int[::1] firsts,
    const int[::1] order,
    const long long[::1] ids,
    unsigned char[::1] out,
    int[::1] picked,
    int[::1] starts,
    int[::1] ends,
    int64_t first_byte,
) except -1


@cython.locals(count=Py_ssize_t, i=Py_ssize_t, one=Py_ssize_t, other=Py_ssize_t)
cdef bint _same(
    const int[::1] sessions,
    const unsigned char[::1] flags,
    const int[::1] order,
    const int[::1] firsts,
    Py_ssize_t first,
    Py_ssize_t second,
) except -1


@cython.locals(total=int64_t, length=int64_t, list_bytes=int64_t, row=Py_ssize_t, start=int64_t, stop=int64_t)
cpdef int64_t count_targets(const unsigned char[::1] body, const long long[::1] layout, Py_ssize_t count) except -1


@cython.locals(
    at=int64_t,
    list_start=int64_t,
    list_stop=int64_t,
    row=Py_ssize_t,
    start=int64_t,
    stop=int64_t,
    message_id=int64_t,
    place=int64_t,
    size=int64_t,
)
cpdef int64_t read_targets(
    const unsigned char[::1] body,
    const long long[::1] layout,
    Py_ssize_t count,
    const long long[::1] offsets,
    int[::1] sessions,
    long long[::1] entries,
) except -1


@cython.locals(start=int64_t)
cdef (int64_t, int64_t) _key(const unsigned char[::1] body, const long long[::1] layout, Py_ssize_t row) except *


cdef int64_t _head_bytes(const unsigned char[::1] body, int64_t start) except -1


@cython.locals(size=int64_t)
cdef int64_t _size(const unsigned char[::1] body, const long long[::1] layout, Py_ssize_t row) except? -1


cdef int64_t _entry_bytes(const unsigned char[::1] body, int64_t offsets_at, int64_t entry) except? -1


@cython.locals(count=Py_ssize_t, i=Py_ssize_t, width=Py_ssize_t, start=Py_ssize_t)
cpdef int sort_by_session(const int[::1] sessions, int[::1] order, int[::1] spare) except -1


@cython.locals(i=Py_ssize_t, left=Py_ssize_t, right=Py_ssize_t)
cdef int _merge(
    const int[::1] sessions, int[::1] order, int[::1] spare, Py_ssize_t start, Py_ssize_t middle, Py_ssize_t stop
) except -1


@cython.locals(count=Py_ssize_t, i=Py_ssize_t, at=Py_ssize_t)
cpdef Py_ssize_t gather(
    const int[::1] sessions,
    const long long[::1] entries,
    const int[::1] order,
    long long[::1] out,
    long long[::1] groups,
) except -1


@cython.locals(i=Py_ssize_t, size=int64_t)
cpdef int row_bytes(
    const int[::1] topic_index,
    const int[::1] topic_starts,
    const int[::1] topic_ends,
    const int[::1] property_starts,
    const int[::1] property_ends,
    const int[::1] value_starts,
    const int[::1] value_ends,
    int[::1] out,
) except -1


@cython.locals(total=int64_t, i=Py_ssize_t)
cpdef int64_t sum_rows(const int[::1] values, const int[::1] rows) except? -1


@cython.locals(count=Py_ssize_t, size=int64_t)
cpdef Py_ssize_t room_for(const int[::1] values, const int[::1] rows, int64_t limit, int64_t limit_bytes) except -1
