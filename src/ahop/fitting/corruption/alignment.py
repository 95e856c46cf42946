"""An offset and a gain for each group of copies, such as a device: most of what devices differ by."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ahop.fitting.settings import DEFAULT


@dataclass(frozen=True)
class Alignment:
    r"""Map of the copies of each group to the common scale: $(x - \mathrm{offset}) / \mathrm{gain}$.

    Attributes:
        offset: (g, d).
        gain: (g,).
    """

    offset: Tensor
    gain: Tensor

    @property
    def is_needed(self) -> bool:
        return bool(self.offset.any()) or bool((self.gain != 1).any())

    def __call__(self, copies: Tensor, groups: Tensor) -> Tensor:
        return (copies - self.offset[groups].to(copies)) / self.gain[groups].to(copies).unsqueeze(-1)


def fit_alignment(
    originals: Tensor,
    copies: Tensor,
    weights: Tensor,
    groups: Tensor,
    number: int,
    most_spreads: float = DEFAULT.groups.most_spreads,
) -> Alignment:
    """From pairs of rows (m, d) and the group (m,) of each: how groups differ, drawn towards not at all.

    What all groups share is left for the similarity to learn.

    Args:
        most_spreads: residuals farther off count as these: some entries have nothing to do with their origin.
    """
    difference = (copies - originals).double()
    seen = ~difference.isnan() & (weights > 0).unsqueeze(-1)
    members = torch.zeros(number, len(copies), dtype=torch.float64)
    members[groups, torch.arange(len(copies))] = weights.double()
    pairs = members.sum(1)
    known = (members > 0).to(torch.float64) @ seen.double()  # (g, d) entries of each group
    offsets, spread = _centers(difference, seen, groups, number)
    common = _shrunk(offsets, spread.square() / pairs.clamp_min(1e-9), pairs)
    left = _winsorized(difference - common[groups].unsqueeze(-1), seen, most_spreads)
    left = left - _mean(left, seen.double())
    noise = left.square().sum() / seen.sum().clamp_min(1)
    by_group = (members > 0).to(torch.float64) @ left / known.clamp_min(1)
    own = _shrunk_to_zero(by_group, noise / known.clamp_min(1), known >= 2)
    return Alignment(common.unsqueeze(-1) + own, _gains(originals, left - own[groups], seen, groups, number, pairs))


def _centers(difference: Tensor, seen: Tensor, groups: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The median difference of each group (g,), and its spread."""
    centers, spreads = torch.zeros(number, dtype=torch.float64), torch.zeros(number, dtype=torch.float64)
    for group in range(number):
        values = difference[groups == group][seen[groups == group]]
        if len(values):
            centers[group] = values.median()
            spreads[group] = 1.4826 * (values - centers[group]).abs().median()
    return centers, spreads


def _shrunk(values: Tensor, errors: Tensor, counts: Tensor) -> Tensor:
    """Deviations from the common mean, each drawn to zero by as much as its error explains the spread of all."""
    share = counts / counts.sum().clamp_min(1e-9)
    deviation = (values - (share * values).sum()).where(counts > 0, 0)
    between = (share * (deviation.square() - errors)).sum().clamp_min(0)
    return deviation * between / (between + errors).clamp_min(1e-300)


def _shrunk_to_zero(values: Tensor, errors: Tensor, known: Tensor) -> Tensor:
    if not bool(known.any()):
        return torch.zeros_like(values)
    between = (values.square() - errors)[known].mean().clamp_min(0)
    return (values * between / (between + errors).clamp_min(1e-300)).where(known, 0)


def _winsorized(values: Tensor, seen: Tensor, most_spreads: float) -> Tensor:
    """Zero where nothing was seen, and nothing farther from the median than chance and noise would explain."""
    known = values[seen]
    if not len(known):
        return torch.zeros_like(values)
    middle = known.median()
    reach = most_spreads * 1.4826 * (known - middle).abs().median()
    reach = reach if reach > 0 else (known - middle).abs().max()
    return values.clamp(middle - reach, middle + reach).where(seen, 0)


def _mean(values: Tensor, seen: Tensor) -> Tensor:
    """Mean of each dimension, zero where nothing was observed, masked like the values."""
    return seen * (values.sum(0) / seen.sum(0).clamp_min(1))


def _gains(originals: Tensor, left: Tensor, seen: Tensor, groups: Tensor, number: int, pairs: Tensor) -> Tensor:
    """Slopes of what is left over the originals, beyond the common one."""
    stored = originals.double().where(seen, 0)
    centered = (stored - _mean(stored, seen.double())) * seen
    power, slopes = torch.zeros(number, dtype=torch.float64), torch.zeros(number, dtype=torch.float64)
    power.index_add_(0, groups, centered.square().sum(-1))
    slopes.index_add_(0, groups, (centered * left).sum(-1))
    slopes = slopes / power.clamp_min(1e-300)
    noise = left.square().sum() / seen.sum().clamp_min(1)
    # Entries of one copy err together: each copy counts once.
    entries = seen.sum() / max(1, len(seen))
    errors = noise * entries / power.clamp_min(1e-300)
    found = _shrunk(slopes, errors, torch.where(power > 0, pairs, 0))
    return (1 + found).clamp(0.2, 5.0)
