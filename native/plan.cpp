// A plan: a model and its patterns, laid out once so that a query is one call. Everything about a query is worked out
// here in double precision; the passes over the patterns are those of the machine's instruction set.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "plan.hpp"
#include "sharing.hpp"

namespace nb = nanobind;

namespace ahop {

const Passes& passes();
void define_plan(nb::module_& module);

namespace {

constexpr float LOWEST = -std::numeric_limits<float>::max();
constexpr double NAN_ = std::numeric_limits<double>::quiet_NaN();
constexpr double HALF_LOG_TWO_PI = 0.918938533204672741780;
constexpr double LOG_2 = 0.693147180559945309417;
// A worth below this, in nats, has an exponential in single precision; and the exponential of less than the other is lost
// beside one.
constexpr double LARGEST_WORTH = 80, LEAST_WORTH = -125;
// Values whose squares, and sums of them, stay within single precision.
constexpr double SMALLEST = 1e-17, LARGEST = 1e15;
// Blocks of patterns that stay in the inner caches while several members and queries walk over them.
constexpr std::size_t CHUNK_BYTES = 1 << 19;
// Rows whose sums do, where patterns are lists.
constexpr std::size_t LISTED_ROWS = 1 << 16;
// Numbers below which a second thread has not woken up before the first is done.
constexpr std::size_t LEAST_SHARED = 1 << 20;
// Scores that are held at once.
constexpr std::size_t MOST_HELD = 1 << 22, MOST_TOGETHER = 16;
// A feature beyond this says "certainly".
constexpr double LARGEST_FEATURE = 1e4;

using Row = std::vector<double>;
using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Tables = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Flags = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Numbers that begin where a cache line does.
template <class T>
class Aligned {
  public:
    Aligned() = default;
    explicit Aligned(std::size_t count, T value = T{}) : count_(count) {
        memory_.reset(std::aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64));
        if (!memory_) throw std::bad_alloc();
        std::fill_n(data(), count, value);
    }
    T* data() const { return static_cast<T*>(memory_.get()); }
    T& operator[](std::size_t i) const { return data()[i]; }
    std::size_t size() const { return count_; }
    bool empty() const { return count_ == 0; }

  private:
    std::unique_ptr<void, Free> memory_;
    std::size_t count_ = 0;
};

enum Way : int { MOVE, RAISE, LOGARITHM, VARIATE, DIFFERENCE, SELECT };

// One transform. What only moves queries leaves the patterns as they are.
struct Step {
    Way way;
    double low = 0, high = 1, exponent = 1, missing = NAN_;
    Row offset, gain;
    std::vector<std::size_t> places;

    bool is_same(const Step& other) const {
        return way == other.way && low == other.low && high == other.high && exponent == other.exponent &&
               places == other.places &&
               (missing == other.missing || (std::isnan(missing) && std::isnan(other.missing)));
    }

    void apply(Row& row) const {
        switch (way) {
            case MOVE:
                for (std::size_t i = 0; i < row.size(); ++i) row[i] = (row[i] - offset[i]) / gain[i];
                break;
            case RAISE:
            case LOGARITHM:
                for (double& value : row) {
                    if (std::isnan(value)) {
                        value = missing;
                        continue;
                    }
                    double share = std::max(0.0, (value - low) / (high - low));
                    value = way == LOGARITHM ? std::log1p(share) : share > 0 ? std::pow(share, exponent) : 0;
                }
                break;
            case VARIATE: standardize(row); break;
            case DIFFERENCE:
                if (row.size() == 1) {
                    row[0] = std::isnan(row[0]) ? NAN_ : 0;
                    break;
                }
                for (std::size_t i = 0; i + 1 < row.size(); ++i) row[i] = row[i + 1] - row[i];
                row.pop_back();
                break;
            case SELECT: {
                Row selected;
                for (std::size_t place : places) selected.push_back(row.at(place));
                row = std::move(selected);
            }
        }
    }

    static void standardize(Row& row) {
        double sum = 0, squares = 0, count = 0, least = INFINITY, most = -INFINITY;
        for (double value : row)
            if (!std::isnan(value)) sum += value, ++count, least = std::min(least, value), most = std::max(most, value);
        double mean = sum / std::max(count, 1.0);
        for (double value : row)
            if (!std::isnan(value)) squares += (value - mean) * (value - mean);
        double scale = least < most ? std::sqrt(count / squares) : 0;
        for (double& value : row) value = (value - mean) * scale;  // a gap stays one
    }
};

using Chain = std::vector<Step>;

// Which rows have something in each dimension.
struct Lists {
    std::vector<std::uint64_t> starts;
    std::vector<std::uint32_t> rows;
};

// The stored patterns behind a chain of transforms.
struct Storage {
    Chain chain;
    std::size_t columns = 0;
    bool has_gaps = false, is_tame = true;
    Aligned<float> values;             // blocks, or the values of lists
    Aligned<float> lengths, amounts;   // (n,) one over the length; the sum of amounts
};

// How often a value goes missing, by its level.
struct Silence {
    std::vector<float> edges;  // (d, levels - 1)
    Row gap, value;            // (d, levels + 1) log-likelihood ratios of a gap and of a value
    std::size_t levels = 0;    // the last is for what is not stored
    double weight = 1;
    Aligned<std::uint8_t> stored;
    Aligned<float> total;  // (n,) of a query without anything

    std::size_t level(std::size_t column, float value) const {
        if (std::isnan(value)) return levels;
        std::size_t found = 0;
        for (std::size_t edge = 0; edge + 1 < levels; ++edge) found += value > edges[column * (levels - 1) + edge];
        return found;
    }
    double presence(std::size_t column, std::size_t level) const {
        return weight * (value[column * (levels + 1) + level] - gap[column * (levels + 1) + level]);
    }
};

struct Learned {
    // of tables
    Row query_places, pattern_places, mixing, tables;
    std::size_t query_knots = 0, pattern_knots = 0, rank = 0;
    // of a mixture
    Row gain, bias, std, rate, places, wide;
    std::vector<float> center, scale, log_density;
    float low = 0, high = 0;
    bool signs = false;
    std::size_t quantiles = 0;
};

struct Part {
    Measure measure;
    double weight;
    std::size_t storage;
    Learned learned;
    std::optional<Silence> silence;
    Aligned<float> places;  // where stored values stand between the knots of tables
};

// Above `value` and below it: the knot below, and the share of the one above; flat beyond the ends.
std::pair<std::size_t, double> place_between(const double* knots, std::size_t count, double value) {
    double inside = std::min(std::max(value, knots[0]), knots[count - 1]);
    std::size_t upper = std::lower_bound(knots, knots + count, inside) - knots;
    upper = std::min(std::max<std::size_t>(upper, 1), count - 1);
    double low = knots[upper - 1], high = knots[upper];
    return {upper - 1, high > low ? (inside - low) / (high - low) : 0.0};
}

double log_sum(double a, double b) {
    double most = std::max(a, b);
    return most == -INFINITY ? most : most + std::log1p(std::exp(std::min(a, b) - most));
}

// A dimension of a mixture where a match is worth more than an exponential in single precision can say: its rows are
// added one by one.
struct Sharp {
    std::size_t column;
    double low, high, slope, worth;  // places, and nats; both places are one where the bias has one sign
};

// The rows that may be answered: all, or those that are flagged.
struct Allowed {
    const std::uint8_t* flags;
    std::size_t count, possible;  // how many, and those of a prior above zero

    bool has(std::size_t row) const { return !flags || flags[row]; }
};

// What one query says to one member: the numbers that `Member` points to.
struct Asked {
    std::vector<Sharp> sharp;
    std::vector<std::uint32_t> listed;
    std::vector<float> asked, slopes, worth, alone;
    Aligned<float> tables, presence;
    Member member{};
};

class Plan {
  public:
    Plan(const Rows& patterns, bool as_lists)
        : given_(patterns), n_(patterns.shape(0)), d_(patterns.shape(1)), padded_((n_ + WIDTH - 1) / WIDTH * WIDTH) {
        if (as_lists) make_lists();
    }

    void begin() { chain_.clear(); }
    void move(const Numbers& offset, const Numbers& gain) {
        Step step{MOVE};
        step.offset = row_of(offset), step.gain = row_of(gain);
        chain_.push_back(std::move(step));
    }
    void transform(int way, double low, double high, double exponent, double missing) {
        chain_.push_back({static_cast<Way>(way), low, high, exponent, missing, {}, {}, {}});
    }
    void select(const std::vector<std::size_t>& places) {
        Step step{SELECT};
        step.places = places;
        chain_.push_back(std::move(step));
    }

    // False if this measure cannot be served for these patterns.
    bool add_metric(int measure, double weight) {
        Part part{static_cast<Measure>(measure), weight, storage(), {}, std::nullopt, {}};
        const Storage& stored = storages_[part.storage];
        if (part.measure == COSINE && !stored.is_tame) return false;
        if (lists_ && !stored.has_gaps && (part.measure == EUCLID || part.measure == CITY)) return false;
        parts_.push_back(std::move(part));
        return true;
    }

    void add_tables(double weight, const Table& query_places, const Table& pattern_places, const Table& mixing,
                    const Tables& tables) {
        Part part{TABLES, weight, storage(), {}, std::nullopt, {}};
        Learned& learned = part.learned;
        learned.query_places = row_of(query_places), learned.pattern_places = row_of(pattern_places);
        learned.mixing = row_of(mixing), learned.tables = row_of(tables);
        learned.query_knots = query_places.shape(1), learned.pattern_knots = pattern_places.shape(1);
        learned.rank = mixing.shape(1);
        const Storage& stored = storages_[part.storage];
        part.places = each_value<float>(stored, [&](std::size_t column, float value) {
            if (std::isnan(value)) return static_cast<float>(ENTRIES - 1);
            std::size_t knots = learned.pattern_knots;
            auto [below, share] = place_between(&learned.pattern_places[column * knots], knots, value);
            float most = std::nextafter(static_cast<float>(below + 1), 0.0f);
            return std::min(static_cast<float>(static_cast<double>(below) + share), most);
        });
        parts_.push_back(std::move(part));
    }

    void add_mixture(double weight, const Table& parameters, const Table& population, const Numbers& log_density,
                     double low, double high, bool signs) {
        Part part{MATCHES, weight, storage(), {}, std::nullopt, {}};
        Learned& learned = part.learned;
        std::size_t d = parameters.shape(1), quantiles = population.shape(1);
        const double* of = parameters.data();
        learned.gain.assign(of, of + d), learned.bias.assign(of + d, of + 2 * d);
        learned.std.assign(of + 2 * d, of + 3 * d), learned.rate.assign(of + 3 * d, of + 4 * d);
        learned.center.assign(of + 4 * d, of + 5 * d), learned.scale.assign(of + 5 * d, of + 6 * d);
        learned.log_density.assign(log_density.data(), log_density.data() + log_density.shape(0));
        learned.low = static_cast<float>(low), learned.high = static_cast<float>(high), learned.signs = signs;
        learned.quantiles = quantiles;
        learned.places.resize(d * quantiles), learned.wide.resize(d * quantiles);
        for (std::size_t i = 0; i < d; ++i) {
            const double* own = population.data() + i * quantiles;
            for (std::size_t k = 0; k < quantiles; ++k) {
                double gap = learned.gain[i] * (own[std::min(k + 1, quantiles - 1)] - own[k > 0 ? k - 1 : 0]) / 2;
                learned.places[i * quantiles + k] = learned.gain[i] * own[k];
                learned.wide[i * quantiles + k] = std::hypot(learned.std[i], gap);
            }
        }
        parts_.push_back(std::move(part));
    }

    // What gaps say to the part that was added last.
    void add_silence(double weight, const Numbers& base, const nb::ndarray<const float, nb::ndim<2>, nb::c_contig>& edges,
                     const Numbers& shifts) {
        Part& part = parts_.back();
        Silence silence;
        silence.levels = edges.shape(1) + 1, silence.weight = weight;
        silence.edges.assign(edges.data(), edges.data() + edges.size());
        std::size_t d = base.shape(0), all = silence.levels + 1;
        auto log_sigmoid = [](double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); };
        for (std::size_t i = 0; i < d; ++i)
            for (std::size_t level = 0; level < all; ++level) {
                double rest = base.data()[i], moved = rest + shifts.data()[level];
                silence.gap.push_back(log_sigmoid(moved) - log_sigmoid(rest));
                silence.value.push_back(log_sigmoid(-moved) - log_sigmoid(-rest));
            }
        const Storage& stored = storages_[part.storage];
        Row total(n_, 0.0);
        if (lists_) {
            double none = 0;
            for (std::size_t i = 0; i < d; ++i) none += silence.gap[i * all + silence.levels];
            std::fill(total.begin(), total.end(), none);
        }
        silence.stored = each_value<std::uint8_t>(stored, [&](std::size_t column, float value) {
            return static_cast<std::uint8_t>(silence.level(column, value));
        });
        each_place(stored, [&](std::size_t column, std::size_t row, std::size_t at) {
            total[row] += silence.gap[column * all + silence.stored[at]];
            if (lists_) total[row] -= silence.gap[column * all + silence.levels];
        });
        silence.total = Aligned<float>(padded_);
        for (std::size_t row = 0; row < n_; ++row) silence.total[row] = static_cast<float>(weight * total[row]);
        part.silence = std::move(silence);
    }

    // How scores become answers; patterns are not needed from here on.
    void finish(bool is_pool, double beta, double floor, const std::optional<Numbers>& prior,
                const std::optional<Table>& detector, double odds) {
        is_pool_ = is_pool, beta_ = beta, floor_ = floor, odds_ = odds;
        if (prior) {
            prior_ = Aligned<float>(padded_, -INFINITY);
            for (std::size_t row = 0; row < n_; ++row) prior_[row] = static_cast<float>(prior->data()[row] / beta);
            for (std::size_t row = 0; row < n_; ++row) possible_ += prior_[row] > -INFINITY;
        } else {
            possible_ = n_;
        }
        if (detector) detector_.assign(detector->data(), detector->data() + detector->size());
        for (const Part& part : parts_)
            if ((part.measure == COSINE || part.measure == SORENSEN) && storages_[part.storage].lengths.empty())
                measure_rows(storages_[part.storage]);
        given_.reset();
    }

    // False if the numbers leave single precision: then nothing was answered. Where fewer than k rows may be answered,
    // ids end in -1. The odds, in logarithms, are those of an unknown origin.
    bool rank(const Rows& queries, const nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig>& ids,
              const nb::ndarray<float, nb::ndim<2>, nb::c_contig>& posterior,
              const nb::ndarray<double, nb::ndim<1>, nb::c_contig>& odds, std::size_t threads,
              const std::optional<Flags>& flags) const {
        std::size_t b = queries.shape(0), k = ids.shape(1);
        if (queries.shape(1) != d_ || ids.shape(0) != b || posterior.shape(0) != b || posterior.shape(1) != k ||
            odds.shape(0) != b || k > n_ || k == 0 || (flags && flags->shape(0) != n_))
            throw nb::value_error("queries and answers differ in shape");
        nb::gil_scoped_release release;
        Allowed allowed = flags ? allowed_by(flags->data()) : Allowed{nullptr, n_, possible_};
        std::size_t together = std::min(MOST_TOGETHER, std::max<std::size_t>(1, MOST_HELD / padded_));
        for (std::size_t first = 0; first < b; first += together) {
            std::size_t count = std::min(together, b - first);
            if (!rank_some(queries.data() + first * d_, count, k, ids.data() + first * k, posterior.data() + first * k,
                           odds.data() + first, threads, allowed))
                return false;
        }
        return true;
    }

    std::size_t bytes() const {
        std::size_t total = lists_ ? 4 * lists_->rows.size() : 0;
        for (const Storage& stored : storages_) total += 4 * stored.values.size();
        for (const Part& part : parts_) total += 4 * part.places.size() + (part.silence ? part.silence->stored.size() : 0);
        return total;
    }

  private:
    struct Held;

    Allowed allowed_by(const std::uint8_t* flags) const {
        Allowed found{flags, 0, 0};
        for (std::size_t row = 0; row < n_; ++row) {
            if (!flags[row]) continue;
            ++found.count;
            found.possible += prior_.empty() || prior_[row] > -INFINITY;
        }
        return found;
    }

    static Row row_of(const Numbers& given) { return Row(given.data(), given.data() + given.size()); }
    static Row row_of(const Table& given) { return Row(given.data(), given.data() + given.size()); }
    static Row row_of(const Tables& given) { return Row(given.data(), given.data() + given.size()); }

    void make_lists() {
        Lists lists;
        lists.starts.assign(d_ + 1, 0);
        const float* given = given_->data();
        for (std::size_t row = 0; row < n_; ++row)
            for (std::size_t i = 0; i < d_; ++i) lists.starts[i + 1] += !std::isnan(given[row * d_ + i]);
        for (std::size_t i = 0; i < d_; ++i) lists.starts[i + 1] += lists.starts[i];
        lists.rows.assign(lists.starts[d_] + WIDTH, 0);
        std::vector<std::uint64_t> next(lists.starts.begin(), lists.starts.end() - 1);
        for (std::size_t row = 0; row < n_; ++row)
            for (std::size_t i = 0; i < d_; ++i)
                if (!std::isnan(given[row * d_ + i])) lists.rows[next[i]++] = static_cast<std::uint32_t>(row);
        lists_ = std::move(lists);
    }

    // The storage behind the present chain, made if there is none yet.
    std::size_t storage() {
        Chain chain;
        for (const Step& step : chain_)
            if (step.way != MOVE) chain.push_back(step);
        std::size_t found = 0;
        for (; found < storages_.size(); ++found) {
            const Chain& other = storages_[found].chain;
            if (other.size() == chain.size() &&
                std::equal(chain.begin(), chain.end(), other.begin(), [](auto& a, auto& b) { return a.is_same(b); }))
                break;
        }
        chains_.push_back(chain_);
        if (found == storages_.size()) storages_.push_back(stored_behind(std::move(chain)));
        return found;
    }

    Storage stored_behind(Chain chain) const {
        Storage stored;
        Row row(d_);
        for (const Step& step : chain) step.apply(row);
        stored.columns = row.size(), stored.chain = std::move(chain);
        std::vector<std::uint64_t> next;
        if (lists_) next.assign(lists_->starts.begin(), lists_->starts.end() - 1);
        stored.values = Aligned<float>(lists_ ? lists_->rows.size() : padded_ * stored.columns);
        bool is_filled = !stored.chain.empty() && !std::isnan(stored.chain.back().missing);
        stored.has_gaps = lists_.has_value() && !is_filled;
        for (std::size_t number = 0; number < n_; ++number) {
            const float* given = given_->data() + number * d_;
            row.assign(given, given + d_);
            for (const Step& step : stored.chain) step.apply(row);
            for (std::size_t i = 0; i < stored.columns; ++i) {
                if (lists_ && std::isnan(given[i])) continue;
                float value = static_cast<float>(row[i]);
                stored.has_gaps |= std::isnan(value);
                stored.is_tame &= !(std::fabs(value) > LARGEST || (value != 0 && std::fabs(value) < SMALLEST));
                stored.values[lists_ ? next[i]++ : at(stored.columns, number, i)] = value;
            }
        }
        return stored;
    }

    static std::size_t at(std::size_t columns, std::size_t row, std::size_t column) {
        return (row / WIDTH * columns + column) * WIDTH + row % WIDTH;
    }

    // Visits column, row and place of every stored value.
    template <class Visit>
    void each_place(const Storage& stored, const Visit& visit) const {
        if (lists_) {
            for (std::size_t column = 0; column < stored.columns; ++column)
                for (std::uint64_t place = lists_->starts[column]; place < lists_->starts[column + 1]; ++place)
                    visit(column, lists_->rows[place], place);
            return;
        }
        for (std::size_t first = 0; first < n_; first += WIDTH)
            for (std::size_t column = 0; column < stored.columns; ++column)
                for (std::size_t row = first; row < std::min(first + WIDTH, n_); ++row)
                    visit(column, row, at(stored.columns, row, column));
    }

    template <class T, class Make>
    Aligned<T> each_value(const Storage& stored, const Make& make) const {
        Aligned<T> found(stored.values.size());
        each_place(stored, [&](std::size_t column, std::size_t, std::size_t place) {
            found[place] = make(column, stored.values[place]);
        });
        return found;
    }

    void measure_rows(Storage& stored) const {
        Row squares(n_, 0.0), amounts(n_, 0.0);
        each_place(stored, [&](std::size_t, std::size_t row, std::size_t place) {
            double value = stored.values[place];
            squares[row] += value * value, amounts[row] += std::fabs(value);
        });
        stored.lengths = Aligned<float>(padded_), stored.amounts = Aligned<float>(padded_);
        for (std::size_t row = 0; row < n_; ++row) {
            stored.lengths[row] = static_cast<float>(squares[row] > 0 ? 1 / std::sqrt(squares[row]) : 0);
            stored.amounts[row] = static_cast<float>(amounts[row]);
        }
    }

    // What the query says to the part; false if that leaves single precision.
    bool ask(std::size_t number, const float* query, Asked& found) const {
        const Part& part = parts_[number];
        const Storage& stored = storages_[part.storage];
        Row row(query, query + d_);
        for (const Step& step : chains_[number]) step.apply(row);
        std::size_t shared = 0;
        double squares = 0, amounts = 0;
        for (double value : row)
            if (!std::isnan(value)) ++shared, squares += value * value, amounts += std::fabs(value);
        Member& member = found.member;
        member.measure = part.measure;
        member.overlap = stored.has_gaps ? OF_PAIR : shared == stored.columns ? WHOLE : OF_QUERY;
        bool skips_zeros = part.measure == DOT_PRODUCT || part.measure == COSINE || part.measure == SORENSEN;
        skips_zeros = skips_zeros && member.overlap == WHOLE;
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (std::isnan(row[i]) || (skips_zeros && row[i] == 0)) continue;
            if (std::fabs(row[i]) > LARGEST) return false;
            if (part.measure == COSINE && row[i] != 0 && std::fabs(row[i]) < SMALLEST) return false;
            found.listed.push_back(static_cast<std::uint32_t>(i));
            found.asked.push_back(static_cast<float>(row[i]));
        }
        member.of_pattern = part.measure == COSINE ? stored.lengths.data() : stored.amounts.data();
        member.of_query = static_cast<float>(amounts);
        if (part.measure == COSINE)
            member.of_query = static_cast<float>(member.overlap != WHOLE ? squares : squares > 0 ? 1 / std::sqrt(squares) : 0);
        if (part.measure == TABLES) look_up(part, row, found);
        if (part.measure == MATCHES && !match(part, row, found)) return false;
        if (part.silence) hear(part, *part.silence, found);
        member.blocks = lists_ ? nullptr : part.measure == TABLES ? part.places.data() : stored.values.data();
        member.values = part.measure == TABLES ? part.places.data() : stored.values.data();
        member.columns = stored.columns;
        if (lists_) member.starts = lists_->starts.data(), member.rows = lists_->rows.data();
        member.listed = found.listed.data(), member.told = found.listed.size(), member.asked = found.asked.data();
        member.tables = found.tables.data(), member.presence = found.presence.data();
        member.slopes = found.slopes.data(), member.worth = found.worth.data(), member.alone = found.alone.data();
        member.shared = static_cast<float>(shared), member.dimensions = static_cast<float>(stored.columns);
        return true;
    }

    void look_up(const Part& part, const Row& row, Asked& found) const {
        const Learned& learned = part.learned;
        std::size_t asked = learned.query_knots, knots = learned.pattern_knots;
        found.tables = Aligned<float>(found.listed.size() * 2 * ENTRIES);
        Row profile(knots);
        for (std::size_t next = 0; next < found.listed.size(); ++next) {
            std::size_t i = found.listed[next];
            auto [below, share] = place_between(&learned.query_places[i * asked], asked, row[i]);
            std::fill(profile.begin(), profile.end(), 0.0);
            for (std::size_t r = 0; r < learned.rank; ++r) {
                const double* table = &learned.tables[(r * asked + below) * knots];
                double mixed = learned.mixing[i * learned.rank + r];
                if (mixed == 0) continue;
                for (std::size_t p = 0; p < knots; ++p)
                    profile[p] += mixed * ((1 - share) * table[p] + share * table[knots + p]);
            }
            float* starts = &found.tables[next * 2 * ENTRIES];
            for (std::size_t p = 0; p + 1 < knots; ++p) {
                starts[p] = static_cast<float>(profile[p]);
                starts[ENTRIES + p] = static_cast<float>(profile[p + 1] - profile[p]);
            }
        }
    }

    bool match(const Part& part, const Row& row, Asked& found) const {
        const Learned& learned = part.learned;
        std::size_t quantiles = learned.quantiles, steps = learned.log_density.size(), shifts = learned.signs ? 2 : 1;
        float width = std::max((learned.high - learned.low) / static_cast<float>(steps), 1e-30f);
        std::vector<std::uint32_t> all = std::move(found.listed);
        found.listed.clear(), found.asked.clear();
        double largest = LEAST_WORTH;
        Row exponents(quantiles);
        for (std::uint32_t i : all) {
            double x = row[i], std = learned.std[i], bias = learned.bias[i], rate = learned.rate[i];
            // In single precision as elsewhere: a step may begin at this very value.
            float value = (static_cast<float>(x) - learned.center[i]) / learned.scale[i];
            float step = std::min(std::max((value - learned.low) / width, 0.0f), static_cast<float>(steps - 1));
            float beyond = std::max(std::max(learned.low - value, value - learned.high), 0.0f) / width;
            double outlier = learned.log_density[static_cast<std::size_t>(step)] - beyond -
                             std::log(static_cast<double>(learned.scale[i])) + std::log(rate);
            double bumps = -INFINITY;
            for (double sign : {1.0, -1.0}) {
                if (sign < 0 && !learned.signs) break;
                double top = -INFINITY, total = 0;
                for (std::size_t k = 0; k < quantiles; ++k) {
                    double wide = learned.wide[i * quantiles + k];
                    double apart = (x - sign * bias - learned.places[i * quantiles + k]) / wide;
                    exponents[k] = -0.5 * apart * apart - std::log(wide);
                    top = std::max(top, exponents[k]);
                }
                for (double exponent : exponents) total += std::exp(exponent - top);
                bumps = log_sum(bumps, top + std::log(total));
            }
            double kept = std::log1p(-rate) - HALF_LOG_TWO_PI;
            double marginal = log_sum(kept + bumps - std::log(static_cast<double>(quantiles * shifts)), outlier);
            double worth = kept - std::log(std) - outlier - std::log(static_cast<double>(shifts));
            double alone = outlier - marginal;
            if (!std::isfinite(worth)) return false;
            if (!(worth < LARGEST_WORTH)) {
                double other = learned.signs ? x + bias : x - bias;
                found.sharp.push_back({i, (x - bias) / std, other / std, learned.gain[i] / std,
                                       worth + (learned.signs ? 0 : -LOG_2)});
                worth = 2 * LEAST_WORTH;  // the walk adds the rest
            }
            if (worth <= LEAST_WORTH && alone == 0 && !part.silence) continue;
            largest = std::max(largest, worth);
            found.listed.push_back(i);
            // The square of what is apart is an exponent in powers of two.
            double unit = std / std::sqrt(0.5 / LOG_2);
            found.asked.push_back(static_cast<float>((x - bias) / unit));
            if (learned.signs) found.asked.push_back(static_cast<float>((x + bias) / unit));
            found.slopes.push_back(static_cast<float>(learned.gain[i] / unit));
            found.worth.push_back(static_cast<float>(worth / LOG_2));
            found.alone.push_back(static_cast<float>(alone));
        }
        constexpr double range = std::numeric_limits<float>::max_exponent - 2;
        double digits = std::log2(1 + static_cast<double>(shifts) * std::exp(largest));
        double count = static_cast<double>(std::max<std::size_t>(1, found.listed.size()));
        found.member.factors = std::max<std::size_t>(1, static_cast<std::size_t>(std::min(count, range / digits)));
        found.member.shift_count = shifts;
        return true;
    }

    void hear(const Part& part, const Silence& silence, Asked& found) const {
        found.presence = Aligned<float>(found.listed.size() * ENTRIES);
        double missing = 0;
        for (std::size_t next = 0; next < found.listed.size(); ++next) {
            std::size_t i = found.listed[next];
            double none = lists_ ? silence.presence(i, silence.levels) : 0;
            missing += none;
            for (std::size_t level = 0; level <= silence.levels; ++level)
                found.presence[next * ENTRIES + level] = static_cast<float>(silence.presence(i, level) - none);
        }
        found.member.levels = silence.stored.data(), found.member.silence = silence.total.data();
        found.member.silence_of_missing = static_cast<float>(missing);
    }

    // What is kept of the queries that are answered together.
    struct Held {
        std::vector<Asked> asked;
        std::vector<Aligned<float>> scores;  // of each part, where their worst must be known before they are pooled
        Aligned<float> plain, total, largest, tops;
        Statistics seen{0, 0, true};
        bool waits = false;
    };

    bool rank_some(const float* queries, std::size_t count, std::size_t k, std::int64_t* ids, float* posterior,
                   double* odds, std::size_t threads, const Allowed& allowed) const {
        std::vector<Held> held(count);
        std::size_t told = 0, widest = 1;
        for (std::size_t query = 0; query < count; ++query) {
            Held& each = held[query];
            each.asked.resize(parts_.size());
            for (std::size_t part = 0; part < parts_.size(); ++part) {
                if (!ask(part, queries + query * d_, each.asked[part])) return false;
                const Member& member = each.asked[part].member;
                bool may_know_nothing = part_has_gaps(part) || member.shared == 0;
                each.waits |= is_pool_ && may_know_nothing && parts_[part].measure < TABLES;
                told += member.told, widest = std::max(widest, member.columns);
            }
            if (each.waits)
                for (std::size_t part = 0; part < parts_.size(); ++part) each.scores.emplace_back(padded_);
            each.total = Aligned<float>(padded_), each.largest = Aligned<float>(padded_ / WIDTH);
            if (!prior_.empty()) each.plain = Aligned<float>(padded_);
        }
        const Passes& pass = passes();
        std::size_t blocks = padded_ / WIDTH;
        std::size_t chunk = lists_ ? LISTED_ROWS / WIDTH : std::max<std::size_t>(1, CHUNK_BYTES / (4 * WIDTH * widest));
        std::size_t rows = std::min(chunk, blocks) * WIDTH, room = (parts_.size() + (lists_ ? SUMS : 0)) * rows;
        std::size_t chunks = (blocks + chunk - 1) / chunk;
        std::vector<Statistics> seen(chunks * count, Statistics{0, 0, true});
        share_out(chunks, room * sizeof(float), told * n_ / 8 < LEAST_SHARED ? 1 : threads, Shares::WHOEVER_IS_FREE,
                  [&](std::size_t from, std::size_t to, std::size_t, void* scratch) {
                      for (std::size_t number = from; number < to; ++number) {
                          std::size_t first = number * chunk, last = std::min(first + chunk, blocks);
                          for (std::size_t query = 0; query < count; ++query)
                              seen[number * count + query] =
                                  pass_over(pass, held[query], first, last, rows, static_cast<float*>(scratch));
                      }
                  });
        for (std::size_t number = 0; number < seen.size(); ++number) {
            Statistics& all = held[number % count].seen;
            all.known += seen[number].known, all.sum += seen[number].sum, all.is_finite &= seen[number].is_finite;
        }
        for (std::size_t query = 0; query < count; ++query) {
            if (held[query].waits) pool_late(pass, held[query], allowed);
            if (!held[query].seen.is_finite) return false;
            if (allowed.flags) leave_out(held[query], allowed);
            answer(pass, held[query], k, ids + query * k, posterior + query * k, odds + query, allowed);
        }
        return true;
    }

    bool part_has_gaps(std::size_t part) const { return storages_[parts_[part].storage].has_gaps; }

    Statistics pass_over(const Passes& pass, const Held& held, std::size_t first, std::size_t last, std::size_t rows,
                         float* scratch) const {
        std::vector<const float*> scores;
        for (std::size_t part = 0; part < parts_.size(); ++part) {
            float* into = held.waits ? held.scores[part].data() : scratch + part * rows - first * WIDTH;
            if (lists_)
                pass.scatter(held.asked[part].member, first, last, n_, scratch + parts_.size() * rows, into);
            else
                pass.walk(held.asked[part].member, first, last, into);
            for (const Sharp& sharp : held.asked[part].sharp)
                add_matches(storages_[parts_[part].storage], sharp, first * WIDTH, std::min(last * WIDTH, n_), into);
            scores.push_back(into);
        }
        if (held.waits) return {0, 0, true};
        return pooled(pass, held, scores, std::vector<float>(parts_.size(), LOWEST), first, last);
    }

    // Adds log(1 + exp(worth) * (the sum over both places of a normal bump)) to the rows [first, last) that have a value.
    void add_matches(const Storage& stored, const Sharp& sharp, std::size_t first, std::size_t last, float* into) const {
        auto add = [&](std::size_t row, float value) {
            if (std::isnan(value)) return;
            double low = sharp.low - sharp.slope * value, high = sharp.high - sharp.slope * value;
            into[row] += static_cast<float>(log_sum(0, sharp.worth + log_sum(-0.5 * low * low, -0.5 * high * high)));
        };
        if (!lists_) {
            for (std::size_t row = first; row < last; ++row) add(row, stored.values[at(stored.columns, row, sharp.column)]);
            return;
        }
        const std::uint32_t* rows = lists_->rows.data();
        const std::uint32_t* end = rows + lists_->starts[sharp.column + 1];
        for (const std::uint32_t* next = std::lower_bound(rows + lists_->starts[sharp.column], end, first);
             next < end && *next < last; ++next)
            add(*next, stored.values[next - rows]);
    }

    Statistics pooled(const Passes& pass, const Held& held, const std::vector<const float*>& scores,
                      const std::vector<float>& fills, std::size_t first, std::size_t last) const {
        std::vector<float> weights;
        for (const Part& part : parts_) weights.push_back(static_cast<float>(part.weight));
        Pooled job{scores.data(), weights.data(), fills.data(), parts_.size()};
        return pass.pool(job, prior_.empty() ? nullptr : prior_.data(), first, last, n_, held.plain.data(),
                         held.total.data(), held.largest.data());
    }

    // The worst score that a member knows stands for those that it does not; zero if it knows none.
    void pool_late(const Passes& pass, Held& held, const Allowed& allowed) const {
        std::vector<const float*> scores;
        std::vector<float> fills;
        bool is_known = false;
        for (std::size_t part = 0; part < parts_.size(); ++part) {
            float worst = INFINITY;
            const float* own = held.scores[part].data();
            for (std::size_t row = 0; row < n_; ++row)
                if (own[row] > LOWEST && allowed.has(row)) worst = std::min(worst, own[row]);
            is_known |= worst < INFINITY && parts_[part].weight > 0;
            fills.push_back(worst < INFINITY ? worst : 0.0f);
            scores.push_back(own);
        }
        if (!is_known) {  // nothing is known of this query at all
            for (Aligned<float>& own : held.scores) std::fill_n(own.data(), padded_, LOWEST);
            std::vector<float> one{1.0f}, lowest{LOWEST};
            Pooled job{scores.data(), one.data(), lowest.data(), 1};
            held.seen = pass.pool(job, prior_.empty() ? nullptr : prior_.data(), 0, padded_ / WIDTH, n_,
                                  held.plain.data(), held.total.data(), held.largest.data());
            return;
        }
        held.seen = pooled(pass, held, scores, fills, 0, padded_ / WIDTH);
    }

    // As if the rows that may not be answered were not stored.
    void leave_out(Held& held, const Allowed& allowed) const {
        const Aligned<float>& plain = prior_.empty() ? held.total : held.plain;
        held.seen.known = held.seen.sum = 0;
        for (std::size_t row = 0; row < n_; ++row) {
            if (!allowed.has(row)) {
                held.total[row] = plain[row] = -INFINITY;
            } else if (plain[row] > 0.5f * LOWEST) {
                held.seen.known += 1, held.seen.sum += plain[row];
            }
        }
        settle_largest(held);
    }

    void settle_largest(Held& held) const {
        for (std::size_t block = 0; block < padded_ / WIDTH; ++block)
            held.largest[block] = *std::max_element(&held.total[block * WIDTH], &held.total[block * WIDTH] + WIDTH);
    }

    void answer(const Passes& pass, Held& held, std::size_t k, std::int64_t* ids, float* posterior, double* odds,
                const Allowed& allowed) const {
        const float* plain = prior_.empty() ? held.total.data() : held.plain.data();
        double own = held.seen.known;
        *odds = detector_.empty() ? 0 : odds_of_unknown(pass, held, plain, allowed);
        double known = own;
        if (!prior_.empty() && own == 0) {  // a query that nothing is known of gets the prior
            for (std::size_t row = 0; row < n_; ++row) held.total[row] = allowed.has(row) ? prior_[row] : -INFINITY;
            settle_largest(held);
            known = static_cast<double>(allowed.possible);
        }
        std::fill_n(ids, k, -1), std::fill_n(posterior, k, 0.0f);
        std::vector<std::pair<float, std::size_t>> best = best_rows(held.total.data(), held.largest.data(), k, allowed);
        if (best.empty()) return;
        float top = best[0].first;
        double log_mass = std::log(pass.mass(held.total.data(), padded_, top, static_cast<float>(beta_)));
        for (std::size_t place = 0; place < best.size(); ++place) {
            auto [score, row] = best[place];
            double share = std::exp(beta_ * (static_cast<double>(score) - top) - log_mass);
            if (floor_ > 0) {
                double among = known > 0 ? known : static_cast<double>(allowed.count);
                share = (1 - floor_) * share + floor_ / among;
                if (known > 0 && !(score > 0.5f * LOWEST)) share = 0;
            }
            ids[place] = static_cast<std::int64_t>(row);
            posterior[place] = score > -INFINITY ? static_cast<float>(share) : 0.0f;
        }
    }

    // Best first; of equals the first row.
    std::vector<std::pair<float, std::size_t>> best_rows(const float* scores, const float* largest, std::size_t k,
                                                         const Allowed& allowed) const {
        using Entry = std::pair<float, std::size_t>;
        auto is_better = [](const Entry& a, const Entry& b) {
            return a.first > b.first || (a.first == b.first && a.second < b.second);
        };
        std::vector<Entry> heap;  // the worst of the best on top
        for (std::size_t block = 0; block < padded_ / WIDTH; ++block) {
            if (heap.size() == k && !(largest[block] > heap.front().first)) continue;
            for (std::size_t row = block * WIDTH; row < std::min((block + 1) * WIDTH, n_); ++row) {
                if (!allowed.has(row)) continue;
                if (heap.size() == k) {
                    if (!(scores[row] > heap.front().first)) continue;
                    std::pop_heap(heap.begin(), heap.end(), is_better);
                    heap.pop_back();
                }
                heap.emplace_back(scores[row], row);
                std::push_heap(heap.begin(), heap.end(), is_better);
            }
        }
        std::sort(heap.begin(), heap.end(), is_better);
        return heap;
    }

    // The largest of each block of the scores without the prior.
    const float* largest_of(Held& held, const float* plain) const {
        if (prior_.empty()) return held.largest.data();
        held.tops = Aligned<float>(padded_ / WIDTH);
        for (std::size_t block = 0; block < held.tops.size(); ++block)
            held.tops[block] = *std::max_element(plain + block * WIDTH, plain + (block + 1) * WIDTH);
        return held.tops.data();
    }

    // Log odds that the query comes from no stored pattern, by the scores without the prior.
    double odds_of_unknown(const Passes& pass, Held& held, const float* plain, const Allowed& allowed) const {
        if (allowed.possible == 0) return INFINITY;
        std::vector<std::pair<float, std::size_t>> two = best_rows(plain, largest_of(held, plain), 2, allowed);
        std::size_t place = two[0].second;
        double best = two[0].first, rest = -INFINITY;
        float second = two.size() > 1 ? two[1].first : -INFINITY;
        float* scores = const_cast<float*>(plain);  // ours: without its best for a moment
        scores[place] = -INFINITY;
        if (second > -INFINITY) rest = second + std::log(pass.mass(plain, padded_, second, 1.0f));
        scores[place] = static_cast<float>(best);
        double known = held.seen.known, mean = held.seen.sum / std::max(known, 1.0), rows = static_cast<double>(allowed.possible);
        double squares = pass.squares(plain, padded_, static_cast<float>(mean));
        double features[4] = {log_sum(best, rest) - std::log(rows),
                              best - (rows > 1 ? rest - std::log(rows - 1) : best), mean,
                              std::sqrt(squares / std::max(known, 1.0))};
        double log_odds = odds_ - detector_[12];
        for (int i = 0; i < 4; ++i) {
            double feature = std::isnan(features[i]) ? LARGEST_FEATURE : features[i];
            feature = std::min(std::max(feature, -LARGEST_FEATURE), LARGEST_FEATURE);
            log_odds -= (feature - detector_[i]) / detector_[4 + i] * detector_[8 + i];
        }
        return log_odds;
    }

    std::optional<Rows> given_;
    std::size_t n_, d_, padded_;
    std::optional<Lists> lists_;
    Chain chain_;
    std::vector<Chain> chains_;  // of each part, with what moves queries alone
    std::vector<Storage> storages_;
    std::vector<Part> parts_;
    bool is_pool_ = false;
    double beta_ = 1, floor_ = 0, odds_ = 0;
    std::size_t possible_ = 0;
    Aligned<float> prior_;
    Row detector_;  // center, scale and slopes, four each, and the offset
};

}  // namespace

void define_plan(nb::module_& module) {
    using namespace nb::literals;
    nb::class_<Plan>(module, "Plan")
        .def(nb::init<const Rows&, bool>(), "patterns"_a.noconvert(), "as_lists"_a)
        .def("begin", &Plan::begin)
        .def("move", &Plan::move, "offset"_a.noconvert(), "gain"_a.noconvert())
        .def("transform", &Plan::transform, "way"_a, "low"_a = 0.0, "high"_a = 1.0, "exponent"_a = 1.0,
             "missing"_a = NAN_)
        .def("select", &Plan::select, "places"_a)
        .def("add_metric", &Plan::add_metric, "measure"_a, "weight"_a)
        .def("add_tables", &Plan::add_tables)
        .def("add_mixture", &Plan::add_mixture)
        .def("add_silence", &Plan::add_silence)
        .def("finish", &Plan::finish, "is_pool"_a, "beta"_a, "floor"_a, "prior"_a.none(), "detector"_a.none(), "odds"_a)
        .def("rank", &Plan::rank, "queries"_a.noconvert(), "ids"_a.noconvert(), "posterior"_a.noconvert(),
             "odds"_a.noconvert(), "threads"_a, "allowed"_a.none() = nb::none())
        .def_prop_ro("bytes", &Plan::bytes);
}

}  // namespace ahop
