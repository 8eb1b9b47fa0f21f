/* The loops that compilers do not find by themselves: looking up the value of a code in a table of
   sixteen, finding the code of a value among sorted edges, and reducing a block to its smallest
   and largest element at once. The plain forms define what the vector forms must give, bit for
   bit. */
#ifndef ARRAYQ_TABLES_H
#define ARRAYQ_TABLES_H
#include "bits.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* values[i] = table[codes[i]], every code below 16 */
static void aq_look_up16(aq_const_bytes codes, aq_const_floats table, aq_floats values, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512F__)
    const __m512 entries = _mm512_loadu_ps(table);
    for (; i + 16 <= n; i += 16) {
        __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(codes + i)));
        _mm512_storeu_ps(values + i, _mm512_permutexvar_ps(index, entries));
    }
#elif defined(__AVX2__)
    const __m256 low = _mm256_loadu_ps(table), high = _mm256_loadu_ps(table + 8);
    for (; i + 8 <= n; i += 8) {
        __m256i index = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(codes + i)));
        __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));
        _mm256_storeu_ps(values + i, _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index),
                                                      _mm256_permutevar8x32_ps(high, index), is_high));
    }
#endif
    for (; i < n; i++) values[i] = table[codes[i]];
}

/* codes[i] = how many of the 15 ascending edges lie below values[i] (NaN: 0), by binary search */
static void aq_search16(aq_const_floats values, aq_const_floats edges, aq_bytes codes, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512F__)
    const __m512 entries = _mm512_maskz_loadu_ps(0x7fff, edges);

    for (; i + 16 <= n; i += 16) {
        __m512 x = _mm512_loadu_ps(values + i);
        __m512i c = _mm512_setzero_si512();
        for (int step = 8; step; step >>= 1) {
            __m512i probe = _mm512_add_epi32(c, _mm512_set1_epi32(step - 1));
            __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_permutexvar_ps(probe, entries), _CMP_GT_OQ);
            c = _mm512_mask_add_epi32(c, above, c, _mm512_set1_epi32(step));
        }
        _mm_storeu_si128((__m128i *)(codes + i), _mm512_cvtepi32_epi8(c));
    }
#elif defined(__AVX2__)
    const __m256 first = _mm256_set1_ps(edges[7]);
    const __m256 low = _mm256_set1_ps(edges[3]), high = _mm256_set1_ps(edges[11]);
    const __m256 thirds = _mm256_setr_ps(edges[1], edges[5], edges[9], edges[13], 0, 0, 0, 0);
    const __m256 lasts = _mm256_setr_ps(edges[0], edges[2], edges[4], edges[6], edges[8], edges[10],
                                        edges[12], edges[14]);
    for (; i + 8 <= n; i += 8) {
        __m256 x = _mm256_loadu_ps(values + i);
        __m256 above = _mm256_cmp_ps(x, first, _CMP_GT_OQ);
        __m256i c = _mm256_srli_epi32(_mm256_castps_si256(above), 31);
        above = _mm256_cmp_ps(x, _mm256_blendv_ps(low, high, above), _CMP_GT_OQ);
        c = _mm256_sub_epi32(_mm256_add_epi32(c, c), _mm256_castps_si256(above));
        above = _mm256_cmp_ps(x, _mm256_permutevar8x32_ps(thirds, c), _CMP_GT_OQ);
        c = _mm256_sub_epi32(_mm256_add_epi32(c, c), _mm256_castps_si256(above));
        above = _mm256_cmp_ps(x, _mm256_permutevar8x32_ps(lasts, c), _CMP_GT_OQ);
        c = _mm256_sub_epi32(_mm256_add_epi32(c, c), _mm256_castps_si256(above));
        __m256i words = _mm256_packs_epi32(c, c), packed = _mm256_packus_epi16(words, words);
        int32_t a = _mm_cvtsi128_si32(_mm256_castsi256_si128(packed));
        int32_t b = _mm_cvtsi128_si32(_mm256_extracti128_si256(packed, 1));
        memcpy(codes + i, &a, 4);
        memcpy(codes + i + 4, &b, 4);
    }
#endif
    for (; i < n; i++) {
        int32_t c = 0;
        for (int k = 0; k < 15; k++) c += values[i] > edges[k];
        codes[i] = (uint8_t)c;
    }
}

/* An integer that sorts as the float32 with these bits does; its own inverse. */
static inline int32_t aq_key(uint32_t bits) {
    return (int32_t)(bits ^ ((uint32_t)((int32_t)bits >> 31) & 0x7fffffffu));
}

#if defined(__AVX2__)
static inline __m256i aq_keys8(const float *x) {
    __m256i bits = _mm256_loadu_si256((const __m256i *)x);
    __m256i flip = _mm256_and_si256(_mm256_srai_epi32(bits, 31), _mm256_set1_epi32(0x7fffffff));
    return _mm256_xor_si256(bits, flip);
}
#endif

/* Keys of the smallest and largest of 32 elements. The smallest is reduced as the largest of the
   complements, so that both share the steps across lanes. */
static inline void aq_bounds32(const float *x, int32_t *lowest, int32_t *highest) {
#if defined(__AVX2__)
    __m256i a = aq_keys8(x), b = aq_keys8(x + 8), c = aq_keys8(x + 16), d = aq_keys8(x + 24);
    __m256i high = _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d));
    __m256i low = _mm256_min_epi32(_mm256_min_epi32(a, b), _mm256_min_epi32(c, d));
    low = _mm256_xor_si256(low, _mm256_set1_epi32(-1));
    __m256i pairs = _mm256_max_epi32(_mm256_unpacklo_epi32(high, low), _mm256_unpackhi_epi32(high, low));
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    *highest = _mm_cvtsi128_si32(half);
    *lowest = ~_mm_extract_epi32(half, 1);
#else
    int32_t low = 0x7fffffff, high = -0x7fffffff - 1;
    for (int i = 0; i < 32; i++) {
        int32_t key = aq_key(aq_bits(x[i]));
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    *lowest = low;
    *highest = high;
#endif
}
#endif
