cimport cython
from libc.stdint cimport int64_t

from penstock.kernels._native cimport FrameEntry
from penstock.kernels.places cimport Partition, Place
from penstock.kernels.staged cimport StagedLog
from penstock.kernels.window cimport Window

cdef int64_t _NEVER


cdef class Share:
    cdef public int partition
    cdef public int64_t held, clock_ms, alarm_ms
    cdef public bint is_revoked


cdef class Member:
    cdef public int number
    cdef public dict holds, ready
    cdef public bint is_closed, is_full


@cython.final
cdef class Handed:
    cdef readonly list units, batches, rows, counts, times, amounts, unwatched
    cdef readonly int64_t messages

    @cython.locals(last=Py_ssize_t)
    cdef int note(self, unit, FrameEntry batch, int64_t row, int64_t count) except -1


@cython.locals(given=int64_t, count=int64_t)
cpdef int64_t hand_out(
    Member member,
    dict units,
    int group,
    bint by_key,
    int64_t now,
    int64_t room,
    int64_t limit,
    int64_t most,
    int64_t too_old,
    int64_t timeout_ms,
    Handed found,
) except -1

@cython.locals(given=int64_t, count=int64_t)
cpdef int64_t hand_out_parts(
    Member member,
    dict units,
    int group,
    bint by_key,
    int64_t now,
    int64_t room,
    int64_t limit,
    int64_t too_old,
    Handed found,
) except -1


@cython.locals(count=int64_t)
cpdef int64_t ready_in(dict ready, dict units, int group, int64_t limit) except -1


@cython.locals(window=Window)
cdef int64_t ready_of(Place place, Partition unit, int64_t limit) except -1

cdef int64_t held_in(Share share) except? -1
cdef bint is_revoked(Share share) except -1
cdef place_in(Partition unit, int group)
cdef bint is_at_end(Place place, Partition unit) except -1
cdef int add_given(Share share, int64_t count) except -1
cdef int note_given(Share share, int64_t count, int64_t now, int64_t timeout_ms, Handed found) except -1


@cython.locals(
    window=Window, given=int64_t, free=int64_t, row=int64_t, count=int64_t, batches=list, at=Py_ssize_t,
    batch=FrameEntry,
)
cdef int64_t hand_out_of(
    Place place,
    Partition unit,
    bint by_key,
    int consumer,
    int64_t now,
    int64_t room,
    int64_t limit,
    int64_t most,
    int64_t too_old,
    bint in_parts,
    Handed found,
) except -1


@cython.locals(low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
cdef Py_ssize_t place_of(list tail, int64_t offset) except -2

cdef int64_t first_of(FrameEntry batch) except? -1
cdef list batches_from(unit, int64_t offset)

cdef int64_t taken(
    Window window,
    FrameEntry batch,
    StagedLog data,
    bint by_key,
    int consumer,
    int64_t now,
    int64_t free,
    int64_t too_old,
    bint in_parts,
) except -1


@cython.locals(done=int64_t, i=Py_ssize_t, number=int, count=int64_t, is_odd=bint)
cpdef int64_t ack_runs(
    list deliveries,
    const int[::1] firsts,
    const int[::1] stops,
    int64_t now,
    dict units,
    dict woken,
    list after,
    list rest,
) except -1


@cython.locals(base=int64_t)
cdef int64_t ack_run(Place place, delivery, int64_t first, int64_t stop, int consumer) except -1

cdef bint has_followers(Place place) except -1
cdef bint note_settled(Share share, Place place, int consumer, int64_t now) except -1
cdef share_in(Member member, Partition unit)
cdef bint may_look(Member member) except -1
