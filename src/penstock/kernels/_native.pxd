cdef class FrameEntry:
    cdef readonly object data, edit
    cdef readonly long long log, first, end, records, first_timestamp, max_timestamp, sequence
