"""A weighted sum of similarities."""

from collections.abc import Iterable, Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_kind
from ahop._core.tensors import lowest, saturate
from ahop._core.typing import AnyQueries, Indices, Patterns, Scores
from ahop.errors import InvalidValueError
from ahop.similarities.base import Similarity
from ahop.similarities.contributions import Contributions


@final
class PooledSimilarity(Similarity):
    r"""$s(\xi, x) = \sum_k w_k\, \mathrm{sim}_k(\xi, x)$ with $w_k \ge 0$: a log-linear pool.

    The paper's adaptive similarity, with learned bases: members that err differently do better together. A member that
    has no evidence for a pair, as they share nothing, counts as the worst score that it gives to another pattern for
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
        self.query_dimensions = next(
            (each.query_dimensions for each in chosen if each.query_dimensions is not None), None
        )
        self._worst: list[Tensor | None] = [None] * len(chosen)

    @override
    def configuration(self) -> dict[str, object]:
        return {"members": self.parts(), "names": self.names}

    @override
    def forward(self, patterns: Patterns, queries: AnyQueries) -> Scores:
        return self.combined(member(patterns, queries) for member in self.parts())

    @override
    def contributions(self, patterns: Patterns, queries: AnyQueries) -> Contributions:
        """Contributions of all members. A member without evidence for a pair contributes a constant."""
        found = Contributions(patterns.new_zeros(len(queries), *patterns.shape), {})
        for place, (name, weight, member) in enumerate(zip(self.names, self.weights, self.parts(), strict=True)):
            scores = member(patterns, queries)
            filled_in, _ = self._filled(place, scores)
            if bool((filled_in == scores).all()):
                of_member = member.contributions(patterns, queries).named(name)
            else:
                of_member = Contributions.of_whole(name, filled_in, patterns.shape[-1])
            found = found + of_member.scaled(weight.to(scores))
        return found

    def combined(self, scores: Iterable[Scores]) -> Scores:
        """The scores of the pool from those of its members, which may come one by one."""
        total, known = torch.zeros(()), torch.zeros((), dtype=torch.bool)
        for place, (weight, own) in enumerate(zip(self.weights, scores, strict=True)):
            filled_in, knows = self._filled(place, own)
            # Each term held at the largest finite number: no sum of these is infinity less infinity.
            total = saturate(total.to(own) + saturate(weight.to(own) * filled_in))
            known = known.to(knows) | (knows & (weight > 0))
        return total.where(known, lowest(total.dtype))

    @property
    @override
    def worst_count(self) -> int:
        return sum(member.worst_count or 1 for member in self.parts())

    @override
    def worst_scores(self, patterns: Patterns, queries: AnyQueries) -> Tensor:
        """Worst scores of each member. A pool among them has nothing missing once its own members have theirs."""
        return torch.cat(
            [
                member.worst_scores(patterns, queries) if member.worst_count else worst_known(member(patterns, queries))
                for member in self.parts()
            ],
            dim=-1,
        )

    @override
    def with_worst(self, worst: Tensor) -> "PooledSimilarity":
        widths = [member.worst_count for member in self.parts()]
        columns = torch.split(worst, [width or 1 for width in widths], dim=-1)
        settled = [each.with_worst(part) for each, part in zip(self.parts(), columns, strict=True)]
        other = PooledSimilarity(settled, self.names)
        other.weights, other.compares_patterns = self.weights.clone(), False
        other._worst = [None if width else part for width, part in zip(widths, columns, strict=True)]
        return other

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
        """Replace the members, with the same weights and names; itself if they are its own."""
        if all(new is old for new, old in zip(members, self.parts(), strict=True)):
            return self
        other = PooledSimilarity(members, self.names)
        other.weights = self.weights.clone()
        other._worst, other.compares_patterns = self._worst, self.compares_patterns
        return other

    def _filled(self, place: int, scores: Scores) -> tuple[Scores, Tensor]:
        """The scores of a member, without what is missing."""
        return worst_for_unknown(scores, self._worst[place])


def worst_known(scores: Scores) -> Tensor:
    """The worst known score of each query, (b, 1); infinity where none is known."""
    if not scores.shape[-1]:
        return scores.new_full((*scores.shape[:-1], 1), torch.inf)
    return scores.masked_fill(scores <= lowest(scores.dtype), torch.inf).amin(-1, keepdim=True)


def worst_for_unknown(scores: Scores, worst: Tensor | None = None) -> tuple[Scores, Tensor]:
    """The worst known score of each query in the place of what is not known, and (b, 1) whether anything is known.

    Args:
        worst: (b, 1) of all patterns, infinity where none is known; None if these are all.
    """
    known = scores > lowest(scores.dtype)
    if worst is None and not torch.compiler.is_compiling() and bool(known.all()):
        return scores, known.any(-1, keepdim=True)
    found = worst_known(scores) if worst is None else worst.to(scores)
    knows = found < torch.inf
    return scores.where(known, found.where(knows, 0)), knows
