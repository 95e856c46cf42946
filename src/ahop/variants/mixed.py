"""The paper's mixed variant: noise, a mask and a bias."""

from math import floor, lgamma, log
from typing import Literal, final

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus
from typing_extensions import override

from ahop._core.blocks import CACHE_BYTES, blocks
from ahop._core.checks import check_choice, check_not_negative, check_rate
from ahop._core.kernels.sorting import sort_ascending_
from ahop._core.typing import Patterns, Queries, Scores, Vector
from ahop.variants.base import Variant

LEAST_STD = 1e-5
TILT_STEPS = 4


@final
class MixedVariant(Variant):
    r"""Noise, then exactly $\lfloor d \cdot \text{mask} \rfloor$ dimensions redrawn from $U[-1, 1]$, then $\pm$bias.

    Args:
        mask: share of the dimensions that is redrawn.
        noise: what the paper calls $d_\text{noise}$. Its text says variance, its figures need a standard deviation.
        bias: size of the shift of every dimension.
        reading: "std" if `noise` is a standard deviation, "variance" if it is a variance, as the paper's text says.
        signs: of the bias. "constant" draws them once for the distribution, as the definition of biased variants
            says; "per_query" draws them anew for every query, as the paper's generator does.
        seed: of the constant signs.
        mask_last: redraw after the bias, so that redrawn values lie within $[-1, 1]$. The paper's text says before, its
            figures need after; see `python -m experiments generator`.

    Paper:
        [apd:memory].
    """

    def __init__(
        self,
        mask: float,
        noise: float,
        bias: float,
        *,
        reading: Literal["std", "variance"] = "std",
        signs: Literal["constant", "per_query"] = "constant",
        seed: int = 0,
        mask_last: bool = False,
    ) -> None:
        super().__init__()
        self.mask = check_rate("mask", mask)
        self.noise = check_not_negative("noise", noise)
        self.bias = check_not_negative("bias", bias)
        self.reading = check_choice("reading", reading, ("std", "variance"))
        self.signs = check_choice("signs", signs, ("constant", "per_query"))
        self.seed = int(seed)
        self.mask_last = bool(mask_last)

    @override
    def configuration(self) -> dict[str, object]:
        return {
            "mask": self.mask,
            "noise": self.noise,
            "bias": self.bias,
            "reading": self.reading,
            "signs": self.signs,
            "seed": self.seed,
            "mask_last": self.mask_last,
        }

    @property
    def std(self) -> float:
        return self.noise if self.reading == "std" else self.noise**0.5

    def redrawn(self, dimensions: int) -> int:
        """Number of dimensions that the mask takes."""
        return floor(dimensions * self.mask + 1e-9)  # 100 * 0.57 is 56.99..., and 57 is meant

    def constant_bias(self, dimensions: int) -> Vector:
        """The shift that all queries share when the signs are constant."""
        generator = Generator().manual_seed(self.seed)
        return self.bias * _signs((dimensions,), generator)

    @override
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        queries = originals + self.std * torch.randn(originals.shape, generator=generator, dtype=originals.dtype)
        redrawn = torch.rand(originals.shape, generator=generator).argsort(-1)[:, : self.redrawn(originals.shape[1])]
        outliers = 2 * torch.rand(redrawn.shape, generator=generator, dtype=originals.dtype) - 1
        if self.signs == "constant":
            bias = self.constant_bias(originals.shape[1]).to(queries)
        else:
            bias = self.bias * _signs(tuple(originals.shape), generator).to(queries)
        if self.mask_last:
            queries = (queries + bias).scatter_(-1, redrawn, outliers)
        else:
            queries = queries.scatter_(-1, redrawn, outliers) + bias
        return queries.masked_fill(originals.isnan(), torch.nan)  # nothing was there to be redrawn

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        r"""$\log \binom{d}{m}^{-1} \sum_{|D| = m} \prod_{i \in D} g_i \prod_{i \notin D} f_i$, over what was redrawn.

        $f_i$ is the density of a kept dimension and $g_i$ of a redrawn one. The sum over the subsets is a
        coefficient of $\prod_i (f_i + z g_i)$, read off by the saddle-point formula; see `_subset_sum`.
        """
        dimensions = patterns.shape[-1]
        masked = self.redrawn(dimensions)
        if self.signs == "constant":
            shifts = [self.constant_bias(dimensions).to(patterns)]
        else:
            shifts = [torch.full_like(patterns[0], self.bias), torch.full_like(patterns[0], -self.bias)]
        moved = [torch.zeros_like(patterns[0])] if self.mask_last else shifts
        outliers = torch.logsumexp(torch.stack([_log_uniform(queries - shift) for shift in moved]), 0)
        outliers = outliers - log(len(moved))
        std = max(self.std, LEAST_STD)
        scores = patterns.new_empty(len(queries), len(patterns))
        for rows in blocks(len(queries), patterns.numel() * patterns.element_size(), CACHE_BYTES):
            kept = [_log_normal(queries[rows].unsqueeze(1) - patterns - shift, std) for shift in shifts]
            log_kept = kept[0] if len(kept) == 1 else torch.logaddexp(kept[0], kept[1]) - log(2)
            scores[rows] = _subset_sum(log_kept, outliers[rows].unsqueeze(1), masked)
        return scores - (lgamma(dimensions + 1) - lgamma(masked + 1) - lgamma(dimensions - masked + 1))


def _signs(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return 2.0 * torch.randint(0, 2, shape, generator=generator) - 1


def _log_uniform(values: Tensor) -> Tensor:
    # A hair wider than [-1, 1], so that rounding in x - b does not put a redrawn value outside.
    return torch.where(values.abs() <= 1 + 1e-5, values.new_tensor(log(0.5)), -torch.inf)


def _log_normal(values: Tensor, std: float) -> Tensor:
    return -0.5 * (values / std).square() - log(std) - 0.9189385332046727


def _subset_sum(log_kept: Tensor, log_outliers: Tensor, count: int) -> Tensor:
    r"""$\log$ of the coefficient of $z^m$ in $\prod_i (f_i + z g_i)$, over the last axis.

    With $K(t) = \sum_i \log(f_i + e^t g_i)$ it is $K(t) - mt - \tfrac12 \log 2\pi K''(t)$ at the $t$ where $K'(t) = m$:
    the number of redrawn dimensions has mean $m$ there. Exact to a relative error of about $1 / 12 K''$.
    """
    if count == 0:
        return log_kept.sum(-1)
    if count == log_kept.shape[-1]:
        return log_outliers.sum(-1).expand(log_kept.shape[:-1])
    # A dimension that only one of the two can explain has no part in the choice; large but finite keeps it so.
    odds = (log_outliers - log_kept).clamp(-1e30, 1e30)
    kept = odds.shape[-1] - count
    with torch.no_grad():
        # Start between the last dimension to be redrawn and the first to be kept.
        tilt = -sort_ascending_(odds.clone())[..., kept - 1 : kept + 1].mean(-1, keepdim=True)
        rates = torch.empty_like(odds)
        for _ in range(TILT_STEPS):
            torch.add(odds, tilt, out=rates).sigmoid_()
            mean = rates.sum(-1, keepdim=True)
            spread = mean - rates.mul_(rates).sum(-1, keepdim=True)
            tilt = tilt + _tilt_step(count, mean, spread)
    # The last step is done where gradients see it, which gives the tilt its derivative.
    rates = torch.sigmoid(odds + tilt)
    spread = (rates * (1 - rates)).sum(-1, keepdim=True)
    tilt = tilt + _tilt_step(count, rates.sum(-1, keepdim=True), spread)
    tilted = odds + tilt
    redrawn = tilted > 0
    # K(t) - mt, each dimension by the larger of its two addends: odds of any size cost no digits.
    addends = torch.where(redrawn, log_outliers, log_kept) + softplus(torch.where(redrawn, -tilted, tilted))
    total = addends.sum(-1) + (redrawn.sum(-1) - count) * tilt.squeeze(-1)
    # Where the choice is beyond doubt the sum has one term, and the density must not exceed its probability.
    total = total - 0.5 * torch.log((2 * torch.pi * spread.squeeze(-1)).clamp_min(1))
    return total.masked_fill(torch.isneginf(log_outliers).sum(-1) > kept, -torch.inf)


def _tilt_step(count: int, mean: Tensor, spread: Tensor) -> Tensor:
    return ((count - mean) / spread.clamp_min(0.1)).clamp(-2, 2)
