// What a plan asks of an instruction set, in plain numbers. Patterns stand in blocks of WIDTH side by side, dimension by
// dimension; or, where few values were observed, as lists: for each dimension the rows that have it, and their values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ahop {

constexpr std::size_t WIDTH = 64;
constexpr std::size_t SUMS = 5;
// Entries of a table: between knots, and the last for what was not observed.
constexpr std::size_t ENTRIES = 16;

enum Measure : int { DOT_PRODUCT, COSINE, EUCLID, CITY, SORENSEN, TABLES, MATCHES, MEASURES };

// What a pair has in common: all dimensions; those of the query; or what both sides have, which differs from row to row.
enum Overlap : int { WHOLE, OF_QUERY, OF_PAIR };

// One member and one query. What is (told,) has one number for each dimension that the query says something in.
struct Member {
    Measure measure;
    Overlap overlap;
    const float* blocks;         // (ceil(n / WIDTH), columns, WIDTH), NaN where not observed; or null
    const std::uint8_t* levels;  // of the stored values, in the same order; or null where gaps say nothing
    std::size_t columns;
    const std::uint64_t* starts;  // (columns + 1,) of the lists; or null
    const std::uint32_t* rows;    // (entries,)
    const float* values;          // (entries,)
    const float* of_pattern;      // (n,) what divides a product, or the sum of amounts; or null
    const float* silence;         // (n,) what it says that nothing was observed; or null
    const std::uint32_t* listed;  // (told,)
    std::size_t told;
    const float* asked;     // (told,); of matches (told, shift_count) where they may be
    const float* tables;    // (told, 2, ENTRIES), where a line starts, and how steep it is
    const float* presence;  // (told, ENTRIES) what each level says by being observed
    const float* slopes;    // (told,) what stored values are multiplied by
    const float* worth;     // (told,) in powers of two
    const float* alone;     // (told,)
    std::size_t shift_count, factors;
    float of_query;  // what divides a product, the sum of squares or of amounts
    float shared, dimensions;
    float silence_of_missing;  // what the listed dimensions say of a pattern that has none of them
};

struct Pooled {
    const float* const* scores;  // (members,) of (n,)
    const float* weights;        // (members,)
    const float* fills;          // (members,) in the place of what is not known; the lowest number where it stays so
    std::size_t members;
};

struct Statistics {
    double known, sum;  // of the rows that share anything with the query
    bool is_finite;
};

// Work on the blocks [first, last) of rows.
struct Passes {
    void (*walk)(const Member&, std::size_t first, std::size_t last, float* scores);
    // The same by lists; `sums` has room for SUMS numbers of each row.
    void (*scatter)(const Member&, std::size_t first, std::size_t last, std::size_t n, float* sums, float* scores);
    Statistics (*pool)(const Pooled&, const float* prior, std::size_t first, std::size_t last, std::size_t n,
                       float* plain, float* total, float* largest);
    // The sum of exp(factor * (score - top)).
    double (*mass)(const float* scores, std::size_t n, float top, float factor);
    // The sum of squares about the mean, of what is known.
    double (*squares)(const float* scores, std::size_t n, float mean);
};

}  // namespace ahop
