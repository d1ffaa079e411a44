"""Batches as Arrow arrays, by the Arrow C data and C stream interfaces: bytes stay where they are, with a hold on them
that ends when the last array over them is released, in whatever thread that happens."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EINVAL
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from penstock.kernels cimport batch as kernel
from penstock.kernels cimport header, memory

from array import array

from penstock.core.errors import CorruptBatch, InvalidArgument
from penstock.kernels.crc import crc32c


cdef extern from "Python.h":
    int Py_IsInitialized() noexcept nogil


cdef extern from "arrow_c.h":
    struct ArrowSchema:
        void (*release)(ArrowSchema*) noexcept nogil

    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void** buffers
        ArrowArray** children
        ArrowArray* dictionary
        void (*release)(ArrowArray*) noexcept nogil
        void* private_data

    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
        int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
        const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
        void (*release)(ArrowArrayStream*) noexcept nogil
        void* private_data

    enum:
        PENSTOCK_ZERO_ENTRIES

    const int64_t* penstock_zeros
    bint penstock_let_go(int64_t* holders) noexcept nogil


cdef struct Column:
    ArrowArray array
    ArrowArray topics
    const void* buffers[3]
    const void* topic_buffers[3]


cdef struct Export:
    # One block of memory: this, the columns, pointers to them, then numbers that had to be computed. It lives until each
    # of `holders` arrays (the whole, its columns, their dictionaries) is released: a consumer may keep any of them.
    int64_t holders
    Py_buffer source
    const unsigned char* body
    const void* no_bitmap
    ArrowArray** children
    Column* columns
    int64_t* numbers
    const int64_t* zeros
    int64_t* more_zeros
    int64_t count
    int64_t base_offset
    int64_t base_timestamp


# Where lay_out puts what it finds. Nothing between its call and the last look at it gives the GIL away.
cdef long long[::1] layout = array("q", bytes(16 * 8))

# Numbers of columns, in the order of log/arrow.py, to the word of their layout.
cdef enum:
    OFFSET, TIMESTAMP, KEY, VALUE, TOPIC, PROPERTIES, NATIVE, EXPIRY, COLUMNS

cdef int* WORDS = [1, 0, 7, 13, 3, 9, 11, 2]


cdef void release_array(ArrowArray* released) noexcept nogil:
    cdef Export* export = <Export*> released.private_data
    cdef int64_t i
    for i in range(released.n_children):
        if released.children[i].release != NULL:
            released.children[i].release(released.children[i])
    if released.dictionary != NULL and released.dictionary.release != NULL:
        released.dictionary.release(released.dictionary)
    released.release = NULL
    if penstock_let_go(&export.holders):
        drop(export)


cdef void drop(Export* export) noexcept nogil:
    """At the end of the process the interpreter may be gone, and with it what was held."""
    if Py_IsInitialized():
        with gil:
            PyBuffer_Release(&export.source)
    free(export.more_zeros)
    free(export)


cdef void set_array(ArrowArray* made, Export* export, int64_t length, int64_t buffer_count, const void** buffers) noexcept:
    memset(made, 0, sizeof(ArrowArray))
    made.length = length
    made.n_buffers = buffer_count
    made.buffers = buffers
    made.release = release_array
    made.private_data = export
    export.holders += 1


cdef void set_var(
    ArrowArray* made, Export* export, int64_t entries, int64_t offsets_at, int64_t bytes_at, const void** buffers
) noexcept:
    buffers[0] = NULL
    buffers[1] = <const void*> export.zeros if offsets_at < 0 else export.body + offsets_at
    buffers[2] = <const void*> export.zeros if offsets_at < 0 else export.body + bytes_at
    set_array(made, export, entries, 3, buffers)


cdef void set_fixed(Column* column, Export* export, const void* values) noexcept:
    column.buffers[0] = NULL
    column.buffers[1] = values
    set_array(&column.array, export, export.count, 2, column.buffers)


cdef void set_topics(Column* column, Export* export) noexcept:
    set_fixed(column, export, <const void*> export.zeros if layout[3] < 0 else export.body + layout[3])
    set_var(&column.topics, export, 1 if layout[3] < 0 else layout[4], layout[5], layout[6], column.topic_buffers)
    column.array.dictionary = &column.topics


cdef const void* sums(Export* export, int64_t* out, int64_t at, int64_t base, int64_t step) noexcept:
    """See add_deltas in kernels/batch.py."""
    cdef int64_t i
    cdef int32_t delta = 0
    if at < 0:
        for i in range(export.count):
            out[i] = base + i * step
    else:
        for i in range(export.count):
            memcpy(&delta, export.body + at + 4 * i, 4)
            out[i] = base + delta
    return out


cdef void set_column(Column* column, Export* export, int number) noexcept:
    cdef int word = WORDS[number]
    if number == OFFSET:
        set_fixed(column, export, sums(export, export.numbers, layout[1], export.base_offset, 1))
    elif number == TIMESTAMP:
        set_fixed(column, export, sums(export, export.numbers + export.count, layout[0], export.base_timestamp, 0))
    elif number == TOPIC:
        set_topics(column, export)
    elif number == EXPIRY:
        set_fixed(column, export, <const void*> export.zeros if layout[2] < 0 else export.body + layout[2])
    else:
        set_var(&column.array, export, export.count, layout[word], layout[word + 1], column.buffers)


cdef Export* new_export(Py_ssize_t columns, int64_t count) except NULL:
    cdef size_t head = sizeof(Export) + columns * (sizeof(Column) + sizeof(ArrowArray*))
    cdef Export* export = <Export*> malloc(head + 2 * 8 * count)
    if export == NULL:
        raise MemoryError
    memset(export, 0, sizeof(Export))
    export.columns = <Column*> (export + 1)
    export.children = <ArrowArray**> (export.columns + columns)
    export.numbers = <int64_t*> (export.children + columns)
    export.zeros = penstock_zeros
    export.count = count
    if count > PENSTOCK_ZERO_ENTRIES:
        export.more_zeros = <int64_t*> calloc(count + 1, 8)
        if export.more_zeros == NULL:
            free(export)
            raise MemoryError
        export.zeros = export.more_zeros
    return export


cdef int fill(object data, bytes numbers, bint verify, object unpack, ArrowArray* out) except -1:
    """One batch as a struct array with the columns of those numbers. `out` is written to only when all is well."""
    cdef const unsigned char[::1] head = data
    cdef const unsigned char[::1] view = head
    cdef object body = data
    cdef int64_t start = 64
    cdef Export* export
    cdef Py_ssize_t i
    cdef int64_t last = 0
    header.check_whole(head)
    if verify and <uint32_t> crc32c(data, 0, 8) != memory.load_u32(head, 4):
        raise CorruptBatch("the checksum does not match")
    if head[30]:
        body, start = unpack(data), 0
        view = body
    cdef int64_t count = memory.load_u32(head, 20)
    export = new_export(len(numbers), count)
    try:
        PyObject_GetBuffer(body, &export.source, PyBUF_SIMPLE)
    except:
        free(export.more_zeros)
        free(export)
        raise
    export.holders = 1
    try:
        kernel.lay_out(view, start, view.shape[0], count, head[28], layout)
        export.base_offset, export.base_timestamp = memory.load_i64(head, 8), memory.load_i64(head, 32)
        if layout[0] >= 0 and count:
            last = memory.load_i32(view, layout[0] + 4 * (count - 1))
        if export.base_timestamp + last != memory.load_i64(head, 40):
            raise CorruptBatch("the greatest timestamp is not that of the last record")
    except:
        drop(export)
        raise
    export.body = <const unsigned char*> export.source.buf
    for i in range(len(numbers)):
        set_column(&export.columns[i], export, numbers[i])
        export.children[i] = &export.columns[i].array
    set_array(out, export, count, 1, &export.no_bitmap)
    out.n_children, out.children = len(numbers), export.children
    export.holders -= 1
    return 0
