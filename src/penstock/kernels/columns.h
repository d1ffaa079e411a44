/* Where a column of integers first breaks its rule.

   A block at a time is tested without a branch, which compilers turn into vector instructions; only the block that
   failed is searched. Columns lie at any address; callers have checked that all of the column is there. */

#ifndef PENSTOCK_COLUMNS_H
#define PENSTOCK_COLUMNS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Long enough to pay for the test behind it, short enough that searching it costs nothing. */
enum { PENSTOCK_BLOCK = 64 };

static inline int32_t penstock_int32(const unsigned char *column, ptrdiff_t i) {
    int32_t value;
    memcpy(&value, column + 4 * i, 4);
    return value;
}

static inline int64_t penstock_int64(const unsigned char *column, ptrdiff_t i) {
    int64_t value;
    memcpy(&value, column + 8 * i, 8);
    return value;
}

/* Defines a function: the first i below `count` for which BREAKS holds; `count` if there is none. */
#define PENSTOCK_FIRST(NAME, BREAKS)                                                              \
    static inline ptrdiff_t NAME(const unsigned char *column, ptrdiff_t count, uint32_t stop) {   \
        ptrdiff_t i = 0, block = 0;                                                               \
        (void)stop;                                                                               \
        for (; block + PENSTOCK_BLOCK <= count; block += PENSTOCK_BLOCK) {                        \
            int broken = 0;                                                                       \
            for (i = block; i < block + PENSTOCK_BLOCK; i++) broken |= (BREAKS);                  \
            if (broken) break;                                                                    \
        }                                                                                         \
        for (i = block; i < count; i++)                                                           \
            if (BREAKS) break;                                                                    \
        return i;                                                                                 \
    }

PENSTOCK_FIRST(penstock_first_fall, penstock_int32(column, i + 1) < penstock_int32(column, i))
PENSTOCK_FIRST(penstock_first_stall, penstock_int32(column, i + 1) <= penstock_int32(column, i))
PENSTOCK_FIRST(penstock_first_outside, (uint32_t)penstock_int32(column, i) >= stop)
PENSTOCK_FIRST(penstock_first_negative, penstock_int64(column, i) < 0)

/* Where a string of JSON first has a byte that does not stand for itself: its end, an escape, or a control character.
   `count` if there is none. */
static inline ptrdiff_t penstock_first_unplain(const unsigned char *text, ptrdiff_t count) {
    ptrdiff_t i = 0;
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
    for (; i + 16 <= count; i += 16) {
        __m128i some = _mm_loadu_si128((const __m128i *)(text + i));
        __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(some, control), some);
        __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(some, quote), _mm_cmpeq_epi8(some, backslash));
        int found = _mm_movemask_epi8(_mm_or_si128(low, ends));
        if (found) return i + __builtin_ctz((unsigned)found);
    }
#endif
    for (; i < count; i++)
        if (text[i] == '"' || text[i] == '\\' || text[i] < 0x20) break;
    return i;
}

#endif
