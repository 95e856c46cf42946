"""Low-rank nuisance: the likelihood against dense Gaussians, and the fit against truths that are known."""

import gzip
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor
from torch.autograd import gradcheck
from torch.distributions import MultivariateNormal
from torch.testing import assert_close

from ahop.errors import InvalidValueError, ShapeError
from ahop.fitting.corruption.nuisance import fit_nuisance
from ahop.memory.likelihood import LikelihoodSimilarity
from ahop.variants.nuisance import NuisanceVariant

MISSING = (0.0, 0.3, 1.0)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def with_holes(values: Tensor, share: float, seed: int = 0) -> Tensor:
    holes = torch.rand(values.shape, generator=Generator().manual_seed(seed)) < share
    return values.masked_fill(holes, torch.nan)


def variant(dimensions: int, rank: int = 3, noise: float = 0.1, gain: float = 0.3) -> NuisanceVariant:
    made = NuisanceVariant(dimensions, rank)
    made.bias.copy_(random(dimensions, seed=1))
    made.std.copy_(noise * (1 + random(dimensions, seed=2).abs()))
    made.directions[:, 0] = 0.5
    made.directions[:, 1] = 0.3 * torch.linspace(-1, 1, dimensions)
    made.directions[:, 2:] = 0.4 * random(dimensions, rank, seed=3)
    made.gain_std.fill_(gain)
    made.center.copy_(random(dimensions, seed=4))
    made.spread.copy_(0.5 + random(dimensions, seed=5).abs())
    return made


def dense(model: NuisanceVariant, pattern: Tensor, query: Tensor) -> Tensor:
    """The definition, with matrices of d x d."""
    holes, seen = pattern.isnan(), ~query.isnan()
    mean = torch.where(holes, model.center, pattern)
    gain = mean - model.center
    covariance = torch.diag(model.std.square() + holes * model.spread.square())
    covariance = covariance + model.directions @ model.directions.mT
    covariance = covariance + model.gain_std.square() * torch.outer(gain, gain)
    if not bool(seen.any()):
        return torch.tensor(0.0, dtype=torch.float64)
    return log_density((mean + model.bias)[seen], covariance[seen][:, seen], query[seen])


def log_density(mean: Tensor, covariance: Tensor, values: Tensor) -> Tensor:
    found: Tensor = MultivariateNormal(mean, covariance).log_prob(values)  # type: ignore[no-untyped-call]
    return found


# The likelihood.


@pytest.mark.parametrize(("in_patterns", "in_queries"), list(product(MISSING, MISSING)))
@pytest.mark.parametrize(("dimensions", "count", "batch"), [(1, 1, 1), (1, 4, 3), (2, 5, 1), (9, 1, 4), (25, 6, 5)])
def test_it_is_the_density_of_a_gaussian(
    dimensions: int, count: int, batch: int, in_patterns: float, in_queries: float
) -> None:
    model = variant(dimensions)
    patterns = with_holes(random(count, dimensions, seed=6), in_patterns)
    queries = with_holes(random(batch, dimensions, seed=7), in_queries, seed=1)
    expected = torch.stack([torch.stack([dense(model, pattern, query) for pattern in patterns]) for query in queries])
    assert_close(model.log_likelihood(patterns, queries), expected, rtol=1e-8, atol=1e-8)


def test_masks_that_repeat_and_masks_that_do_not_give_the_same() -> None:
    model, patterns = variant(8), with_holes(random(7, 8, seed=6), 0.3)
    queries = with_holes(random(2, 8, seed=7), 0.3)[[0, 1, 0, 0, 1]]
    one_by_one = [model.log_likelihood(pattern[None], query[None]) for query in queries for pattern in patterns]
    assert_close(model.log_likelihood(patterns, queries), torch.cat(one_by_one).view(5, 7))


def test_blocks_of_queries_give_the_same_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, patterns, queries = variant(8), random(7, 8, seed=6), with_holes(random(9, 8, seed=7), 0.3)
    together = model.log_likelihood(patterns, queries)
    one_each = lambda count, bytes_each: (slice(row, row + 1) for row in range(count))  # noqa: E731
    monkeypatch.setattr("ahop.variants.nuisance.blocks", one_each)
    assert_close(model.log_likelihood(patterns, queries), together)


@pytest.mark.parametrize("share", MISSING)
def test_the_background_is_a_gaussian_without_a_pattern(share: float) -> None:
    model, queries = variant(6), with_holes(random(5, 6, seed=7), share)
    covariance = torch.diag(model.std.square() + model.spread.square()) + model.directions @ model.directions.mT
    mean = model.center + model.bias
    for query, found in zip(queries, model.log_background(queries), strict=True):
        seen = ~query.isnan()
        if bool(seen.any()):
            expected = log_density(mean[seen], covariance[seen][:, seen], query[seen])
            assert_close(found, expected, rtol=1e-8, atol=1e-8)
        else:
            assert float(found) == 0


def test_evidence_is_the_likelihood_less_the_background_and_zero_for_an_unknown_pattern() -> None:
    model = variant(6)
    patterns, queries = with_holes(random(4, 6, seed=6), 0.3), with_holes(random(5, 6, seed=7), 0.3, seed=1)
    expected = model.log_likelihood(patterns, queries) - model.log_background(queries)[:, None]
    assert_close(model.evidence(patterns, queries), expected)
    unknown = torch.full((1, 6), torch.nan, dtype=torch.float64)
    assert_close(model.evidence(unknown, queries), torch.zeros(5, 1, dtype=torch.float64))


def test_as_a_similarity_it_is_the_evidence_gaps_and_all() -> None:
    model = variant(6)
    patterns, queries = with_holes(random(4, 6, seed=6), 0.3), with_holes(random(5, 6, seed=7), 0.3, seed=1)
    assert torch.equal(LikelihoodSimilarity(model)(patterns, queries), model.evidence(patterns, queries))


def test_evidence_tells_the_copies_of_a_pattern_from_strangers() -> None:
    model = variant(20, gain=0.1)
    patterns = model.center + model.spread * random(30, 20, seed=6)
    strangers = model.center + model.spread * random(30, 20, seed=8)
    generator = Generator().manual_seed(0)
    copies, others = (model.corrupt(originals, generator) for originals in (patterns, strangers))
    assert bool((model.evidence(patterns, copies).diagonal() > 0).all())
    assert bool((model.evidence(patterns, others) < 0).all())


@pytest.mark.parametrize(("in_patterns", "in_queries"), [(0.0, 0.0), (0.0, 0.3), (0.3, 0.0), (0.3, 0.3)])
def test_gradients_are_right(in_patterns: float, in_queries: float) -> None:
    model, patterns, queries = variant(4), random(3, 4, seed=6), random(2, 4, seed=7)
    holes, missing = with_holes(patterns, in_patterns).isnan(), with_holes(queries, in_queries, seed=1).isnan()

    def scores(patterns: Tensor, queries: Tensor) -> Tensor:
        return model.log_likelihood(
            patterns.masked_fill(holes, torch.nan), queries.masked_fill(missing, torch.nan)
        ) + model.evidence(patterns, queries)

    gradcheck(scores, (patterns.requires_grad_(), queries.requires_grad_()))


def test_missing_numbers_get_no_gradient_but_zero() -> None:
    model, patterns = variant(5), with_holes(random(3, 5, seed=6), 0.4).requires_grad_()
    queries = with_holes(random(2, 5, seed=7), 0.4, seed=1).requires_grad_()
    slopes = torch.autograd.grad(model.log_likelihood(patterns, queries).sum(), (patterns, queries))
    for values, slope in zip((patterns, queries), slopes, strict=True):
        assert bool(torch.isfinite(slope).all())
        assert not bool(slope[values.isnan()].any())


def test_the_dtype_that_comes_in_goes_out_and_float32_is_exact() -> None:
    model, patterns, queries = variant(12), (random(5, 12, seed=6) + 1e3).float(), (random(4, 12, seed=7) + 1e3).float()
    model.std.fill_(1e-3)
    exact = model.log_likelihood(patterns.double(), queries.double())
    found = model.log_likelihood(patterns, queries)
    assert found.dtype == model.evidence(patterns, queries).dtype == torch.float32
    assert exact.dtype == torch.float64
    assert_close(found, exact.float())
    assert_close(model.float().log_likelihood(patterns, queries), found, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("value", [1e30, -1e30, 1e19, 1e-40])
def test_numbers_of_any_size_give_finite_scores(value: float) -> None:
    patterns = torch.tensor([[value, 0.0], [0.0, 1.0], [-value, value], [value, torch.nan]])
    queries = torch.tensor([[value, value], [0.0, -value], [1.0, 2.0], [torch.nan, value]])
    model = variant(2)
    similarity = LikelihoodSimilarity(model)
    for dtype in (torch.float32, torch.float64):
        scores = model.log_likelihood(patterns.to(dtype), queries.to(dtype))
        assert scores.dtype == dtype
        assert bool(torch.isfinite(scores).all())
        assert bool(torch.isfinite(model.evidence(patterns.to(dtype), queries.to(dtype))).all())
        assert bool(torch.isfinite(similarity(patterns.to(dtype), queries.to(dtype))).all())


def test_directions_that_coincide_and_dwarf_the_noise_are_no_trouble() -> None:
    model, patterns = variant(5, gain=0.0), random(4, 5, seed=6)
    model.directions[:] = 1e9
    model.std.fill_(1e-3)
    scores = model.log_likelihood(patterns, patterns + model.bias + 7.0)
    assert bool(torch.isfinite(scores).all())
    assert torch.equal(scores.argmax(-1), torch.arange(4))


@pytest.mark.parametrize(("count", "dimensions", "batch"), [(1, 1, 1), (1, 4, 2), (3, 1, 2), (5, 4, 0), (1, 1, 0)])
def test_the_smallest_sizes_work(count: int, dimensions: int, batch: int) -> None:
    scores = variant(dimensions, 1).log_likelihood(random(count, dimensions), random(batch, dimensions))
    assert scores.shape == (batch, count)
    assert bool(torch.isfinite(scores).all())


def test_a_new_one_is_plain_noise_and_says_how_it_was_made() -> None:
    model, patterns, queries = NuisanceVariant(3, rank=2), random(4, 3), random(2, 3, seed=1)
    expected = log_density(patterns, torch.eye(3, dtype=torch.float64), queries[:, None])
    assert_close(model.log_likelihood(patterns, queries), expected)
    assert repr(model) == "NuisanceVariant(dimensions=3, rank=2)"


def test_it_can_be_built_without_memory_and_filled_from_a_file() -> None:
    given = variant(4)
    with torch.device("meta"):
        built = NuisanceVariant(**given.configuration())  # type: ignore[arg-type]
    built.load_state_dict(given.state_dict(), assign=True)
    patterns, queries = random(3, 4, seed=6), random(2, 4, seed=7)
    assert torch.equal(built.log_likelihood(patterns, queries), given.log_likelihood(patterns, queries))


def test_other_numbers_of_dimensions_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"`patterns` must have 4 dimensions.*got shape \(2, 3\)"):
        variant(4).log_likelihood(random(2, 3), random(2, 3))
    with pytest.raises(InvalidValueError, match="`rank`"):
        NuisanceVariant(4, rank=0)


# Samples.


def test_samples_have_the_mean_and_the_covariance_they_should() -> None:
    model, original = variant(5), random(5, seed=6)
    samples = model.corrupt(original.expand(200_000, -1), Generator().manual_seed(0))
    gain = original - model.center
    covariance = torch.diag(model.std.square()) + model.directions @ model.directions.mT
    covariance = covariance + model.gain_std.square() * torch.outer(gain, gain)
    assert_close(samples.mean(0), original + model.bias, rtol=0, atol=0.02)
    assert_close(samples.mT.cov(), covariance, rtol=0.03, atol=0.02)


def test_samples_keep_the_dtype_and_the_holes() -> None:
    originals = with_holes(random(6, 4), 0.3).float()
    samples = variant(4).corrupt(originals, Generator().manual_seed(0))
    assert samples.dtype == torch.float32
    assert torch.equal(samples.isnan(), originals.isnan())


# The fit.


def pairs(model: NuisanceVariant, count: int, missing: float = 0.0) -> tuple[Tensor, Tensor]:
    originals = model.center + model.spread * random(count, model.dimensions, seed=11)
    copies = model.corrupt(originals, Generator().manual_seed(12))
    return with_holes(originals, missing / 2, seed=13), with_holes(copies, missing, seed=14)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_many_pairs_give_back_what_made_them(missing: float) -> None:
    truth = variant(20, rank=2)
    fitted = fit_nuisance(*pairs(truth, 1500, missing), rank=2)
    assert_close(fitted.bias, truth.bias, rtol=0, atol=0.1)
    assert_close(fitted.std, truth.std, rtol=0.2, atol=0.01)
    assert_close(fitted.gain_std, truth.gain_std, rtol=0.1, atol=0)
    assert_close(fitted.center, truth.center, rtol=0, atol=0.15)
    assert_close(fitted.spread, truth.spread, rtol=0.1, atol=0)
    expected, found = (model.directions @ model.directions.mT for model in (truth, fitted))
    assert float((found - expected).norm() / expected.norm()) < 0.15


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_new_pairs_are_nearly_as_likely_as_under_the_truth(missing: float) -> None:
    truth = variant(20, rank=2)
    originals, copies = pairs(truth, 700, missing)
    fitted = fit_nuisance(originals[:500], copies[:500])
    new = originals[500:], copies[500:]
    loss = (truth.log_likelihood(*new) - fitted.log_likelihood(*new)).diagonal().mean()
    assert float(loss) < 0.6


def test_directions_that_are_not_there_come_out_small() -> None:
    truth = variant(30, rank=1)
    truth.directions.zero_()
    truth.gain_std.zero_()
    fitted = fit_nuisance(*pairs(truth, 200))
    assert float(fitted.directions.square().sum(-1).mean()) < 0.1 * float(truth.std.square().mean())
    assert_close(fitted.std, truth.std, rtol=0.25, atol=0.0)


def test_a_bias_that_all_dimensions_share_is_learned_from_few_pairs() -> None:
    originals = random(4, 200, seed=1)
    copies = originals + 0.5 + 0.3 * random(4, 200, seed=2)
    error = (fit_nuisance(originals, copies).bias - 0.5).square().mean().sqrt()
    plain = ((copies - originals).mean(0) - 0.5).square().mean().sqrt()
    assert float(error) < 0.5 * float(plain)


def test_a_pair_of_weight_two_counts_as_two_and_one_of_weight_zero_not_at_all() -> None:
    originals, copies = pairs(variant(6, rank=1), 40)
    weights = torch.ones(40, dtype=torch.float64)
    weights[:10], weights[30:] = 2, 0
    weighted = fit_nuisance(originals, copies, weights=weights)
    rows = torch.cat([torch.arange(10), torch.arange(30)])
    repeated = fit_nuisance(originals[rows], copies[rows])
    for name in ("bias", "center", "spread"):
        assert_close(getattr(weighted, name), getattr(repeated, name), rtol=1e-2, atol=1e-2)


def test_units_do_not_matter() -> None:
    originals, copies = pairs(variant(6, rank=1), 30)
    plain, scaled = fit_nuisance(originals, copies), fit_nuisance(1e9 * originals, 1e9 * copies)
    for name in ("bias", "std", "center", "spread"):
        assert_close(1e9 * getattr(plain, name), getattr(scaled, name), rtol=1e-4, atol=1.0)
    assert_close(plain.gain_std, scaled.gain_std, rtol=1e-4, atol=1e-6)


def test_fitting_is_repeatable_and_leaves_the_random_numbers_of_others_alone() -> None:
    given, state = pairs(variant(6, rank=1), 30), torch.get_rng_state()
    first, second = fit_nuisance(*given), fit_nuisance(*given)
    assert torch.equal(torch.get_rng_state(), state)
    for name, values in first.state_dict().items():
        assert torch.equal(values, second.state_dict()[name])


HARD: dict[str, tuple[Tensor, Tensor]] = {
    "equal": (random(10, 6), random(10, 6)),
    "nothing but zeros": (torch.zeros(5, 3), torch.zeros(5, 3)),
    "constant columns": (random(10, 6) * torch.tensor([1.0, 0, 0, 1, 1, 0]), random(10, 6, seed=1)),
    "one original, many copies": (random(1, 6).expand(10, -1), random(10, 6, seed=1)),
    "two originals, many copies": (random(2, 6)[[0, 1] * 5], random(10, 6, seed=1)),
    "a column and a row missing": (
        random(10, 6),
        random(10, 6, seed=1).index_fill(1, torch.tensor(2), torch.nan).index_fill(0, torch.tensor(3), torch.nan),
    ),
    "nothing observed": (random(4, 3), torch.full((4, 3), torch.nan)),
    "no original observed": (torch.full((4, 3), torch.nan), random(4, 3)),
    "half missing in both": (with_holes(random(12, 6), 0.5), with_holes(random(12, 6, seed=1), 0.5, seed=1)),
    "huge": (1e30 * random(10, 6).float(), 1e30 * random(10, 6, seed=1).float()),
    "huge and small": (random(10, 6) * torch.logspace(-30, 30, 6), random(10, 6, seed=1)),
    "tiny": (1e-30 * random(10, 6), 1e-30 * random(10, 6, seed=1)),
    "infinite": (random(4, 3), random(4, 3, seed=1).index_fill(1, torch.tensor(0), torch.inf)),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_pairs_give_finite_numbers(name: str) -> None:
    is_usable(fit_nuisance(*HARD[name]), *HARD[name])


@pytest.mark.parametrize(("count", "dimensions"), list(product((1, 2, 3, 4, 6), (1, 2, 12))))
def test_few_pairs_give_finite_numbers(count: int, dimensions: int) -> None:
    originals = random(count, dimensions).float()
    copies = originals + 0.5 + 0.1 * random(count, dimensions, seed=1).float()
    fitted = fit_nuisance(originals, copies, rank=4)
    is_usable(fitted, originals, copies)
    # Wrong by the mean of a few errors of 0.1, and by no more.
    assert_close(fitted.bias, torch.full_like(fitted.bias, 0.5), rtol=0, atol=0.25)


def is_usable(fitted: NuisanceVariant, originals: Tensor, copies: Tensor) -> None:
    assert all(bool(torch.isfinite(values).all()) for values in fitted.buffers())
    assert bool((fitted.std > 0).all())
    copies = copies.masked_fill(copies.isinf(), torch.nan)
    assert bool(torch.isfinite(fitted.log_likelihood(originals, copies)).all())
    assert bool(torch.isfinite(fitted.log_background(copies)).all())


def test_what_cannot_be_pairs_is_refused(unchecked: None) -> None:
    with pytest.raises(ShapeError, match=r"the same shape \(m, d\).*got \(3, 2\) and \(2, 2\)"):
        fit_nuisance(random(3, 2), random(2, 2))
    with pytest.raises(ShapeError, match="the same shape"):
        fit_nuisance(random(0, 2), random(0, 2))
    with pytest.raises(InvalidValueError, match="`weights` must be zero or larger"):
        fit_nuisance(random(3, 2), random(3, 2), weights=-torch.ones(3))
    with pytest.raises(InvalidValueError, match="`weights` must be positive for at least one"):
        fit_nuisance(random(3, 2), random(3, 2), weights=torch.zeros(3))
    with pytest.raises(InvalidValueError, match="`rank`"):
        fit_nuisance(random(3, 2), random(3, 2), rank=0)


# Real instruments.


def spectra(folder: Path, name: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Wavelengths, and the spectrum of each sample."""
    with gzip.open(folder / "sugarcane_nir" / f"{name}.csv.gz", "rt") as file:
        header, *lines = [line.split(";") for line in file if line.strip()]
    numbers = {line[0].strip(): torch.tensor([float(cell) for cell in line[1:]]).double() for line in lines}
    return torch.tensor([float(cell) for cell in header[1:]]).double(), numbers


def both_instruments(folder: Path, stored: str, other: str) -> tuple[Tensor, Tensor]:
    """Spectra of the same samples, on the wavelengths of the first that the second has too."""
    (grid, first), (wavelengths, second) = spectra(folder, stored), spectra(folder, other)
    common = (grid >= wavelengths[0]) & (grid <= wavelengths[-1])
    right = torch.searchsorted(wavelengths, grid[common]).clamp(1, len(wavelengths) - 1)
    share = (grid[common] - wavelengths[right - 1]) / (wavelengths[right] - wavelengths[right - 1])
    samples = sorted(first)
    resampled = torch.stack([second[sample] for sample in samples])
    resampled = torch.lerp(resampled[:, right - 1], resampled[:, right], share)
    return torch.stack([first[sample] for sample in samples])[:, common], resampled


def standardized(values: Tensor) -> Tensor:
    centered = values - values.mean(-1, keepdim=True)
    return centered / centered.square().sum(-1, keepdim=True).sqrt()


@pytest.mark.slow
@pytest.mark.parametrize(("other", "least"), [("Micronir2200", 0.75), ("Nirscan_nano", 0.6), ("Tellspec", 0.5)])
def test_twenty_pairs_teach_a_real_instrument(data_folder: Path, other: str, least: float) -> None:
    patterns, queries = both_instruments(data_folder, "Micronir1700rep1", other)
    shares = []
    for seed in range(5):
        order = torch.randperm(60, generator=Generator().manual_seed(seed))
        known, new = order[:20], order[20:]
        bias = (queries[known] - patterns[known]).mean(0)
        fitted = fit_nuisance(patterns[known], queries[known])
        scores = [
            fitted.log_likelihood(patterns, queries[new]),
            standardized(queries[new]) @ standardized(patterns).mT,
            -torch.cdist(queries[new] - bias, patterns),
        ]
        shares.append([float((each.argmax(-1) == new).double().mean()) for each in scores])
    learned, correlation, debiased = torch.tensor(shares).mean(0).tolist()
    assert learned > least
    assert learned > correlation + 0.3
    assert learned > debiased + 0.2
