cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport memory

cdef int _TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE, _COMMA, _ZERO, _COLON, _BACKSLASH
cdef int _OPEN_LIST, _CLOSE_LIST, _OPEN, _CLOSE
cdef int _B, _F, _N, _R, _T, _U, _SLASH, _BACKSPACE, _FEED
cdef bytes _TEXT, _KEY, _LIST
cdef Py_ssize_t _OTHER


@cython.locals(count=Py_ssize_t, at=Py_ssize_t, room=Py_ssize_t)
cpdef Py_ssize_t scan(
    const unsigned char[::1] data, unsigned char[::1] out, bint is_lines, int[::1] spans
) except? -1

@cython.locals(at=Py_ssize_t)
cdef inline Py_ssize_t _opened(const unsigned char[::1] data) except -2

cdef bint _is_closed(const unsigned char[::1] data, Py_ssize_t at) except -1

cdef Py_ssize_t _line_end(const unsigned char[::1] data, Py_ssize_t at) except -2

@cython.locals(is_text=bint, is_key=bint, found=Py_ssize_t)
cdef inline Py_ssize_t _message(
    const unsigned char[::1] data, unsigned char[::1] out, Py_ssize_t at, int[::1] spans, Py_ssize_t row,
    Py_ssize_t room,
) except -2

cdef inline Py_ssize_t _skip(const unsigned char[::1] data, Py_ssize_t at) except -2

@cython.locals(size=Py_ssize_t, i=Py_ssize_t)
cdef inline Py_ssize_t _named(const unsigned char[::1] data, Py_ssize_t at, bytes name) except -2

@cython.locals(end=Py_ssize_t)
cdef inline Py_ssize_t _string(
    const unsigned char[::1] data, unsigned char[::1] out, Py_ssize_t at, int[::1] spans, Py_ssize_t span,
    Py_ssize_t room,
) except -2

@cython.locals(to=Py_ssize_t, byte=int, point=int, plain=int, end=Py_ssize_t)
cdef Py_ssize_t _escaped(
    const unsigned char[::1] data, unsigned char[::1] out, Py_ssize_t at, int[::1] spans, Py_ssize_t stop
) except -2

cdef int _meant(int byte) except -2

@cython.locals(first=int, second=int)
cdef int _point(const unsigned char[::1] data, Py_ssize_t at) except -2

@cython.locals(value=int, i=Py_ssize_t, byte=int, digit=int)
cdef int _unit(const unsigned char[::1] data, Py_ssize_t at) except -2

cdef Py_ssize_t _put_point(unsigned char[::1] out, Py_ssize_t to, int point) except -1

@cython.locals(
    at=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, longest=Py_ssize_t, i=Py_ssize_t, row=Py_ssize_t,
    number=Py_ssize_t, offset=int64_t,
)
cpdef Py_ssize_t encode_placed(
    const int[::1] numbers, int64_t[::1] following, list heads, list middles, bytes tail, unsigned char[::1] out
) except -1

@cython.locals(size=Py_ssize_t, rest=int64_t, i=Py_ssize_t)
cdef inline Py_ssize_t _put_number(unsigned char[::1] out, Py_ssize_t at, int64_t value) except -1
