// Vectors of the width of this instruction set, and what they do.
//
// A block holds BLOCK_BYTES of patterns side by side: row i has dimension i of each of them, one lane a pattern. The
// width of a block is the same for every instruction set; narrower ones walk it in strips.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef AHOP_ISA
#error "AHOP_ISA names the instruction set that this file is compiled for"
#endif

#if defined(__AVX512F__)
#define AHOP_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define AHOP_VECTOR_BYTES 32
#else
#define AHOP_VECTOR_BYTES 16
#endif

namespace ahop::AHOP_ISA {

constexpr int BLOCK_BYTES = 64;

template <class T>
struct Vectors {
    typedef T Type __attribute__((vector_size(AHOP_VECTOR_BYTES)));
    static constexpr int lanes = AHOP_VECTOR_BYTES / sizeof(T);
    static constexpr int block = BLOCK_BYTES / sizeof(T);
    static constexpr int strips = BLOCK_BYTES / AHOP_VECTOR_BYTES;
};

template <class T>
using Vector = typename Vectors<T>::Type;

template <class T>
inline Vector<T> load(const T* from) {
    Vector<T> value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
inline void store(T* to, Vector<T> value) {
    __builtin_memcpy(to, &value, sizeof value);
}

template <class T>
inline Vector<T> broadcast(T value) {
    return value - Vector<T>{};
}

template <class V>
inline V smaller(V a, V b) {
    return a < b ? a : b;
}

template <class V>
inline V larger(V a, V b) {
    return a < b ? b : a;
}

// The same in one instruction each: where both are wanted of one pair, GCC would rather compare once and blend twice.
#if defined(__AVX512F__)
#define AHOP_MINIMUM(type, suffix)                                                                \
    inline Vector<type> smaller(Vector<type> a, Vector<type> b) { return _mm512_min_##suffix(a, b); } \
    inline Vector<type> larger(Vector<type> a, Vector<type> b) { return _mm512_max_##suffix(a, b); }
#elif defined(__AVX2__)
#define AHOP_MINIMUM(type, suffix)                                                                \
    inline Vector<type> smaller(Vector<type> a, Vector<type> b) { return _mm256_min_##suffix(a, b); } \
    inline Vector<type> larger(Vector<type> a, Vector<type> b) { return _mm256_max_##suffix(a, b); }
#elif defined(__SSE2__)
#define AHOP_MINIMUM(type, suffix)                                                             \
    inline Vector<type> smaller(Vector<type> a, Vector<type> b) { return _mm_min_##suffix(a, b); } \
    inline Vector<type> larger(Vector<type> a, Vector<type> b) { return _mm_max_##suffix(a, b); }
#endif
#ifdef AHOP_MINIMUM
AHOP_MINIMUM(float, ps)
AHOP_MINIMUM(double, pd)
#undef AHOP_MINIMUM
#endif

template <class T>
inline T sum(Vector<T> value) {
    T total = 0;
    for (int lane = 0; lane < Vectors<T>::lanes; ++lane) total += value[lane];
    return total;
}

template <class M>
inline bool any(M mask) {
    std::int64_t words[sizeof(M) / 8];
    __builtin_memcpy(words, &mask, sizeof mask);
    std::int64_t found = 0;
    for (std::int64_t word : words) found |= word;
    return found != 0;
}

// In which lanes `a` is below `b`, in as few bytes as this instruction set allows: many are written and read again.
#if defined(__AVX512F__)
template <class T>
struct Swaps;
template <>
struct Swaps<float> {
    typedef __mmask16 Type;
    static Type below(Vector<float> a, Vector<float> b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
    static Vector<float> blend(Type take, Vector<float> a, Vector<float> b) { return _mm512_mask_blend_ps(take, a, b); }
};
template <>
struct Swaps<double> {
    typedef __mmask8 Type;
    static Type below(Vector<double> a, Vector<double> b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
    static Vector<double> blend(Type take, Vector<double> a, Vector<double> b) { return _mm512_mask_blend_pd(take, a, b); }
};
#else
template <class T>
struct Swaps {
    typedef decltype(Vector<T>{} < Vector<T>{}) Type;
    static Type below(Vector<T> a, Vector<T> b) { return a < b; }
    static Vector<T> blend(Type take, Vector<T> a, Vector<T> b) { return take ? b : a; }
};
#endif

template <class T>
using Swap = typename Swaps<T>::Type;

namespace detail {

// Exchanges lane l of the lower vector with lane l - Step of the upper one, wherever l has the bit Step.
template <class T, int Step, int... L>
inline void exchange(Vector<T>& low, Vector<T>& high, std::integer_sequence<int, L...>) {
    constexpr int lanes = Vectors<T>::lanes;
    Vector<T> a = __builtin_shufflevector(low, high, (L & Step ? lanes + L - Step : L)...);
    high = __builtin_shufflevector(low, high, (L & Step ? lanes + L : L + Step)...);
    low = a;
}

template <class T, int Step = 1>
inline void transpose_from(Vector<T>* rows) {
    constexpr int lanes = Vectors<T>::lanes;
    if constexpr (Step < lanes) {
        for (int i = 0; i < lanes; ++i) {
            if (!(i & Step)) exchange<T, Step>(rows[i], rows[i + Step], std::make_integer_sequence<int, lanes>{});
        }
        transpose_from<T, 2 * Step>(rows);
    }
}

}  // namespace detail

// A square of as many rows as lanes.
template <class T>
inline void transpose(Vector<T>* rows) {
    detail::transpose_from<T>(rows);
}

// The sums over the lanes of as many rows as there are lanes, each in its own lane.
template <class T>
inline Vector<T> sums(Vector<T>* rows) {
    transpose<T>(rows);
    Vector<T> total = rows[0];
    for (int i = 1; i < Vectors<T>::lanes; ++i) total += rows[i];
    return total;
}

}  // namespace ahop::AHOP_ISA
