// Scores of a learned mixture: for each dimension one exponential, and one logarithm for all of them.
#pragma once

#include "blocks.hpp"

namespace ahop::AHOP_ISA {
namespace {

template <class T>
struct Bits;

template <>
struct Bits<float> {
    using Word = std::int32_t;
    static constexpr int mantissa = 23, bias = 127;
    static constexpr int exponential_terms = 7, logarithm_terms = 5;
};

template <>
struct Bits<double> {
    using Word = std::int64_t;
    static constexpr int mantissa = 52, bias = 1023;
    static constexpr int exponential_terms = 14, logarithm_terms = 12;
};

template <class T>
struct Words {
    typedef typename Bits<T>::Word Type __attribute__((vector_size(AHOP_VECTOR_BYTES)));
};

template <class T>
using Word = typename Words<T>::Type;

template <class T>
inline Word<T> words_of(Vector<T> value) {
    Word<T> words;
    __builtin_memcpy(&words, &value, sizeof value);
    return words;
}

template <class T>
inline Vector<T> numbers_of(Word<T> words) {
    Vector<T> value;
    __builtin_memcpy(&value, &words, sizeof value);
    return value;
}

template <class T, int Terms>
struct Coefficients {
    T of[Terms];
};

template <class T>
constexpr auto inverse_factorials = [] {
    Coefficients<T, Bits<T>::exponential_terms> found{};
    double factorial = 1;
    for (int term = 0; term < Bits<T>::exponential_terms; ++term) {
        if (term > 0) factorial *= term;
        found.of[term] = static_cast<T>(1 / factorial);
    }
    return found;
}();

template <class T>
constexpr auto inverse_odds = [] {
    Coefficients<T, Bits<T>::logarithm_terms> found{};
    for (int term = 0; term < Bits<T>::logarithm_terms; ++term) found.of[term] = static_cast<T>(1.0 / (2 * term + 1));
    return found;
}();

template <class T, int Terms>
inline Vector<T> polynomial(const Coefficients<T, Terms>& coefficients, Vector<T> x) {
    Vector<T> total = broadcast<T>(coefficients.of[Terms - 1]);
#pragma GCC unroll 16
    for (int term = Terms - 2; term >= 0; --term) total = total * x + coefficients.of[term];
    return total;
}

constexpr double LOG_2 = 0.693147180559945309417;

// 2^t for t between the smallest and the largest exponent: the whole part goes into the exponent's bits, the rest into a
// series about zero.
template <class T>
inline Vector<T> power_of_two(Vector<T> t) {
    using B = Bits<T>;
    // Adding this rounds to whole numbers, which then stand in the lowest bits.
    constexpr T magic = static_cast<T>(3) * (std::int64_t{1} << (B::mantissa - 1));
    Vector<T> shifted = t + magic;
    Vector<T> rest = (t - (shifted - magic)) * static_cast<T>(LOG_2);
    Word<T> whole = words_of<T>(shifted) << B::mantissa;
    return numbers_of<T>(words_of<T>(polynomial<T>(inverse_factorials<T>, rest)) + whole);
}

// The exponent of positive numbers, which are left with a mantissa between one and two.
template <class T>
inline Word<T> take_exponent(Vector<T>& value) {
    using B = Bits<T>;
    constexpr typename B::Word one = static_cast<typename B::Word>(B::bias) << B::mantissa;
    constexpr typename B::Word digits = (static_cast<typename B::Word>(1) << B::mantissa) - 1;
    Word<T> words = words_of<T>(value);
    value = numbers_of<T>((words & digits) | one);
    return (words >> B::mantissa) - B::bias;
}

// The logarithm of numbers from one to two, by the series of the inverse hyperbolic tangent.
template <class T>
inline Vector<T> logarithm_of_mantissa(Vector<T> value) {
    // About one, where the series is short: the upper part is halved.
    auto upper = value > static_cast<T>(1.41421356237309505);
    Vector<T> none{}, half = upper ? value * static_cast<T>(0.5) : value;
    Vector<T> s = (half - 1) / (half + 1);
    return 2 * s * polynomial<T>(inverse_odds<T>, s * s) + (upper ? broadcast<T>(static_cast<T>(LOG_2)) : none);
}

template <bool HasGaps, class T>
Vector<T> mixture_strip(const Mixture<T>& job, const T* block, std::size_t query) {
    constexpr std::size_t width = Vectors<T>::block;
    constexpr T halved = static_cast<T>(-0.5 / LOG_2), in_twos = static_cast<T>(1 / LOG_2);
    constexpr T least = static_cast<T>(1 - Bits<T>::bias);
    std::size_t d = job.stored.d;
    const T *asked = job.asked + query * d, *worth = job.worth + query * d, *alone = job.alone + query * d;
    const std::uint16_t* listed = job.listed + query * d;
    Told told = job.told[query];
    Vector<T> total{}, none{}, product = broadcast<T>(1);
    Word<T> exponents{};
    T sure = 0;
    for (std::size_t next = 0; next < told.dimensions;) {
        for (std::size_t end = at_most(told.dimensions, next + told.factors); next < end; ++next) {
            std::size_t i = listed[next];
            Vector<T> stored = load(block + i * width), sum = broadcast<T>(1);
            Vector<T> deviation = asked[i] - job.slopes[i] * stored;
            for (std::size_t shift = 0; shift < job.s; ++shift) {
                Vector<T> apart = deviation - job.shifts[shift * d + i];
                Vector<T> exponent = worth[i] * in_twos + apart * apart * halved;
                // What is no number is no match.
                exponent = exponent > least ? exponent : broadcast<T>(least);
                sum += power_of_two<T>(exponent);
            }
            product *= sum;
            if constexpr (HasGaps)
                total += stored == stored ? broadcast<T>(alone[i]) : none;
            else
                sure += alone[i];
        }
        exponents += take_exponent<T>(product);
    }
    total += logarithm_of_mantissa<T>(product) + sure;
    return total + __builtin_convertvector(exponents, Vector<T>) * static_cast<T>(LOG_2);
}

template <class T>
void mixture_scores(const Mixture<T>& job, T* scores, std::size_t first, std::size_t last, void* scratch) {
    constexpr std::size_t lanes = Vectors<T>::lanes, width = Vectors<T>::block;
    std::size_t n = job.stored.n;
    for (std::size_t number = first; number < last; ++number) {
        Block<T> block(job.stored, number, static_cast<T*>(scratch));
        for (std::size_t query = 0; query < job.b; ++query) {
            for (std::size_t strip = 0; strip < width && number * width + strip < n; strip += lanes) {
                const T* rows = block.rows + strip;
                Vector<T> total =
                    block.is_finite ? mixture_strip<false>(job, rows, query) : mixture_strip<true>(job, rows, query);
                std::size_t start = number * width + strip;
                __builtin_memcpy(scores + query * n + start, &total, at_most(lanes, n - start) * sizeof(T));
            }
        }
    }
}

}  // namespace
}  // namespace ahop::AHOP_ISA
