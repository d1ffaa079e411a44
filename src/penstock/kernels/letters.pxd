cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport headers, memory

cdef int _TOPIC_INDEX_AT, _TOPICS_AT, _KEY_AT, _PROPERTIES_AT, _NATIVE_AT, _VALUE_AT
cdef int _USER_PROPERTY, _FIRST_ROOM, _DIGITS, _NUMBER_BYTES, _ALL, _BRIEFLY, _NOTHING


@cython.locals(row=Py_ssize_t, count=Py_ssize_t, offset=int64_t)
cpdef Py_ssize_t pick(
    const long long[::1] offsets, const long long[::1] wanted, Py_ssize_t first, int64_t end, int[::1] out_rows
) except -1


@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
cdef Py_ssize_t _seek(const long long[::1] offsets, int64_t offset) except -1


@cython.final
cdef class Said:
    cdef bytes offset, identity, identity_prefix, reason, timed_out, failures, first_failed, detail, time
    cdef int64_t retries, size, shift, uncounted
    cdef set dropped


@cython.final
cdef class Gathered:
    cdef Said _said
    cdef int64_t _row_bytes, _most_bytes, _most_rows, _at
    cdef readonly int64_t rows, timed_out, size
    cdef object _whole
    cdef unsigned char[::1] _out
    cdef readonly object places, topic_index
    cdef readonly list topics
    cdef dict _numbers
    cdef long long[::1] _step

    @cython.locals(
        places="int[::1]", index="int[::1]", at=Py_ssize_t, last=int64_t, number=int64_t, row=int64_t, size=int64_t,
        topic=int64_t, topic_bytes=int64_t, level=int, counts=int64_t, failed=int64_t, since=int64_t,
    )
    cpdef Py_ssize_t add(
        self,
        const unsigned char[::1] body,
        const long long[::1] layout,
        const int[::1] rows,
        Py_ssize_t first,
        Py_ssize_t count,
        const long long[::1] offsets,
        const int[::1] deliveries,
        const int[::1] failures,
        const long long[::1] firsts,
    ) except -1

    @cython.locals(own=int64_t)
    cdef int64_t _row_size(self, const unsigned char[::1] body, const long long[::1] layout, int64_t row) except -1

    @cython.locals(places=int64_t)
    cdef int64_t _span(
        self, const unsigned char[::1] body, const long long[::1] layout, int word, int64_t row
    ) except? -1

    @cython.locals(places=int64_t, first=int64_t, start=int64_t, stop=int64_t, text=bytes)
    cdef int64_t _topic(self, const unsigned char[::1] body, const long long[::1] layout, int64_t topic) except -1

    @cython.locals(start=int64_t, word=Py_ssize_t, begin=int64_t, end=int64_t, length=int64_t, is_timed_out=bint)
    cdef bint _put(
        self,
        const unsigned char[::1] body,
        const long long[::1] layout,
        int64_t row,
        int[::1] places,
        int level,
        int64_t size,
        int64_t topic_bytes,
        int64_t offset,
        int64_t deliveries,
        int64_t failures,
        int64_t first,
    ) except -1

    @cython.locals(start=int64_t, stop=int64_t)
    cdef int _put_column(
        self, const unsigned char[::1] body, const long long[::1] layout, int word, int64_t row
    ) except -1

    @cython.locals(said=Said, nothing=bytes)
    cdef int _put_said(
        self, int level, bint is_timed_out, int64_t offset, int64_t deliveries, int64_t failures, int64_t first
    ) except -1

    @cython.locals(digits=int, rest=int64_t, size=int64_t, place=int64_t)
    cdef int _put_number(self, bytes before, bytes prefix, int64_t number) except -1

    @cython.locals(begin=int64_t, following=int64_t)
    cdef int _put_own(self, const unsigned char[::1] data, int64_t at, int64_t end, bint drops) except -1

    cdef bint _is_dropped(self, const unsigned char[::1] data, int64_t start, int64_t end) except -1

    cdef int _put_piece(self, const unsigned char[::1] data, int64_t start, int64_t end) except -1

    cdef int _reserve(self, int64_t size) except -1
