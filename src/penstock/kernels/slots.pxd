cimport cython
from libc.stdint cimport int64_t


@cython.locals(mask=int64_t, slot=int64_t)
cpdef int place(int[::1] slots, int64_t number, int64_t hash) except -1


@cython.locals(mask=int64_t, hole=int64_t, slot=int64_t, home=int64_t)
cpdef int vacate(int[::1] slots, int64_t number, const int[::1] records, int64_t words) except -1


@cython.locals(i=Py_ssize_t, target="int[::1]")
cpdef object spread(const int[::1] slots, const int[::1] records, int64_t words)
