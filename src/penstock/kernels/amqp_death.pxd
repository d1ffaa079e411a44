cimport cython
from libc.stdint cimport int64_t

from penstock.kernels cimport amqp_tables, memory

cdef int _KIND, _CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY
cdef int _CORRELATION_ID, _REPLY_TO, _EXPIRATION, _MORE, _ARRAY, _STRING, _TABLE, _TIME, _LONG
cdef int _MAX_TABLE, _FIRST_ROOM, _BESIDE_BYTES
cdef bytes _CC, _DEATH, _QUEUE, _REASON, _COUNT, _REJECTED, _EXCHANGE, _ORIGINAL, _KEYS, _WHEN
cdef tuple _FIRST
cdef int _START, _END, _QUEUE_AT, _QUEUE_END, _REASON_AT, _REASON_END, _COUNT_AT, _SAME, _ENTRY_WORDS


@cython.final
cdef class Deaths:
    cdef bytes _queue, _reason
    cdef int64_t _time_s, _at, _rows
    cdef bint _drops_cc
    cdef object _whole
    cdef unsigned char[::1] _out
    cdef const unsigned char[::1] _data
    cdef readonly object places
    cdef readonly list copies
    cdef int64_t _headers, _headers_end, _expiration, _expiration_end
    cdef int64_t _table, _table_end, _cc, _cc_end, _death, _death_end, _count
    cdef long long[::1] _words

    @cython.locals(
        row=Py_ssize_t, start=int64_t, end=int64_t, topic=int64_t, exchange=bytes, key=bytes, size=int64_t,
        before=int64_t,
    )
    cpdef int add(
        self,
        const unsigned char[::1] data,
        const int[::1] starts,
        const int[::1] ends,
        const int[::1] topics,
        list exchanges,
        list keys,
    ) except -1

    @cython.locals(at=int64_t, flags=int, more=int)
    cdef bint _parse(self, int64_t start, int64_t end) except -1

    cdef int64_t _short_end(self, int64_t at, int64_t end) except? -1

    @cython.locals(at=int64_t, kind_at=int64_t, stop=int64_t)
    cdef int _find(self) except -1

    @cython.locals(same=Py_ssize_t)
    cdef bint _is_named(self, int64_t start, int64_t end, bytes name) except -1

    @cython.locals(at=int64_t, stop=int64_t, end=int64_t)
    cdef int _read_deaths(self) except -1

    @cython.locals(
        i=Py_ssize_t, at=int64_t, word=int64_t, kind_at=int64_t, stop=int64_t, is_text=bint, other=int64_t
    )
    cdef int _read_death(self, int64_t start, int64_t end) except -1

    @cython.locals(start=int64_t, begin=int64_t, size=int64_t, same=int64_t)
    cdef bint _is_same(self, int64_t word, int64_t other) except -1

    cdef bint _is_text(self, int64_t word, bytes text) except -1

    @cython.locals(place=int64_t, flags=int, table=int64_t)
    cdef bint _put_row(self, int64_t start, int64_t end, bytes exchange, bytes key) except -1

    @cython.locals(at=int64_t, begin=int64_t, kind_at=int64_t, stop=int64_t)
    cdef int _put_kept(self) except -1

    @cython.locals(i=int)
    cdef bint _is_replaced(self, int64_t start, int64_t end) except -1

    @cython.locals(place=int64_t, found=int64_t, i=int64_t, word=int64_t)
    cdef int _put_deaths(self, bytes exchange, bytes key) except -1

    cdef int _put_entry(self, int64_t start, int64_t end) except -1

    @cython.locals(start=int64_t, end=int64_t, count_at=int64_t, place=int64_t, count=int64_t)
    cdef int _put_again(self, int64_t word) except -1

    @cython.locals(kind=int, size=int, value=int64_t, i=int)
    cdef int64_t _whole_number(self, int64_t at) except -1

    @cython.locals(place=int64_t, keys=int64_t)
    cdef int _put_new(self, bytes exchange, bytes key) except -1

    @cython.locals(at=int64_t, stop=int64_t)
    cdef int _put_copies(self) except -1

    @cython.locals(at=int64_t, stop=int64_t, found=list)
    cdef int _note_copies(self) except -1

    cdef int _put_name(self, bytes name, int kind) except -1

    cdef int _put_text(self, bytes name, bytes text) except -1

    cdef int _put_string(self, bytes text) except -1

    cdef int _put_long(self, bytes name, int64_t value) except -1

    cdef int _put_piece(self, int64_t start, int64_t end) except -1

    cdef int _reserve(self, int64_t size) except -1

    @cython.locals(row=Py_ssize_t, found=Py_ssize_t)
    cpdef Py_ssize_t mark_cycles(
        self,
        const unsigned char[::1] native,
        const int[::1] starts,
        const int[::1] ends,
        bytes queue,
        unsigned char[::1] marks,
    ) except -1

    @cython.locals(at=int64_t, stop=int64_t, end=int64_t)
    cdef bint _is_cycle(self, bytes queue) except -1
