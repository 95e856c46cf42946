"""Several similarities, each with its weight."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._checks import check_kind
from ahop._numbers import lowest, saturate
from ahop._typing import Indices, Patterns, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.similarities.base import Similarity


@final
class PooledSimilarity(Similarity):
    r"""$s(\xi, x) = \sum_k w_k\, \mathrm{sim}_k(\xi, x)$ with $w_k \ge 0$: a log-linear pool.

    The paper's adaptive similarity, with learned bases: members that err differently do better together. A member that
    has no evidence for a pair, as they share nothing, counts as the lowest score that it gives to another pattern for
    that query; 0 if it knows none. A query that no member of positive weight knows anything of has the lowest score
    everywhere.

    Args:
        members: similarities of any kind, pools among them.
        names: what each is called; if None, by its class.
    """

    silence_is_evidence = True
    weights: Tensor

    def __init__(self, members: Sequence[Similarity], names: Sequence[str] | None = None) -> None:
        super().__init__()
        chosen = [check_kind("members", member, Similarity) for member in members]
        if not chosen:
            raise InvalidValueError("`members` must hold at least one similarity; got none.")
        self.members = nn.ModuleList(chosen)
        self.names = [type(member).__name__ for member in chosen] if names is None else [str(name) for name in names]
        if len(self.names) != len(chosen):
            raise InvalidValueError(
                f"`names` must have one name for each of the {len(chosen)} members; got {len(self.names)}. Leave it "
                "out to call them by their classes."
            )
        self.register_buffer("weights", torch.ones(len(chosen)))

    @override
    def configuration(self) -> dict[str, object]:
        return {"members": self.parts(), "names": self.names}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        weights = self.weights.to(queries.dtype)
        total = queries.new_zeros(())
        known = torch.zeros_like(queries[..., :1], dtype=torch.bool)
        for weight, member in zip(weights, self.parts(), strict=True):
            scores, knows = worst_for_unknown(member(patterns, queries))
            # Each term held at the largest finite number: no sum of these is infinity less infinity.
            total, known = saturate(total + saturate(weight * scores)), known | (knows & (weight > 0))
        return total.where(known, lowest(queries.dtype))

    def parts(self) -> list[Similarity]:
        """The members, in the order of their weights."""
        return [member for member in self.members if isinstance(member, Similarity)]

    @override
    def rows(self, indices: Indices | slice) -> "PooledSimilarity":
        return self._with([member.rows(indices) for member in self.parts()])

    @override
    def grown(self, count: int) -> "PooledSimilarity":
        return self._with([member.grown(count) for member in self.parts()])

    def _with(self, members: list[Similarity]) -> "PooledSimilarity":
        if all(new is old for new, old in zip(members, self.parts(), strict=True)):
            return self
        other = PooledSimilarity(members, self.names)
        other.weights = self.weights.clone()
        return other


def worst_for_unknown(scores: Scores) -> tuple[Scores, Tensor]:
    """The worst known score of each query in the place of what is not known, and (b, 1) whether anything is known."""
    known = scores > lowest(scores.dtype)
    knows = known.any(-1, keepdim=True)
    if not torch.compiler.is_compiling() and bool(known.all()):
        return scores, knows
    worst = scores.masked_fill(~known, torch.inf).amin(-1, keepdim=True).where(knows, 0)
    return scores.where(known, worst), knows
