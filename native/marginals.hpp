// What values say without a stored pattern beside them: as outliers, and as copies of the population.
//
// A strip is as many dimensions as a vector has lanes, one lane a dimension.
#pragma once

#include "mixture.hpp"

namespace ahop::AHOP_ISA {
namespace {

constexpr double HALF_LOG_TWO_PI = 0.918938533204672741780;

template <class T>
inline Vector<T> never() {
    return broadcast<T>(static_cast<T>(-__builtin_inf()));
}

template <class T>
inline Vector<T> logarithm(Vector<T> value) {
    Vector<T> mantissa = value;
    Vector<T> exponent = __builtin_convertvector(take_exponent<T>(mantissa), Vector<T>);
    return value > 0 ? logarithm_of_mantissa<T>(mantissa) + exponent * static_cast<T>(LOG_2) : never<T>();
}

// 2^t, and next to nothing where t is too small, or no number.
template <class T>
inline Vector<T> power_or_nothing(Vector<T> t) {
    constexpr T least = static_cast<T>(1 - Bits<T>::bias);
    return power_of_two<T>(t > least ? t : broadcast<T>(least));
}

// log(exp(a) + exp(b))
template <class T>
inline Vector<T> log_sum(Vector<T> a, Vector<T> b) {
    Vector<T> high = larger(a, b), low = smaller(a, b);
    return high + logarithm<T>(1 + power_or_nothing<T>((low - high) * static_cast<T>(1 / LOG_2)));
}

template <class T>
inline Vector<T> square_root(Vector<T> value) {
    for (int lane = 0; lane < Vectors<T>::lanes; ++lane)
        value[lane] = sizeof(T) == 4 ? __builtin_sqrtf(value[lane]) : __builtin_sqrt(value[lane]);
    return value;
}

// So many numbers from `from` on, and the last of them in all other lanes.
template <class T>
inline Vector<T> load_or_last(const T* from, std::size_t count, std::size_t step = 1) {
    Vector<T> value;
    for (std::size_t lane = 0; lane < Vectors<T>::lanes; ++lane) value[lane] = from[at_most(lane, count - 1) * step];
    return value;
}

// The bumps of a strip, one for each quantile of the population: where they are, how narrow, and how high in powers of two.
template <class T>
struct Bumps {
    Vector<T> *places, *inverse, *heights, *exponents;
    std::size_t quantiles;

    Bumps(void* scratch, std::size_t quantiles) : quantiles(quantiles) {
        places = static_cast<Vector<T>*>(scratch);
        inverse = places + quantiles;
        heights = inverse + quantiles;
        exponents = heights + quantiles;
    }

    void lay_out(const T* population, std::size_t dimensions, Vector<T> gain, Vector<T> std) {
        for (std::size_t k = 0; k < quantiles; ++k)
            places[k] = gain * load_or_last(population + k, dimensions, quantiles);
        for (std::size_t k = 0; k < quantiles; ++k) {
            Vector<T> gap = (places[k + 1 < quantiles ? k + 1 : k] - places[k > 0 ? k - 1 : k]) / 2;
            gap = larger(gap, -gap);
            Vector<T> wide = larger(gap, std), ratio = smaller(gap, std) / wide;  // no square leaves the range of numbers
            inverse[k] = 1 / (wide * square_root<T>(1 + ratio * ratio));
            heights[k] = logarithm<T>(inverse[k]) * static_cast<T>(1 / LOG_2);
        }
    }

    // The logarithm of the sum of all bumps.
    Vector<T> log_total(Vector<T> value) const {
        constexpr T halved = static_cast<T>(-0.5 / LOG_2);
        Vector<T> top = never<T>(), total{};
        for (std::size_t k = 0; k < quantiles; ++k) {
            Vector<T> apart = (value - places[k]) * inverse[k];
            exponents[k] = heights[k] + apart * apart * halved;
            top = larger(top, exponents[k]);
        }
        for (std::size_t k = 0; k < quantiles; ++k) total += power_or_nothing<T>(exponents[k] - top);
        return top > never<T>() ? top * static_cast<T>(LOG_2) + logarithm<T>(total) : top;
    }
};

template <class T>
inline Vector<T> log_outlier(const Marginals<T>& job, Vector<T> value) {
    T width = (job.high - job.low) / static_cast<T>(job.steps), last = static_cast<T>(job.steps - 1);
    width = width > static_cast<T>(LEAST_WIDTH) ? width : static_cast<T>(LEAST_WIDTH);
    Vector<T> step = (value - job.low) / width, found, none{};
    step = step > none ? (step < last ? step : broadcast<T>(last)) : none;
    for (int lane = 0; lane < Vectors<T>::lanes; ++lane) found[lane] = job.log_density[static_cast<int>(step[lane])];
    return found - larger(larger(job.low - value, value - job.high), none) / width;
}

// Of the strips [first, last).
template <class T>
void marginals(const Marginals<T>& job, T* outliers, T* marginal, std::size_t first, std::size_t last, void* scratch) {
    constexpr std::size_t lanes = Vectors<T>::lanes;
    Bumps<T> bumps(scratch, job.quantiles);
    for (std::size_t i = first * lanes; i < at_most(last * lanes, job.d); i += lanes) {
        std::size_t count = at_most(lanes, job.d - i);
        auto of = [&](const T* parameter) { return load_or_last(parameter + i, count); };
        Vector<T> center = of(job.center), scale = of(job.scale), bias = of(job.bias), rate = of(job.outlier_rate);
        Vector<T> replaced = logarithm<T>(rate) - logarithm<T>(scale);
        Vector<T> kept = logarithm<T>(1 - rate) - static_cast<T>(HALF_LOG_TWO_PI) -
                         logarithm<T>(broadcast<T>(static_cast<T>(job.quantiles * (job.signs ? 2 : 1))));
        bumps.lay_out(job.population + i * job.quantiles, count, of(job.gain), of(job.std));
        for (std::size_t query = 0; query < job.b; ++query) {
            Vector<T> value = load_or_last(job.queries + query * job.d + i, count), none{};
            auto is_seen = value == value;
            value = is_seen ? value : none;
            Vector<T> told = log_outlier<T>(job, (value - center) / scale) + replaced;
            Vector<T> bump = bumps.log_total(value - bias);
            if (job.signs) bump = log_sum<T>(bump, bumps.log_total(value + bias));
            Vector<T> total = log_sum<T>(told, kept + bump);
            told = is_seen ? told : none;
            total = is_seen ? total : none;
            __builtin_memcpy(outliers + query * job.d + i, &told, count * sizeof(T));
            __builtin_memcpy(marginal + query * job.d + i, &total, count * sizeof(T));
        }
    }
}

}  // namespace
}  // namespace ahop::AHOP_ISA
