"""Batches as Arrow arrays, by the Arrow C stream interface: bytes stay where they are, with a hold on them that ends when
the last array over them is released, in whatever thread that happens."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.errno cimport EIO
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from penstock.kernels cimport batch as kernel
from penstock.kernels cimport header, memory

from array import array

from penstock.core.errors import CorruptBatch
from penstock.kernels.crc import crc32c


cdef extern from "Python.h":
    int Py_IsInitialized() noexcept nogil


cdef extern from "arrow_c.h":
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

    struct ArrowSchema:
        void (*release)(ArrowSchema*) noexcept nogil

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
    Column* columns
    ArrowArray** children
    int64_t* offsets
    int64_t* timestamps
    const void* zeros
    void* more_zeros
    int64_t count


# Where lay_out puts what it finds: no Python runs between its call and the last look at this.
cdef long long[::1] layout = array("q", bytes(16 * 8))

# Column numbers, as in log/arrow.py.
cdef enum:
    OFFSET, TIMESTAMP, KEY, VALUE, TOPIC, PROPERTIES, NATIVE, EXPIRY, COLUMNS


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


cdef const void* column_at(Export* export, int64_t at) noexcept:
    return export.zeros if at < 0 else <const void*> (export.body + at)


cdef void set_var(ArrowArray* made, Export* export, int64_t entries, int word, const void** buffers) noexcept:
    buffers[0] = NULL
    buffers[1] = column_at(export, layout[word])
    buffers[2] = column_at(export, layout[word + 1] if layout[word] >= 0 else -1)
    set_array(made, export, entries, 3, buffers)


cdef void set_fixed(Column* column, Export* export, const void* values) noexcept:
    column.buffers[0] = NULL
    column.buffers[1] = values
    set_array(&column.array, export, export.count, 2, column.buffers)


cdef void set_topics(Column* column, Export* export) noexcept:
    """Without the column all records have the one, empty topic."""
    set_fixed(column, export, column_at(export, layout[3]))
    set_var(&column.topics, export, 1 if layout[3] < 0 else layout[4], 5, column.topic_buffers)
    column.array.dictionary = &column.topics


cdef int64_t* sums(Export* export, int64_t* out, int64_t at, int64_t base, int64_t step) noexcept:
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


cdef void set_column(Column* column, Export* export, int number, const unsigned char* head) noexcept:
    cdef int64_t base = 0
    if number == OFFSET:
        memcpy(&base, head + 8, 8)
        set_fixed(column, export, sums(export, export.offsets, layout[1], base, 1))
    elif number == TIMESTAMP:
        memcpy(&base, head + 32, 8)
        set_fixed(column, export, sums(export, export.timestamps, layout[0], base, 0))
    elif number == TOPIC:
        set_topics(column, export)
    elif number == EXPIRY:
        set_fixed(column, export, column_at(export, layout[2]))
    else:
        set_var(&column.array, export, export.count, var_word(number), column.buffers)


cdef int var_word(int number) noexcept:
    return 7 if number == KEY else 9 if number == PROPERTIES else 11 if number == NATIVE else 13


cdef Export* new_export(Py_ssize_t columns, int64_t count) except NULL:
    cdef size_t head = sizeof(Export) + columns * (sizeof(Column) + sizeof(ArrowArray*))
    cdef Export* export = <Export*> malloc(head + 2 * 8 * count)
    if export == NULL:
        raise MemoryError
    memset(export, 0, sizeof(Export))
    export.count = count
    export.columns = <Column*> (export + 1)
    export.children = <ArrowArray**> (export.columns + columns)
    export.offsets = <int64_t*> (export.children + columns)
    export.timestamps = export.offsets + count
    export.zeros = penstock_zeros
    if count > PENSTOCK_ZERO_ENTRIES:
        export.more_zeros = calloc(count + 1, 8)
        if export.more_zeros == NULL:
            free(export)
            raise MemoryError
        export.zeros = export.more_zeros
    return export


cdef int check_body(
    const unsigned char[::1] head, const unsigned char[::1] body, int64_t start, int64_t count
) except -1:
    """The columns of body[start:], to `layout`."""
    cdef int64_t last = 0
    kernel.lay_out(body, start, body.shape[0], count, head[28], layout)
    if layout[0] >= 0 and count:
        last = memory.load_i32(body, layout[0] + 4 * (count - 1))
    if memory.load_i64(head, 40) - memory.load_i64(head, 32) != last:
        raise CorruptBatch("the greatest timestamp is not that of the last record")
    return 0


cdef int export_batch(ArrowArray* whole, object data, bytes numbers, bint verify, object unpack) except -1:
    """A struct of the columns of these numbers. CorruptBatch as for Batch.parse."""
    cdef const unsigned char[::1] head = data
    header.check_whole(head)
    if verify and <uint32_t> crc32c(data, 0, 8) != memory.load_u32(head, 4):
        raise CorruptBatch("the checksum does not match")
    if head[30]:
        return fill(whole, head, unpack(data), 0, numbers)
    return fill(whole, head, data, 64, numbers)


cdef int fill(ArrowArray* whole, const unsigned char[::1] head, object body, int64_t start, bytes numbers) except -1:
    cdef const unsigned char[::1] view = body
    cdef Py_buffer source
    cdef Export* export
    cdef int64_t count = memory.load_u32(head, 20)
    PyObject_GetBuffer(body, &source, PyBUF_SIMPLE)
    try:
        check_body(head, view, start, count)
        export = new_export(len(numbers), count)
    except BaseException:
        PyBuffer_Release(&source)
        raise
    export.source = source
    export.body = &view[0]
    wrap(whole, export, &head[0], numbers)
    return 0


cdef void wrap(ArrowArray* whole, Export* export, const unsigned char* head, bytes numbers) noexcept:
    """Nothing here can fail: from now on releasing the whole is what frees the export."""
    cdef const unsigned char* number = numbers
    cdef Py_ssize_t i
    set_array(whole, export, export.count, 1, &export.no_bitmap)
    whole.n_children = len(numbers)
    whole.children = export.children
    for i in range(len(numbers)):
        set_column(&export.columns[i], export, number[i], head)
        export.children[i] = &export.columns[i].array


cdef struct Batches:
    PyObject* owner
    ArrowArray* arrays
    Py_ssize_t made
    Py_ssize_t taken


cdef class Exported:
    """Batches as a stream of Arrow arrays, for whoever reads the Arrow PyCapsule interface; once. All are checked when
    this is made (CorruptBatch as for Batch.parse; `unpack` gives the body of a compressed one); those that nobody took
    are released with it. `schema` must be that of the columns with these numbers."""

    cdef Batches batches
    cdef object schema

    def __cinit__(self, list batches, bytes numbers, schema, bint verify, unpack):
        self.schema, self.batches.owner = schema, <PyObject*> self
        self.batches.arrays = <ArrowArray*> malloc(len(batches) * sizeof(ArrowArray) + 1)
        if self.batches.arrays == NULL:
            raise MemoryError
        for data in batches:
            export_batch(&self.batches.arrays[self.batches.made], data, numbers, verify, unpack)
            self.batches.made += 1

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.batches.taken, self.batches.made):
            self.batches.arrays[i].release(&self.batches.arrays[i])
        free(self.batches.arrays)

    def __arrow_c_stream__(self, requested_schema=None):
        cdef ArrowArrayStream* stream = <ArrowArrayStream*> malloc(sizeof(ArrowArrayStream))
        if stream == NULL:
            raise MemoryError
        stream.get_schema, stream.get_next = get_schema, get_next
        stream.get_last_error, stream.release = get_last_error, release_stream
        stream.private_data = &self.batches
        Py_INCREF(self)
        return PyCapsule_New(stream, "arrow_array_stream", drop_capsule)


cdef void drop_capsule(object capsule) noexcept:
    cdef ArrowArrayStream* stream = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


cdef int get_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept with gil:
    cdef ArrowSchema* found
    try:
        capsule = (<Exported> (<Batches*> stream.private_data).owner).schema.__arrow_c_schema__()
        found = <ArrowSchema*> PyCapsule_GetPointer(capsule, "arrow_schema")
        memcpy(out, found, sizeof(ArrowSchema))
        found.release = NULL
    except BaseException:
        return EIO
    return 0


cdef int get_next(ArrowArrayStream* stream, ArrowArray* out) noexcept nogil:
    """An array that is released already says that there are no more. Waits for nobody: it holds no GIL."""
    cdef Batches* batches = <Batches*> stream.private_data
    if batches.taken == batches.made:
        memset(out, 0, sizeof(ArrowArray))
    else:
        memcpy(out, &batches.arrays[batches.taken], sizeof(ArrowArray))
        batches.taken += 1
    return 0


cdef const char* get_last_error(ArrowArrayStream* stream) noexcept nogil:
    return "the schema could not be exported"


cdef void release_stream(ArrowArrayStream* stream) noexcept nogil:
    stream.release = NULL
    if Py_IsInitialized():
        with gil:
            Py_DECREF(<object> (<Batches*> stream.private_data).owner)
