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


@cython.locals(i=Py_ssize_t, falls=Py_ssize_t)
cpdef bint rises(const long long[::1] values) except -1


@cython.locals(i=Py_ssize_t, count="long long")
cpdef long long runs(const long long[::1] values, long long[::1] out) except -2


@cython.locals(i=Py_ssize_t, most="long long")
cpdef long long longest(const int[::1] starts, const int[::1] ends) except -1


@cython.locals(i=Py_ssize_t, count="long long")
cpdef long long mark_by_number(const int[::1] numbers, const unsigned char[::1] marks, unsigned char[::1] out) except -1


@cython.locals(i=Py_ssize_t, count="long long")
cpdef long long mark_past(const long long[::1] times, long long now, unsigned char[::1] out) except -1


@cython.locals(i=Py_ssize_t, count="long long")
cpdef long long set_where_empty(const int[::1] starts, const int[::1] ends, int number, int[::1] out) except -1
