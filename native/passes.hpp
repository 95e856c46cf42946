// The passes of a plan over its patterns: sums over dimensions in registers, one lane a pattern.
#pragma once

#include "additive.hpp"
#include "marginals.hpp"
#include "plan.hpp"

namespace ahop::AHOP_ISA {
namespace {

using Floats = Vector<float>;

constexpr std::size_t LANES = Vectors<float>::lanes;
// Vectors that are summed at once: as many as hide the time of an addition.
constexpr std::size_t TOGETHER = 4;
constexpr float LOWEST = -__FLT_MAX__;
// Entries of a list that are worked out before they are added to their rows.
constexpr std::size_t RUN = 512;

inline Floats size_of(Floats value) { return larger(value, -value); }

inline Floats root(Floats value) { return square_root<float>(value); }

// SUM is what is compared; OWN, ITS and COUNT are needed where not all dimensions are shared.
enum : std::size_t { SUM, OWN, ITS, COUNT };

template <Measure M>
constexpr bool has_sizes = M == COSINE || M == SORENSEN;

struct Sums {
    Floats of[SUMS] = {};
};

template <Measure M, Overlap O>
inline void add(Sums& sums, Floats value, float asked) {
    Floats none{}, query = broadcast(asked);
    if constexpr (O == OF_PAIR) {
        auto seen = value == value;
        value = seen ? value : none;
        query = seen ? query : none;
        sums.of[COUNT] += seen ? broadcast(1.0f) : none;
    }
    if constexpr (M == DOT_PRODUCT || M == COSINE) sums.of[SUM] += value * query;
    if constexpr (M == EUCLID) sums.of[SUM] += (value - query) * (value - query);
    if constexpr (M == CITY) sums.of[SUM] += size_of(value - query);
    if constexpr (M == SORENSEN) sums.of[SUM] += size_of(value) + size_of(query) - size_of(value - query);
    if constexpr (has_sizes<M> && O != WHOLE) sums.of[OWN] += M == COSINE ? value * value : size_of(value);
    if constexpr (has_sizes<M> && O == OF_PAIR) sums.of[ITS] += M == COSINE ? query * query : size_of(query);
}

template <Measure M, Overlap O>
inline Floats score_of(const Member& member, const Sums& sums, const float* of_pattern) {
    Floats none{}, one = broadcast(1.0f), score = sums.of[SUM], count = broadcast(member.shared);
    if constexpr (O == OF_PAIR) count = sums.of[COUNT];
    if constexpr (M == DOT_PRODUCT || M == EUCLID || M == CITY) {
        if constexpr (M != DOT_PRODUCT) score = -score;
        if constexpr (O != WHOLE) score *= member.dimensions / larger(count, one);
    }
    Floats its = O == OF_PAIR ? sums.of[ITS] : broadcast(member.of_query);
    if constexpr (M == COSINE && O == WHOLE) score *= load(of_pattern) * member.of_query;
    if constexpr (M == COSINE && O != WHOLE) {
        Floats product = sums.of[OWN] * its, ratio = score / root(product > none ? product : one);
        score = product > none ? larger(smaller(ratio, one), -one) : none;
    }
    if constexpr (M == SORENSEN) {
        Floats total = its + (O == WHOLE ? load(of_pattern) : sums.of[OWN]);
        Floats share = score / (total > none ? total : one) - 1;
        score = total > none ? larger(smaller(share, none), -one) : none;
    }
    return count > none ? score : broadcast(LOWEST);
}

template <Measure M, Overlap O>
void walk_as(const Member& member, std::size_t first, std::size_t last, float* scores) {
    for (std::size_t block = first; block < last; ++block) {
        const float* stored = member.blocks + block * member.columns * WIDTH;
        for (std::size_t strip = 0; strip < WIDTH; strip += TOGETHER * LANES) {
            Sums sums[TOGETHER];
            for (std::size_t next = 0; next < member.told; ++next) {
                const float* values = stored + member.listed[next] * WIDTH + strip;
                for (std::size_t part = 0; part < TOGETHER; ++part)
                    add<M, O>(sums[part], load(values + part * LANES), member.asked[next]);
            }
            for (std::size_t part = 0; part < TOGETHER; ++part) {
                std::size_t row = block * WIDTH + strip + part * LANES;
                store(scores + row, score_of<M, O>(member, sums[part], member.of_pattern + row));
            }
        }
    }
}

// A line of a table, where the value stands: its whole part says between which knots.
struct Lines {
    SmallTable<float> starts, slopes;
    explicit Lines(const float* table) : starts(table), slopes(table + ENTRIES) {}
    Floats at(Floats place) const {
        Word<float> knot = __builtin_convertvector(place, Word<float>);
        return starts.at(knot) + slopes.at(knot) * (place - __builtin_convertvector(knot, Floats));
    }
};

void walk_tables(const Member& member, std::size_t first, std::size_t last, float* scores) {
    for (std::size_t block = first; block < last; ++block) {
        const float* stored = member.blocks + block * member.columns * WIDTH;
        for (std::size_t strip = 0; strip < WIDTH; strip += TOGETHER * LANES) {
            Floats total[TOGETHER] = {};
            for (std::size_t next = 0; next < member.told; ++next) {
                Lines lines(member.tables + next * 2 * ENTRIES);
                const float* values = stored + member.listed[next] * WIDTH + strip;
                for (std::size_t part = 0; part < TOGETHER; ++part)
                    total[part] += lines.at(load(values + part * LANES));
            }
            for (std::size_t part = 0; part < TOGETHER; ++part)
                store(scores + block * WIDTH + strip + part * LANES, total[part]);
        }
    }
}

constexpr float IN_TWOS = static_cast<float>(1 / LOG_2);

// A power of two between whole ones, to seven digits; of what is too small, or no number, next to nothing.
inline Floats power_of(Floats t) {
    constexpr float magic = 3 << 22, least = -126;
#if defined(__SSE2__)
    t = larger(t, broadcast(least));  // the second where the first is no number
#else
    t = t > broadcast(least) ? t : broadcast(least);
#endif
    Floats shifted = t + magic, rest = t - (shifted - magic);
    Floats power = broadcast(0.00132764715f);
    power = power * rest + 0.00967554133f;
    power = power * rest + 0.0555071327f;
    power = power * rest + 0.240221197f;
    power = power * rest + 0.693146967f;
    power = power * rest + 1.00000007f;
    return numbers_of<float>(words_of<float>(power) + (words_of<float>(shifted) << 23));
}

// What a match of each value is worth, as a factor beside one.
template <std::size_t Shifts>
inline Floats likelihood(const Member& member, std::size_t next, Floats value) {
    Floats sum{};
    for (std::size_t shift = 0; shift < Shifts; ++shift) {
        Floats apart = member.asked[next * Shifts + shift] - member.slopes[next] * value;
        sum += power_of(member.worth[next] - apart * apart);
    }
    return sum;
}

template <Overlap O, std::size_t Shifts>
void walk_matches(const Member& member, std::size_t first, std::size_t last, float* scores) {
    for (std::size_t block = first; block < last; ++block) {
        const float* stored = member.blocks + block * member.columns * WIDTH;
        for (std::size_t strip = 0; strip < WIDTH; strip += TOGETHER * LANES) {
            Floats none{}, total[TOGETHER] = {}, product[TOGETHER];
            Word<float> exponents[TOGETHER] = {};
            float sure = 0;
            for (Floats& each : product) each = broadcast(1.0f);
            for (std::size_t next = 0; next < member.told;) {
                for (std::size_t end = at_most(member.told, next + member.factors); next < end; ++next) {
                    const float* values = stored + member.listed[next] * WIDTH + strip;
                    for (std::size_t part = 0; part < TOGETHER; ++part) {
                        Floats value = load(values + part * LANES);
                        product[part] += product[part] * likelihood<Shifts>(member, next, value);
                        if constexpr (O == OF_PAIR) total[part] += value == value ? broadcast(member.alone[next]) : none;
                    }
                    if constexpr (O != OF_PAIR) sure += member.alone[next];
                }
                for (std::size_t part = 0; part < TOGETHER; ++part) exponents[part] += take_exponent<float>(product[part]);
            }
            for (std::size_t part = 0; part < TOGETHER; ++part) {
                Floats found = total[part] + logarithm_of_mantissa<float>(product[part]) + sure +
                               __builtin_convertvector(exponents[part], Floats) * static_cast<float>(LOG_2);
                store(scores + block * WIDTH + strip + part * LANES, found);
            }
        }
    }
}

inline Word<float> widened(const std::uint8_t* from) {
    Word<float> found;
    for (std::size_t lane = 0; lane < LANES; ++lane) found[lane] = from[lane];
    return found;
}

// Adds what it says that these dimensions were observed, and not the others.
void walk_levels(const Member& member, std::size_t first, std::size_t last, float* scores) {
    for (std::size_t block = first; block < last; ++block) {
        const std::uint8_t* stored = member.levels + block * member.columns * WIDTH;
        for (std::size_t strip = 0; strip < WIDTH; strip += TOGETHER * LANES) {
            Floats total[TOGETHER] = {};
            for (std::size_t next = 0; next < member.told; ++next) {
                SmallTable<float> presence(member.presence + next * ENTRIES);
                const std::uint8_t* levels = stored + member.listed[next] * WIDTH + strip;
                for (std::size_t part = 0; part < TOGETHER; ++part)
                    total[part] += presence.at(widened(levels + part * LANES));
            }
            for (std::size_t part = 0; part < TOGETHER; ++part) {
                std::size_t row = block * WIDTH + strip + part * LANES;
                store(scores + row, load(scores + row) + load(member.silence + row) + total[part]);
            }
        }
    }
}

template <Measure M>
void walk_measure(const Member& member, std::size_t first, std::size_t last, float* scores) {
    switch (member.overlap) {
        case WHOLE: return walk_as<M, WHOLE>(member, first, last, scores);
        case OF_QUERY: return walk_as<M, OF_QUERY>(member, first, last, scores);
        default: return walk_as<M, OF_PAIR>(member, first, last, scores);
    }
}

void walk(const Member& member, std::size_t first, std::size_t last, float* scores) {
    switch (member.measure) {
        case DOT_PRODUCT: return walk_measure<DOT_PRODUCT>(member, first, last, scores);
        case COSINE: return walk_measure<COSINE>(member, first, last, scores);
        case EUCLID: return walk_measure<EUCLID>(member, first, last, scores);
        case CITY: return walk_measure<CITY>(member, first, last, scores);
        case SORENSEN: return walk_measure<SORENSEN>(member, first, last, scores);
        case TABLES: walk_tables(member, first, last, scores); break;
        default:
            if (member.overlap == OF_PAIR)
                (member.shift_count == 1 ? walk_matches<OF_PAIR, 1> : walk_matches<OF_PAIR, 2>)(member, first, last, scores);
            else
                (member.shift_count == 1 ? walk_matches<WHOLE, 1> : walk_matches<WHOLE, 2>)(member, first, last, scores);
    }
    if (member.levels) walk_levels(member, first, last, scores);
}

// The first of sorted rows that is not below `row`.
inline std::uint64_t place_in(const std::uint32_t* rows, std::uint64_t from, std::uint64_t to, std::size_t row) {
    while (from < to) {
        std::uint64_t middle = (from + to) / 2;
        if (rows[middle] < row)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

template <Measure M>
inline Sums addends(const Member& member, std::size_t next, const float* values, const std::uint8_t* levels) {
    Sums found;
    if constexpr (M == TABLES) found.of[SUM] = Lines(member.tables + next * 2 * ENTRIES).at(load(values));
    if constexpr (M == MATCHES) {
        Floats value = load(values);
        Floats match = member.shift_count == 1 ? likelihood<1>(member, next, value) : likelihood<2>(member, next, value);
        found.of[SUM] = logarithm<float>(1 + match) + member.alone[next];
    }
    if constexpr (M == TABLES || M == MATCHES) {
        if (levels) found.of[SUM] += SmallTable<float>(member.presence + next * ENTRIES).at(widened(levels));
    } else {
        add<M, OF_PAIR>(found, load(values), member.asked[next]);
    }
    return found;
}

// The sums of one measure that a pair needs.
template <Measure M, Overlap O>
constexpr bool is_summed(std::size_t sum) {
    if (sum == SUM) return true;
    if (M == TABLES || M == MATCHES || O == WHOLE) return false;
    if (sum == OWN || sum == ITS) return has_sizes<M>;
    return sum == COUNT;
}

template <Measure M, Overlap O>
void scatter_as(const Member& member, std::size_t first, std::size_t last, std::size_t n, float* sums, float* scores) {
    std::size_t start = first * WIDTH, size = (last - first) * WIDTH, end = at_most(last * WIDTH, n);
    for (std::size_t sum = 0; sum < COUNT + 1; ++sum)
        if (is_summed<M, O>(sum)) __builtin_memset(sums + sum * size, 0, size * sizeof(float));
    alignas(64) float worked[COUNT + 1][RUN + 64];
    for (std::size_t next = 0; next < member.told; ++next) {
        std::size_t column = member.listed[next];
        std::uint64_t from = place_in(member.rows, member.starts[column], member.starts[column + 1], start);
        std::uint64_t to = place_in(member.rows, from, member.starts[column + 1], end);
        for (; from < to; from += RUN) {
            std::size_t count = at_most(RUN, to - from);
            for (std::size_t at = 0; at < count; at += LANES) {
                const std::uint8_t* levels = member.levels ? member.levels + from + at : nullptr;
                Sums found = addends<M>(member, next, member.values + from + at, levels);
                for (std::size_t sum = 0; sum < COUNT + 1; ++sum)
                    if (is_summed<M, O>(sum)) store(worked[sum] + at, found.of[sum]);
            }
            const std::uint32_t* rows = member.rows + from;
            for (std::size_t sum = 0; sum < COUNT + 1; ++sum) {
                if (!is_summed<M, O>(sum)) continue;
                float* into = sums + sum * size;
                for (std::size_t at = 0; at < count; ++at) into[rows[at] - start] += worked[sum][at];
            }
        }
    }
    for (std::size_t at = 0; at < size; at += LANES) {
        Sums found;
        for (std::size_t sum = 0; sum < COUNT + 1; ++sum)
            if (is_summed<M, O>(sum)) found.of[sum] = load(sums + sum * size + at);
        std::size_t row = start + at;
        if constexpr (M == TABLES || M == MATCHES) {
            Floats score = found.of[SUM];
            if (member.silence) score += load(member.silence + row) + member.silence_of_missing;
            store(scores + row, score);
        } else {
            store(scores + row, score_of<M, O>(member, found, member.of_pattern + row));
        }
    }
}

template <Measure M>
void scatter_measure(const Member& member, std::size_t first, std::size_t last, std::size_t n, float* sums,
                     float* scores) {
    if (member.overlap == OF_PAIR) return scatter_as<M, OF_PAIR>(member, first, last, n, sums, scores);
    scatter_as<M, WHOLE>(member, first, last, n, sums, scores);
}

void scatter(const Member& member, std::size_t first, std::size_t last, std::size_t n, float* sums, float* scores) {
    switch (member.measure) {
        case DOT_PRODUCT: return scatter_measure<DOT_PRODUCT>(member, first, last, n, sums, scores);
        case COSINE: return scatter_measure<COSINE>(member, first, last, n, sums, scores);
        case EUCLID: return scatter_measure<EUCLID>(member, first, last, n, sums, scores);
        case CITY: return scatter_measure<CITY>(member, first, last, n, sums, scores);
        case SORENSEN: return scatter_measure<SORENSEN>(member, first, last, n, sums, scores);
        case TABLES: return scatter_measure<TABLES>(member, first, last, n, sums, scores);
        default: return scatter_measure<MATCHES>(member, first, last, n, sums, scores);
    }
}

// The first `count` lanes, and minus infinity in all others.
inline Floats first_lanes(Floats value, std::size_t count) {
    for (std::size_t lane = count; lane < LANES; ++lane) value[lane] = -__builtin_inff();
    return value;
}

Statistics pool(const Pooled& pooled, const float* prior, std::size_t first, std::size_t last, std::size_t n,
                float* plain, float* total, float* largest) {
    constexpr float half = 0.5f * LOWEST;
    Statistics found{0, 0, true};
    Floats never = broadcast(-__builtin_inff());
    Word<float> is_lost{};
    for (std::size_t block = first; block < last; ++block) {
        Floats count{}, sum{}, none{}, top = never;
        for (std::size_t row = block * WIDTH; row < (block + 1) * WIDTH; row += LANES) {
            Floats score{};
            for (std::size_t member = 0; member < pooled.members; ++member) {
                Floats own = load(pooled.scores[member] + row);
                own = (own > broadcast(LOWEST)) | (own != own) ? own : broadcast(pooled.fills[member]);
                score = member || pooled.weights[0] != 1 ? score + own * pooled.weights[member] : own;
            }
            is_lost |= (score != score) | (size_of(score) > broadcast(__FLT_MAX__));
            if (row + LANES > n) score = first_lanes(score, row < n ? n - row : 0);
            Floats own = score;
            if (prior) {
                Floats before = load(prior + row);
                own = before > never ? own : never;
                store(plain + row, own);
                score += before;
            }
            store(total + row, score);
            auto is_known = own > broadcast(half);
            count += is_known ? broadcast(1.0f) : none;
            sum += is_known ? own : none;
            top = larger(top, score);
        }
        found.known += ahop::AHOP_ISA::sum<float>(count);
        found.sum += ahop::AHOP_ISA::sum<float>(sum);
        float most = top[0];
        for (std::size_t lane = 1; lane < LANES; ++lane) most = top[lane] > most ? top[lane] : most;
        largest[block] = most;
    }
    found.is_finite = !any(is_lost);
    return found;
}

double mass(const float* scores, std::size_t n, float top, float factor) {
    double total = 0;
    const float scale = factor * IN_TWOS;
    for (std::size_t row = 0; row < n; row += WIDTH) {
        Floats part{};
        for (std::size_t at = row; at < row + WIDTH; at += LANES)
            part += power_of((load(scores + at) - top) * scale);
        total += sum<float>(part);
    }
    return total;
}

double squares(const float* scores, std::size_t n, float mean) {
    double total = 0;
    for (std::size_t row = 0; row < n; row += WIDTH) {
        Floats part{}, none{};
        for (std::size_t at = row; at < row + WIDTH; at += LANES) {
            Floats score = load(scores + at), apart = score > broadcast(0.5f * LOWEST) ? score - mean : none;
            part += apart * apart;
        }
        total += sum<float>(part);
    }
    return total;
}

}  // namespace
}  // namespace ahop::AHOP_ISA
