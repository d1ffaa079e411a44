from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    """
    #define penstock_big16(value) __builtin_bswap16(value)
    #define penstock_big32(value) __builtin_bswap32(value)
    #define penstock_big64(value) __builtin_bswap64(value)
    """
    uint16_t penstock_big16(uint16_t value) noexcept nogil
    uint32_t penstock_big32(uint32_t value) noexcept nogil
    uint64_t penstock_big64(uint64_t value) noexcept nogil


cdef extern from "columns.h":
    ptrdiff_t penstock_first_fall(const unsigned char* column, ptrdiff_t count, uint32_t stop) noexcept nogil
    ptrdiff_t penstock_first_stall(const unsigned char* column, ptrdiff_t count, uint32_t stop) noexcept nogil
    ptrdiff_t penstock_first_outside(const unsigned char* column, ptrdiff_t count, uint32_t stop) noexcept nogil
    ptrdiff_t penstock_first_unplain(const unsigned char* text, ptrdiff_t count) noexcept nogil
    ptrdiff_t penstock_first_negative(const unsigned char* column, ptrdiff_t count, uint32_t stop) noexcept nogil


cdef inline int copy_bytes(
    unsigned char[::1] out, Py_ssize_t at, const unsigned char[::1] source, Py_ssize_t start, Py_ssize_t size
) except -1:
    if size < 0 or at < 0 or start < 0 or at + size > out.shape[0] or start + size > source.shape[0]:
        raise IndexError("copy outside a buffer")
    if size:
        memcpy(&out[at], &source[start], size)
    return 0


cdef inline Py_ssize_t put(unsigned char[::1] out, Py_ssize_t at, bytes part) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(part)
    if at < 0 or at + size > out.shape[0]:
        raise IndexError("copy outside a buffer")
    if size:
        memcpy(&out[at], PyBytes_AS_STRING(part), size)
    return at + size


cdef inline bytes piece(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t stop):
    if start < 0 or stop < start or stop > data.shape[0]:
        raise IndexError("piece outside a buffer")
    return PyBytes_FromStringAndSize(<const char*> &data[start] if start < stop else NULL, stop - start)


cdef inline int load(const unsigned char[::1] data, Py_ssize_t at, void* value, Py_ssize_t size) except -1:
    if at < 0 or at + size > data.shape[0]:
        raise IndexError("load outside a buffer")
    memcpy(value, &data[at], size)
    return 0


cdef inline int store(unsigned char[::1] out, Py_ssize_t at, const void* value, Py_ssize_t size) except -1:
    if at < 0 or at + size > out.shape[0]:
        raise IndexError("store outside a buffer")
    memcpy(&out[at], value, size)
    return 0


cdef inline int32_t load_i32(const unsigned char[::1] data, Py_ssize_t at) except? -1:
    cdef int32_t value = 0
    load(data, at, &value, 4)
    return value


cdef inline uint32_t load_u32(const unsigned char[::1] data, Py_ssize_t at) except? 0xFFFFFFFF:
    cdef uint32_t value = 0
    load(data, at, &value, 4)
    return value


cdef inline int64_t load_i64(const unsigned char[::1] data, Py_ssize_t at) except? -1:
    cdef int64_t value = 0
    load(data, at, &value, 8)
    return value


cdef inline int load_big16(const unsigned char[::1] data, Py_ssize_t at) except -1:
    cdef uint16_t value = 0
    load(data, at, &value, 2)
    return penstock_big16(value)


cdef inline int64_t load_big32(const unsigned char[::1] data, Py_ssize_t at) except -1:
    cdef uint32_t value = 0
    load(data, at, &value, 4)
    return penstock_big32(value)


cdef inline uint64_t load_big64(const unsigned char[::1] data, Py_ssize_t at) except? 0xFFFFFFFFFFFFFFFF:
    cdef uint64_t value = 0
    load(data, at, &value, 8)
    return penstock_big64(value)


cdef inline int store_i32(unsigned char[::1] out, Py_ssize_t at, int32_t value) except -1:
    return store(out, at, &value, 4)


cdef inline int store_u32(unsigned char[::1] out, Py_ssize_t at, uint32_t value) except -1:
    return store(out, at, &value, 4)


cdef inline int store_i64(unsigned char[::1] out, Py_ssize_t at, int64_t value) except -1:
    return store(out, at, &value, 8)


cdef inline int store_big32(unsigned char[::1] out, Py_ssize_t at, uint32_t value) except -1:
    value = penstock_big32(value)
    return store(out, at, &value, 4)


cdef inline int store_big64(unsigned char[::1] out, Py_ssize_t at, uint64_t value) except -1:
    value = penstock_big64(value)
    return store(out, at, &value, 8)


cdef inline int check_column(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t size) except -1:
    if at < 0 or size < 0 or size > data.shape[0] - at:
        raise IndexError("column outside a buffer")
    return 0


cdef inline Py_ssize_t first_fall(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t count) except -1:
    if count < 2:
        return max(count, 0)
    check_column(data, at, 4 * count)
    return penstock_first_fall(&data[at], count - 1, 0) + 1


cdef inline Py_ssize_t first_stall(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t count) except -1:
    if count < 2:
        return max(count, 0)
    check_column(data, at, 4 * count)
    return penstock_first_stall(&data[at], count - 1, 0) + 1


cdef inline Py_ssize_t first_outside(
    const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t count, int32_t stop
) except -1:
    if count < 1:
        return 0
    check_column(data, at, 4 * count)
    return penstock_first_outside(&data[at], count, <uint32_t> max(stop, 0))


cdef inline Py_ssize_t first_negative(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t count) except -1:
    if count < 1:
        return 0
    check_column(data, at, 8 * count)
    return penstock_first_negative(&data[at], count, 0)


cdef inline Py_ssize_t plain_end(const unsigned char[::1] data, Py_ssize_t at) except -1:
    if at < 0 or at >= data.shape[0]:
        return data.shape[0]
    return at + penstock_first_unplain(&data[at], data.shape[0] - at)
