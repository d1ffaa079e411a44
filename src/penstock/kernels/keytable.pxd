cimport cython
from libc.stdint cimport uint64_t

cdef uint64_t _FEWEST
cdef unsigned long long[::1] _NO_KEYS
cdef int[::1] _NO_COUNTS


@cython.final
cdef class KeyTable:
    cdef uint64_t mask
    cdef uint64_t used
    cdef unsigned long long[::1] key
    cdef int[::1] held, owner, waiting, first, last

    @cython.locals(at=uint64_t)
    cdef Py_ssize_t find(self, uint64_t key) except -2

    @cython.locals(slot=Py_ssize_t)
    cdef Py_ssize_t add(self, uint64_t key) except -1

    @cython.locals(i=Py_ssize_t)
    cdef int clear(self) except -1

    @cython.locals(at=uint64_t)
    cdef Py_ssize_t _place(self, uint64_t key) except -1

    @cython.locals(
        key="unsigned long long[::1]", held="int[::1]", owner="int[::1]", waiting="int[::1]", first="int[::1]",
        last="int[::1]", i=Py_ssize_t, live=uint64_t, size=uint64_t, slot=Py_ssize_t,
    )
    cdef int _rehash(self) except -1

    cdef int _allocate(self, uint64_t size) except -1
