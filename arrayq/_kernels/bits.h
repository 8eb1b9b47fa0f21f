/* Bit casts, restrict pointers and the widening and narrowing of 16-bit floats.

   The 16-bit conversions are written in integer and float32 arithmetic that never touches a
   float32 subnormal, so that a flush-to-zero mode set by another library cannot change a bit,
   and so that they vectorise on every instruction set (a _Float16 is slow below x86-64-v3). */
#ifndef ARRAYQ_BITS_H
#define ARRAYQ_BITS_H
#include <stdint.h>
#include <string.h>

typedef float *__restrict__ aq_floats;
typedef const float *__restrict__ aq_const_floats;
typedef uint8_t *__restrict__ aq_bytes;
typedef const uint8_t *__restrict__ aq_const_bytes;
typedef int32_t *__restrict__ aq_ints;
typedef const int32_t *__restrict__ aq_const_ints;
typedef uint16_t __attribute__((may_alias)) aq_aliased16;
typedef const aq_aliased16 *__restrict__ aq_const_pairs;

static inline uint32_t aq_bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline float aq_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

static inline float aq_load_f32(const char *p) { float x; memcpy(&x, p, 4); return x; }
static inline double aq_load_f64(const char *p) { double x; memcpy(&x, p, 8); return x; }
static inline uint16_t aq_load_u16(const char *p) { uint16_t x; memcpy(&x, p, 2); return x; }
static inline float aq_load_f32_swapped(const char *p) {
    uint32_t u; memcpy(&u, p, 4); return aq_float(__builtin_bswap32(u));
}
static inline double aq_load_f64_swapped(const char *p) {
    uint64_t u; double x; memcpy(&u, p, 8); u = __builtin_bswap64(u); memcpy(&x, &u, 8); return x;
}
static inline uint16_t aq_load_u16_swapped(const char *p) { return __builtin_bswap16(aq_load_u16(p)); }
static inline void aq_store_f32(char *p, float x) { memcpy(p, &x, 4); }
static inline void aq_store_f64(char *p, double x) { memcpy(p, &x, 8); }
static inline void aq_store_u16(char *p, uint16_t x) { memcpy(p, &x, 2); }
static inline uint32_t aq_load_u32(const uint8_t *p) { uint32_t x; memcpy(&x, p, 4); return x; }
static inline void aq_store_u32(uint8_t *p, uint32_t x) { memcpy(p, &x, 4); }

static inline void aq_prefetch(const char *p) { __builtin_prefetch(p, 0, 2); }

/* Exact widening of a float16: subnormals through an exact difference of two normal float32. */
static inline float aq_widen_f16(uint32_t h) {
    uint32_t magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
    uint32_t subnormal = aq_bits(aq_float((magnitude << 13) + (113u << 23)) - aq_float(113u << 23));
    uint32_t u = (int32_t)magnitude < 0x400 ? subnormal : (magnitude << 13) + (112u << 23);
    u = (int32_t)magnitude < 0x7c00 ? u : (magnitude << 13) | 0x7f800000u;
    return aq_float(u | sign);
}
static inline float aq_widen_bf16(uint32_t h) { return aq_float(h << 16); }

/* Nearest float16, ties to even, overflow to infinity: adding a power of two whose unit in the
   last place is the spacing of the target rounds in one float32 addition. */
static inline uint16_t aq_narrow_f16(float x) {
    uint32_t u = aq_bits(x), addend, code;
    int32_t magnitude = (int32_t)(u & 0x7fffffff), exponent;
    int32_t clipped = magnitude < 0x47800000 ? magnitude : 0x47800000;
    exponent = clipped & 0x7f800000;
    exponent = exponent > 0x38800000 ? exponent : 0x38800000;
    addend = (uint32_t)exponent + (13u << 23);
    code = aq_bits(aq_float((uint32_t)clipped) + aq_float(addend)) - addend
           + ((uint32_t)(exponent - 0x38800000) >> 13);
    code = magnitude > 0x7f800000 ? 0x7e00u : code;
    return (uint16_t)(code | ((u >> 16) & 0x8000));
}
static inline uint16_t aq_narrow_bf16(float x) {
    uint32_t u = aq_bits(x), code = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000u ? ((u >> 16) & 0x8000) | 0x7fc0u : code);
}
#endif
