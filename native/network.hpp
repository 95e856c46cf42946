// Sorting networks over rows of lanes: the same comparisons whatever the data, so every lane sorts at once.
//
// Rows are sorted descending. Networks are trimmed: rows that would hold the lowest value of all, behind the last, need
// no comparison, because each comparator puts the smaller value behind.
#pragma once

#include <array>

#include "blocks.hpp"

namespace ahop::AHOP_ISA {

// What is sorted in one go; longer columns are sorted in tiles of so many rows, and these merged.
constexpr int TILE = 64;

// Tiles come in a few sizes, each unrolled: the rows of a column, filled up to the next of them.
constexpr std::size_t padded(std::size_t rows) {
    std::size_t whole = rows / TILE * TILE, rest = rows - whole;
    return whole + (rest == 0 ? 0 : rest <= 8 ? 8 : rest <= 16 ? 16 : rest <= 32 ? 32 : rest <= 48 ? 48 : TILE);
}

struct Comparator {
    std::uint8_t low, high;
};

template <int Most>
struct Comparators {
    std::array<Comparator, Most> list{};
    int count = 0;

    constexpr void add(int low, int high, int rows) {
        if (high < rows) list[count++] = {static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high)};
    }

    // Batcher's odd-even merge of the two sorted halves of every `step`-th row.
    constexpr void merge(int start, int size, int step, int rows) {
        if (2 * step < size) {
            merge(start, size, 2 * step, rows);
            merge(start + step, size, 2 * step, rows);
            for (int i = start + step; i + step < start + size; i += 2 * step) add(i, i + step, rows);
        } else {
            add(start, start + step, rows);
        }
    }

    constexpr void sort(int start, int size, int rows) {
        if (size < 2) return;
        sort(start, size / 2, rows);
        sort(start + size / 2, size / 2, rows);
        merge(start, size, 1, rows);
    }

    // Bitonic: what is left of a merge once its two halves have been compared crosswise.
    constexpr void clean(int size, int rows) {
        for (int half = size / 2; half > 0; half /= 2)
            for (int start = 0; start < size; start += 2 * half)
                for (int i = start; i < start + half; ++i) add(i, i + half, rows);
    }
};

constexpr int MOST = 600;

template <int Rows>
constexpr Comparators<MOST> sorting() {
    Comparators<MOST> found;
    found.sort(0, TILE, Rows);
    return found;
}

template <int Rows>
constexpr Comparators<MOST> cleaning() {
    Comparators<MOST> found;
    found.clean(TILE, Rows);
    return found;
}

template <class V>
inline void compare(V& first, V& second) {
    V low = smaller(first, second);
    first = larger(first, second);
    second = low;
}

template <class T>
inline void send_back(Vector<T>& first, Vector<T>& second, Swap<T> swapped) {
    Vector<T> kept = Swaps<T>::blend(swapped, first, second);
    second = Swaps<T>::blend(swapped, second, first);
    first = kept;
}

template <int Rows, bool Sort, class V, std::size_t... I>
inline void run(V (&row)[Rows], std::index_sequence<I...>) {
    constexpr Comparators<MOST> network = Sort ? sorting<Rows>() : cleaning<Rows>();
    (compare(row[network.list[I].low], row[network.list[I].high]), ...);
}

template <int Rows, bool Sort>
constexpr std::size_t comparisons = (Sort ? sorting<Rows>() : cleaning<Rows>()).count;

// Rows of one tile, sorted or cleaned, in registers as far as there are any. Everything is unrolled by hand: an array
// that is indexed in a loop would stay in memory.
template <bool Sort, class V, int... I>
inline void tile_as(V* rows, std::integer_sequence<int, I...>) {
    V row[sizeof...(I)] = {rows[I]...};
    run<sizeof...(I), Sort>(row, std::make_index_sequence<comparisons<sizeof...(I), Sort>>{});
    ((rows[I] = row[I]), ...);
}

template <int Rows, bool Sort, class V>
void tile(V* rows) {
    tile_as<Sort>(rows, std::make_integer_sequence<int, Rows>{});
}

// The sum of the sorted rows, each times its weight.
template <class T, int... I>
inline Vector<T> weighed_tile_as(const Vector<T>* rows, const T* weights, std::integer_sequence<int, I...>) {
    Vector<T> row[sizeof...(I)] = {rows[I]...};
    run<sizeof...(I), true>(row, std::make_index_sequence<comparisons<sizeof...(I), true>>{});
    Vector<T> totals[4] = {};
    ((totals[I % 4] += weights[I] * row[I]), ...);
    return (totals[0] + totals[1]) + (totals[2] + totals[3]);
}

template <int Rows, class T>
Vector<T> weighed_tile(const Vector<T>* rows, const T* weights) {
    return weighed_tile_as<T>(rows, weights, std::make_integer_sequence<int, Rows>{});
}

// Sorts a tile and notes every swap; then sends the weights of the ranks the same way back, to the rows they belong to.
template <class T, int... I, std::size_t... C>
inline void tracked_tile_as(Vector<T>* rows, const T* weights, Vector<T>* shares, Swap<T>* swaps,
                            std::integer_sequence<int, I...>, std::index_sequence<C...>) {
    constexpr Comparators<MOST> network = sorting<sizeof...(I)>();
    constexpr std::size_t last = sizeof...(C) - 1;
    {
        Vector<T> row[sizeof...(I)] = {rows[I]...};
        ((swaps[C] = Swaps<T>::below(row[network.list[C].low], row[network.list[C].high]),
          compare(row[network.list[C].low], row[network.list[C].high])),
         ...);
        ((rows[I] = row[I]), ...);
    }
    Vector<T> row[sizeof...(I)] = {broadcast(weights[I])...};
    (send_back<T>(row[network.list[last - C].low], row[network.list[last - C].high], swaps[last - C]), ...);
    ((shares[I] = row[I]), ...);
}

template <int Rows, class T>
void tracked_tile(Vector<T>* rows, const T* weights, Vector<T>* shares, Swap<T>* swaps) {
    tracked_tile_as<T>(rows, weights, shares, swaps, std::make_integer_sequence<int, Rows>{},
                       std::make_index_sequence<comparisons<Rows, true>>{});
}

template <bool Sort, class V>
void tile_of(int rows, V* first) {
    switch (rows) {
        case 8: return tile<8, Sort>(first);
        case 16: return tile<16, Sort>(first);
        case 32: return tile<32, Sort>(first);
        case 48: return tile<48, Sort>(first);
        default: return tile<TILE, Sort>(first);
    }
}

// Descending, in place; the number of rows is a padded one.
template <class V>
void sort_rows(V* row, std::size_t count) {
    for (std::size_t start = 0; start < count; start += TILE)
        tile_of<true>(static_cast<int>(at_most(TILE, count - start)), row + start);
    for (std::size_t half = TILE; half < count; half *= 2) {
        for (std::size_t start = 0; start + half < count; start += 2 * half) {
            std::size_t end = start + 2 * half, stop = at_most(end, count);
            for (std::size_t i = end - stop; i < half; ++i) compare(row[start + i], row[end - 1 - i]);
            for (std::size_t step = half / 2; step >= TILE; step /= 2)
                for (std::size_t group = start; group + step < stop; group += 2 * step)
                    for (std::size_t i = group; i < group + step && i + step < stop; ++i) compare(row[i], row[i + step]);
            for (std::size_t group = start; group < stop; group += TILE)
                tile_of<false>(static_cast<int>(at_most(TILE, stop - group)), row + group);
        }
    }
}

}  // namespace ahop::AHOP_ISA
