"""Probability that each pair is correct."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from ahop._core.missingness import Missingness
from ahop.fitting.corruption.gaps import Gaps
from ahop.fitting.settings import MixtureSettings
from ahop.variants.mixture import MixtureVariant

# Others that a copy may belong to: as many as so much work allows, and at least so many.
TRUST_WORK, WORK_AT_END, LEAST_OTHERS = 1 << 23, 1 << 25, 16
# The share of wrong pairs is no less, and found from here in so many steps.
LEAST_WRONG, START, TRUST_EM_STEPS = 1e-4, 0.02, 20
# By how much what entries say may be less than their sum.
EVIDENCE_WEIGHTS = (1.0, 0.5, 0.25, 0.125, 0.0625)


@final
@dataclass(frozen=True)
class Doubts:
    """Pairs whose copy may belong to another's original.

    Attributes:
        originals: (m, d), with NaN.
        copies: as `originals`.
        weights: (m,).
        gaps: of these pairs.
    """

    originals: Tensor
    copies: Tensor
    weights: Tensor
    gaps: Gaps
    settings: MixtureSettings

    @cached_property
    def _kind(self) -> Tensor:
        """A number (m,) that is the same for pairs of one original, and hardly for others."""
        generator = torch.Generator().manual_seed(0)
        mixed = torch.randn(self.originals.shape[1], generator=generator, dtype=self.originals.dtype)
        return (self.originals.nan_to_num(0.1) * mixed).sum(-1)

    def trust(self, variant: MixtureVariant, trust: Tensor, at_end: bool) -> tuple[Tensor, float]:
        r"""Probability that each pair is correct, (m,), and the share $w$ of wrong ones.

        That a copy stands beside its origin, and not beside one of $k$ others, has the probability
        $(1 - w)\,p_\beta(\xi \mid x) + w / (k + 1)$: right and told by its looks, or wrong and by chance.
        The share of the first is the trust. The inverse temperature $\beta$ and $w$ are the likeliest: entries may
        be less independent than the mixture says.

        Densities are told beside $p_0(x)$, what they are whatever the origin: a value that only one side has says
        nothing, but by the gap.

        Args:
            trust: (m,) the former.
        """
        count, dimensions = self.copies.shape
        if count <= 1 or not dimensions:
            return trust, LEAST_WRONG
        scores, chance = self._scores(variant, trust, self._others(WORK_AT_END if at_end else TRUST_WORK))
        own = torch.stack([(beta * scores).softmax(-1)[:, 0] for beta in EVIDENCE_WEIGHTS]).double()
        shares, wrong = self.weights / self.weights.sum().clamp_min(1e-9), torch.full_like(own[:, :1], START)
        most = self.settings.most_wrong_share
        for _ in range(TRUST_EM_STEPS):
            either = torch.lerp(own, chance, wrong)
            wrong = (wrong * (shares * chance / either).sum(-1, keepdim=True)).clamp(LEAST_WRONG, most)
        either = torch.lerp(own, chance, wrong)
        best = int((shares * either.log()).sum(-1).argmax())
        return 1 - wrong[best] * chance / either[best], float(wrong[best])

    def _scores(self, variant: MixtureVariant, trust: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of each copy for its own original, then for others, (m, 1 + k); one over their number, (m,)."""
        missingness = Missingness(self.copies.shape[1]).double()
        self.gaps.fit(missingness, self.weights * trust)
        own, rivals = variant.own_and_other_evidence(self.originals, self.originals[others], self.copies)
        rivals = rivals + self.gaps.evidence(missingness, others)
        rivals = rivals.masked_fill(self._kind.unsqueeze(-1) == self._kind[others], -torch.inf)
        own = (own + self.gaps.paired_evidence(missingness)).unsqueeze(-1)
        return torch.cat([own, rivals], dim=-1), 1 / (rivals > -torch.inf).sum(-1).add(1).double()

    def _others(self, work: int) -> Tensor:
        count, dimensions = self.copies.shape
        most = min(count, max(LEAST_OTHERS, work // (count * dimensions)))
        return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:most]
