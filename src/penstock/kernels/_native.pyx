"""What plain Python cannot say: the processor's crc32c instruction, stores that another process sees in order, and
objects that the garbage collector passes over, with what is done to many of them."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memset

from functools import partial


cdef extern from "crc32c.h":
    void penstock_crc_prepare() nogil
    uint32_t penstock_crc32c(uint32_t value, const unsigned char* data, size_t size) nogil
    uint32_t penstock_crc32c_by(int way, uint32_t value, const unsigned char* data, size_t size) nogil
    int penstock_crc_ways() nogil


cdef extern from *:
    """
    /* Rows of five: position, three others, bytes. A batch holds the crc32c of what follows byte 8 at byte 4. */
    static Py_ssize_t penstock_first_bad(const unsigned char *data, const long long *rows, Py_ssize_t count) {
        Py_ssize_t i;
        for (i = 0; i < count; i++) {
            const unsigned char *batch = data + rows[5 * i];
            uint32_t stored;
            memcpy(&stored, batch + 4, 4);
            if (penstock_crc32c(0, batch + 8, (size_t) rows[5 * i + 4] - 8) != stored) break;
        }
        return i;
    }
    static long long penstock_load(const long long *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
    static long long penstock_load_acquire(const long long *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
    static void penstock_store(long long *word, long long value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }
    static void penstock_store_release(long long *word, long long value) {
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    }
    static void penstock_fence_release(void) { __atomic_thread_fence(__ATOMIC_RELEASE); }
    static void penstock_fence_acquire(void) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
    """
    Py_ssize_t penstock_first_bad(const unsigned char* data, const long long* rows, Py_ssize_t count) nogil
    long long penstock_load(const long long* word) noexcept
    long long penstock_load_acquire(const long long* word) noexcept
    void penstock_store(long long* word, long long value) noexcept
    void penstock_store_release(long long* word, long long value) noexcept
    void penstock_fence_release() noexcept
    void penstock_fence_acquire() noexcept


# Taking the GIL back may cost a whole switch interval; below this the checksum itself takes less than 20 us.
cdef Py_ssize_t RELEASE_GIL_BYTES = 256 << 10

penstock_crc_prepare()


def crc32c(data, uint32_t value=0, Py_ssize_t start=0, Py_ssize_t stop=-1):
    """See kernels/crc.py."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if stop < 0:
            stop = view.len
        if start < 0 or start > stop or stop > view.len:
            raise IndexError("checksum outside a buffer")
        if stop - start < RELEASE_GIL_BYTES:
            return penstock_crc32c(value, <const unsigned char*> view.buf + start, stop - start)
        with nogil:
            value = penstock_crc32c(value, <const unsigned char*> view.buf + start, stop - start)
        return value
    finally:
        PyBuffer_Release(&view)


def first_bad(data, const long long[::1] rows, Py_ssize_t count):
    """See kernels/crc.py."""
    cdef Py_buffer view
    cdef Py_ssize_t i
    if count < 0 or rows.shape[0] < 5 * count:
        raise IndexError("more batches than rows")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for i in range(count):
            if rows[5 * i] < 0 or rows[5 * i + 4] < 8 or rows[5 * i] > view.len - rows[5 * i + 4]:
                raise IndexError("a batch outside a buffer")
        with nogil:
            i = penstock_first_bad(<const unsigned char*> view.buf, &rows[0], count) if count else 0
        return i
    finally:
        PyBuffer_Release(&view)


def crc32c_ways():
    """crc32c in each of the ways that this processor has, slowest first; for tests."""
    return [partial(_crc32c_by, way) for way in range(penstock_crc_ways())]


def _crc32c_by(int way, const unsigned char[::1] data, uint32_t value=0):
    return penstock_crc32c_by(way, value, &data[0], data.shape[0]) if data.shape[0] else value


@cython.no_gc
cdef class FrameEntry:
    """See kernels/entry.py."""

    def __init__(
        self,
        long long log,
        data,
        edit=None,
        long long first=0,
        long long end=0,
        long long records=0,
        long long first_timestamp=0,
        long long max_timestamp=0,
        long long sequence=-1,
    ):
        self.log, self.data, self.edit = log, data, edit
        self.first, self.end, self.records = first, end, records
        self.first_timestamp, self.max_timestamp, self.sequence = first_timestamp, max_timestamp, sequence


def entries_of(
    const long long[::1] logs,
    list batches,
    const long long[::1] firsts,
    const int[::1] counts,
    const long long[::1] times,
    long long sequence,
):
    """See kernels/entry.py."""
    cdef FrameEntry entry
    cdef Py_ssize_t i
    cdef list made = []
    for i in range(len(batches)):
        entry = FrameEntry.__new__(FrameEntry)
        entry.log, entry.data, entry.edit = logs[i], batches[i], None
        entry.first, entry.end, entry.records = firsts[i], firsts[i] + counts[i], counts[i]
        entry.first_timestamp, entry.max_timestamp, entry.sequence = times[i], times[i], sequence
        made.append(entry)
    return made


def framed(list entries, long long generation, long long sequence, long long durable):
    """See kernels/entry.py."""
    cdef FrameEntry entry
    cdef Py_buffer view
    cdef Py_ssize_t total = 40, at = 40, padded, i
    cdef uint32_t crc
    cdef unsigned char* out
    cdef bytes made
    for i in range(len(entries)):
        entry = entries[i]
        total += 16 + ((<Py_ssize_t> len(entry.data) + 7) & ~7)
    made = PyBytes_FromStringAndSize(NULL, total)
    out = <unsigned char*> PyBytes_AS_STRING(made)
    memset(out, 0, total)
    for i in range(len(entries)):
        entry = entries[i]
        PyObject_GetBuffer(entry.data, &view, PyBUF_SIMPLE)
        try:
            padded = 16 + ((view.len + 7) & ~7)
            if padded > total - at or view.len > 0xFFFFFFFF:
                raise ValueError("the entries of a frame changed, or one is too large")
            memcpy(out + at, &entry.log, 8)
            (<uint32_t*> (out + at + 8))[0] = <uint32_t> view.len
            out[at + 12] = 1 if entry.edit is None else 2
            memcpy(out + at + 16, view.buf, view.len)
            at += padded
        finally:
            PyBuffer_Release(&view)
    memcpy(out, b"PSTF", 4)
    (<long long*> (out + 8))[0] = generation
    (<long long*> (out + 16))[0] = sequence
    (<long long*> (out + 24))[0] = durable
    (<uint32_t*> (out + 32))[0] = <uint32_t> (total - 40)
    (<uint32_t*> (out + 36))[0] = <uint32_t> len(entries)
    if total < RELEASE_GIL_BYTES:
        crc = penstock_crc32c(0, out + 8, total - 8)
    else:
        with nogil:
            crc = penstock_crc32c(0, out + 8, total - 8)
    (<uint32_t*> (out + 4))[0] = crc
    return made


def begin(long long[::1] view, Py_ssize_t word):
    """See kernels/table.py."""
    cdef long long* sequence = &view[word]
    penstock_store(sequence, (penstock_load(sequence) + 1) | 1)
    penstock_fence_release()


def end(long long[::1] view, Py_ssize_t word):
    """See kernels/table.py."""
    cdef long long* sequence = &view[word]
    penstock_store_release(sequence, (penstock_load(sequence) + 2) & ~1LL)


def store(long long[::1] view, Py_ssize_t index, long long value):
    """See kernels/table.py."""
    penstock_store(&view[index], value)


def load_consistent(const long long[::1] view, long long[::1] out, Py_ssize_t word, Py_ssize_t first, Py_ssize_t count):
    """See kernels/table.py."""
    cdef Py_ssize_t i
    cdef long long before = penstock_load_acquire(&view[word])
    for i in range(count):
        out[i] = penstock_load(&view[first + i])
    penstock_fence_acquire()
    return before & 1 == 0 and penstock_load(&view[word]) == before
