"""Many small system calls of storage in one go, without the interpreter: each alone would give it up and wait for it.

What did not work is not told here but left: who calls makes the same call again, one by one, and is told."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Free, PyMem_Malloc


cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <sys/uio.h>
    #include <unistd.h>

    #define PENSTOCK_MOST_BUFFERS 1024

    typedef struct {
        int descriptor, count;
        long long position, size;
        struct iovec *buffers;
        char is_done;
    } penstock_write_t;

    static void penstock_write_all(penstock_write_t *writes, Py_ssize_t count) {
        Py_ssize_t i;
        struct stat found;
        for (i = 0; i < count; i++) {
            penstock_write_t *one = &writes[i];
            if (one->count > PENSTOCK_MOST_BUFFERS) continue;
            if (one->position && (fstat(one->descriptor, &found) || found.st_size < one->position)) continue;
            one->is_done = pwritev(one->descriptor, one->buffers, one->count, one->position) == one->size;
        }
    }

    static int penstock_make(int root, const char *path, int mode, int directory_mode) {
        int made = openat(root, path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
        const char *slash = strrchr(path, '/');
        char directory[4096];
        if (made >= 0 || errno != ENOENT || !slash || slash - path >= (ptrdiff_t) sizeof directory) return made;
        memcpy(directory, path, slash - path);
        directory[slash - path] = 0;
        if (mkdirat(root, directory, directory_mode) && errno != EEXIST) return -1;
        return openat(root, path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
    }

    static void penstock_open_all(
        int root, const char **paths, const unsigned char *makes, int *opened, Py_ssize_t count, int mode,
        int directory_mode
    ) {
        Py_ssize_t i;
        for (i = 0; i < count; i++)
            opened[i] = makes[i] ? penstock_make(root, paths[i], mode, directory_mode)
                                 : openat(root, paths[i], O_RDWR | O_CLOEXEC);
    }
    """
    struct iovec:
        void *iov_base
        size_t iov_len
    ctypedef struct penstock_write_t:
        int descriptor, count
        long long position, size
        iovec *buffers
        char is_done
    void penstock_write_all(penstock_write_t *writes, Py_ssize_t count) nogil
    void penstock_open_all(
        int root, const char **paths, const unsigned char *makes, int *opened, Py_ssize_t count, int mode,
        int directory_mode
    ) nogil


def open_all(int root, list paths, bytes makes, int mode, int directory_mode):
    """Descriptors, for reading and writing; -1 where it did not work. Those that `makes` says are made, in a directory
    that may have to be made too."""
    cdef Py_ssize_t i, count = len(paths)
    cdef const char **names = NULL
    cdef const unsigned char *made
    cdef int *opened = NULL
    if len(makes) != count:
        raise IndexError("a byte for each path")
    try:
        names = <const char **> PyMem_Malloc(max(count, 1) * sizeof(char *))
        opened = <int *> PyMem_Malloc(max(count, 1) * sizeof(int))
        if names == NULL or opened == NULL:
            raise MemoryError
        for i in range(count):
            if b"\0" in <bytes?> paths[i]:
                raise ValueError("embedded null byte")
            names[i] = PyBytes_AS_STRING(paths[i])
        made = <const unsigned char *> PyBytes_AS_STRING(makes)
        with nogil:
            penstock_open_all(root, names, made, opened, count, mode, directory_mode)
        return [opened[i] for i in range(count)]
    finally:
        PyMem_Free(names)
        PyMem_Free(opened)


def write_all(list descriptors, list positions, list buffers):
    """Which of the files have what is theirs of `buffers`, a list of them for each, one behind the other from its
    position on. A file that ends before that position is left as it is."""
    cdef Py_ssize_t i, j, held = 0, first = 0, files = len(descriptors), count = 0
    cdef penstock_write_t *writes = NULL
    cdef Py_buffer *views = NULL
    cdef iovec *parts = NULL
    cdef list mine
    if len(positions) != files or len(buffers) != files:
        raise IndexError("a position and buffers for each file")
    for mine in buffers:
        count += len(mine)
    try:
        writes = <penstock_write_t *> PyMem_Malloc(max(files, 1) * sizeof(penstock_write_t))
        views = <Py_buffer *> PyMem_Malloc(max(count, 1) * sizeof(Py_buffer))
        parts = <iovec *> PyMem_Malloc(max(count, 1) * sizeof(iovec))
        if writes == NULL or views == NULL or parts == NULL:
            raise MemoryError
        for i in range(files):
            mine = buffers[i]
            writes[i].descriptor, writes[i].position = descriptors[i], positions[i]
            writes[i].count, writes[i].size, writes[i].is_done = <int> len(mine), 0, 0
            writes[i].buffers = &parts[first]
            for j in range(len(mine)):
                PyObject_GetBuffer(mine[j], &views[held], PyBUF_SIMPLE)
                parts[held].iov_base, parts[held].iov_len = views[held].buf, <size_t> views[held].len
                writes[i].size += views[held].len
                held += 1
            first = held
        with nogil:
            penstock_write_all(writes, files)
        return [writes[i].is_done != 0 for i in range(files)]
    finally:
        for i in range(held):
            PyBuffer_Release(&views[i])
        PyMem_Free(writes)
        PyMem_Free(views)
        PyMem_Free(parts)
