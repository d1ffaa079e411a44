cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef int _PUBLISH, _HAS_ALIAS, _PUBLISHES, _ACKNOWLEDGES, _HAS_QOS_2, _HAS_ALIASES, _ANSWER_BYTES
cdef int _IS_OVER, _IS_LIMITED, _ARE_APART
cdef int _GRANT_WORDS, _GENERATION_BITS, _PROBES
cdef uint64_t _MIX, _LOW_64


@cython.locals(row=Py_ssize_t, region=Py_ssize_t)
cpdef int bounds(const int[::1] regions, int[::1] firsts) except -1


@cython.locals(row=Py_ssize_t, what=int, every=int)
cpdef int contents(const int[::1] heads, const int[::1] present, const int[::1] regions, int[::1] out) except -1


@cython.locals(i=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t publishers(
    const int[::1] contents, const int[::1] slots, const int[::1] versions, int[::1] out
) except -1


@cython.locals(row=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t pick_publishes(
    const int[::1] heads, const int[::1] regions, const int[::1] wanted, int[::1] out
) except -1


@cython.locals(row=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t pick_regions(const int[::1] regions, const int[::1] wanted, int[::1] out) except -1


@cython.locals(i=Py_ssize_t, found=int, slot=int)
cpdef int count_in(
    const int[::1] regions,
    const unsigned char[::1] heads,
    const int[::1] slots,
    int[::1] unanswered,
    const int[::1] maxima,
    int64_t[::1] received,
    const int[::1] is_limited,
    const int[::1] namespaces,
    const int64_t[::1] places,
    int[::1] counts,
    int[::1] over,
    int64_t[::1] places_of_rows,
) except -1


@cython.locals(i=Py_ssize_t, count=Py_ssize_t)
cpdef Py_ssize_t mark_topics(
    const int[::1] regions, const int[::1] topics, const unsigned char[::1] marks, int[::1] out
) except -1


@cython.locals(
    i=Py_ssize_t, count=Py_ssize_t, mask=uint64_t, at=uint64_t, topic=int, region=int, who=int64_t, found=int, _=int
)
cpdef Py_ssize_t ungranted(
    const int[::1] regions,
    const int[::1] topics,
    const int[::1] slots,
    const int[::1] generations,
    const int[::1] numbers,
    int[::1] seen,
    const int64_t[::1] table,
    int[::1] rows,
) except -1


@cython.locals(mask=uint64_t, first=uint64_t, at=uint64_t, who=int64_t, _=int)
cpdef int grant(int64_t slot, int64_t generation, int64_t number, int64_t[::1] table) except -1


@cython.locals(mixed=uint64_t)
cdef uint64_t _place(uint64_t who, uint64_t number) except? 0


@cython.locals(
    i=Py_ssize_t, count=Py_ssize_t, owners=Py_ssize_t, at=Py_ssize_t, last=int, data=bytearray,
    out="unsigned char[::1]", to="int[::1]", by="int[::1]", starts="int[::1]", stops="int[::1]", counts="int[::1]",
)
cpdef tuple answers(
    const int[::1] regions,
    const unsigned char[::1] heads,
    const int[::1] packet_ids,
    const int[::1] slots,
    const int[::1] generations,
)


@cython.locals(i=Py_ssize_t, others=Py_ssize_t)
cpdef Py_ssize_t owe(const int[::1] slots, const int[::1] waiting, int[::1] owed, int[::1] direct) except -1


@cython.locals(i=Py_ssize_t, count=Py_ssize_t, slot=int)
cpdef Py_ssize_t settle(
    const int[::1] slots,
    const int[::1] generations,
    const int[::1] counts,
    const int[::1] direct,
    const int[::1] current,
    int[::1] unanswered,
    int[::1] owed,
    const int[::1] waiting,
    int[::1] behind,
) except -1


@cython.locals(i=Py_ssize_t)
cpdef int shift(int[::1] values, int by) except -1
