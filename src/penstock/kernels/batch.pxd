cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from penstock.kernels cimport memory

cdef int64_t _MAGIC, _LOW_32, _VERSION
cdef int64_t _TIMESTAMP_DELTA, _OFFSET_DELTA, _EXPIRY, _TOPIC, _KEY, _PROPERTIES, _NATIVE, _VALUE


@cython.locals(i=Py_ssize_t, total=int64_t)
cpdef int64_t spans_bytes(
    const int[::1] starts, const int[::1] ends, Py_ssize_t entries, int64_t source_bytes
) except? -1

cdef int64_t var_bytes(const int[::1] starts, const int[::1] ends, Py_ssize_t entries, int64_t source_bytes) except? -1


@cython.locals(
    source_bytes=int64_t, topics=Py_ssize_t, size=int64_t, flags=int64_t, at=int64_t, whole=bytearray,
    out="unsigned char[::1]",
)
cpdef bytearray build(
    int64_t limit_bytes,
    const unsigned char[::1] source,
    Py_ssize_t count,
    const int[::1] timestamp_delta,
    const int[::1] offset_delta,
    const long long[::1] expiry,
    const int[::1] topic_index,
    const int[::1] topic_starts,
    const int[::1] topic_ends,
    const int[::1] key_starts,
    const int[::1] key_ends,
    const int[::1] property_starts,
    const int[::1] property_ends,
    const int[::1] native_starts,
    const int[::1] native_ends,
    const int[::1] value_starts,
    const int[::1] value_ends,
    uint64_t producer_id=*,
    int64_t producer_epoch=*,
    int64_t base_sequence=*,
)


@cython.locals(i=Py_ssize_t)
cdef int64_t put_int32(unsigned char[::1] out, int64_t at, const int[::1] values, Py_ssize_t entries) except? -1


@cython.locals(i=Py_ssize_t)
cdef int64_t put_topic_index(
    unsigned char[::1] out, int64_t at, const int[::1] values, Py_ssize_t entries, Py_ssize_t topics
) except? -1


@cython.locals(i=Py_ssize_t)
cdef int64_t put_int64(unsigned char[::1] out, int64_t at, const long long[::1] values, Py_ssize_t entries) except? -1


@cython.locals(i=Py_ssize_t, first_byte=int64_t, filled=int64_t, size=int64_t)
cdef int64_t put_spans(
    unsigned char[::1] out,
    int64_t at,
    const unsigned char[::1] source,
    const int[::1] starts,
    const int[::1] ends,
    Py_ssize_t entries,
) except? -1


@cython.locals(out="unsigned char[::1]")
cpdef int put_header(
    bytearray batch,
    int64_t count,
    int64_t flags,
    int64_t compression,
    uint64_t producer_id,
    int64_t producer_epoch,
    int64_t base_sequence,
) except -1


@cython.locals(out="unsigned char[::1]")
cpdef int seal(
    bytearray batch, int64_t base_offset, int64_t epoch, int64_t base_timestamp, int64_t max_timestamp
) except -1


@cython.locals(i=Py_ssize_t, at=int64_t)
cpdef int lay_out(
    const unsigned char[::1] data, int64_t start, int64_t stop, int64_t count, int flags, long long[::1] layout
) except -1


@cython.locals(at=int64_t, found=Py_ssize_t, room=Py_ssize_t, total=int64_t)
cpdef Py_ssize_t scan(const unsigned char[::1] data, int64_t start, int64_t stop, long long[::1] rows) except? -1


@cython.locals(flags=int64_t, at=int64_t, topics=int64_t)
cpdef int64_t keys_at(const unsigned char[::1] data) except? -2


@cython.locals(i=Py_ssize_t)
cpdef int entry_spans(
    const unsigned char[::1] data, int64_t offsets_at, int64_t bytes_at, int[::1] starts, int[::1] ends
) except -1


@cython.locals(i=Py_ssize_t)
cpdef int add_deltas(const unsigned char[::1] data, int64_t at, int64_t base, int64_t step, long long[::1] out) except -1

cdef int64_t _pad8(int64_t size) noexcept
cdef int64_t _fixed_end(int64_t at, int64_t stop, int64_t size) except? -1


@cython.locals(end=int64_t, fault=int64_t)
cdef int64_t _timestamps_end(const unsigned char[::1] data, int64_t at, int64_t stop, int64_t count) except? -1


@cython.locals(end=int64_t, fault=int64_t)
cdef int64_t _offsets_end(const unsigned char[::1] data, int64_t at, int64_t stop, int64_t count) except? -1


@cython.locals(end=int64_t, fault=int64_t)
cdef int64_t _expiry_end(const unsigned char[::1] data, int64_t at, int64_t stop, int64_t count) except? -1


@cython.locals(dictionary=int64_t, topics=int32_t, fault=int64_t)
cdef int64_t _topics_end(
    const unsigned char[::1] data, int64_t at, int64_t stop, int64_t count, long long[::1] layout
) except? -1


@cython.locals(first_byte=int64_t, fault=int64_t)
cdef int64_t _var_end(const unsigned char[::1] data, int64_t at, int64_t stop, int64_t entries) except? -1
