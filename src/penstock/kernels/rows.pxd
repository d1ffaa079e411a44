cimport cython

cdef long long _INT32_MAX


@cython.locals(i=Py_ssize_t)
cpdef int take_int32(const int[::1] values, const int[::1] rows, int[::1] out) except -1


@cython.locals(i=Py_ssize_t)
cpdef int take_int64(const long long[::1] values, const int[::1] rows, long long[::1] out) except -1


@cython.locals(i=Py_ssize_t, previous=int)
cpdef bint rise(const int[::1] values, long long stop) except -1


@cython.locals(i=Py_ssize_t, count=int, old=int)
cpdef int renumber(int[::1] index, int[::1] new_number, int[::1] used) except -1


@cython.locals(i=Py_ssize_t, delta=cython.longlong)
cpdef int subtract(const long long[::1] values, long long base, int[::1] out) except -1
