cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport batch, memory

cdef int _TOPIC, _TOPIC_END, _PROPERTIES, _PROPERTIES_END, _VALUE, _VALUE_END, _EXPIRES, _SPAN_WORDS, _LAST_ID, _HEAD_BYTES


@cython.locals(i=Py_ssize_t, size=int64_t, at=int64_t, head=int, out="unsigned char[::1]")
cpdef bytearray encode_acks(int kind, const int[::1] packet_ids, const int[::1] reasons, int version)


@cython.locals(
    stop=int64_t, size=int64_t, at=int64_t, end=int64_t, place=int64_t, length=int64_t, i=int,
    out="unsigned char[::1]",
)
cpdef bytearray frame_packets(const unsigned char[::1] data)


@cython.locals(length=int64_t, shift=int, place=int64_t)
cdef int64_t _packet_end(const unsigned char[::1] data, int64_t at, int64_t stop) except -1


@cython.locals(i=Py_ssize_t)
cpdef int patch_packet_ids(unsigned char[::1] packets, const int[::1] positions, const int[::1] packet_ids) except -1


@cython.locals(i=Py_ssize_t)
cpdef int batch_spans(
    const unsigned char[::1] body, const long long[::1] layout, const int[::1] rows, long long[::1] spans
) except -1


@cython.locals(
    i=Py_ssize_t, room=int64_t, layout="long long[::1]", data="const unsigned char[::1]", first=int64_t, count=int64_t,
    offset=int64_t, time=int64_t, row=int64_t,
)
cpdef int whole_spans(list batches, const int[::1] firsts, long long[::1] spans, long long[::1] numbers) except -1

cdef int _put_row(
    const unsigned char[::1] body, const long long[::1] layout, int64_t row, long long[::1] spans, int64_t at
) except -1

cdef int _put_span(
    const unsigned char[::1] body, int64_t offsets_at, int64_t bytes_at, int64_t row, long long[::1] spans, int64_t at
) except -1

cdef int _put_topic(
    const unsigned char[::1] body, const long long[::1] layout, int64_t row, long long[::1] spans, int64_t at
) except -1


@cython.locals(i=Py_ssize_t, at=int64_t, row=int64_t)
cpdef int column_spans(
    const int[::1] topic_index,
    const int[::1] topic_starts,
    const int[::1] topic_ends,
    const int[::1] property_starts,
    const int[::1] property_ends,
    const int[::1] value_starts,
    const int[::1] value_ends,
    const long long[::1] expiry,
    const int[::1] rows,
    long long[::1] spans,
) except -1


@cython.locals(i=Py_ssize_t, topic=int64_t, told=int)
cpdef int mark_aliases(
    const int[::1] topic_index, const int[::1] rows, int[::1] topic_aliases, int[::1] out
) except -1
