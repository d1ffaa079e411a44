cimport cython

from penstock.kernels cimport memory

cdef long long _INT32_MAX


@cython.locals(others=Py_ssize_t)
cpdef bint are_bytes(list entries) except -1


@cython.locals(i=Py_ssize_t, end="long long")
cpdef long long ends(list entries, long long first, int[::1] out) except -1


@cython.locals(i=Py_ssize_t, row=int, found=list)
cpdef list cut(const unsigned char[::1] data, const int[::1] offsets, const int[::1] rows)


cpdef list pieces(const unsigned char[::1] data, const int[::1] starts, const int[::1] ends)
