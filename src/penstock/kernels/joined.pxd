cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport batch as kernel
from penstock.kernels cimport memory


@cython.locals(
    i=Py_ssize_t, column=int, rows=int64_t, count=int64_t, head="const unsigned char[::1]",
    body="const unsigned char[::1]", layout="long long[::1]",
)
cpdef int64_t lay_out(list batches, list bodies, long long[::1] layouts, long long[::1] sizes) except -1


@cython.locals(i=Py_ssize_t, row=int64_t, count=int64_t, base=int64_t)
cpdef int64_t join_sums(
    list batches, list bodies, long long[::1] layouts, int word, int64_t base_at, int64_t step, long long[::1] out
) except -1


@cython.locals(
    i=Py_ssize_t, j=int64_t, row=int64_t, at=int64_t, count=int64_t, column=int64_t, size=int64_t,
    body="const unsigned char[::1]",
)
cpdef int64_t join_var(list bodies, long long[::1] layouts, int word, int[::1] places, unsigned char[::1] out) except -1


@cython.locals(i=Py_ssize_t, row=int64_t, count=int64_t)
cpdef int64_t join_expiry(list bodies, long long[::1] layouts, unsigned char[::1] out) except -1


@cython.locals(
    i=Py_ssize_t, j=int64_t, row=int64_t, at=int64_t, count=int64_t, column=int64_t, size=int64_t, known=int64_t,
    topics=int64_t, body="const unsigned char[::1]",
)
cpdef int64_t join_topics(
    list bodies, long long[::1] layouts, int[::1] numbers, int[::1] places, unsigned char[::1] names
) except -1
