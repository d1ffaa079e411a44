cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport memory

cdef int _MAX_BYTES, _MAX_DEPTH, _LAST_LONG_DIGITS

cpdef int table_fault(const unsigned char[::1] data, int64_t start, int64_t stop) except -1

cpdef bint is_table(const unsigned char[::1] data, int64_t start, int64_t stop) except -1

cdef bint _are_fields(
    const unsigned char[::1] data, int64_t at, int64_t stop, int depth, bint has_names
) except -1


@cython.locals(kind=int, bytes_of=int, size=int64_t)
cpdef int64_t field_end(const unsigned char[::1] data, int64_t at, int64_t stop, int depth) except? -1

cpdef int width(int kind) noexcept


@cython.locals(i=Py_ssize_t, found=Py_ssize_t, at=int64_t)
cpdef Py_ssize_t find(
    const unsigned char[::1] data,
    const int[::1] starts,
    const int[::1] stops,
    const unsigned char[::1] name,
    int[::1] kinds,
    int[::1] value_starts,
    int[::1] value_stops,
) except -1


@cython.locals(size=int64_t, length=int, kind_at=int64_t, end=int64_t, i=int64_t)
cdef int64_t _find(
    const unsigned char[::1] data, int64_t at, int64_t stop, const unsigned char[::1] name
) except? -1


@cython.locals(
    i=Py_ssize_t, count=Py_ssize_t, kind=int, size=int, is_number=cython.bint, value=int64_t, at=int64_t,
    is_negative=cython.bint, j=int,
)
cpdef Py_ssize_t integers(
    const unsigned char[::1] data, const int[::1] kinds, const int[::1] value_starts, long long[::1] out
) except -1


@cython.locals(i=Py_ssize_t, bad=Py_ssize_t)
cpdef Py_ssize_t decimal_texts(const unsigned char[::1] data, const int[::1] places, long long[::1] out) except -1


@cython.locals(size=int, value=int64_t, i=int, digit=int)
cdef int64_t _decimal(const unsigned char[::1] data, int64_t at) except? -1
