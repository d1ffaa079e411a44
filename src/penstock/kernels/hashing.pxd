cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.kernels cimport memory

cdef uint64_t _LOW_32, _ROUND, _FIRST, _SECOND, _THIRD, _FOURTH
cdef uint64_t _LOW_64, _WIDE_FIRST, _WIDE_SECOND, _GOLDEN


@cython.locals(state=uint64_t, word=uint64_t, at=int64_t, i=int64_t)
cpdef uint64_t murmur3(const unsigned char[::1] source, int64_t start, int64_t stop) except? 0xFFFFFFFFFFFFFFFF


@cython.locals(i=Py_ssize_t)
cpdef int partitions(
    const unsigned char[::1] source, const int[::1] starts, const int[::1] ends, int64_t count, int[::1] out
) except -1


@cython.locals(i=Py_ssize_t, total=int, fill="int[::1]")
cpdef int scatter(const int[::1] numbers, int[::1] counts, int[::1] order) except -1

cdef uint64_t _stir(uint64_t state, uint64_t word) noexcept
cdef uint64_t _finish(uint64_t state) noexcept


@cython.locals(i=Py_ssize_t)
cpdef int hash_column(
    const unsigned char[::1] data, const int[::1] offsets, Py_ssize_t count, unsigned long long[::1] out
) except -1


@cython.locals(state=uint64_t, word=uint64_t, byte=uint64_t, at=int64_t, i=int64_t)
cdef uint64_t wide_hash(const unsigned char[::1] data, int64_t start, int64_t stop) except? 0xFFFFFFFFFFFFFFFF

cdef uint64_t _wide_stir(uint64_t state, uint64_t word) noexcept
