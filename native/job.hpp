// What the kernels are asked, in plain numbers: no vectors, no classes of others, so that every instruction set and the
// caller agree on it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ahop {

enum Base : int { EUCLIDEAN, DOT, MANHATTAN, BASES };

// Patterns, as rows or packed.
template <class T>
struct Stored {
    const T* patterns;           // rows (n, d)
    const T* blocks;             // the same, packed: (ceil(n / lanes), d, lanes); or null
    const std::uint8_t* finite;  // of each block, whether all of it is
    std::size_t n, d;
    const std::int64_t* chosen = nullptr;  // (n,) which rows, if not all in their order; these are never packed
};

// Scores s[b, n] = sum over bases k and ranks r of weights[k, r] times the r-th largest of base k's values for the pair.
//
// A dimension that is NaN on either side counts as the mean of the others of its pair; a pair that shares none scores
// the lowest finite number.
template <class T>
struct Job {
    Stored<T> stored;
    const T* queries;                  // (k, b, d): each base may see them in its own way
    const std::uint8_t* query_finite;  // (k, b)
    std::size_t b, k;
    const int* bases;  // (k,)
    const T* weights;  // (k, d)
};

// What a query says something in: how many dimensions, and how many factors of them can be multiplied within range.
struct Told {
    std::size_t dimensions, factors;
};

// Scores s[b, n] = sum over dimensions i of log(1 + sum over shifts s of exp(worth[b, i] - (asked[b, i] - shifts[s, i] -
// slopes[i] * pattern[n, i])^2 / 2)) + alone[b, i]; a dimension of a pattern that is NaN adds nothing.
template <class T>
struct Mixture {
    Stored<T> stored;
    const T* asked;   // (b, d)
    const T* worth;   // (b, d), below the largest exponent
    const T* alone;   // (b, d)
    const T* slopes;  // (d,)
    const T* shifts;  // (s, d)
    std::size_t b, s;
    const Told* told;              // (b,)
    const std::uint16_t* listed;   // (b, d), so many of each row as were told
};

// Scores s[b, n] = sum over dimensions i of profiles[b, i, .] at pattern[n, i], linear between knots and flat beyond them;
// a dimension of a pattern that is NaN adds nothing.
template <class T>
struct Additive {
    Stored<T> stored;
    const T* knot_places;  // (d, knots), rising; those behind the used ones are room
    const T* profiles;     // (b, d, knots)
    std::size_t b, knots, used_knots;
};

constexpr double LEAST_WIDTH = 1e-30;

// What values say by themselves: log(rate * density((x - center) / scale) / scale), an outlier; and the logarithm of that
// plus (1 - rate) times the mean over the population's quantiles of normal densities about gain * quantile + bias, each as
// wide as the noise and half the way between its neighbors. Both are zero where a value is NaN.
template <class T>
struct Marginals {
    const T* queries;  // (b, d)
    std::size_t b, d;
    const T *gain, *bias, *std, *outlier_rate, *center, *scale;  // (d,)
    bool signs;                                                  // the bias is as often taken away as added
    const T* population;                                         // (d, quantiles), rising
    std::size_t quantiles;
    const T* log_density;  // (steps,), constant between `low` and `high`, falling by a factor of e a step beyond
    std::size_t steps;
    T low, high;
};

// One instruction set's work on the blocks [first, last), with memory of its own.
template <class T>
struct Kernels {
    std::size_t lanes;
    // Rows of `scratch` that the others need for d dimensions.
    std::size_t (*scratch_bytes)(std::size_t d);
    void (*pack)(const T* patterns, std::size_t n, std::size_t d, T* blocks, std::uint8_t* finite, std::size_t first,
                 std::size_t last);
    void (*scores)(const Job<T>&, T* scores, std::size_t first, std::size_t last, void* scratch);
    // Adds to (k, d).
    void (*weight_gradient)(const Job<T>&, const T* gradient, T* weights, std::size_t first, std::size_t last,
                            void* scratch);
    // Writes rows (n, d) of its blocks, and adds to (k, b, d).
    void (*data_gradient)(const Job<T>&, const T* gradient, T* patterns, T* queries, std::size_t first,
                          std::size_t last, void* scratch);
    // Rows (m, d) ascending, in place; blocks are of as many rows as a block has lanes. Those with NaN are left as
    // they are, and the answer is false.
    bool (*sort)(T* values, std::size_t m, std::size_t d, std::size_t first, std::size_t last, void* scratch);
    void (*mixture)(const Mixture<T>&, T* scores, std::size_t first, std::size_t last, void* scratch);
    void (*additive)(const Additive<T>&, T* scores, std::size_t first, std::size_t last, void* scratch);
    // Of the strips [first, last), as many dimensions each as this instruction set has lanes; both (b, d).
    void (*marginals)(const Marginals<T>&, T* outliers, T* marginal, std::size_t first, std::size_t last, void* scratch);
};

constexpr std::size_t MOST_DIMENSIONS = 4096;

}  // namespace ahop
