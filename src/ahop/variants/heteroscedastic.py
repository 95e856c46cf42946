"""A learned corruption of values whose standard deviations are known, entry by entry."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi
from typing import final

import torch
from torch import Generator, Tensor
from typing_extensions import override

from ahop._core.blocks import CACHE_BYTES, pair_blocks
from ahop._core.checks import check_count, check_kind
from ahop._core.typing import Patterns, PerDimension, PerQuery, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.variants.base import Variant
from ahop.variants.mixture import KEPT_WITHIN, POPULATION, MixtureVariant

NO_ERROR = -1


@final
class HeteroscedasticVariant(Variant):
    r"""$p(x_i \mid \xi_i) = (1 - g_i)\,\mathcal N(x_i; a_i \xi_i + b_i, s_i^2) + g_i\,G(x_i)$ with
    $s_i^2 = \sigma_i^2 + c^2 (e_i^2 + a_i^2 \varepsilon_i^2)$.

    The standard deviations $e_i$ and $\varepsilon_i$ come with the query and the pattern: rows hold values, and in
    other columns the standard deviations of some of them. A value whose standard deviation is NaN says nothing, as
    if it were infinite.

    Args:
        base: the mixture of the values; its noise is that beyond the standard deviations.
        values: places of the columns of values.
        errors: of each of these, the place of the column of its standard deviations; -1 if there is none.
    """

    handles_missing = True
    factor: Tensor
    stored_errors: Tensor
    asked_errors: Tensor

    def __init__(self, base: MixtureVariant, values: Sequence[int], errors: Sequence[int]) -> None:
        super().__init__()
        self.base = check_kind("base", base, MixtureVariant)
        self.values = [check_count("values", place, 0) for place in values]
        self.errors = [NO_ERROR if place == NO_ERROR else check_count("errors", place, 0) for place in errors]
        taken = [*self.values, *(place for place in self.errors if place != NO_ERROR)]
        if len(self.values) != len(self.errors) or len(self.values) != base.dimensions or len(set(taken)) < len(taken):
            raise InvalidValueError(
                f"`values` and `errors` must be different columns, {base.dimensions} of each as `base` has; got "
                f"{self.values} and {self.errors}."
            )
        if base.signs:
            raise InvalidValueError("`base` must have one bias for each column, not one of either sign.")
        self.dimensions = len(taken)
        # c: standard deviations are given in this unit, or are that much too small.
        self.register_buffer("factor", torch.ones(()))
        # The median of those of stored values, and quantiles of those of copies, none for values without any.
        self.register_buffer("stored_errors", torch.zeros(len(self.values)))
        self.register_buffer("asked_errors", torch.zeros(len(self.values), POPULATION))

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "values": self.values, "errors": self.errors}

    @override
    def corrupt(self, originals: Queries, generator: Generator) -> Queries:
        """Copies with standard deviations as copies had them."""
        given = self.split(originals)
        values = given.values_with_gaps
        drawn = torch.randint(0, POPULATION, values.shape, generator=generator)
        columns = torch.arange(values.shape[-1])
        errors = self.asked_errors.to(values)[columns.expand(values.shape), drawn]
        spread = self.factor.to(values) * torch.hypot(errors, self.base.gain.to(values) * given.errors)
        kept = self.base.drawn(values, torch.hypot(self.base.std.to(values), spread), generator)
        copies = originals.new_full(originals.shape, torch.nan)
        copies[..., self.values] = kept
        known = [place for place, error in enumerate(self.errors) if error != NO_ERROR]
        copies[..., [self.errors[place] for place in known]] = errors[..., known]
        return copies

    @override
    def evidence(self, patterns: Patterns, queries: Queries) -> Scores:
        if torch.is_grad_enabled() and (patterns.requires_grad or queries.requires_grad):
            return self.evidence_and_kept(patterns, queries)[0].sum(-1)
        stored, asked = self.split(patterns), self.split(queries)
        alone = self._alone(asked)
        scores = queries.new_empty(len(queries), len(patterns))
        for rows, columns in pair_blocks(len(queries), len(patterns), 24 * len(self.values), CACHE_BYTES):
            of_rows = asked[rows], tuple(each[rows] for each in alone)
            scores[rows, columns] = self._said(stored[columns], *of_rows)[0].sum(-1)
        return scores + self.base.missingness.evidence(stored.values_with_gaps, asked.values_with_gaps)

    def evidence_and_kept(self, patterns: Patterns, queries: Queries) -> tuple[PerDimension, Tensor]:
        """Log-likelihood ratio of each column, and whether it was kept rather than an outlier; both (b, n, d).

        Columns of standard deviations say nothing of their own.
        """
        stored, asked = self.split(patterns), self.split(queries)
        said, is_kept = self._said(stored, asked, self._alone(asked))
        gaps = self.base.missingness.evidence_per_dimension(stored.values_with_gaps, asked.values_with_gaps)
        shape = *said.shape[:-1], patterns.shape[-1]
        spread, kept = said.new_zeros(shape), torch.ones(shape, dtype=torch.bool, device=said.device)
        spread[..., self.values], kept[..., self.values] = said + gaps, is_kept
        return spread, kept

    @override
    def log_likelihood(self, patterns: Patterns, queries: Queries) -> Scores:
        return self.evidence(patterns, queries) + self.log_background(queries).unsqueeze(-1)

    def log_background(self, queries: Queries) -> PerQuery:
        r"""$\log p_0(x)$: the query of an origin that is not stored."""
        asked = self.split(queries)
        values = self._alone(asked)[1].where(asked.known, 0)
        return (self.base.log_gaps(asked.values_with_gaps) + values).sum(-1)

    def split(self, rows: Tensor) -> "Measured":
        """Values and their standard deviations, zero for those that have no column."""
        values = rows[..., self.values]
        places = [max(place, 0) for place in self.errors]
        without = torch.tensor([place == NO_ERROR for place in self.errors], device=rows.device)
        errors = rows[..., places].masked_fill(without, 0)
        seen = ~torch.isnan(values)
        known = seen & ~torch.isnan(errors)
        return Measured(values.where(seen, 0), errors.where(known, 0), seen, known)

    def _said(self, stored: "Measured", asked: "Measured", alone: tuple[Tensor, ...]) -> tuple[PerDimension, Tensor]:
        """Log-likelihood ratio of each value, and whether it was kept; both (b, n, values)."""
        outliers, marginal = (each.unsqueeze(-2) for each in alone)
        gain, bias, std, rate = (
            each.to(stored.values) for each in (self.base.gain, self.base.bias, self.base.std, self.base.outlier_rate)
        )
        # By `hypot`, as squares may leave the range of float32; from the noise on, which is not zero, as slopes need.
        spread = torch.hypot(std, self.factor.to(std) * asked.errors).unsqueeze(-2)
        spread = torch.hypot(spread, (self.factor.to(std) * gain * stored.errors).unsqueeze(-3))
        expected = gain * stored.values + bias
        deviation = (asked.values.unsqueeze(-2) - expected.unsqueeze(-3)) / spread
        kept = torch.log1p(-rate) - 0.5 * deviation.square() - spread.log() - 0.5 * log(2 * pi)
        both = asked.known.unsqueeze(-2) & stored.known.unsqueeze(-3)
        said = (torch.logaddexp(kept, outliers) - marginal).where(both, 0)
        return said, (kept > outliers) & (deviation.abs() < KEPT_WITHIN) | ~both

    def _alone(self, asked: "Measured") -> tuple[Tensor, Tensor]:
        r"""$\log g_i G(x_i)$ and $\log p_0(x_i)$ of values with these standard deviations, (b, values) each."""
        values = asked.values
        outliers = self.base.log_outliers(values)
        places, widths = self.base.population_bumps(values.dtype)
        factor, gain, bias, rate = (
            each.to(values) for each in (self.factor, self.base.gain, self.base.bias, self.base.outlier_rate)
        )
        of_stored = factor * gain * self.stored_errors.to(values)
        total = torch.full_like(values, -torch.inf)
        for place, width in zip(places.mT, widths.mT, strict=True):
            spread = torch.hypot(torch.hypot(width, of_stored), factor * asked.errors)
            deviation = (values - place - bias) / spread
            total = torch.logaddexp(total, -0.5 * deviation.square() - spread.log())
        kept = total + torch.log1p(-rate) - log(POPULATION) - 0.5 * log(2 * pi)
        return outliers, torch.logaddexp(kept, outliers)


@final
@dataclass(frozen=True)
class Measured:
    """Values of rows, and their standard deviations.

    Attributes:
        values: zero where none was seen.
        errors: zero where they are not known.
        seen: whether there is a value.
        known: whether there is one whose standard deviation is not infinite.
    """

    values: Tensor
    errors: Tensor
    seen: Tensor
    known: Tensor

    @property
    def values_with_gaps(self) -> Tensor:
        return self.values.masked_fill(~self.seen, torch.nan)

    def __getitem__(self, rows: slice) -> "Measured":
        return Measured(self.values[rows], self.errors[rows], self.seen[rows], self.known[rows])
