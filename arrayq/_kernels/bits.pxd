"""Bit casts and restrict pointers (bits.h) for the loops."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t


cdef extern from "bits.h" nogil:
    ctypedef float* aq_floats
    ctypedef const float* aq_const_floats
    ctypedef uint8_t* aq_bytes
    ctypedef const uint8_t* aq_const_bytes
    ctypedef int32_t* aq_ints
    ctypedef const int32_t* aq_const_ints
    ctypedef uint16_t aq_aliased16
    ctypedef const aq_aliased16* aq_const_pairs

    uint32_t aq_bits(float) noexcept
    float aq_float(uint32_t) noexcept
    float aq_load_f32(const char*) noexcept
    double aq_load_f64(const char*) noexcept
    uint16_t aq_load_u16(const char*) noexcept
    float aq_load_f32_swapped(const char*) noexcept
    double aq_load_f64_swapped(const char*) noexcept
    uint16_t aq_load_u16_swapped(const char*) noexcept
    void aq_store_f32(char*, float) noexcept
    void aq_store_f64(char*, double) noexcept
    void aq_store_u16(char*, uint16_t) noexcept
    uint32_t aq_load_u32(const uint8_t*) noexcept
    void aq_store_u32(uint8_t*, uint32_t) noexcept
    void aq_prefetch(const char*) noexcept
    float aq_widen_f16(uint32_t) noexcept
    float aq_widen_bf16(uint32_t) noexcept
    uint16_t aq_narrow_f16(float) noexcept
    uint16_t aq_narrow_bf16(float) noexcept
