cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport amqp_tables, memory

cdef int _COLUMNS, _NATIVE_KIND
cdef int _PUBLISH, _ACK, _NACK, _REJECT, _HEARTBEAT
cdef int _NEEDS_BYTES, _OTHER_FRAME, _ROWS_FULL, _BAD_FRAME, _NOT_SCANNED
cdef int _FRAME_ERROR, _SYNTAX_ERROR, _UNEXPECTED
cdef int _METHOD_FRAME, _HEADER_FRAME, _BODY_FRAME, _HEARTBEAT_FRAME
cdef int _FRAME_END, _FRAME_HEAD, _EMPTY_FRAME, _MIN_FRAME_MAX
cdef int _BASIC_PUBLISH, _BASIC_ACK, _BASIC_REJECT, _BASIC_NACK, _BASIC_CONTENT
cdef int _LONG_STRING, _MAX_TABLE_BYTES
cdef int _SETTLEMENT_BYTES, _LEAST_PUBLISH, _LEAST_HEADER, _UNKNOWN_FLAGS
cdef int64_t _INT32_MAX, _LOW_32, _SIGN_32, _TWO_32
cdef uint64_t _HIGHS


@cython.final
cdef class Scanner:
    cdef readonly object columns, whys, positions, sizes, reasons
    cdef int[::1] _cells
    cdef const unsigned char[::1] _data, _nothing
    cdef int64_t _room, _stride, _row, _stop, _frame_end, _begin, _frame_max
    cdef uint64_t _max_body
    cdef readonly int64_t rows, position, size
    cdef readonly int why, reason
    cdef int _assembling, _channel, _region, _flags, _present, _priority, _delivery_mode
    cdef int64_t _route, _exchange_end, _route_end, _headers, _headers_end
    cdef int64_t _expiration_at, _reply_to_at, _user_id_at

    @cython.locals(count=int64_t, stride=int64_t, at=int64_t, i=int64_t, number=int64_t, cells="int[::1]")
    cpdef list pick_rows(self, numbers, const int[::1] rows)

    @cython.locals(out="long long[::1]", row=int64_t, high=int64_t, low=int64_t)
    cpdef object tags(self, int64_t first, int64_t stop)

    cpdef int64_t scan(
        self,
        const unsigned char[::1] data,
        int64_t start,
        int64_t stop,
        int64_t frame_max,
        int64_t max_body,
        int assembling=*,
    ) except -1

    @cython.locals(count=int64_t, size=int64_t, i=int64_t)
    cpdef int64_t scan_regions(
        self,
        const unsigned char[::1] data,
        const int[::1] starts,
        const int[::1] stops,
        const int[::1] frame_maxima,
        int64_t max_body,
        const int[::1] assembling,
    ) except -1

    @cython.locals(whys="int[::1]", positions="int[::1]", sizes="int[::1]", reasons="int[::1]", i=int64_t)
    cdef int _walk_regions(
        self, const int[::1] starts, const int[::1] stops, const int[::1] frame_maxima, const int[::1] assembling
    ) except -1

    @cython.locals(end=int64_t)
    cdef int _walk(self, int64_t at, int64_t stop) except -1

    @cython.locals(kind=int, end=int64_t, method=int64_t, is_scanned=cython.bint)
    cdef int64_t _row_end(self, int64_t at) except? -1

    @cython.locals(kind=int)
    cdef inline int _frame(self, int64_t at) except? -1

    cdef inline bint _is_whole(self) except -1

    @cython.locals(word=uint64_t, kind=int, size=int64_t)
    cdef inline int _frame_head(self, int64_t at) except? -1

    cdef int _needs(self, int64_t end) noexcept

    cdef int _bad(self, int reason) noexcept

    cdef int _other(self, int64_t end) noexcept

    @cython.locals(bits=int, high=int64_t, low=int64_t)
    cdef int64_t _settlement(self, int64_t method, int64_t at, int64_t end) except? -1

    @cython.locals(
        channel=int, kind=int, header_end=int64_t, announced=uint64_t, size=int64_t, body=int64_t, end=int64_t
    )
    cdef inline int64_t _publish(self, int64_t at, int64_t method_end) except? -1

    @cython.locals(key=int64_t, end=int64_t)
    cdef inline bint _is_publish_method(self, int64_t at, int64_t stop) except -1

    cdef inline bint _is_plain(self, int64_t at, int64_t end) except -1

    @cython.locals(first=int, size=int)
    cdef bint _is_text(self, int64_t at, int64_t end) except -1

    @cython.locals(second=int, least=int, most=int)
    cdef bint _is_long_character(self, int first, int size, int64_t at) except -1

    @cython.locals(present=int)
    cdef inline bint _are_properties(self, int64_t at, int64_t stop) except -1

    cdef int64_t _late_properties(self, int present, int64_t at, int64_t stop) except? -1

    @cython.locals(size=int64_t)
    cdef inline int64_t _headers_at(self, int64_t at, int64_t stop) except? -1

    @cython.locals(kind=int, width=int)
    cdef inline bint _is_table(self, int64_t at, int64_t stop) except -1

    cdef inline int64_t _string_end(self, int64_t at, int64_t stop) except? -1

    cdef inline int _octet(self, int64_t at, int64_t stop) except? -1

    @cython.locals(row=int64_t, stride=int64_t, column=int64_t)
    cdef int _put_short_row(self, int kind, int flags, int64_t high, int64_t low, int64_t end) except -1

    @cython.locals(row=int64_t, stride=int64_t)
    cdef inline int _put_publish(
        self, int channel, int64_t properties, int64_t properties_end, int64_t body, int64_t size, int64_t end
    ) except -1


@cython.locals(row=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t mark_native(
    unsigned char[::1] data, const int[::1] kinds, int[::1] properties
) except -1
