cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport memory

cdef int64_t _TOPIC, _KEY, _PROPERTIES, _NATIVE, _VALUE


@cython.locals(flags=int64_t, count=int64_t, at=int64_t, first_byte=int64_t, start=int64_t, stop=int64_t)
cpdef bytes value_of(const unsigned char[::1] data, int64_t row)

cdef int64_t _behind(const unsigned char[::1] data, int64_t at, int64_t entries) except -1

cdef int64_t _pad8(int64_t size) noexcept
