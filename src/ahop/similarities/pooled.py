"""A weighted sum of similarities."""

from collections.abc import Iterable, Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._checks import check_kind
from ahop._tensors import lowest, saturate
from ahop._typing import Indices, Patterns, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.similarities.base import Similarity
from ahop.similarities.contributions import Contributions


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

    missing_is_evidence = True
    compares_patterns = True
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
        return self.combined(member(patterns, queries) for member in self.parts())

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        """Of all members together. One that lacks evidence for a pair is told as a whole, by what it counts there."""
        found = Contributions(patterns.new_zeros(len(queries), *patterns.shape), {})
        for name, weight, member in zip(self.names, self.weights, self.parts(), strict=True):
            scores = member(patterns, queries)
            filled_in, _ = worst_for_unknown(scores)
            if bool((filled_in == scores).all()):
                of_member = member.contributions(patterns, queries).named(name)
            else:
                of_member = Contributions.of_whole(name, filled_in, patterns.shape[-1])
            found = found + of_member.scaled(weight.to(scores))
        return found

    def combined(self, scores: Iterable[Scores]) -> Scores:
        """The scores of the pool from those of its members, which may come one by one."""
        total, known = torch.zeros(()), torch.zeros((), dtype=torch.bool)
        for weight, own in zip(self.weights, scores, strict=True):
            filled_in, knows = worst_for_unknown(own)
            # Each term held at the largest finite number: no sum of these is infinity less infinity.
            total = saturate(total.to(own) + saturate(weight.to(own) * filled_in))
            known = known.to(knows) | (knows & (weight > 0))
        return total.where(known, lowest(total.dtype))

    def parts(self) -> list[Similarity]:
        """The members, in the order of their weights."""
        return [member for member in self.members if isinstance(member, Similarity)]

    @override
    def rows(self, indices: Indices | slice) -> "PooledSimilarity":
        return self.with_members([member.rows(indices) for member in self.parts()])

    @override
    def grown(self, count: int) -> "PooledSimilarity":
        return self.with_members([member.grown(count) for member in self.parts()])

    def with_members(self, members: list[Similarity]) -> "PooledSimilarity":
        """The same weights and names for other members; itself if they are its own."""
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
