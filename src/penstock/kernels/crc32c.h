/* crc32c with the processor's instruction where there is one, by eight tables where there is none.

   The instruction has a latency of three cycles and a throughput of one, so long inputs are cut into three streams that
   run beside each other. The checksum is linear: the state of one stream is moved past the bytes of the next ("shift")
   by four table lookups, then the states are added.

   Processors that multiply without carry in 512 bits do better: 256 bytes are kept as they are, and each step moves them
   past the next 256 by two multiplications, and adds those ("fold"). What is left at the end has the checksum of it all. */

#ifndef PENSTOCK_CRC32C_H
#define PENSTOCK_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define PENSTOCK_CRC_X86 1
#include <nmmintrin.h>
#if __GNUC__ >= 9 || __clang_major__ >= 8
#define PENSTOCK_CRC_WIDE 1
#include <immintrin.h>
#endif
#define PENSTOCK_CRC_TARGET __attribute__((target("sse4.2")))
#define PENSTOCK_CRC_64(state, word) ((uint32_t)_mm_crc32_u64((state), (word)))
#define PENSTOCK_CRC_8(state, byte) (_mm_crc32_u8((state), (byte)))
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define PENSTOCK_CRC_ARM 1
#include <arm_acle.h>
#define PENSTOCK_CRC_TARGET
#define PENSTOCK_CRC_64(state, word) (__crc32cd((state), (word)))
#define PENSTOCK_CRC_8(state, byte) (__crc32cb((state), (byte)))
#endif

/* A third of what three streams take at a time. The long one amortises the shift, the short one serves small batches. At
   a multiple of 4096 the streams would fight for the same lines of the nearest cache. */
enum { PENSTOCK_LONG_BYTES = 4224, PENSTOCK_SHORT_BYTES = 256, PENSTOCK_LINE_BYTES = 64 };
/* What is folded at a time, and the least for which that is the faster way. */
enum { PENSTOCK_FOLD_BYTES = 256, PENSTOCK_WIDE_BYTES = 1024 };

static uint32_t penstock_table[8][256];
static uint32_t penstock_long_shift[4][256];
static uint32_t penstock_short_shift[4][256];
static int penstock_has_instruction = 0;
static int penstock_has_wide = 0;
static uint64_t penstock_fold[2];

static uint32_t penstock_crc_tables(uint32_t state, const unsigned char *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        word ^= state;
        state = penstock_table[7][word & 255] ^ penstock_table[6][word >> 8 & 255] ^ penstock_table[5][word >> 16 & 255] ^
                penstock_table[4][word >> 24 & 255] ^ penstock_table[3][word >> 32 & 255] ^
                penstock_table[2][word >> 40 & 255] ^ penstock_table[1][word >> 48 & 255] ^ penstock_table[0][word >> 56];
    }
    while (size--) state = penstock_table[0][(state ^ *data++) & 255] ^ state >> 8;
    return state;
}

/* shift[k][b]: what byte k of a state, being b, becomes after `size` zero bytes. */
static void penstock_fill_shift(uint32_t shift[4][256], size_t size) {
    for (int k = 0; k < 4; k++) {
        shift[k][0] = 0;
        for (int bit = 0; bit < 8; bit++) {
            uint32_t state = (uint32_t)1 << (8 * k + bit);
            for (size_t i = 0; i < size; i++) state = penstock_table[0][state & 255] ^ state >> 8;
            for (int low = 0; low < 1 << bit; low++) shift[k][(1 << bit) + low] = state ^ shift[k][low];
        }
    }
}

/* The polynomial x^power reduced, its bits in the order of the checksum, as a factor of 64 bits. */
static uint64_t penstock_power(int power) {
    uint32_t state = 0x80000000u;
    while (power--) state = state >> 1 ^ (state & 1 ? 0x82F63B78u : 0);
    return (uint64_t)state << 1;
}

static void penstock_crc_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++) state = state >> 1 ^ (state & 1 ? 0x82F63B78u : 0);
        penstock_table[0][byte] = state;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            penstock_table[k][byte] =
                penstock_table[0][penstock_table[k - 1][byte] & 255] ^ penstock_table[k - 1][byte] >> 8;
    penstock_fill_shift(penstock_long_shift, PENSTOCK_LONG_BYTES);
    penstock_fill_shift(penstock_short_shift, PENSTOCK_SHORT_BYTES);
#if defined(PENSTOCK_CRC_X86)
    penstock_has_instruction = __builtin_cpu_supports("sse4.2") != 0;
#if defined(PENSTOCK_CRC_WIDE)
    penstock_has_wide = penstock_has_instruction && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    penstock_fold[0] = penstock_power(8 * PENSTOCK_FOLD_BYTES + 32);
    penstock_fold[1] = penstock_power(8 * PENSTOCK_FOLD_BYTES - 32);
#endif
#elif defined(PENSTOCK_CRC_ARM)
    penstock_has_instruction = 1;
#endif
}

#if defined(PENSTOCK_CRC_TARGET)
static uint32_t penstock_shift(uint32_t shift[4][256], uint32_t state) {
    return shift[0][state & 255] ^ shift[1][state >> 8 & 255] ^ shift[2][state >> 16 & 255] ^ shift[3][state >> 24];
}

/* The processor foresees one stream, hardly three that begin anew every few pages: the lines of the next three are asked
   for while these are read. That is a hint and touches nothing, past the end of the data either. */
PENSTOCK_CRC_TARGET
static uint32_t penstock_crc_three(uint32_t state, const unsigned char *data, size_t third, uint32_t shift[4][256]) {
    uint32_t second = 0, last = 0;
    for (const unsigned char *stop = data + third; data < stop; data += PENSTOCK_LINE_BYTES) {
        for (size_t stream = 3; stream < 6; stream++) __builtin_prefetch(data + stream * third);
        for (size_t i = 0; i < PENSTOCK_LINE_BYTES; i += 8) {
            uint64_t a, b, c;
            memcpy(&a, data + i, 8);
            memcpy(&b, data + third + i, 8);
            memcpy(&c, data + 2 * third + i, 8);
            state = PENSTOCK_CRC_64(state, a);
            second = PENSTOCK_CRC_64(second, b);
            last = PENSTOCK_CRC_64(last, c);
        }
    }
    return penstock_shift(shift, penstock_shift(shift, state) ^ second) ^ last;
}

PENSTOCK_CRC_TARGET
static uint32_t penstock_crc_instruction(uint32_t state, const unsigned char *data, size_t size) {
    for (; size >= 3 * PENSTOCK_LONG_BYTES; data += 3 * PENSTOCK_LONG_BYTES, size -= 3 * PENSTOCK_LONG_BYTES)
        state = penstock_crc_three(state, data, PENSTOCK_LONG_BYTES, penstock_long_shift);
    for (; size >= 3 * PENSTOCK_SHORT_BYTES; data += 3 * PENSTOCK_SHORT_BYTES, size -= 3 * PENSTOCK_SHORT_BYTES)
        state = penstock_crc_three(state, data, PENSTOCK_SHORT_BYTES, penstock_short_shift);
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        state = PENSTOCK_CRC_64(state, word);
    }
    while (size--) state = PENSTOCK_CRC_8(state, *data++);
    return state;
}
#endif

#if defined(PENSTOCK_CRC_WIDE)
/* At least PENSTOCK_FOLD_BYTES. */
__attribute__((target("avx512f,vpclmulqdq"))) static uint32_t penstock_crc_wide(
    uint32_t state, const unsigned char *data, size_t size
) {
    const __m512i factors = _mm512_set4_epi64(penstock_fold[1], penstock_fold[0], penstock_fold[1], penstock_fold[0]);
    unsigned char left[PENSTOCK_FOLD_BYTES];
    __m512i kept[4];
    for (int i = 0; i < 4; i++) kept[i] = _mm512_loadu_si512(data + 64 * i);
    kept[0] = _mm512_xor_si512(kept[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    for (data += PENSTOCK_FOLD_BYTES, size -= PENSTOCK_FOLD_BYTES; size >= PENSTOCK_FOLD_BYTES;
         data += PENSTOCK_FOLD_BYTES, size -= PENSTOCK_FOLD_BYTES)
        for (int i = 0; i < 4; i++) {
            const __m512i low = _mm512_clmulepi64_epi128(kept[i], factors, 0x00);
            const __m512i high = _mm512_clmulepi64_epi128(kept[i], factors, 0x11);
            kept[i] = _mm512_ternarylogic_epi64(low, high, _mm512_loadu_si512(data + 64 * i), 0x96);
        }
    for (int i = 0; i < 4; i++) _mm512_storeu_si512(left + 64 * i, kept[i]);
    return penstock_crc_instruction(penstock_crc_instruction(0, left, PENSTOCK_FOLD_BYTES), data, size);
}
#endif

/* How many ways there are on this processor: each is faster than the one before, for inputs that are long enough. */
static int penstock_crc_ways(void) { return 1 + penstock_has_instruction + penstock_has_wide; }

static uint32_t penstock_crc32c_by(int way, uint32_t value, const unsigned char *data, size_t size) {
#if defined(PENSTOCK_CRC_WIDE)
    if (way == 2 && size >= PENSTOCK_WIDE_BYTES) return ~penstock_crc_wide(~value, data, size);
#endif
#if defined(PENSTOCK_CRC_TARGET)
    if (way >= 1) return ~penstock_crc_instruction(~value, data, size);
#endif
    return ~penstock_crc_tables(~value, data, size);
}

static uint32_t penstock_crc32c(uint32_t value, const unsigned char *data, size_t size) {
    return penstock_crc32c_by(penstock_crc_ways() - 1, value, data, size);
}

#endif
