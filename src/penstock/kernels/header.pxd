cimport cython
from libc.stdint cimport int64_t, uint32_t

from penstock.kernels cimport memory

cdef int64_t _MAGIC, _MAX_BODY_BYTES, _MAX_BASE_OFFSET


@cython.locals(word=uint32_t, flags=uint32_t, body_bytes=int64_t, count=int64_t)
cpdef int64_t check(const unsigned char[::1] data, Py_ssize_t position) except -1


@cython.locals(total_bytes=int64_t)
cpdef int64_t check_whole(const unsigned char[::1] data) except -1


@cython.locals(base_offset=int64_t, base_timestamp=int64_t)
cdef int _check_range(const unsigned char[::1] data, Py_ssize_t position) except -1
