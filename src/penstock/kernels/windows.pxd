cimport cython
from libc.stdint cimport int64_t

from penstock.kernels.window cimport Window


@cython.locals(given=list, i=Py_ssize_t, window=Window, count=int64_t, free=int64_t)
cpdef list deliver_each(
    list windows,
    list batches,
    bint by_key,
    int consumer,
    int64_t now,
    int64_t room,
    int64_t limit,
    int64_t most,
    int64_t too_old,
)


@cython.locals(held=list, i=Py_ssize_t, window=Window, is_settled=bint)
cpdef list ack_each(list windows, list firsts, list stops, int consumer)
