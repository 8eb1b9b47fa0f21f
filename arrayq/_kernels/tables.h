/* Sixteen-entry tables, the two loops that compilers do not find by themselves:
   looking up the value of a code, and finding the code of a value among sorted edges.
   The plain forms below define what the vector forms must give, bit for bit. */
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
#endif
