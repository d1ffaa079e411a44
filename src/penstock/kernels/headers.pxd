cimport cython

from penstock.kernels cimport memory

cdef const unsigned char[::1] _NAMES


@cython.locals(kind=int)
cdef long long step(const unsigned char[::1] data, long long at, long long end, long long[::1] found) except? -1


@cython.locals(stop="long long")
cdef long long string_end(const unsigned char[::1] data, long long at, long long end) except? -1


@cython.locals(kind=int, stop="long long")
cdef long long after_number(const unsigned char[::1] data, long long at, long long end) except? -1


cdef long long name_size(long long first, long long end) except? -1


@cython.locals(
    found="long long[::1]", row=Py_ssize_t, at="long long", end="long long", count="long long",
    name_bytes="long long", value_bytes="long long",
)
cpdef long long measure(const unsigned char[::1] data, const int[::1] places, long long[::1] sizes) except -1


@cython.locals(
    found="long long[::1]", row=Py_ssize_t, at="long long", end="long long", count="long long",
    name_at="long long", value_at="long long", size="long long",
)
cpdef long long fill(
    const unsigned char[::1] data,
    const int[::1] places,
    int[::1] lists,
    int[::1] name_ends,
    unsigned char[::1] names,
    int[::1] value_ends,
    unsigned char[::1] values,
) except -1


@cython.locals(row=Py_ssize_t, pair=Py_ssize_t, at="long long")
cpdef long long pack(
    const int[::1] lists,
    const int[::1] name_places,
    const unsigned char[::1] names,
    const int[::1] value_places,
    const unsigned char[::1] values,
    int[::1] ends,
    unsigned char[::1] out,
) except -1


@cython.locals(size="long long", i=Py_ssize_t)
cdef long long put_string(
    const unsigned char[::1] source, long long start, long long end, unsigned char[::1] out, long long at
) except -1
