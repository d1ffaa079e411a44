/* The array of the Arrow C data interface, as its specification has it, and what exporting one needs. */

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

/* Zeros for the columns that a batch lacks, where it has no more records than most. */
enum { PENSTOCK_ZERO_ENTRIES = 8192 };
static const int64_t penstock_zeros[PENSTOCK_ZERO_ENTRIES + 1] = {0};

/* Whether the caller was the last to let go. */
static inline int penstock_let_go(int64_t *holders) { return __atomic_sub_fetch(holders, 1, __ATOMIC_ACQ_REL) == 0; }

#endif
