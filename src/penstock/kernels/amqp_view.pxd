cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport headers, memory, utf8

cdef int _CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY
cdef int _CORRELATION_ID, _REPLY_TO, _EXPIRATION, _MESSAGE_ID, _TIMESTAMP
cdef int _TYPE, _USER_ID, _APP_ID, _CLUSTER_ID, _UNKNOWN, _MORE
cdef int _USER_PROPERTY, _MQTT_FORMAT, _MQTT_TYPE, _MQTT_REPLY, _MQTT_CORRELATION
cdef int64_t _MAX_TEXT, _GROWTH, _NAME_BYTES, _FIRST_ROOM, _BESIDE
cdef int _MAX_DEPTH
cdef bytes _QUEUE, _ENCODING, _MESSAGE, _TIME, _KIND_OF, _USER, _APP, _CLUSTER, _REPLY
cdef bytes _FORMAT_HEADER, _BASE64_HEADER, _BASE64, _TRUE, _FALSE, _NULL, _ONE
cdef const unsigned char[::1] _HEX
cdef uint64_t _ALL_64


@cython.locals(found=Py_ssize_t, row=Py_ssize_t)
cpdef Py_ssize_t count(const unsigned char[::1] native, const int[::1] starts, const int[::1] ends) except -1


@cython.locals(made=Maker, row=Py_ssize_t)
cpdef Py_ssize_t wrong(const unsigned char[::1] native, const int[::1] starts, const int[::1] ends) except? -1


cpdef bytearray view(
    const unsigned char[::1] properties,
    const int[::1] property_starts,
    const int[::1] property_ends,
    const unsigned char[::1] native,
    const int[::1] native_starts,
    const int[::1] native_ends,
    int[::1] ends,
)


@cython.final
cdef class Maker:
    cdef bytearray _whole
    cdef unsigned char[::1] _out
    cdef const unsigned char[::1] _data
    cdef int64_t _at, _correlation, _correlation_end
    cdef long long[::1] _found
    cdef bint _has_names, _is_decoded
    cdef set _names
    cdef int _fields
    cdef bytes _decoded

    cdef bint can_read(self, const unsigned char[::1] native, int64_t start, int64_t end) except -1

    @cython.locals(
        start=int64_t, end=int64_t, size=int64_t, row=Py_ssize_t, first=int64_t, stop=int64_t, mark=int64_t
    )
    cpdef bytearray column(
        self,
        const unsigned char[::1] properties,
        const int[::1] property_starts,
        const int[::1] property_ends,
        const unsigned char[::1] native,
        const int[::1] native_starts,
        const int[::1] native_ends,
        int[::1] ends,
    )

    @cython.locals(grown=bytearray)
    cdef int _reserve(self, int64_t size) except -1

    @cython.locals(kind=int)
    cdef bint _note(self, const unsigned char[::1] properties, int64_t at, int64_t end) except -1

    @cython.locals(flags=int, more=int, table=int64_t, table_end=int64_t)
    cdef bint _put_row(self, int64_t at, int64_t end) except -1

    cdef int64_t _put_rest(self, int flags, int64_t at, int64_t end) except -2

    @cython.locals(stop=int64_t)
    cdef int64_t _put_field(self, int64_t at, int64_t end, int kind) except -2

    @cython.locals(stop=int64_t, i=int64_t)
    cdef int64_t _put_reply(self, int64_t at, int64_t end) except -2

    @cython.locals(stop=int64_t, place=int64_t)
    cdef int64_t _put_short_text(self, bytes name, int64_t at, int64_t end) except -2

    @cython.locals(place=int64_t)
    cdef int _put_time(self, int64_t at) except -1

    cdef bint _put_correlation(self) except -1

    cdef bint _put_table(self, int64_t at, int64_t end) except -1

    @cython.locals(mark=int64_t, name=int64_t, name_end=int64_t, stop=int64_t, place=int64_t, is_kept=bint)
    cdef int64_t _put_header(self, int64_t at, int64_t end) except -2

    @cython.locals(stop=int64_t, value=bytes, said=bytes, encoded=bytes)
    cdef int64_t _special(self, int64_t name, int64_t name_end, int64_t end) except -2

    @cython.locals(kind=int, stop=int64_t)
    cdef int64_t _put_value(self, int64_t at, int64_t end) except -2

    @cython.locals(kind=int, stop=int64_t)
    cdef int64_t _put_json(self, int64_t at, int64_t end, int depth) except -2

    @cython.locals(is_first=bint, name_end=int64_t)
    cdef bint _put_entries(self, int64_t at, int64_t end, bint is_table, int depth) except -1

    @cython.locals(kind=int, size=int, value=uint64_t)
    cdef int64_t _put_scalar(self, int64_t at, int64_t end, bint is_json) except -2

    @cython.locals(text=bytes, is_quoted=bint)
    cdef int _put_float(self, int64_t at, int size, bint is_json) except -1

    cdef int _put_decimal(self, int64_t at) except -1

    cdef int _put_text(self, int64_t start, int64_t end) except -1

    @cython.locals(made=bytes)
    cdef int _put_base64(self, int64_t start, int64_t end) except -1

    @cython.locals(at=int64_t, i=int64_t, byte=int)
    cdef int _put_json_string(self, int64_t start, int64_t end, bint is_bytes) except -1

    cdef int _put_escape(self, int byte) except -1

    @cython.locals(size=int, rest=uint64_t, i=int)
    cdef int _put_digits(self, uint64_t value) except -1

    @cython.locals(place=int64_t)
    cdef int64_t _begin(self, bytes name) except -1

    cdef int _finish(self, int64_t place) except -1

    cdef int _put_string(self, int64_t start, int64_t end) except -1

    cdef int _put_piece(self, int64_t start, int64_t end) except -1

    cdef int _put_byte(self, int byte) except -1

    cdef int _put_length(self, int64_t at, int64_t size) except -1

    @cython.locals(high=int)
    cdef int _short(self, int64_t at) except -1

    @cython.locals(stop=int64_t)
    cdef int64_t _short_end(self, int64_t at, int64_t end) except -2

    @cython.locals(stop=int64_t)
    cdef int64_t _long_end(self, int64_t at, int64_t end) except -2

    @cython.locals(value=uint64_t, i=int)
    cdef uint64_t _number(self, int64_t at, int size) except? 0xFFFFFFFFFFFFFFFF


cdef int _size_of(int kind) noexcept
