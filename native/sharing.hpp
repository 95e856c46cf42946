// Work shared out over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace ahop {

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

// Who takes which blocks: whoever is free, or each thread its own part, so that sums are the same in every run.
enum class Shares { WHOEVER_IS_FREE, EACH_ITS_OWN };

// Shares [0, count) out; `work(first, last, thread, scratch)`. Threads live for one call: nothing is left behind for a
// fork to break.
template <class Work>
void share_out(std::size_t count, std::size_t scratch_bytes, std::size_t threads, Shares shares, const Work& work) {
    threads = std::max<std::size_t>(1, std::min(threads, count));
    std::size_t own = (count + threads - 1) / threads;
    std::size_t chunk = std::max<std::size_t>(1, std::min<std::size_t>(64, own / 4));
    std::atomic<std::size_t> next{0};
    std::vector<std::unique_ptr<void, Free>> scratch;
    for (std::size_t i = 0; i < threads; ++i) {
        scratch.emplace_back(std::aligned_alloc(64, (scratch_bytes + 63) / 64 * 64));
        if (!scratch.back()) throw std::bad_alloc();
    }
    auto run = [&](std::size_t thread) {
        if (shares == Shares::EACH_ITS_OWN) {
            std::size_t first = std::min(thread * own, count);
            work(first, std::min(first + own, count), thread, scratch[thread].get());
            return;
        }
        for (std::size_t first; (first = next.fetch_add(chunk)) < count;)
            work(first, std::min(first + chunk, count), thread, scratch[thread].get());
    };
    std::vector<std::thread> others;
    others.reserve(threads);
    std::size_t started = 1;
    try {
        for (; started < threads; ++started) others.emplace_back(run, started);
    } catch (const std::system_error&) {
        // No more threads are to be had: this one does the rest.
    }
    run(0);
    for (std::size_t i = started; i < threads; ++i) run(i);
    for (std::thread& other : others) other.join();
}

}  // namespace ahop
