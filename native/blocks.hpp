// Patterns in blocks: as many side by side as fit BLOCK_BYTES, dimension by dimension.
#pragma once

#include "job.hpp"
#include "lanes.hpp"

namespace ahop::AHOP_ISA {
namespace {

inline std::size_t at_most(std::size_t a, std::size_t b) { return a < b ? a : b; }

// Packs one block of the rows, or of those that were chosen; whether all of it is finite.
template <class T>
bool transpose_block(const T* patterns, std::size_t n, std::size_t d, std::size_t number, T* block,
                     const std::int64_t* chosen = nullptr) {
    constexpr std::size_t lanes = Vectors<T>::lanes, width = Vectors<T>::block;
    std::size_t start = number * width;
    Vector<T> check{};
    for (std::size_t strip = 0; strip < width; strip += lanes) {
        for (std::size_t i = 0; i < d; i += lanes) {
            Vector<T> square[lanes];
            std::size_t columns = at_most(lanes, d - i);
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                std::size_t row = start + strip + lane;
                square[lane] = Vector<T>{};
                if (row >= n) continue;
                const T* from = patterns + (chosen ? static_cast<std::size_t>(chosen[row]) : row) * d + i;
                if (columns == lanes)
                    square[lane] = load(from);
                else
                    __builtin_memcpy(&square[lane], from, columns * sizeof(T));
            }
            transpose<T>(square);
            for (std::size_t column = 0; column < columns; ++column) {
                store(block + (i + column) * width + strip, square[column]);
                check += square[column] * 0;
            }
        }
    }
    return !any(check != 0);
}

// One block as the kernels read it: packed before, or now.
template <class T>
struct Block {
    const T* rows;
    bool is_finite;

    Block(const Stored<T>& stored, std::size_t number, T* room) {
        if (stored.blocks) {
            rows = stored.blocks + number * stored.d * Vectors<T>::block;
            is_finite = stored.finite[number];
        } else {
            is_finite = transpose_block(stored.patterns, stored.n, stored.d, number, room, stored.chosen);
            rows = room;
        }
    }
};

}  // namespace
}  // namespace ahop::AHOP_ISA
