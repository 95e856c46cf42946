"""Nuisance of instruments: an offset, a slope, a gain and a few shared directions, beside noise."""

from math import log, pi
from typing import final

import torch
from torch import Generator, Tensor
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.checks import check_count
from ahop._core.tensors import saturate
from ahop._core.typing import Patterns, PerDimension, PerQuery, Queries, Scores
from ahop.errors import ShapeError
from ahop.variants.base import Variant

# Beyond this a square would leave the range of float64.
LARGEST = 1e100
# Share of its diagonal that is added to a matrix that rounding has made singular.
JITTER = 1e-10


@final
class NuisanceVariant(Variant):
    r"""$x - \xi \sim \mathcal N\bigl(b, \mathrm{diag}(s^2) + A A^\top + \gamma^2 (\xi - c)(\xi - c)^\top\bigr)$.

    $b$ is a shift that all queries share, $s$ the std of the noise, $\gamma$ the std of a gain about the mean $c$ of
    the patterns, and the columns of $A$ are directions that each query moves along by a random amount of its own: the
    offset, the slope, and `rank` others, each as long as the std of that amount.

    NaN is what was not observed. Such dimensions of a query are left out; in a pattern they are as unknown as before
    it was stored: drawn from $\mathcal N(c, \mathrm{spread}^2)$. So patterns with different holes can be compared.

    A new object is plain noise of std 1; `ahop.fitting.nuisance.fit_nuisance` fills it.

    Args:
        dimensions: d.
        rank: number of directions beside offset and slope.
    """

    handles_missing = True

    def __init__(self, dimensions: int, rank: int = 8) -> None:
        super().__init__()
        self.dimensions = check_count("dimensions", dimensions)
        self.rank = check_count("rank", rank)
        self.bias: Tensor
        self.std: Tensor
        self.directions: Tensor
        self.gain_std: Tensor
        self.center: Tensor
        self.spread: Tensor
        self.register_buffer("bias", torch.zeros(dimensions, dtype=torch.float64))
        self.register_buffer("std", torch.ones(dimensions, dtype=torch.float64))
        self.register_buffer("directions", torch.zeros(dimensions, rank + 2, dtype=torch.float64))
        self.register_buffer("gain_std", torch.zeros((), dtype=torch.float64))
        self.register_buffer("center", torch.zeros(dimensions, dtype=torch.float64))
        self.register_buffer("spread", torch.ones(dimensions, dtype=torch.float64))

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "rank": self.rank}

    @override
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        noise = torch.randn(originals.shape, generator=generator, dtype=originals.dtype)
        amounts = torch.randn(len(originals), self.rank + 2, generator=generator, dtype=originals.dtype)
        gains = torch.randn(len(originals), 1, generator=generator, dtype=originals.dtype)
        moved = originals + self.bias.to(originals) + noise * self.std.to(originals)
        moved = moved + amounts @ self.directions.to(originals).mT
        return moved + gains * self.gain_std.to(originals) * (originals - self.center.to(originals))

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        """See the class. All of it is matrix products; what a mask alone decides is done once for each distinct mask.

        Computed in float64, as the nuisance is subtracted from much larger squares.
        """
        for name, given in (("patterns", patterns), ("queries", queries)):
            if given.shape[-1] != self.dimensions:
                raise ShapeError(
                    f"`{name}` must have {self.dimensions} dimensions, as {self!r} was made for; "
                    f"got shape {tuple(given.shape)}."
                )
        known, of_pattern = _distinct(~patterns.isnan())
        # Both relative to the mean pattern: a large common offset would cost digits. Zero where nothing is known.
        shifts = _finite(patterns.double() - self.center.to(patterns.device, torch.float64))
        residuals = _finite(queries.double() - (self.center + self.bias).to(queries.device, torch.float64))
        size, count = self.rank + 2, len(patterns)
        numbers = count * (2 * size + 6 + (len(known) > 1) * size**2) + (len(known) + self.dimensions) * 2 * size**2
        scores = [
            self._scores(shifts, known, of_pattern, residuals[rows], ~queries[rows].isnan())
            for rows in blocks(len(queries), 8 * numbers)
        ]
        return saturate(torch.cat(scores), patterns.dtype) if scores else patterns.new_empty(0, count)

    def noise_per_dimension(self, patterns: Patterns, queries: Queries) -> PerDimension:
        r"""$-\tfrac12 (x_i - \xi_i - b_i)^2 / s_i^2$, (b, n, d): as if dimensions moved alone; 0 where not observed."""
        moved = queries - self.bias.to(queries)
        deviation = (moved.unsqueeze(-2) - patterns.unsqueeze(-3)) / self.std.to(queries)
        return (-0.5 * deviation.square()).nan_to_num(0.0)

    def log_background(self, queries: Queries) -> PerQuery:
        r"""$\log \mathcal N\bigl(x; c + b, \mathrm{diag}(s^2 + \mathrm{spread}^2) + A A^\top\bigr)$: of no pattern.

        It is the likelihood of a pattern of which nothing is known.
        """
        unknown = torch.full_like(self.center, torch.nan, dtype=queries.dtype, device=queries.device)
        return self.log_likelihood(unknown.unsqueeze(0), queries).squeeze(-1)

    @override
    def evidence(self, patterns: Patterns, queries: Queries) -> Scores:
        """By how much a pattern explains a query better than no pattern would: positive speaks for the pattern."""
        wide = queries.double()
        scores = self.log_likelihood(patterns.double(), wide) - self.log_background(wide).unsqueeze(-1)
        return saturate(scores, patterns.dtype)

    def _scores(self, shifts: Tensor, known: Tensor, of_pattern: Tensor, residuals: Tensor, observed: Tensor) -> Tensor:
        r"""The residual is $y - m$, the gain leads along $m$, and $\langle y, m \rangle = y^\top \Sigma^{-1} m$.

        With $\Sigma = W^{-1} + A A^\top$ and $L L^\top = I + A^\top W A$ that is $y^\top W m - (L^{-1} A^\top W y)^\top
        (L^{-1} A^\top W m)$.

        Letters in the comments: b queries, n patterns, u distinct masks of queries, h distinct masks of patterns.
        """
        std, directions = self.std.to(shifts), self.directions.to(shifts)
        masks, of_query = _distinct(observed)
        masks, known = masks.to(shifts), known.to(shifts)
        precision = 1 / (std.square() + (1 - known) * self.spread.to(shifts).square())  # (h, d)
        weighted = precision[of_pattern] * shifts
        products = (directions.unsqueeze(-1) * directions.unsqueeze(-2)).flatten(1)
        size = directions.shape[1]
        inner = _bilinear(masks, precision, products).view(len(masks), -1, size, size)
        factor = _cholesky(inner + torch.eye(size, dtype=shifts.dtype, device=shifts.device))  # (u, h, q, q)
        of_shift = _bilinear(masks, weighted, directions)  # (u, n, q)
        if len(known) == 1:
            of_shift = _solve(factor.squeeze(1), of_shift.mT).mT
        else:
            of_shift = _solve(factor[:, of_pattern], of_shift.unsqueeze(-1)).squeeze(-1)
        of_residual = _bilinear(residuals, precision, directions)  # (b, h, q)
        if len(masks) == 1:
            of_residual = _solve(factor.squeeze(0), of_residual.permute(1, 2, 0)).permute(2, 0, 1)
        else:
            of_residual = _solve(factor[of_query], of_residual.unsqueeze(-1)).squeeze(-1)
        if len(masks) == len(known) == 1:
            explained = of_residual.squeeze(1) @ of_shift.squeeze(0).mT
        elif len(known) == 1:
            explained = (of_shift[of_query] @ of_residual.squeeze(1).unsqueeze(-1)).squeeze(-1)
        else:
            explained = (of_residual[:, of_pattern] * of_shift[of_query]).sum(-1)
        both = residuals @ weighted.mT - explained  # <y, m>, (b, n)
        residual_square = residuals.square() @ precision.mT - of_residual.square().sum(-1)  # <y, y>, (b, h)
        shift_square = (masks @ (weighted * shifts).mT - of_shift.square().sum(-1)).clamp_min(0)  # <m, m>, (u, n)
        volume = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1) - masks @ precision.log().mT  # (u, h)
        volume = volume + masks.sum(-1, keepdim=True) * log(2 * pi)
        gain = self.gain_std.to(shifts).square()
        stretch = 1 + gain * shift_square
        along = both - shift_square[of_query]
        distance = residual_square[:, of_pattern] - both - along
        distance = distance - gain * along * (along / stretch[of_query])
        return -0.5 * (distance.clamp_min(0) + volume[of_query][:, of_pattern] + stretch.log()[of_query])


def _finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, nan=0.0).clamp(-LARGEST, LARGEST)


def _distinct(flags: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows, and which of them each row is."""
    if bool(flags.all()):
        return flags.new_ones(1, flags.shape[1]), torch.zeros(len(flags), dtype=torch.long, device=flags.device)
    rows, which = torch.unique(flags, dim=0, return_inverse=True)
    return rows, which


def _bilinear(left: Tensor, right: Tensor, weights: Tensor) -> Tensor:
    """`sum_d left[u, d] right[h, d] weights[d, p]`, (u, h, p), with the larger tensor built on the shorter side."""
    if len(left) <= len(right):
        return (right @ (left.unsqueeze(-1) * weights)).contiguous()
    return (left @ (right.unsqueeze(-1) * weights)).transpose(0, 1).contiguous()


def _cholesky(matrices: Tensor) -> Tensor:
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrices)
    if bool(failed.any()):
        jitter = JITTER * matrices.diagonal(dim1=-2, dim2=-1)
        factor = torch.linalg.cholesky(matrices + torch.diag_embed(jitter))
    return factor


def _solve(factor: Tensor, vectors: Tensor) -> Tensor:
    solved: Tensor = torch.linalg.solve_triangular(factor, vectors, upper=False)
    return solved
