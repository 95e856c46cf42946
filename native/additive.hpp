// Scores by tables: each stored value is placed between two knots once, and each query looks both up.
#pragma once

#include "mixture.hpp"

namespace ahop::AHOP_ISA {
namespace {

// Tables of this many knots fit registers.
constexpr std::size_t REGISTER_KNOTS = 16;

// table[index] for every lane.
template <class T>
inline Vector<T> look_up(const T* table, Word<T> index) {
    Vector<T> found;
    for (int lane = 0; lane < Vectors<T>::lanes; ++lane) found[lane] = table[index[lane]];
    return found;
}

template <class T>
struct Table {
    const T* values;
    explicit Table(const T* values) : values(values) {}
    Vector<T> at(Word<T> index) const { return look_up<T>(values, index); }
};

// The same for a table in registers.
template <class T>
struct SmallTable : Table<T> {
    using Table<T>::Table;
};

#if defined(__AVX512F__)
template <>
struct SmallTable<float> {
    __m512 values;
    explicit SmallTable(const float* from) : values(_mm512_loadu_ps(from)) {}
    Vector<float> at(Word<float> index) const {
        return _mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), values);
    }
};

template <>
struct SmallTable<double> {
    __m512d low, high;
    explicit SmallTable(const double* from) : low(_mm512_loadu_pd(from)), high(_mm512_loadu_pd(from + 8)) {}
    Vector<double> at(Word<double> index) const {
        return _mm512_permutex2var_pd(low, reinterpret_cast<__m512i>(index), high);
    }
};
#endif

// Where a strip of stored values stands: between which knots, and the shares of both; none where nothing was observed.
template <class T>
struct Location {
    Word<T> lower;
    Vector<T> lower_share, upper_share;
};

template <class T>
Location<T> place_of(Vector<T> value, const T* knots, std::size_t count) {
    auto is_seen = value == value;
    Vector<T> none{}, one = broadcast<T>(1);
    Vector<T> first = broadcast<T>(knots[0]), last = broadcast<T>(knots[count - 1]);
    Vector<T> inside = value > first ? value : first;  // so is what was not observed
    inside = inside < last ? inside : last;
    Word<T> lower{};
    for (std::size_t knot = 1; knot + 1 < count; ++knot) lower -= knots[knot] < inside;
    Vector<T> low = look_up<T>(knots, lower), high = look_up<T>(knots + 1, lower), share = (inside - low) / (high - low);
    share = high > low ? share : none;
    share = is_seen ? share : none;
    return {lower, (is_seen ? one : none) - share, share};
}

template <class Lookup, class T>
Vector<T> additive_strip(const Additive<T>& job, const Location<T>* places, std::size_t query) {
    Vector<T> total{};
    const T* table = job.profiles + query * job.stored.d * job.knots;
    for (std::size_t i = 0; i < job.stored.d; ++i, table += job.knots) {
        Lookup values(table);
        total += places[i].lower_share * values.at(places[i].lower);
        total += places[i].upper_share * values.at(places[i].lower + 1);
    }
    return total;
}

template <class T>
void additive_scores(const Additive<T>& job, T* scores, std::size_t first, std::size_t last, void* scratch) {
    constexpr std::size_t lanes = Vectors<T>::lanes, width = Vectors<T>::block;
    std::size_t n = job.stored.n, d = job.stored.d;
    T* room = static_cast<T*>(scratch);
    auto* places = reinterpret_cast<Location<T>*>(room + d * width);
    for (std::size_t number = first; number < last; ++number) {
        Block<T> block(job.stored, number, room);
        for (std::size_t strip = 0; strip < width && number * width + strip < n; strip += lanes) {
            std::size_t start = number * width + strip;
            for (std::size_t i = 0; i < d; ++i)
                places[i] = place_of<T>(load(block.rows + i * width + strip), job.knot_places + i * job.knots,
                                        job.used_knots);
            for (std::size_t query = 0; query < job.b; ++query) {
                Vector<T> total = job.knots == REGISTER_KNOTS ? additive_strip<SmallTable<T>>(job, places, query)
                                                              : additive_strip<Table<T>>(job, places, query);
                __builtin_memcpy(scores + query * n + start, &total, at_most(lanes, n - start) * sizeof(T));
            }
        }
    }
}

}  // namespace
}  // namespace ahop::AHOP_ISA
