cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport memory, utf8

cdef int _COLUMNS, _EXPIRY_AT, _CONTENT_TYPE_AT, _ALIAS_AT, _RESPONSE_TOPIC_AT, _CORRELATION_AT
cdef int _HAS_ALIAS, _IS_TEXT, _HAS_USER_PROPERTIES
cdef int _NEEDS_BYTES, _OTHER_PACKET, _ROWS_FULL, _BAD_PACKET, _NOT_SCANNED
cdef int _PUBLISH, _PUBREL, _PUBCOMP
cdef int _MALFORMED, _PROTOCOL_ERROR, _TOO_LARGE, _BAD_TOPIC, _BAD_ALIAS, _NO_RETAIN, _NO_QOS
cdef int _FORMAT, _EXPIRY, _CONTENT_TYPE, _RESPONSE_TOPIC, _CORRELATION
cdef int _SUBSCRIPTION, _REASON_STRING, _TOPIC_ALIAS, _USER_PROPERTY
cdef int _PLUS_SIGN, _HASH_SIGN
cdef int64_t _INT32_MAX
cdef uint64_t _LOW_64, _HIGHS, _LOWS, _LETTERS, _PLUSES, _HASHES


@cython.final
cdef class Scanner:
    cdef readonly object columns, whys, positions, sizes, reasons
    cdef int[::1] _cells
    cdef const unsigned char[::1] _data, _nothing
    cdef int64_t _room, _stride, _row, _end, _max_bytes
    cdef readonly int64_t rows, position, size
    cdef readonly int why, reason
    cdef int _version, _max_alias, _max_qos, _present, _alias, _region
    cdef bint _may_retain

    @cython.locals(count=int64_t, stride=int64_t, at=int64_t, i=int64_t, number=int64_t, cells="int[::1]")
    cpdef list pick_rows(self, numbers, const int[::1] rows)

    cpdef int64_t scan(
        self,
        const unsigned char[::1] data,
        int64_t start,
        int64_t stop,
        int version,
        int64_t max_packet_bytes,
        int max_alias,
        int max_qos,
        bint may_retain,
    ) except -1

    @cython.locals(count=int64_t, size=int64_t, i=int64_t)
    cpdef int64_t scan_regions(
        self,
        const unsigned char[::1] data,
        const int[::1] starts,
        const int[::1] stops,
        const int[::1] versions,
        int64_t max_packet_bytes,
        const int[::1] alias_maxima,
        int max_qos,
        bint may_retain,
    ) except -1

    @cython.locals(
        whys="int[::1]", positions="int[::1]", sizes="int[::1]", reasons="int[::1]", i=int64_t
    )
    cdef int _walk_regions(
        self, const int[::1] starts, const int[::1] stops, const int[::1] versions, const int[::1] alias_maxima
    ) except -1

    @cython.locals(head=int, body=int64_t)
    cdef int _walk(self, int64_t at, int64_t stop) except -1

    @cython.locals(body=int64_t)
    cdef int64_t _body(self, int head, int64_t at, int64_t stop) except? -1

    @cython.locals(kind=int, qos=int)
    cdef int _head_fault(self, int head) except -1

    @cython.locals(value=int64_t, i=int, byte=int)
    cdef int64_t _length(self, int64_t at, int64_t stop, bint is_minimal) except? -1

    @cython.locals(
        end=int64_t,
        topic=int64_t,
        topic_end=int64_t,
        fault=int,
        packet_id=int,
        properties=int64_t,
        properties_end=int64_t,
    )
    cdef int _publish(self, int head, int64_t at) except -1

    @cython.locals(end=int64_t, reason=int, packet_id=int, properties_end=int64_t, fault=int)
    cdef int _acknowledgement(self, int head, int64_t at) except -1

    @cython.locals(has_string=cython.bint, kind=int)
    cdef int _acknowledgement_properties(self, int64_t at, int64_t end) except -1

    @cython.locals(kind=int)
    cdef int _properties(self, int64_t at, int64_t end) except -1

    @cython.locals(bit=int, stop=int64_t)
    cdef int64_t _single_end(self, int kind, int64_t at, int64_t end) except? -1

    cdef int64_t _alias_end(self, int64_t at, int64_t end) except? -1

    cdef int64_t _format_end(self, int64_t at, int64_t end) except? -1

    cdef int64_t _pair_end(self, int64_t at, int64_t end) except? -1

    @cython.locals(stop=int64_t, fault=int)
    cdef int64_t _string_end(self, int64_t at, int64_t end, bint is_topic) except? -1

    @cython.locals(stop=int64_t)
    cdef int64_t _binary_end(self, int64_t at, int64_t end) except? -1

    @cython.locals(room=int64_t, word=uint64_t, odd=uint64_t)
    cdef int _text_fault(self, int64_t at, int64_t end, bint is_topic) except -1

    @cython.locals(fault=int, first=int, size=int)
    cdef int _odd_text_fault(self, int64_t at, int64_t end, bint is_topic) except -1

    @cython.locals(high=int)
    cdef int _number(self, int64_t at) except -1

    cdef int _put(self, int64_t column, int64_t value) except -1

    @cython.locals(row=int64_t, stride=int64_t)
    cdef int _put_row(
        self,
        int head,
        int packet_id,
        int reason,
        int64_t topic,
        int64_t topic_end,
        int64_t properties,
        int64_t properties_end,
    ) except -1


cdef bint _is_reason(int kind, int reason) noexcept
