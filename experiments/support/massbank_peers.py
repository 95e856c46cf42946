"""What chemists use to compare tandem mass spectra, of many queries with a whole library at once.

Rows are as `massbank_protocol` writes them. Each: patterns (n, 2p) and queries (b, 2p) -> scores (b, n).
"""

from collections.abc import Callable
from math import log

import torch
from torch import Tensor

from experiments.support.massbank_protocol import TOLERANCE

# Spectra of less entropy than this, in nats, are flattened: a few large peaks would decide alone.
FLATTENED = 3.0


def entropy_similarity(patterns: Tensor, queries: Tensor) -> Tensor:
    """½ Σ f(a + b) - f(a) - f(b) over peaks in common, f(x) = x log₂ x: spectral entropy similarity, weighted.

    As `ms_entropy.calculate_entropy_similarity` has it.
    """
    return _over_matches(_flattened(patterns), _flattened(queries), _shared_entropy)


def root_cosine(patterns: Tensor, queries: Tensor) -> Tensor:
    """Σ √(a b) over peaks in common: the cosine of the roots of intensities."""
    return _over_matches(patterns, queries, lambda a, b: (a * b).sqrt())


def stein_scott(patterns: Tensor, queries: Tensor) -> Tensor:
    """The cosine of intensity ** 0.53 * mz ** 1.3: heavy fragments tell more."""

    def weight(mz: Tensor, share: Tensor) -> Tensor:
        return share**0.53 * (mz / 100) ** 1.3

    return _over_matches(_normalized(patterns, weight), _normalized(queries, weight), lambda a, b: a * b)


def rare_cosine(patterns: Tensor, queries: Tensor) -> Tensor:
    """The cosine of roots, each peak weighed by the logarithm of how rare it is in the library."""
    heard = patterns.double().chunk(2, dim=-1)[0]
    library = heard[~heard.isnan()].sort().values

    def weight(mz: Tensor, share: Tensor) -> Tensor:
        at = mz.double().nan_to_num(0).contiguous()
        often = torch.searchsorted(library, at + TOLERANCE) - torch.searchsorted(library, at - TOLERANCE)
        return share.sqrt() * torch.log(len(patterns) / often.clamp_min(1)).clamp_min(0).to(share)

    return _over_matches(_normalized(patterns, weight), _normalized(queries, weight), lambda a, b: a * b)


def matched_peaks(patterns: Tensor, queries: Tensor) -> Tensor:
    """Twice the number of peaks in common over the number of all."""
    common = _over_matches(patterns, queries, lambda a, b: torch.ones_like(a))
    stored, asked = ((~each.isnan()).sum(-1) / 2 for each in (patterns, queries))
    return 2 * common / (asked.unsqueeze(-1) + stored)


def explained_intensity(patterns: Tensor, queries: Tensor) -> Tensor:
    """The share of the query's intensity that the library spectrum has peaks for."""
    return _over_matches(patterns, queries, lambda a, b: a)


def _normalized(spectra: Tensor, weight: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Peaks with weights of their own, whose squares sum to one."""
    mz, share = spectra.chunk(2, dim=-1)
    weights = weight(mz, share)
    return torch.cat([mz, weights / weights.square().nansum(-1, keepdim=True).sqrt().clamp_min(1e-12)], dim=-1)


def _shared_entropy(a: Tensor, b: Tensor) -> Tensor:
    nats: Tensor = torch.special.xlogy(a + b, a + b) - torch.special.xlogy(a, a) - torch.special.xlogy(b, b)
    return nats / (2 * log(2))


def _flattened(spectra: Tensor) -> Tensor:
    """Shares to the power (1 + S) / 4 where the entropy S is below 3, and their sum one again."""
    mz, share = spectra.chunk(2, dim=-1)
    entropy = -torch.special.xlogy(share, share).nansum(-1, keepdim=True)
    share = torch.where(entropy < FLATTENED, share ** (0.25 * (1 + entropy)), share)
    return torch.cat([mz, share / share.nansum(-1, keepdim=True)], dim=-1)


def _over_matches(patterns: Tensor, queries: Tensor, addend: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The sum of an addend over all peaks of a query and a pattern that are at most 5 mDa apart."""
    stored, stored_mz, stored_share = _peaks(patterns)
    asked, asked_mz, asked_share = _peaks(queries)
    order = stored_mz.argsort()
    stored, stored_mz, stored_share = stored[order], stored_mz[order], stored_share[order]
    first = torch.searchsorted(stored_mz, asked_mz - TOLERANCE)
    counts = torch.searchsorted(stored_mz, asked_mz + TOLERANCE, right=True) - first
    peak = torch.repeat_interleave(torch.arange(len(asked)), counts)
    start = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    other = first[peak] + torch.arange(len(peak)) - start
    place = asked[peak] * len(patterns) + stored[other]
    scores = torch.zeros(len(queries) * len(patterns), dtype=queries.dtype)
    scores.index_add_(0, place, addend(asked_share[peak], stored_share[other]).to(queries.dtype))
    return scores.view(len(queries), len(patterns))


def _peaks(spectra: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, mass-to-charge ratio and share of every peak."""
    mz, share = spectra.double().chunk(2, dim=-1)
    row, at = torch.nonzero(~mz.isnan(), as_tuple=True)
    return row, mz[row, at], share[row, at]
