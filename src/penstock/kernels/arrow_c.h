/* The structures of the Arrow C data and stream interfaces, as their specification has them, and what exporting needs. */

#ifndef PENSTOCK_ARROW_C_H
#define PENSTOCK_ARROW_C_H

#include <stdint.h>

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

/* Zeros for the columns that a batch lacks, where it has no more records than most. */
enum { PENSTOCK_ZERO_ENTRIES = 8192 };
static const int64_t penstock_zeros[PENSTOCK_ZERO_ENTRIES + 1] = {0};

/* Whether the caller was the last to let go. */
static inline int penstock_let_go(int64_t *holders) { return __atomic_sub_fetch(holders, 1, __ATOMIC_ACQ_REL) == 0; }

#endif
