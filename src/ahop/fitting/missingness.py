"""Learning from pairs whether a gap in a copy says something about its origin."""

import torch
from torch import Tensor

from ahop._observed import quantiles
from ahop.missingness import Missingness

# As if each dimension had shown half a gap and half a value more.
PSEUDO_COUNT = 0.5
# Between-level spread of the log-odds, in units of its error, below which gaps are taken to say nothing.
CLEAR = 2.0


def fit_missingness(missingness: Missingness, originals: Tensor, copies: Tensor, weights: Tensor) -> None:
    """Rates of each dimension, and how far each level of the stored value moves them, drawn towards not at all."""
    missingness.shifts.zero_()
    missing = torch.isnan(copies).double() * weights.unsqueeze(-1)
    total = weights.sum().clamp_min(1e-9)
    rate = (missing.sum(0) + PSEUDO_COUNT) / (total + 2 * PSEUDO_COUNT)
    missingness.base.copy_(torch.logit(rate))
    inner = torch.arange(1, missingness.levels, dtype=torch.float64) / missingness.levels
    missingness.edges.copy_(quantiles(originals, inner))
    if not bool(missing.any()):
        return
    level = missingness.level(originals)
    shifts = torch.zeros_like(missingness.shifts, dtype=torch.float64)
    errors = torch.full_like(shifts, torch.inf)
    for number in range(missingness.levels + 1):
        here = (level == number) * weights.unsqueeze(-1)
        count, gaps, expected = here.sum(), (missing * (level == number)).sum(), (here * rate).sum()
        if count < 1:
            continue
        shifts[number] = torch.log((gaps + PSEUDO_COUNT) / (count - gaps + PSEUDO_COUNT)) - torch.log(
            (expected + PSEUDO_COUNT) / (count - expected + PSEUDO_COUNT)
        )
        errors[number] = 1 / (gaps + PSEUDO_COUNT) + 1 / (count - gaps + PSEUDO_COUNT)
    known = errors < torch.inf
    signal = (shifts.square() / errors)[known].mean() if bool(known.any()) else torch.tensor(0.0)
    if signal < CLEAR**2:
        return
    between = (shifts.square() - errors)[known].mean().clamp_min(0)
    missingness.shifts.copy_(torch.where(known, shifts * between / (between + errors), 0))
