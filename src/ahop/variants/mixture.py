"""A corruption that is learned: each entry kept, an outlier, or missing."""

from math import log, pi
from typing import final

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus
from typing_extensions import override

from ahop._core.blocks import pair_blocks
from ahop._core.checks import check_count
from ahop._core.kernels.likelihoods import (
    mixture_marginals,
    mixture_scores,
    paired_mixture_scores,
    serves_marginals,
    serves_mixture,
)
from ahop._core.missing import filled, observed
from ahop._core.missingness import Missingness
from ahop._core.typing import Patterns, PerDimension, PerQuery, Queries, Scores
from ahop.variants.base import FactorizedVariant
from ahop.variants.density import StepDensity

# How many quantiles of each dimension stand for the population that unknown origins come from.
POPULATION = 33
# A distance whose square is beyond doubt, and still a number in float32.
FAR = 1e18
# Its exponential is a normal number in float32, and so is its inverse.
EXPONENT = 80.0
# Standard deviations within which an entry may have been kept.
KEPT_WITHIN = 6.0
# Small enough for the inner caches: each block is walked several times.
BLOCK_BYTES = 2**18


@final
class MixtureVariant(FactorizedVariant):
    r"""$p(x_i \mid \xi_i) = (1 - g_i)\,\mathcal N(x_i; a_i \xi_i + b_i, \sigma_i^2) + g_i\,G(x_i)$, unless missing.

    Kept with its gain, bias and noise, or replaced by an outlier whose density all dimensions share; or not observed,
    which is NaN and has a rate of its own. Every number is learned from pairs, see `ahop.fit`.

    Args:
        signs: the bias of a kept dimension is $+b_i$ or $-b_i$, drawn anew for every query.
    """

    handles_missing = True
    gain: Tensor
    bias: Tensor
    std: Tensor
    outlier_rate: Tensor
    center: Tensor
    scale: Tensor
    population: Tensor

    def __init__(self, dimensions: int, signs: bool = False) -> None:
        super().__init__()
        self.dimensions, self.signs = check_count("dimensions", dimensions), bool(signs)
        self.register_buffer("gain", torch.ones(dimensions))
        self.register_buffer("bias", torch.zeros(dimensions))
        self.register_buffer("std", torch.ones(dimensions))
        self.register_buffer("outlier_rate", torch.full((dimensions,), 0.01))
        # Outliers are looked up at (x - center) / scale: where dimensions have units of their own, outliers have too.
        self.register_buffer("center", torch.zeros(dimensions))
        self.register_buffer("scale", torch.ones(dimensions))
        self.register_buffer("population", torch.zeros(dimensions, POPULATION))
        self.outliers = StepDensity()
        self.missingness = Missingness(dimensions)

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "signs": self.signs}

    @property
    def shift(self) -> Tensor:
        """Shift that all copies share: the bias, unless its sign is drawn anew for each."""
        return torch.zeros_like(self.bias) if self.signs else self.bias

    @override
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        return self.drawn(originals, self.std, generator)

    def drawn(self, originals: Queries, std: Tensor, generator: Generator) -> Queries:
        """Copies whose noise has this standard deviation, of each dimension or each entry."""
        shape, dtype = tuple(originals.shape), originals.dtype
        bias = self.bias.to(dtype)
        if self.signs:
            bias = bias * (2 * torch.randint(0, 2, shape, generator=generator) - 1)
        noise = torch.randn(shape, generator=generator, dtype=dtype)
        queries = self.gain.to(dtype) * originals + bias + std.to(dtype) * noise
        outliers = self.center + self.scale * self.outliers.sample(shape, generator)
        redrawn = torch.rand(shape, generator=generator) < self.outlier_rate
        queries = torch.where(redrawn & ~torch.isnan(originals), outliers.to(dtype), queries)
        missing = torch.rand(shape, generator=generator) < self.missingness.rates(originals)
        return queries.masked_fill(missing, torch.nan)

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        return self.evidence(patterns, queries) + self.log_background(queries).unsqueeze(-1)

    def log_background(self, queries: Queries) -> PerQuery:
        r"""$\log p_0(x)$: the query of an origin that is not stored, dimension by dimension."""
        values = self._log_outliers_and_marginal(queries)[1]
        return (self.log_gaps(queries) + values.masked_fill(torch.isnan(queries), 0)).sum(-1)

    def log_gaps(self, queries: Queries) -> Tensor:
        """Log-probability of each entry to be there or not, whatever its value would be, (b, d)."""
        base = self.missingness.base.to(queries.dtype)
        return -softplus(torch.where(torch.isnan(queries), -base, base))

    @override
    def evidence(self, patterns: Patterns, queries: Queries) -> Scores:
        """The sum of `evidence_per_dimension`; without gradients nothing of its size is ever held."""
        if torch.is_grad_enabled() and (patterns.requires_grad or queries.requires_grad):
            return self.evidence_per_dimension(patterns, queries).sum(-1)
        return self._evidence(patterns, queries, self._of_queries(queries))

    def own_and_other_evidence(self, originals: Queries, others: Patterns, queries: Queries) -> tuple[PerQuery, Scores]:
        """For the original in the same row as each query, (b,), and for all others, (b, n)."""
        rows, of_queries = torch.arange(len(queries), device=queries.device).unsqueeze(-1), self._of_queries(queries)
        own = self._paired_evidence(originals, rows, queries, of_queries)
        return own.squeeze(-1), self._evidence(others, queries, of_queries)

    def _evidence(self, patterns: Patterns, queries: Queries, of_queries: tuple[Tensor, Tensor, Tensor]) -> Scores:
        asked, sharpness, alone = of_queries
        shifts = self._shifts(queries.dtype)
        sharpness = sharpness - log(len(shifts))
        gaps = self.missingness.evidence(patterns, queries)
        if serves_mixture(patterns, sharpness):
            return mixture_scores(patterns, asked, sharpness, alone, self._slopes(queries.dtype), shifts) + gaps
        # Dimensions where a match is worth more than an exponential can say are few, and are added one by one.
        sharp = (sharpness >= EXPONENT).any(0)
        common = sharpness.masked_fill(sharp, -FAR)
        stored, seen = self._of_patterns(patterns)
        if serves_mixture(patterns, common):
            scores = mixture_scores(patterns, asked, common, alone, self._slopes(queries.dtype), shifts) + gaps
        else:
            scores = alone @ seen.mT + gaps + _matches(stored, asked, common, shifts)
        if bool(sharp.any()):
            scores += _matches(stored[:, sharp], asked[:, sharp], sharpness[:, sharp], shifts[:, sharp])
        return scores

    @override
    def evidence_per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        return self.evidence_and_kept(patterns, queries)[0]

    def evidence_and_kept(self, patterns: Patterns, queries: Queries) -> tuple[PerDimension, Tensor]:
        """Log-likelihood ratio of each dimension, and whether it was kept rather than an outlier; both (b, n, d)."""
        asked, sharpness, alone = self._of_queries(queries)
        stored, seen = self._of_patterns(patterns)
        deviation = asked.unsqueeze(-2) - stored.unsqueeze(-3)
        shift = self._shift_in_stds(queries.dtype)
        bump = log_two_bumps(deviation, shift) if self.signs else -0.5 * deviation.square()
        exponent = bump + sharpness.unsqueeze(-2)
        is_kept = (exponent > 0) & _is_within(bump)
        in_range = not torch.is_grad_enabled() and (not sharpness.numel() or float(sharpness.max()) < EXPONENT)
        values = _log_one_plus_([exponent], True) if in_range else softplus(exponent)
        values = values + alone.unsqueeze(-2) * seen.unsqueeze(-3)
        return values + self.missingness.evidence_per_dimension(patterns, queries), is_kept

    @override
    def paired_evidence(self, patterns: Tensor, rows: Tensor, queries: Tensor) -> Tensor:
        return self._paired_evidence(patterns, rows, queries, self._of_queries(queries))

    def _paired_evidence(
        self, patterns: Tensor, rows: Tensor, queries: Tensor, of_queries: tuple[Tensor, Tensor, Tensor]
    ) -> Tensor:
        asked, sharpness, alone = of_queries
        shifts = self._shifts(queries.dtype)
        sharpness = sharpness - log(len(shifts))
        if self.missingness.is_evidence or not serves_mixture(patterns, sharpness):
            return super().paired_evidence(patterns, rows, queries)
        return paired_mixture_scores(patterns, rows, asked, sharpness, alone, self._slopes(queries.dtype), shifts)

    def _of_queries(self, queries: Queries) -> tuple[Tensor, Tensor, Tensor]:
        """Places in standard deviations, how much a match there is worth, and what is said without one; all (b, d).

        A value that was not observed is worth nothing, which spares the pairs a mask.
        """
        outliers, marginal = self._log_outliers_and_marginal(queries)
        unseen, std = torch.isnan(queries), self.std.to(queries.dtype)
        worth = self._log_kept_rate(queries.dtype) - std.log() - 0.5 * log(2 * pi) - outliers
        place = filled(queries) if self.signs else filled(queries) - self.bias.to(queries.dtype)
        return place / std, worth.masked_fill(unseen, -FAR), (outliers - marginal).masked_fill(unseen, 0)

    def _of_patterns(self, patterns: Patterns) -> tuple[Tensor, Tensor]:
        """Places in standard deviations, too far away to match anything where not observed; and where observed."""
        expected = self.gain.to(patterns.dtype) * filled(patterns) / self.std.to(patterns.dtype)
        return expected.masked_fill(torch.isnan(patterns), FAR), observed(patterns)

    def _shift_in_stds(self, dtype: torch.dtype) -> Tensor:
        return (self.bias / self.std).to(dtype)

    def _shifts(self, dtype: torch.dtype) -> Tensor:
        """Places of matches beside the place asked for, (s, d)."""
        shift = self._shift_in_stds(dtype)
        return torch.stack([shift, -shift] if self.signs else [torch.zeros_like(shift)])

    def _slopes(self, dtype: torch.dtype) -> Tensor:
        return self.gain.to(dtype) / self.std.to(dtype)

    def log_outliers(self, values: Tensor) -> Tensor:
        r"""$\log g_i G(x_i)$."""
        center, scale, rate = (each.to(values.dtype) for each in (self.center, self.scale, self.outlier_rate))
        return self.outliers.log_prob((values - center) / scale) - scale.log() + rate.log()

    def _log_kept_rate(self, dtype: torch.dtype) -> Tensor:
        return torch.log1p(-self.outlier_rate.to(dtype))

    def _log_outliers_and_marginal(self, queries: Queries) -> tuple[Tensor, Tensor]:
        r"""$\log g_i G(x_i)$ and $\log p_0(x_i)$, the second of which is made of the first; anything at gaps."""
        if serves_marginals(self.population, queries):
            parameters = [self.gain, self.bias, self.std, self.outlier_rate, self.center, self.scale]
            density = self.outliers
            outliers, marginal = mixture_marginals(
                queries, parameters, self.population, density.log_density, density.ends, self.signs
            )
            return outliers, marginal
        values = filled(queries)
        outliers = self.log_outliers(values)
        kept = self._log_bumps(values) - log(POPULATION) - 0.5 * log(2 * pi) + self._log_kept_rate(values.dtype)
        return outliers, torch.logaddexp(kept, outliers)

    def _log_bumps(self, values: Tensor) -> Tensor:
        """Logarithm of the sum over the population's quantiles, each as wide as the gap to its neighbors."""
        places, stds = self.population_bumps(values.dtype)
        bias = self.bias.to(values.dtype)
        total = torch.full_like(values, -torch.inf)
        for place, std in zip(places.mT, stds.mT, strict=True):
            deviation = (values - place - (0 if self.signs else bias)) / std
            exponent = log_two_bumps(deviation, bias / std) if self.signs else -0.5 * deviation.square()
            total = torch.logaddexp(total, exponent - std.log())
        return total

    def population_bumps(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Center of each quantile's bump without the bias, and its width, (d, POPULATION) each."""
        places = self.gain.to(dtype).unsqueeze(-1) * self.population.to(dtype)
        reach = torch.nn.functional.pad(places, (1, 1), mode="replicate")
        gaps = (reach[:, 2:] - reach[:, :-2]) / 2
        return places, torch.hypot(self.std.to(dtype).unsqueeze(-1), gaps)  # no square leaves the range of float32


def _is_within(bump: Tensor) -> Tensor:
    """True if an entry is no farther off than noise may go, by the logarithm of its bump."""
    return bump > -0.5 * KEPT_WITHIN**2 - log(2)


def _matches(stored: Tensor, asked: Tensor, sharpness: Tensor, shifts: Tensor) -> Scores:
    r"""$\sum_i \log(1 + \sum_s e^{w_i - (a_i - t_{si} - \xi_i)^2 / 2})$, a block after the other."""
    scores = asked.new_empty(len(asked), len(stored))
    in_range = not sharpness.numel() or float(sharpness.max()) < EXPONENT
    pair_bytes = stored.shape[1] * stored.element_size()
    for rows, columns in pair_blocks(len(asked), len(stored), pair_bytes, BLOCK_BYTES):
        deviations = [(asked[rows] - each).unsqueeze(1) - stored[columns] for each in shifts]
        exponents = [
            torch.addcmul(sharpness[rows].unsqueeze(1), each, each, value=-0.5, out=each) for each in deviations
        ]
        scores[rows, columns] = _log_one_plus_(exponents, in_range).sum(-1)
    return scores


def _log_one_plus_(exponents: list[Tensor], in_range: bool) -> Tensor:
    r"""$\log(1 + \sum e^t)$, in place, to the last digit that a sum over dimensions can show.

    The functions of torch that keep all digits of small results take ten times as long.
    """
    if not in_range:
        largest = exponents[0] if len(exponents) == 1 else torch.logsumexp(torch.stack(exponents), 0)
        return largest.abs().clamp_max_(EXPONENT).neg_().exp_().add_(1).log_().add_(largest.clamp_min_(0))
    total = exponents[0].clamp_min_(-EXPONENT).exp_()
    for more in exponents[1:]:
        total += more.clamp_min_(-EXPONENT).exp_()
    return total.add_(1).log_()


def log_two_bumps(deviation: Tensor, shift: Tensor) -> Tensor:
    r"""$\log \tfrac12 (e^{-(z - s)^2/2} + e^{-(z + s)^2/2})$."""
    product = (deviation * shift).abs()
    return product - 0.5 * (deviation.square() + shift.square()) + torch.log(1 + torch.exp(-2 * product)) - log(2)
