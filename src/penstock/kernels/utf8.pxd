cimport cython
from libc.stdint cimport uint64_t

from penstock.kernels cimport memory

cdef uint64_t _HIGH, _ONES


@cython.locals(word=uint64_t, stop=Py_ssize_t, first=int, size=int)
cpdef bint is_text(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end, bint may_have_nul) except -1


@cython.locals(first=int, second=int, least=int, most=int, size=int, i=int)
cpdef int character_bytes(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end) except -1
