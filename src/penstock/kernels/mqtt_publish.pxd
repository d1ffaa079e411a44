cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport memory

cdef int _TOPIC, _TOPIC_END, _PROPERTIES, _PROPERTIES_END, _VALUE, _VALUE_END, _EXPIRES, _SPAN_WORDS
cdef int _EXPIRY_PROPERTY, _ALIAS_PROPERTY, _EXPIRY_BYTES, _ALIAS_BYTES, _MAX_TOPIC_BYTES, _LAST_ID
cdef int64_t _LAST_LENGTH, _LOW_32, _INT32_MAX
cdef int _ZERO, _MAX_DIGITS


@cython.final
cdef class Template:
    cdef readonly bytes default_topic, properties
    cdef const int[::1] fields
    cdef int[::1] digits
    cdef long long[::1] written


@cython.final
cdef class PublishEncoder:
    cdef object _end_words, _id_words
    cdef list _own
    cdef int64_t _max_bytes, _now, _count, _with_id, _used, _block_at, _block_bytes
    cdef int _version
    cdef bint _has_aliases
    cdef const unsigned char[::1] _default_topic, _template, _source, _heads, _prefixes
    cdef unsigned char[::1] _no_bytes, _out
    cdef const int[::1] _fields, _ids, _aliases, _prefix_ends, _prefix_of
    cdef int[::1] _no_ints, _digits, _end_of, _id_at
    cdef const long long[::1] _spans, _numbers, _powers
    cdef long long[::1] _no_words, _sizes, _written

    cpdef bytearray encode(
        self,
        source,
        const long long[::1] spans,
        const unsigned char[::1] heads,
        int64_t now_ms,
        const int[::1] packet_ids=*,
        const long long[::1] numbers=*,
        const int[::1] aliases=*,
        const unsigned char[::1] prefixes=*,
        const int[::1] prefix_ends=*,
        const int[::1] prefix_of=*,
    )

    cpdef bytearray encode_each(
        self,
        list sources,
        list templates,
        const int[::1] stops,
        const long long[::1] spans,
        const unsigned char[::1] heads,
        int64_t now_ms,
        const int[::1] packet_ids=*,
        const long long[::1] numbers=*,
    )

    cdef int _release(self) except -1

    @cython.locals(i=Py_ssize_t, at=int64_t, first=int64_t, whole=bytearray)
    cdef bytearray _encode(self, list sources, list templates, const int[::1] stops)

    cdef int _use(self, const unsigned char[::1] source, Template template) except -1

    cdef int _reserve(self) except -1

    @cython.locals(row=int64_t, head=int, size=int64_t, properties=int64_t, whole=int64_t)
    cdef int64_t _measure(self, int64_t first, int64_t stop, int64_t at) except -1

    @cython.locals(row=int64_t, field=int64_t, numbers_at=int64_t, number=int64_t)
    cdef int _measure_numbers(self, int64_t first, int64_t stop) except -1

    @cython.locals(start=int64_t, end=int64_t)
    cdef int64_t _span_bytes(self, int64_t word) except -1

    @cython.locals(size=int64_t)
    cdef int64_t _topic_bytes(self, int64_t row) except -1

    @cython.locals(size=int64_t)
    cdef int64_t _properties_bytes(self, int64_t row) except -1

    cdef int64_t _prefix_start(self, int64_t row) except? -1

    @cython.locals(start=int64_t, end=int64_t)
    cdef int64_t _prefix_bytes(self, int64_t row) except -1

    @cython.locals(digits=int)
    cdef int _count_digits(self, int64_t field, int64_t number) except -1

    @cython.locals(row=int64_t, head=int, packet_id=int)
    cdef int64_t _fill(self, int64_t first, int64_t stop, int64_t at) except -1

    cdef int _id(self, int64_t place) except -1

    @cython.locals(word=int64_t, size=int64_t)
    cdef int64_t _put_topic(self, int64_t row, int64_t at) except -1

    @cython.locals(size=int64_t, expires=int64_t, left=int64_t, alias=int)
    cdef int64_t _put_properties(self, int64_t row, int64_t at) except -1

    @cython.locals(done=int64_t, field=int64_t, start=int64_t, end=int64_t, number=int64_t, digits=int)
    cdef int64_t _put_template(self, int64_t row, int64_t at) except -1

    @cython.locals(field=int64_t, number=uint64_t, before=uint64_t)
    cdef bint _is_near(self, int64_t row) except -1

    @cython.locals(field=int64_t, number=uint64_t, end=int64_t)
    cdef int _put_last_digits(self, int64_t row, int64_t distance) except -1

    cdef int64_t _put_part(self, int64_t start, int64_t end, int64_t at) except -1

    @cython.locals(pair="unsigned int")
    cdef int _put_decimal(self, int64_t end, int digits, uint64_t number) except -1

    @cython.locals(start=int64_t, size=int64_t)
    cdef int64_t _put_span(self, int64_t word, int64_t at) except -1

    cdef int64_t _put_short(self, int64_t at, int64_t value) except -1

    cdef int64_t _put_length(self, int64_t at, int64_t value) except -1


cdef int _length_bytes(int64_t value) noexcept
