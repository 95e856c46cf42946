// The Python face of the kernels: arrays in, arrays out, shared out over threads. No tensor library's binary interface
// is used; arrays pass as DLPack or buffers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "job.hpp"
#include "plan.hpp"
#include "sharing.hpp"

namespace nb = nanobind;

namespace ahop {

#define AHOP_DECLARE(isa)                       \
    namespace isa {                             \
    extern const Kernels<float> kernels_float;  \
    extern const Kernels<double> kernels_double; \
    extern const Passes passes_of_plans;         \
    }

AHOP_DECLARE(baseline)
#ifdef AHOP_X86
AHOP_DECLARE(avx2)
AHOP_DECLARE(avx512)
#endif

namespace {

constexpr std::size_t BLOCK_BYTES = 64;

struct InstructionSet {
    const char* name;
    const Kernels<float>* of_float;
    const Kernels<double>* of_double;
    const Passes* of_plans;
};

std::vector<InstructionSet> supported() {
    std::vector<InstructionSet> found;
#ifdef AHOP_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        found.push_back({"avx512", &avx512::kernels_float, &avx512::kernels_double, &avx512::passes_of_plans});
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        found.push_back({"avx2", &avx2::kernels_float, &avx2::kernels_double, &avx2::passes_of_plans});
#endif
    found.push_back({"baseline", &baseline::kernels_float, &baseline::kernels_double, &baseline::passes_of_plans});
    return found;
}

std::atomic<std::size_t> chosen{0};

const std::vector<InstructionSet>& all() {
    static const std::vector<InstructionSet> sets = supported();
    return sets;
}

template <class T>
const Kernels<T>& kernels() {
    const InstructionSet& set = all()[chosen];
    if constexpr (std::is_same_v<T, float>)
        return *set.of_float;
    else
        return *set.of_double;
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const InstructionSet& set : all()) names.emplace_back(set.name);
    return names;
}

void use(const std::string& name) {
    for (std::size_t i = 0; i < all().size(); ++i)
        if (name == all()[i].name) {
            chosen = i;
            return;
        }
    throw nb::value_error(("this machine has no instruction set named " + name).c_str());
}

template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <class T>
using Hypercube = nb::ndarray<T, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool holds, const char* what) {
    if (!holds) throw nb::value_error(what);
}

template <class T>
std::size_t block_count(std::size_t rows) {
    constexpr std::size_t lanes = BLOCK_BYTES / sizeof(T);
    return (rows + lanes - 1) / lanes;
}

template <class T>
Stored<T> stored_of(const T* patterns, std::size_t n, std::size_t d, const Cube<const T>& blocks, const Bytes& finite) {
    require(0 < d && d <= MOST_DIMENSIONS, "dimensions must be between 1 and 4096");
    bool is_packed = blocks.shape(0) > 0;
    if (is_packed)
        require(blocks.shape(0) >= block_count<T>(n) && blocks.shape(1) == d &&
                    blocks.shape(2) == BLOCK_BYTES / sizeof(T) && finite.shape(0) == blocks.shape(0),
                "the packed blocks are not of these patterns");
    return {patterns, is_packed ? blocks.data() : nullptr, finite.data(), n, d};
}

template <class T>
Stored<T> stored_of(const Matrix<const T>& patterns, const Cube<const T>& blocks, const Bytes& finite) {
    return stored_of<T>(patterns.data(), patterns.shape(0), patterns.shape(1), blocks, finite);
}

// What a call is about, checked: groups of patterns (g, n, d), each with queries of its own (g, k, b, d). It owns what it
// computes about the queries.
template <class T>
struct Request {
    Job<T> first;
    std::size_t groups, blocks;
    std::vector<std::uint8_t> query_finite;

    Request(const Cube<const T>& patterns, const Cube<const T>& packed, const Bytes& finite,
            const Hypercube<const T>& queries, const Matrix<const T>& weights, const std::vector<int>& bases) {
        Stored<T> stored = stored_of<T>(patterns.data(), patterns.shape(1), patterns.shape(2), packed, finite);
        std::size_t d = stored.d, k = queries.shape(1), b = queries.shape(2);
        groups = patterns.shape(0);
        blocks = block_count<T>(stored.n);
        require(queries.shape(0) == groups, "patterns and queries differ in groups");
        require(groups == 1 || stored.blocks == nullptr, "only one group can be packed");
        require(queries.shape(3) == d && weights.shape(1) == d, "patterns, queries and weights differ in dimensions");
        require(weights.shape(0) == k && bases.size() == k, "queries, weights and bases differ in number");
        for (int base : bases) require(0 <= base && base < BASES, "no such base similarity");
        query_finite.assign(groups * k * b, 1);
        for (std::size_t i = 0; i < groups * k * b * d; ++i)
            if (!std::isfinite(queries.data()[i])) query_finite[i / d] = 0;
        first = {stored, queries.data(), query_finite.data(), b, k, bases.data(), weights.data()};
    }

    std::size_t scores_of_one() const { return first.b * first.stored.n; }
    std::size_t patterns_of_one() const { return first.stored.n * first.stored.d; }
    std::size_t queries_of_one() const { return first.k * first.b * first.stored.d; }

    Job<T> job(std::size_t group) const {
        Job<T> one = first;
        one.stored.patterns += group * patterns_of_one();
        one.queries += group * queries_of_one();
        one.query_finite += group * first.k * first.b;
        return one;
    }

    // `work(group, first, last)` for the blocks of each group among [first, last) of all groups' blocks.
    template <class Work>
    void each_group(std::size_t from, std::size_t to, const Work& work) const {
        while (from < to) {
            std::size_t group = from / blocks, start = group * blocks, stop = std::min(to, start + blocks);
            work(group, from - start, stop - start);
            from = stop;
        }
    }
};

template <class T>
void pack(const Matrix<const T>& patterns, const Cube<T>& blocks, const Bytes& finite, std::size_t threads) {
    std::size_t n = patterns.shape(0), d = patterns.shape(1);
    require(blocks.shape(0) >= block_count<T>(n) && blocks.shape(1) == d &&
                blocks.shape(2) == BLOCK_BYTES / sizeof(T) && finite.shape(0) >= block_count<T>(n),
            "the blocks are not for these patterns");
    nb::gil_scoped_release release;
    share_out(block_count<T>(n), 64, threads, Shares::WHOEVER_IS_FREE, [&](std::size_t first, std::size_t last, std::size_t, void*) {
        kernels<T>().pack(patterns.data(), n, d, blocks.data(), finite.data(), first, last);
    });
}

template <class T>
void scores(const Cube<const T>& patterns, const Cube<const T>& blocks, const Bytes& finite,
            const Hypercube<const T>& queries, const Matrix<const T>& weights, const std::vector<int>& bases,
            const Cube<T>& out, std::size_t threads) {
    Request<T> request(patterns, blocks, finite, queries, weights, bases);
    require(out.shape(0) == request.groups && out.shape(1) == request.first.b && out.shape(2) == request.first.stored.n,
            "the scores have another shape");
    nb::gil_scoped_release release;
    share_out(request.groups * request.blocks, kernels<T>().scratch_bytes(request.first.stored.d), threads,
              Shares::WHOEVER_IS_FREE, [&](std::size_t from, std::size_t to, std::size_t, void* scratch) {
                  request.each_group(from, to, [&](std::size_t group, std::size_t first, std::size_t last) {
                      T* place = out.data() + group * request.scores_of_one();
                      kernels<T>().scores(request.job(group), place, first, last, scratch);
                  });
              });
}

template <class T>
void weight_gradient(const Cube<const T>& patterns, const Cube<const T>& blocks, const Bytes& finite,
                     const Hypercube<const T>& queries, const Matrix<const T>& weights, const std::vector<int>& bases,
                     const Cube<const T>& gradient, const Matrix<T>& out, std::size_t threads) {
    Request<T> request(patterns, blocks, finite, queries, weights, bases);
    const Job<T>& job = request.first;
    require(gradient.shape(0) == request.groups && gradient.shape(1) == job.b && gradient.shape(2) == job.stored.n,
            "the gradient has another shape");
    require(out.shape(0) == job.k && out.shape(1) == job.stored.d, "the weights have another shape");
    nb::gil_scoped_release release;
    std::size_t size = job.k * job.stored.d;
    std::vector<std::vector<double>> parts(std::max<std::size_t>(1, threads), std::vector<double>(size, 0));
    share_out(request.groups * request.blocks, kernels<T>().scratch_bytes(job.stored.d), threads, Shares::EACH_ITS_OWN,
              [&](std::size_t from, std::size_t to, std::size_t thread, void* scratch) {
                  std::vector<T> part(size);
                  request.each_group(from, to, [&](std::size_t group, std::size_t first, std::size_t last) {
                      std::fill(part.begin(), part.end(), T{0});
                      const T* flow = gradient.data() + group * request.scores_of_one();
                      kernels<T>().weight_gradient(request.job(group), flow, part.data(), first, last, scratch);
                      for (std::size_t i = 0; i < size; ++i) parts[thread][i] += part[i];
                  });
              });
    for (std::size_t i = 0; i < size; ++i) {
        double total = 0;
        for (const std::vector<double>& part : parts) total += part[i];
        out.data()[i] = static_cast<T>(total);
    }
}

template <class T>
void data_gradient(const Cube<const T>& patterns, const Cube<const T>& blocks, const Bytes& finite,
                   const Hypercube<const T>& queries, const Matrix<const T>& weights, const std::vector<int>& bases,
                   const Cube<const T>& gradient, const Cube<T>& to_patterns, const Hypercube<T>& to_queries,
                   std::size_t threads) {
    Request<T> request(patterns, blocks, finite, queries, weights, bases);
    const Job<T>& job = request.first;
    require(gradient.shape(0) == request.groups && gradient.shape(1) == job.b && gradient.shape(2) == job.stored.n,
            "the gradient has another shape");
    for (std::size_t axis = 0; axis < 3; ++axis)
        require(to_patterns.shape(axis) == patterns.shape(axis), "the patterns have another shape");
    for (std::size_t axis = 0; axis < 4; ++axis)
        require(to_queries.shape(axis) == queries.shape(axis), "the queries have another shape");
    nb::gil_scoped_release release;
    std::size_t size = request.groups * request.queries_of_one();
    // The first thread adds to the result itself, the others to sums of their own, added in their order at the end.
    std::vector<std::vector<T>> parts(std::max<std::size_t>(1, threads));
    std::fill_n(to_queries.data(), size, T{0});
    share_out(request.groups * request.blocks, kernels<T>().scratch_bytes(job.stored.d), threads, Shares::EACH_ITS_OWN,
              [&](std::size_t from, std::size_t to, std::size_t thread, void* scratch) {
                  if (thread > 0) parts[thread].assign(size, 0);
                  T* sums = thread > 0 ? parts[thread].data() : to_queries.data();
                  request.each_group(from, to, [&](std::size_t group, std::size_t first, std::size_t last) {
                      kernels<T>().data_gradient(request.job(group), gradient.data() + group * request.scores_of_one(),
                                                 to_patterns.data() + group * request.patterns_of_one(),
                                                 sums + group * request.queries_of_one(), first, last, scratch);
                  });
              });
    for (const std::vector<T>& part : parts)
        for (std::size_t i = 0; i < part.size(); ++i) to_queries.data()[i] += part[i];
}

template <class T>
bool sort(const Matrix<T>& values, std::size_t threads) {
    std::size_t m = values.shape(0), d = values.shape(1);
    require(0 < d && d <= MOST_DIMENSIONS, "dimensions must be between 1 and 4096");
    nb::gil_scoped_release release;
    std::atomic<bool> is_sorted{true};
    share_out(block_count<T>(m), kernels<T>().scratch_bytes(d), threads, Shares::WHOEVER_IS_FREE,
              [&](std::size_t first, std::size_t last, std::size_t, void* scratch) {
                  if (!kernels<T>().sort(values.data(), m, d, first, last, scratch)) is_sorted = false;
              });
    return is_sorted;
}

// What each query of a mixture says something in; gaps have no worth and add nothing.
template <class T>
struct Lists {
    std::vector<Told> told;
    std::vector<std::uint16_t> dimensions;

    Lists(const T* worth, const T* alone, std::size_t b, std::size_t d, std::size_t shifts) : told(b), dimensions(b * d) {
        constexpr T least = std::numeric_limits<T>::min_exponent;  // its exponential is lost beside one
        constexpr double range = std::numeric_limits<T>::max_exponent - 2;
        for (std::size_t query = 0; query < b; ++query) {
            const T *own = worth + query * d, *always = alone + query * d;
            std::size_t count = 0;
            T largest = least;
            for (std::size_t i = 0; i < d; ++i) {
                dimensions[query * d + count] = static_cast<std::uint16_t>(i);
                count += !(own[i] <= least) || always[i] != 0;
                largest = own[i] > largest ? own[i] : largest;
            }
            double digits = std::log2(1 + static_cast<double>(shifts) * std::exp(static_cast<double>(largest)));
            double factors = digits * static_cast<double>(d) < range ? static_cast<double>(d) : range / digits;
            told[query] = {count, std::max<std::size_t>(1, static_cast<std::size_t>(factors))};
        }
    }
};

template <class T>
void mixture(const Matrix<const T>& patterns, const Cube<const T>& blocks, const Bytes& finite,
             const Matrix<const T>& asked, const Matrix<const T>& worth, const Matrix<const T>& alone,
             const Matrix<const T>& slopes, const Matrix<const T>& shifts, const Matrix<T>& out, std::size_t threads) {
    Stored<T> stored = stored_of<T>(patterns, blocks, finite);
    std::size_t b = asked.shape(0), d = stored.d;
    for (const Matrix<const T>* each : {&asked, &worth, &alone})
        require(each->shape(0) == b && each->shape(1) == d, "patterns and queries differ in dimensions");
    require(slopes.shape(0) == 1 && slopes.shape(1) == d && shifts.shape(1) == d, "slopes and shifts differ");
    require(out.shape(0) == b && out.shape(1) == stored.n, "the scores have another shape");
    nb::gil_scoped_release release;
    Lists<T> lists(worth.data(), alone.data(), b, d, shifts.shape(0));
    Mixture<T> job{stored, asked.data(), worth.data(), alone.data(), slopes.data(), shifts.data(), b, shifts.shape(0),
                   lists.told.data(), lists.dimensions.data()};
    share_out(block_count<T>(stored.n), d * BLOCK_BYTES, threads, Shares::WHOEVER_IS_FREE,
              [&](std::size_t first, std::size_t last, std::size_t, void* scratch) {
                  kernels<T>().mixture(job, out.data(), first, last, scratch);
              });
}

// The scores of each query with rows of its own.
template <class T>
void paired_mixture(const Matrix<const T>& patterns, const Matrix<const std::int64_t>& rows,
                    const Matrix<const T>& asked, const Matrix<const T>& worth, const Matrix<const T>& alone,
                    const Matrix<const T>& slopes, const Matrix<const T>& shifts, const Matrix<T>& out,
                    std::size_t threads) {
    std::size_t b = rows.shape(0), c = rows.shape(1), d = patterns.shape(1);
    require(0 < d && d <= MOST_DIMENSIONS, "dimensions must be between 1 and 4096");
    for (const Matrix<const T>* each : {&asked, &worth, &alone})
        require(each->shape(0) == b && each->shape(1) == d, "patterns and queries differ in dimensions");
    require(slopes.shape(0) == 1 && slopes.shape(1) == d && shifts.shape(1) == d, "slopes and shifts differ");
    require(out.shape(0) == b && out.shape(1) == c, "the scores have another shape");
    for (std::size_t i = 0; i < b * c; ++i)
        require(0 <= rows.data()[i] && rows.data()[i] < static_cast<std::int64_t>(patterns.shape(0)), "no such row");
    nb::gil_scoped_release release;
    Lists<T> lists(worth.data(), alone.data(), b, d, shifts.shape(0));
    share_out(b, d * BLOCK_BYTES, threads, Shares::WHOEVER_IS_FREE,
              [&](std::size_t first, std::size_t last, std::size_t, void* scratch) {
                  for (std::size_t query = first; query < last; ++query) {
                      Stored<T> stored{patterns.data(), nullptr, nullptr, c, d, rows.data() + query * c};
                      Mixture<T> job{stored,        asked.data() + query * d, worth.data() + query * d,
                                     alone.data() + query * d, slopes.data(), shifts.data(), 1, shifts.shape(0),
                                     lists.told.data() + query, lists.dimensions.data() + query * d};
                      kernels<T>().mixture(job, out.data() + query * c, 0, block_count<T>(c), scratch);
                  }
              });
}

// What values say by themselves. `parameters` are gain, bias, std, outlier rate, center and scale; `found` is twice (b, d).
template <class T>
void marginals(const Matrix<const T>& queries, const Matrix<const T>& parameters, const Matrix<const T>& population,
               const Matrix<const T>& log_density, const Matrix<const T>& ends, bool signs, const Cube<T>& found,
               std::size_t threads) {
    std::size_t b = queries.shape(0), d = queries.shape(1);
    require(parameters.shape(0) == 6 && parameters.shape(1) == d && population.shape(0) == d && population.shape(1) > 0,
            "queries and parameters differ in dimensions");
    require(log_density.shape(0) == 1 && log_density.shape(1) > 0 && ends.shape(0) == 1 && ends.shape(1) == 2,
            "a density has steps between two ends");
    require(found.shape(0) == 2 && found.shape(1) == b && found.shape(2) == d, "the marginals have another shape");
    const T* of = parameters.data();
    Marginals<T> job{queries.data(), b, d, of, of + d, of + 2 * d, of + 3 * d, of + 4 * d, of + 5 * d, signs,
                     population.data(), population.shape(1), log_density.data(), log_density.shape(1),
                     ends.data()[0], ends.data()[1]};
    const Kernels<T>& chosen = kernels<T>();
    nb::gil_scoped_release release;
    share_out((d + chosen.lanes - 1) / chosen.lanes, 4 * job.quantiles * BLOCK_BYTES, threads, Shares::WHOEVER_IS_FREE,
              [&](std::size_t first, std::size_t last, std::size_t, void* scratch) {
                  chosen.marginals(job, found.data(), found.data() + b * d, first, last, scratch);
              });
}

template <class T>
void additive(const Matrix<const T>& patterns, const Cube<const T>& blocks, const Bytes& finite,
              const Matrix<const T>& places, std::size_t used_knots, const Cube<const T>& profiles, const Matrix<T>& out,
              std::size_t threads) {
    Stored<T> stored = stored_of<T>(patterns, blocks, finite);
    std::size_t b = profiles.shape(0), d = stored.d, knots = profiles.shape(2);
    require(profiles.shape(1) == d && places.shape(0) == d, "patterns and profiles differ in dimensions");
    require(places.shape(1) == knots && 2 <= used_knots && used_knots <= knots, "profiles and places differ in knots");
    require(out.shape(0) == b && out.shape(1) == stored.n, "the scores have another shape");
    Additive<T> job{stored, places.data(), profiles.data(), b, knots, used_knots};
    nb::gil_scoped_release release;
    share_out(block_count<T>(stored.n), 4 * d * BLOCK_BYTES, threads, Shares::WHOEVER_IS_FREE,
              [&](std::size_t first, std::size_t last, std::size_t, void* scratch) {
                  kernels<T>().additive(job, out.data(), first, last, scratch);
              });
}

template <class T>
void define(nb::module_& module) {
    using namespace nb::literals;
    module.def("pack", &pack<T>, "patterns"_a.noconvert(), "blocks"_a.noconvert(), "finite"_a.noconvert(), "threads"_a);
    module.def("scores", &scores<T>, "patterns"_a.noconvert(), "blocks"_a.noconvert(), "finite"_a.noconvert(),
               "queries"_a.noconvert(), "weights"_a.noconvert(), "bases"_a, "out"_a.noconvert(), "threads"_a);
    module.def("weight_gradient", &weight_gradient<T>, "patterns"_a.noconvert(), "blocks"_a.noconvert(),
               "finite"_a.noconvert(), "queries"_a.noconvert(), "weights"_a.noconvert(), "bases"_a,
               "gradient"_a.noconvert(), "out"_a.noconvert(), "threads"_a);
    module.def("data_gradient", &data_gradient<T>, "patterns"_a.noconvert(), "blocks"_a.noconvert(),
               "finite"_a.noconvert(), "queries"_a.noconvert(), "weights"_a.noconvert(), "bases"_a,
               "gradient"_a.noconvert(), "to_patterns"_a.noconvert(), "to_queries"_a.noconvert(), "threads"_a);
    module.def("mixture", &mixture<T>, "patterns"_a.noconvert(), "blocks"_a.noconvert(), "finite"_a.noconvert(),
               "asked"_a.noconvert(), "worth"_a.noconvert(), "alone"_a.noconvert(), "slopes"_a.noconvert(),
               "shifts"_a.noconvert(), "out"_a.noconvert(), "threads"_a);
    module.def("paired_mixture", &paired_mixture<T>, "patterns"_a.noconvert(), "rows"_a.noconvert(),
               "asked"_a.noconvert(), "worth"_a.noconvert(), "alone"_a.noconvert(), "slopes"_a.noconvert(),
               "shifts"_a.noconvert(), "out"_a.noconvert(), "threads"_a);
    module.def("additive", &additive<T>, "patterns"_a.noconvert(), "blocks"_a.noconvert(), "finite"_a.noconvert(),
               "places"_a.noconvert(), "used_knots"_a, "profiles"_a.noconvert(), "out"_a.noconvert(), "threads"_a);
    module.def("marginals", &marginals<T>, "queries"_a.noconvert(), "parameters"_a.noconvert(),
               "population"_a.noconvert(), "log_density"_a.noconvert(), "ends"_a.noconvert(), "signs"_a,
               "found"_a.noconvert(), "threads"_a);
    module.def("sort", &sort<T>, "values"_a.noconvert(), "threads"_a);
}

}  // namespace

void define_plan(nb::module_& module);
const Passes& passes();
const Passes& passes() { return *all()[chosen].of_plans; }

}  // namespace ahop

NB_MODULE(_native, module) {
    // A plan may live as long as the process; where it ends, nobody wants to read of it, least of all in a log of JSON.
    nanobind::set_leak_warnings(false);
    module.attr("MOST_DIMENSIONS") = ahop::MOST_DIMENSIONS;
    module.def("instruction_sets", &ahop::instruction_sets, "What this machine can run, fastest first.");
    module.def("use", &ahop::use, nb::arg("name"), "Choose one of them; for tests.");
    ahop::define<float>(module);
    ahop::define<double>(module);
    ahop::define_plan(module);
}
