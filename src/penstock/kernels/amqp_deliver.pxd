cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport memory

cdef int _ROUTE, _ROUTE_END, _PROPS, _PROPS_END, _BODY, _BODY_END, _SPAN_WORDS
cdef int _NATIVE_KIND, _METHOD_FRAME, _HEADER_FRAME, _BODY_FRAME, _FRAME_END
cdef int _FRAME_HEAD, _EMPTY_FRAME, _MIN_FRAME_MAX, _HEADER_BYTES
cdef int _SETTLEMENT_FRAME, _SETTLEMENT_PAYLOAD, _TAG_BYTES, _BASIC, _ACK, _REJECT, _NACK, _LAST_CHANNEL
cdef int64_t _INT32_MAX


@cython.final
cdef class Encoder:
    cdef bint _has_tag
    cdef int64_t _head_word, _frame_max, _fixed, _count, _first_tag, _with_block, _block_start, _block_end
    cdef bytes _before, _behind
    cdef object _end_words, _no_bytes, _no_words, _no_ints
    cdef int[::1] _end_of
    cdef const int[::1] _block_ends
    cdef const long long[::1] _spans
    cdef const unsigned char[::1] _source, _routes, _redelivered, _blocks
    cdef unsigned char[::1] _out

    cpdef bytearray encode(
        self,
        const unsigned char[::1] source,
        const long long[::1] spans,
        const unsigned char[::1] routes,
        int64_t first_tag=*,
        const unsigned char[::1] redelivered=*,
        const unsigned char[::1] blocks=*,
        block_ends=*,
    )

    cdef int _release(self) except -1

    cdef bytearray _encode(self)

    @cython.locals(
        at=int64_t, row=int64_t, word=int64_t, route=int64_t, body=int64_t, properties=int64_t, method=int64_t,
        header=int64_t, room=int64_t,
    )
    cdef int64_t _measure(self) except -1

    @cython.locals(start=int64_t, end=int64_t)
    cdef inline int64_t _span_bytes(self, int64_t word) except -1

    cdef inline int64_t _properties_bytes(self, int64_t word) except -1

    @cython.locals(number=int64_t)
    cdef int _next_block(self) except -1

    @cython.locals(at=int64_t, row=int64_t)
    cdef int _fill(self) except -1

    cdef inline int64_t _put_head(self, int64_t kind, int64_t size, int64_t at) except -1

    @cython.locals(word=int64_t, route=int64_t)
    cdef inline int64_t _put_method(self, int64_t row, int64_t at) except -1

    @cython.locals(word=int64_t, size=int64_t, has_own=cython.bint, has_block=cython.bint)
    cdef inline int64_t _put_header(self, int64_t row, int64_t at) except -1

    @cython.locals(start=int64_t, end=int64_t, room=int64_t, size=int64_t)
    cdef inline int64_t _put_body(self, int64_t row, int64_t at) except -1


@cython.locals(i=Py_ssize_t, without=Py_ssize_t, row=int64_t, word=int64_t, topic=int64_t)
cpdef Py_ssize_t batch_spans(
    const unsigned char[::1] body,
    const long long[::1] layout,
    const int[::1] rows,
    const int[::1] route_ends,
    long long[::1] spans,
) except -1

cdef int _put_span(
    const unsigned char[::1] body, int64_t offsets_at, int64_t bytes_at, int64_t row, long long[::1] spans, int64_t at
) except -1


@cython.locals(count=Py_ssize_t, i=Py_ssize_t, at=int64_t, method=int, channel=int, out="unsigned char[::1]")
cpdef bytearray encode_settlements(
    const unsigned char[::1] methods,
    const int[::1] channels,
    const long long[::1] tags,
    const unsigned char[::1] bits,
)
