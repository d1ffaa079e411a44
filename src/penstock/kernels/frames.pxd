cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport memory


@cython.locals(room=Py_ssize_t, found=Py_ssize_t, at=int64_t, log_number=int64_t, size=int64_t, kind=int64_t)
cpdef Py_ssize_t entries(const unsigned char[::1] data, int64_t start, int64_t stop, long long[::1] out) except? -1
