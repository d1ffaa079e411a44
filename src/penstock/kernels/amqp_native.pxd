cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport headers, memory, utf8

cdef int _KIND
cdef int _CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS
cdef int _CORRELATION_ID, _REPLY_TO, _EXPIRATION, _MESSAGE_ID, _TIMESTAMP
cdef int _TYPE, _APP_ID, _CLUSTER_ID
cdef int _USER_PROPERTY, _MQTT_FORMAT, _MQTT_TYPE, _MQTT_REPLY, _MQTT_CORRELATION
cdef int64_t _MAX_SHORT, _MAX_DIGITS, _MAX_BASE64, _BESIDE_BYTES, _FIRST_ROOM, _COMPARED
cdef bytes _QUEUE, _ENCODING, _MESSAGE, _TIME, _KIND_OF, _APP, _CLUSTER, _FORMAT_HEADER, _BASE64_HEADER, _BASE64
cdef bytes _KEY_HEADER, _REPLY_HEADER, _TYPE_HEADER, _CORRELATION_HEADER
cdef int64_t _NAME, _NAME_END, _VALUE, _VALUE_END, _NEXT, _IS_FIRST, _HEADER_WORDS
cdef int _AT_ENCODING, _AT_MESSAGE, _AT_TIME, _AT_TYPE, _AT_APP, _AT_CLUSTER, _NAMED_FIELDS


cpdef bytearray natives(
    const unsigned char[::1] data,
    const int[::1] property_starts,
    const int[::1] property_ends,
    const int[::1] native_starts,
    const int[::1] native_ends,
    const int[::1] key_starts,
    const int[::1] key_ends,
    const long long[::1] left_ms,
    int[::1] ends,
)


@cython.final
cdef class Maker:
    cdef bytearray _whole
    cdef unsigned char[::1] _out
    cdef const unsigned char[::1] _data
    cdef long long[::1] _step, _headers, _named
    cdef int64_t _at, _count, _type, _type_end, _reply, _reply_end, _correlation, _correlation_end, _key, _key_end
    cdef int _format
    cdef bint _is_base64

    @cython.locals(start=int64_t, end=int64_t, first=int64_t, stop=int64_t, row=Py_ssize_t)
    cpdef bytearray column(
        self,
        const int[::1] property_starts,
        const int[::1] property_ends,
        const int[::1] native_starts,
        const int[::1] native_ends,
        const int[::1] key_starts,
        const int[::1] key_ends,
        const long long[::1] left_ms,
        int[::1] ends,
    )

    cdef int _check(self, int64_t start, int64_t end) except -1

    @cython.locals(grown=bytearray)
    cdef int _reserve(self, int64_t size) except -1

    @cython.locals(i=int, room=int64_t, kind=int, place=int64_t)
    cdef int _read(self, int64_t at, int64_t end) except -1

    @cython.locals(name=int64_t, name_end=int64_t, value=int64_t, value_end=int64_t, field=int, at=int64_t)
    cdef int _take_header(self) except -1

    @cython.locals(size=int64_t, field=int)
    cdef int _field(self, int64_t name, int64_t name_end, int64_t value, int64_t value_end) except -2

    @cython.locals(same=Py_ssize_t)
    cdef bint _is_named(self, int64_t at, bytes name) except -1

    cdef bint _is_number(self, int64_t at, int64_t end) except -1

    @cython.locals(i=int64_t, at=int64_t, size=int64_t)
    cdef bint _has(self, bytes name) except -1

    @cython.locals(place=int64_t, flags=int)
    cdef int _put_row(self, int64_t left_ms) except -1

    cdef int _put_first(self, int flags) except -1

    @cython.locals(size=int64_t)
    cdef int64_t _reply_start(self) except -1

    @cython.locals(size=int64_t, made=bytes)
    cdef int _put_correlation(self, int flags) except -1

    cdef int _put_named(self, int field, int flag) except -1

    @cython.locals(text=bytes)
    cdef int _put_expiration(self, int64_t left_ms) except -1

    @cython.locals(place=int64_t, i=int64_t, at=int64_t, size=int64_t)
    cdef int _put_table(self, int flags) except -1

    @cython.locals(i=int64_t, j=int64_t, at=int64_t, other=int64_t)
    cdef int _link(self) except -1

    @cython.locals(last=dict, i=int64_t, at=int64_t, name=bytes, before=int64_t)
    cdef int _link_by_name(self) except -1

    @cython.locals(start=int64_t, size=int64_t, begin=int64_t, same=int64_t)
    cdef bint _is_same(self, int64_t at, int64_t other) except -1

    @cython.locals(place=int64_t, end=int64_t)
    cdef int _put_values(self, int64_t at) except -1

    cdef int _put_made(self) except -1

    @cython.locals(size=int64_t, made=bytes)
    cdef int _put_correlation_headers(self) except -1

    cdef int _put_span_header(self, bytes name, int64_t start, int64_t end) except -1

    cdef int _put_named_header(self, bytes name, int64_t size) except -1

    cdef int _put_short(self, int64_t start, int64_t end) except -1

    cdef int _put_long(self, int64_t start, int64_t end) except -1

    cdef int _put_piece(self, int64_t start, int64_t end) except -1

    @cython.locals(i=int)
    cdef int _put_number(self, uint64_t value, int size) except -1

    @cython.locals(value=uint64_t, i=int64_t)
    cdef uint64_t _value_of(self, int64_t at, int64_t end) except? 0xFFFFFFFFFFFFFFFF
