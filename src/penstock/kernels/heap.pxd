cimport cython

cdef int[::1] _NO_ITEMS


@cython.final
cdef class IndexHeap:
    cdef Py_ssize_t size
    cdef int[::1] items

    @cython.locals(at=Py_ssize_t)
    cdef int push(self, int index) except -1

    @cython.locals(at=Py_ssize_t, child=Py_ssize_t, lowest=int, last=int)
    cdef int pop(self) except -2

    cdef int clear(self) except -1

    @cython.locals(i=Py_ssize_t, grown="int[::1]")
    cdef int _grow(self) except -1
