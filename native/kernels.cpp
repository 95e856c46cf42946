// The footprint's inner loops, compiled once for each instruction set.
//
// Nothing of the standard library is called here: a template of it, compiled for one instruction set, could be linked
// for all.
#include "additive.hpp"
#include "blocks.hpp"
#include "marginals.hpp"
#include "mixture.hpp"
#include "network.hpp"
#include "passes.hpp"

namespace ahop::AHOP_ISA {
namespace {

template <class T>
using Mask = decltype(Vector<T>{} < Vector<T>{});

template <class T>
constexpr T lowest() {
    return sizeof(T) == 4 ? static_cast<T>(-__FLT_MAX__) : static_cast<T>(-__DBL_MAX__);
}

template <class T>
constexpr T infinity() {
    return static_cast<T>(__builtin_inf());
}

// Room for one strip of a block: its values, and what backward needs besides. Laid out once for each thread.
template <class T>
struct Room {
    T* block;             // one block, packed: (d, block)
    Vector<T>* values;    // (padded d)
    Vector<T>* shares;    // (padded d)
    Vector<T>* sums;      // (padded d)
    Mask<T>* gaps;        // (d)
    Swap<T>* swaps;       // one for each comparison
    T* gradient;          // one block of the patterns' gradient, (d, block)
    T* ranks;             // (padded d), the weights and zeros behind them

    Room(void* memory, std::size_t d) {
        char* next = static_cast<char*>(memory);
        auto take = [&next](std::size_t bytes) {
            char* start = next;
            next += (bytes + 63) / 64 * 64;
            return start;
        };
        std::size_t rows = padded(d) * sizeof(Vector<T>), whole = d * BLOCK_BYTES;
        block = reinterpret_cast<T*>(take(whole));
        values = reinterpret_cast<Vector<T>*>(take(rows));
        shares = reinterpret_cast<Vector<T>*>(take(rows));
        sums = reinterpret_cast<Vector<T>*>(take(rows));
        gaps = reinterpret_cast<Mask<T>*>(take(rows));
        gradient = reinterpret_cast<T*>(take(whole));
        ranks = reinterpret_cast<T*>(take(padded(d) * sizeof(T)));
        swaps = reinterpret_cast<Swap<T>*>(next);
    }
};

// The comparisons of a sort of `count` rows, one by one, forwards or backwards: Batcher's merge exchange for any count.
// Those of one pass are of all i that have the bits `r` among those of `p`, with i + step.
template <class Visit>
inline void pass_forward(std::size_t count, std::size_t p, std::size_t r, std::size_t step, Visit visit) {
    for (std::size_t start = r; start + step < count; start += 2 * p) {
        std::size_t stop = at_most(start + p, count - step);
        for (std::size_t i = start; i < stop; ++i) visit(i, i + step);
    }
}

template <class Visit>
inline void comparisons_forward(std::size_t count, Visit visit) {
    std::size_t top = 1;
    while (2 * top < count) top *= 2;
    for (std::size_t p = top; p > 0; p /= 2) {
        pass_forward(count, p, 0, p, visit);
        for (std::size_t q = top; q > p; q /= 2) pass_forward(count, p, p, q - p, visit);
    }
}

// The comparisons of one pass do not touch each other, but their swaps are read from behind.
template <class Visit>
inline void pass_backward(std::size_t count, std::size_t p, std::size_t r, std::size_t step, Visit visit) {
    if (r + step >= count) return;
    for (std::size_t start = r + (count - step - 1 - r) / (2 * p) * 2 * p;; start -= 2 * p) {
        for (std::size_t i = at_most(start + p, count - step); i-- > start;) visit(i, i + step);
        if (start == r) break;
    }
}

template <class Visit>
inline void comparisons_backward(std::size_t count, Visit visit) {
    std::size_t top = 1;
    while (2 * top < count) top *= 2;
    for (std::size_t p = 1; p <= top; p *= 2) {
        for (std::size_t q = 2 * p; q <= top; q *= 2) pass_backward(count, p, p, q - p, visit);
        pass_backward(count, p, 0, p, visit);
    }
}

inline std::size_t comparison_count(std::size_t d) {
    std::size_t count = 0;
    comparisons_forward(d, [&count](std::size_t, std::size_t) { ++count; });
    return count;
}

std::size_t scratch_bytes(std::size_t d) {
    std::size_t rows = (padded(d) + 1) * BLOCK_BYTES;
    std::size_t swaps = d <= TILE ? MOST : comparison_count(d);
    return 8 * rows + (swaps + 1) * AHOP_VECTOR_BYTES + 1024;
}

template <class T>
inline Vector<T> value(int base, Vector<T> stored, T asked) {
    if (base == DOT) return stored * asked;
    Vector<T> difference = stored - asked;
    if (base == EUCLIDEAN) return difference * -difference;
    return smaller(difference, -difference);
}

// The derivative of a value to the stored side, and to the asked side.
template <class T>
inline void slopes(int base, Vector<T> stored, T asked, Vector<T>& to_stored, Vector<T>& to_asked) {
    if (base == DOT) {
        to_stored = broadcast<T>(asked);
        to_asked = stored;
        return;
    }
    Vector<T> difference = stored - asked;
    if (base == EUCLIDEAN) {
        to_stored = -2 * difference;
    } else {
        Vector<T> one = broadcast<T>(1), none{};
        to_stored = difference > none ? -one : (difference < none ? one : none);
    }
    to_asked = -to_stored;
}

template <class T>
void pack(const T* patterns, std::size_t n, std::size_t d, T* blocks, std::uint8_t* finite, std::size_t first,
          std::size_t last) {
    for (std::size_t number = first; number < last; ++number)
        finite[number] = transpose_block(patterns, n, d, number, blocks + number * d * Vectors<T>::block);
}

// Values of a strip in which something is NaN or infinite.
template <class T>
struct Gaps {
    Vector<T> count{};  // dimensions that were observed on both sides
    Mask<T> is_lost{};  // where a value is no number though both sides were observed
};

template <class T>
Gaps<T> fill_with_gaps(int base, const T* block, const T* asked, std::size_t d, Vector<T>* values, Mask<T>* gaps) {
    Gaps<T> found;
    Vector<T> total{}, one = broadcast<T>(1), none{};
    for (std::size_t i = 0; i < d; ++i) {
        Vector<T> stored = load(block + i * Vectors<T>::block);
        gaps[i] = (stored != stored) | (broadcast<T>(asked[i]) != broadcast<T>(asked[i]));
        values[i] = gaps[i] ? none : value(base, stored, asked[i]);
        total += values[i];
        found.count += gaps[i] ? none : one;
    }
    Vector<T> mean = total / larger(found.count, one);
    for (std::size_t i = 0; i < d; ++i) {
        values[i] = gaps[i] ? mean : values[i];
        found.is_lost |= values[i] != values[i];
    }
    return found;
}

template <int Kind, class T>
inline void fill_as(const T* block, const T* asked, std::size_t d, Vector<T>* values) {
    for (std::size_t i = 0; i < d; ++i) values[i] = value(Kind, load(block + i * Vectors<T>::block), asked[i]);
}

template <class T>
inline void fill(int base, const T* block, const T* asked, std::size_t d, Vector<T>* values) {
    if (base == EUCLIDEAN) return fill_as<EUCLIDEAN>(block, asked, d, values);
    if (base == DOT) return fill_as<DOT>(block, asked, d, values);
    return fill_as<MANHATTAN>(block, asked, d, values);
}

template <class T>
inline void fill_behind(std::size_t d, Vector<T>* values) {
    for (std::size_t i = d; i < padded(d); ++i) values[i] = broadcast<T>(-infinity<T>());
}

template <class T>
Vector<T> weigh(Vector<T>* values, const T* weights, std::size_t d) {
    switch (d) {
        case 16: return weighed_tile<16, T>(values, weights);
        case 32: return weighed_tile<32, T>(values, weights);
        case TILE: return weighed_tile<TILE, T>(values, weights);
        default: break;
    }
    sort_rows(values, padded(d));
    Vector<T> total{};
    for (std::size_t i = 0; i < d; ++i) total += weights[i] * values[i];
    return total;
}

template <class T>
void scores(const Job<T>& job, T* scores, std::size_t first, std::size_t last, void* scratch) {
    constexpr std::size_t lanes = Vectors<T>::lanes, width = Vectors<T>::block;
    Room<T> room(scratch, job.stored.d);
    fill_behind<T>(job.stored.d, room.values);
    for (std::size_t number = first; number < last; ++number) {
        Block<T> block(job.stored, number, room.block);
        for (std::size_t query = 0; query < job.b; ++query) {
            for (std::size_t strip = 0; strip < width && number * width + strip < job.stored.n; strip += lanes) {
                Vector<T> total{};
                for (std::size_t k = 0; k < job.k; ++k) {
                    const T* asked = job.queries + (k * job.b + query) * job.stored.d;
                    if (block.is_finite && job.query_finite[k * job.b + query]) {
                        fill(job.bases[k], block.rows + strip, asked, job.stored.d, room.values);
                        total += weigh(room.values, job.weights + k * job.stored.d, job.stored.d);
                    } else {
                        Gaps<T> found =
                            fill_with_gaps(job.bases[k], block.rows + strip, asked, job.stored.d, room.values, room.gaps);
                        Vector<T> part = weigh(room.values, job.weights + k * job.stored.d, job.stored.d);
                        total += found.is_lost ? broadcast<T>(static_cast<T>(__builtin_nan(""))) : part;
                        total = found.count == 0 ? broadcast<T>(lowest<T>()) : total;
                    }
                    fill_behind<T>(job.stored.d, room.values);
                }
                std::size_t start = number * width + strip, count = at_most(lanes, job.stored.n - start);
                __builtin_memcpy(scores + query * job.stored.n + start, &total, count * sizeof(T));
            }
        }
    }
}

template <class T>
inline Vector<T> load_some(const T* from, std::size_t count) {
    if (count >= Vectors<T>::lanes) return load(from);
    Vector<T> value{};
    __builtin_memcpy(&value, from, count * sizeof(T));
    return value;
}

template <class T>
void weight_gradient(const Job<T>& job, const T* gradient, T* weights, std::size_t first, std::size_t last,
                     void* scratch) {
    constexpr std::size_t lanes = Vectors<T>::lanes, width = Vectors<T>::block;
    Room<T> room(scratch, job.stored.d);
    for (std::size_t k = 0; k < job.k; ++k) {
        for (std::size_t i = 0; i < job.stored.d; ++i) room.sums[i] = Vector<T>{};
        for (std::size_t number = first; number < last; ++number) {
            Block<T> block(job.stored, number, room.block);
            for (std::size_t query = 0; query < job.b; ++query) {
                const T* asked = job.queries + (k * job.b + query) * job.stored.d;
                for (std::size_t strip = 0; strip < width && number * width + strip < job.stored.n; strip += lanes) {
                    std::size_t start = number * width + strip;
                    Vector<T> share = load_some(gradient + query * job.stored.n + start, job.stored.n - start);
                    if (!any(share != 0)) continue;
                    if (block.is_finite && job.query_finite[k * job.b + query]) {
                        fill(job.bases[k], block.rows + strip, asked, job.stored.d, room.values);
                    } else {
                        Gaps<T> found =
                            fill_with_gaps(job.bases[k], block.rows + strip, asked, job.stored.d, room.values, room.gaps);
                        share = found.count == 0 ? Vector<T>{} : share;
                    }
                    fill_behind<T>(job.stored.d, room.values);
                    sort_rows(room.values, padded(job.stored.d));
                    for (std::size_t i = 0; i < job.stored.d; ++i) room.sums[i] += share * room.values[i];
                }
            }
        }
        for (std::size_t i = 0; i < job.stored.d; ++i) weights[k * job.stored.d + i] += sum<T>(room.sums[i]);
    }
}

// What each dimension of a strip counts, by its rank: the weights, sent back through the network that sorts the values.
template <class T>
void weights_by_dimension(const Room<T>& room, std::size_t d) {
    fill_behind<T>(d, room.values);
    switch (padded(d)) {
        case 8: return tracked_tile<8, T>(room.values, room.ranks, room.shares, room.swaps);
        case 16: return tracked_tile<16, T>(room.values, room.ranks, room.shares, room.swaps);
        case 32: return tracked_tile<32, T>(room.values, room.ranks, room.shares, room.swaps);
        case 48: return tracked_tile<48, T>(room.values, room.ranks, room.shares, room.swaps);
        case TILE: return tracked_tile<TILE, T>(room.values, room.ranks, room.shares, room.swaps);
        default: break;
    }
    Swap<T>* next = room.swaps;
    comparisons_forward(d, [&](std::size_t i, std::size_t j) {
        *next++ = Swaps<T>::below(room.values[i], room.values[j]);
        compare(room.values[i], room.values[j]);
    });
    for (std::size_t i = 0; i < d; ++i) room.shares[i] = broadcast(room.ranks[i]);
    comparisons_backward(d, [&](std::size_t i, std::size_t j) { send_back<T>(room.shares[i], room.shares[j], *--next); });
}

// Weight that fell on gaps belongs to the observed dimensions, whose mean the gaps hold.
template <class T>
void share_out(const Gaps<T>& found, const Mask<T>* gaps, std::size_t d, Vector<T>* shares) {
    Vector<T> lent{}, none{}, one = broadcast<T>(1);
    for (std::size_t i = 0; i < d; ++i) lent += gaps[i] ? shares[i] : none;
    lent /= larger(found.count, one);
    for (std::size_t i = 0; i < d; ++i) shares[i] = gaps[i] ? none : shares[i] + lent;
}

template <class T>
void data_gradient(const Job<T>& job, const T* gradient, T* patterns, T* queries, std::size_t first, std::size_t last,
                   void* scratch) {
    constexpr std::size_t lanes = Vectors<T>::lanes, width = Vectors<T>::block;
    const std::size_t d = job.stored.d;
    Room<T> room(scratch, d);
    for (std::size_t number = first; number < last; ++number) {
        Block<T> block(job.stored, number, room.block);
        for (std::size_t i = 0; i < d * width; ++i) room.gradient[i] = 0;
        for (std::size_t k = 0; k < job.k; ++k) {
            for (std::size_t i = 0; i < padded(d); ++i) room.ranks[i] = i < d ? job.weights[k * d + i] : 0;
            for (std::size_t query = 0; query < job.b; ++query) {
                const T* asked = job.queries + (k * job.b + query) * job.stored.d;
                T* to_query = queries + (k * job.b + query) * job.stored.d;
                bool is_finite = block.is_finite && job.query_finite[k * job.b + query];
                for (std::size_t strip = 0; strip < width && number * width + strip < job.stored.n; strip += lanes) {
                    std::size_t start = number * width + strip;
                    Vector<T> share = load_some(gradient + query * job.stored.n + start, job.stored.n - start);
                    if (!any(share != 0)) continue;
                    const T* rows = block.rows + strip;
                    Gaps<T> found;
                    if (is_finite)
                        fill(job.bases[k], rows, asked, job.stored.d, room.values);
                    else
                        found = fill_with_gaps(job.bases[k], rows, asked, job.stored.d, room.values, room.gaps);
                    weights_by_dimension(room, d);
                    if (!is_finite) {
                        share_out(found, room.gaps, job.stored.d, room.shares);
                        share = found.count == 0 ? Vector<T>{} : share;
                    }
                    for (std::size_t start = 0; start < d; start += lanes) {
                        Vector<T> to_query_by_pair[lanes] = {};
                        std::size_t count = at_most(lanes, d - start);
                        for (std::size_t row = 0; row < count; ++row) {
                            std::size_t i = start + row;
                            Vector<T> to_stored, to_asked, flow = share * room.shares[i];
                            slopes(job.bases[k], load(rows + i * width), asked[i], to_stored, to_asked);
                            if (!is_finite) {
                                to_stored = room.gaps[i] ? Vector<T>{} : to_stored;
                                to_asked = room.gaps[i] ? Vector<T>{} : to_asked;
                            }
                            T* place = room.gradient + i * width + strip;
                            store(place, load(place) + flow * to_stored);
                            to_query_by_pair[row] = flow * to_asked;
                        }
                        Vector<T> total = sums<T>(to_query_by_pair);
                        for (std::size_t row = 0; row < count; ++row) to_query[start + row] += total[row];
                    }
                }
            }
        }
        for (std::size_t lane = 0; lane < at_most(width, job.stored.n - number * width); ++lane)
            for (std::size_t i = 0; i < job.stored.d; ++i)
                patterns[(number * width + lane) * job.stored.d + i] = room.gradient[i * width + lane];
    }
}

template <class T>
bool holds_nan(const T* values, std::size_t count) {
    bool found = false;
    for (std::size_t i = 0; i < count; ++i) found |= values[i] != values[i];
    return found;
}

template <class T>
bool sort(T* values, std::size_t m, std::size_t d, std::size_t first, std::size_t last, void* scratch) {
    constexpr std::size_t lanes = Vectors<T>::lanes, width = Vectors<T>::block;
    Room<T> room(scratch, d);
    bool is_sorted = true;
    for (std::size_t number = first; number < last; ++number) {
        if (!transpose_block(values, m, d, number, room.block) && holds_nan(room.block, d * width)) {
            is_sorted = false;
            continue;
        }
        for (std::size_t strip = 0; strip < width && number * width + strip < m; strip += lanes) {
            for (std::size_t i = 0; i < d; ++i) room.values[i] = load(room.block + i * width + strip);
            fill_behind<T>(d, room.values);
            sort_rows(room.values, padded(d));
            std::size_t start = number * width + strip;
            for (std::size_t i = 0; i < d; i += lanes) {
                std::size_t columns = at_most(lanes, d - i);
                Vector<T> square[lanes];
                for (std::size_t column = 0; column < lanes; ++column)
                    square[column] = column < columns ? room.values[d - 1 - i - column] : Vector<T>{};
                transpose<T>(square);
                for (std::size_t lane = 0; lane < at_most(lanes, m - start); ++lane)
                    __builtin_memcpy(values + (start + lane) * d + i, &square[lane], columns * sizeof(T));
            }
        }
    }
    return is_sorted;
}

template <class T>
constexpr Kernels<T> kernels() {
    return {Vectors<T>::lanes, scratch_bytes, pack<T>,           scores<T>,          weight_gradient<T>,
            data_gradient<T>,  sort<T>,       mixture_scores<T>, additive_scores<T>, marginals<T>};
}

}  // namespace

extern const Kernels<float> kernels_float;
extern const Kernels<double> kernels_double;
const Kernels<float> kernels_float = kernels<float>();
const Kernels<double> kernels_double = kernels<double>();
extern const Passes passes_of_plans;
const Passes passes_of_plans = {walk, scatter, pool, mass, squares};

}  // namespace ahop::AHOP_ISA
