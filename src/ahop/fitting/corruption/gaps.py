"""Fit informative missingness: does a missing value say something about the origin?"""

from typing import final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ahop._core.missing import quantiles
from ahop._core.missingness import Missingness
from ahop.fitting.settings import DEFAULT, MixtureSettings


@final
class Gaps:
    """Gaps in the copies (m, d) of some pairs, and the level of the stored value there.

    What does not depend on the weights of the pairs is counted once.
    """

    def __init__(
        self, originals: Tensor, copies: Tensor, settings: MixtureSettings = DEFAULT.mixture, levels: int = 8
    ) -> None:
        self.settings = settings
        self.missing = torch.isnan(copies)
        self.any = bool(self.missing.any())
        self._gaps = self.missing.double()
        inner = torch.arange(1, levels, dtype=torch.float64) / levels
        self.edges = quantiles(originals, inner)
        if not self.any:
            return
        found = Missingness(copies.shape[1], levels).to(originals.dtype)
        found.edges = self.edges.to(originals.dtype)
        self.level = found.level(originals)
        # Each dimension has its levels beside each other.
        size = levels + 1
        self._cell = (self.level + size * torch.arange(copies.shape[1])).flatten()
        row = (self.level + size * torch.arange(len(copies)).unsqueeze(-1))[self.missing]
        self._gaps_by_level = torch.bincount(row, minlength=size * len(copies)).view(-1, size).double()

    def fit(self, missingness: Missingness, weights: Tensor) -> None:
        weights = weights.double()
        missingness.shifts.zero_()
        total, before = weights.sum().clamp_min(1e-9), self.settings.gap_pseudo_entries
        rate = (weights @ self._gaps + before) / (total + 2 * before)
        missingness.base.copy_(torch.logit(rate))
        missingness.edges.copy_(self.edges)
        if self.any:
            missingness.shifts.copy_(self._shifts(rate, weights))

    def evidence(self, missingness: Missingness, rows: Tensor) -> Tensor:
        """Log-likelihood ratios of the gaps of each copy for the originals of some pairs, (m, k)."""
        if not (self.any and missingness.is_evidence):
            return torch.zeros(len(self.missing), len(rows))
        gap, value = (each[self._cell.view(self.missing.shape)[rows]] for each in self._terms(missingness))
        # Sums of these are told apart by whole numbers, if at all.
        return self._gaps.float() @ (gap - value).float().mT + value.sum(-1).float()

    def paired_evidence(self, missingness: Missingness) -> Tensor:
        """And for the original of each, (m,)."""
        if not (self.any and missingness.is_evidence):
            return torch.zeros(len(self.missing))
        gap, value = (each[self._cell.view(self.missing.shape)] for each in self._terms(missingness))
        return torch.where(self.missing, gap, value).sum(-1).float()

    def _terms(self, missingness: Missingness) -> tuple[Tensor, Tensor]:
        """Log-likelihood ratios of a gap and of a value for each level of each dimension, one behind the other."""
        base = missingness.base.double().unsqueeze(-1)
        moved = base + missingness.shifts
        gap, value = logsigmoid(moved) - logsigmoid(base), logsigmoid(-moved) - logsigmoid(-base)
        return gap.flatten(), value.flatten()

    def _shifts(self, rate: Tensor, weights: Tensor) -> Tensor:
        """Change in the log-odds of a gap at each level, shrunk to zero."""
        size = self._gaps_by_level.shape[1]
        each = weights.unsqueeze(-1).expand(self.missing.shape).flatten()
        counts = torch.bincount(self._cell, each, size * len(rate)).view(-1, size)
        count, gaps, expected = counts.sum(0), weights @ self._gaps_by_level, rate @ counts
        before = self.settings.gap_pseudo_entries
        shifts = torch.log((gaps + before) / (count - gaps + before)) - torch.log(
            (expected + before) / (count - expected + before)
        )
        errors = 1 / (gaps + before) + 1 / (count - gaps + before)
        known = count >= 1
        if not bool(known.any()) or (shifts.square() / errors)[known].mean() < self.settings.gap_std_errors**2:
            return torch.zeros_like(shifts)
        between = (shifts.square() - errors)[known].mean().clamp_min(0)
        return torch.where(known, shifts * between / (between + errors), 0)
