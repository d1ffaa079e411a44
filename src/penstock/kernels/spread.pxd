cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport batch, memory

cdef int64_t _EXPIRY, _TOPIC, _KEY, _PROPERTIES, _NATIVE, _VALUE, _MAGIC, _LOW_32, _VERSION


@cython.final
cdef class Rows:
    cdef const unsigned char[::1] source
    cdef int64_t flags
    cdef Py_ssize_t topics
    cdef const long long[::1] expiry
    cdef const int[::1] topic_index, topic_starts, topic_ends, key_starts, key_ends, property_starts, property_ends
    cdef const int[::1] native_starts, native_ends, value_starts, value_ends
    cdef int[::1] used_starts, used_ends, used, numbers

    cdef Py_ssize_t count(self) except -1

    @cython.locals(count=Py_ssize_t, room=int64_t, size=int64_t, topics=Py_ssize_t)
    cdef int64_t part_bytes(self, Py_ssize_t first, Py_ssize_t stop) except -1

    @cython.locals(count=Py_ssize_t, source="const unsigned char[::1]")
    cdef int64_t put_part(self, unsigned char[::1] out, int64_t at, Py_ssize_t first, Py_ssize_t stop) except -1

    @cython.locals(i=Py_ssize_t, topics=Py_ssize_t)
    cdef int64_t put_topics(self, unsigned char[::1] out, int64_t at, Py_ssize_t first, Py_ssize_t stop) except -1

    @cython.locals(i=Py_ssize_t, topic=int64_t, found=Py_ssize_t)
    cdef Py_ssize_t number_topics(self, Py_ssize_t first, Py_ssize_t stop) except -1

    @cython.locals(i=Py_ssize_t)
    cdef int forget_numbers(self, Py_ssize_t topics) except -1


@cython.locals(
    parts=Py_ssize_t, total=int64_t, whole=bytearray, out="unsigned char[::1]", made=list, at=int64_t, end=int64_t,
    first=Py_ssize_t, i=Py_ssize_t, lengths="const long long[::1]",
)
cpdef list build(
    int64_t limit_bytes,
    Rows rows,
    const int[::1] counts,
    const long long[::1] base_offsets,
    const long long[::1] epochs,
    const long long[::1] timestamps,
    uint64_t producer_id,
    int64_t producer_epoch,
    int64_t base_sequence,
)


@cython.locals(total=int64_t, first=Py_ssize_t, left=Py_ssize_t, i=Py_ssize_t, size=int64_t)
cdef int64_t _measure(int64_t limit_bytes, Rows rows, const int[::1] counts, long long[::1] sizes) except -1

cdef int64_t _pad8(int64_t size) noexcept
