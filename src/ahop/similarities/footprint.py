r"""The similarity footprint: how alike are two vectors in their best subspace of each size?"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_count, check_kind
from ahop._core.kernels.footprints import footprint_scores, serves
from ahop._core.kernels.rank_weighting import ranked_scores
from ahop._core.kernels.sorting import sort_ascending_
from ahop._core.typing import Coefficients, Features, Patterns, PerDimension, Queries, Scores, Vector
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity
from ahop.similarities.contributions import Contributions


def footprint(base: DecomposableSimilarity, patterns: Patterns, queries: Queries) -> PerDimension:
    r"""$\mathrm{ftpt}(\xi, x) = U \tilde q$: entry $k$ is the largest similarity over all subspaces of size $k$.

    $\tilde q$ are the per-dimension similarities in descending order and $U$ the lower-left triangle of ones, so
    that the product is a running sum.

    Paper:
        [eqn:ftpt]; equal to the maximum over all $\binom{d}{k}$ subspaces by [thm:equiv]; Section 3.2 [sec:sim_ftpt].
    """
    values = base.addends(patterns, queries)
    return torch.sort(values, dim=-1, descending=True).values.cumsum(-1)


@final
class FootprintSimilarity(LinearSimilarity):
    r"""$s = w^\top \mathrm{ftpt}(\xi, x)$ for one base similarity.

    Scored as $u^\top \tilde q$ with $u = U^\top w$, a reversed running sum done once on the weights and never on
    the data. Starts as the base similarity itself: $w = e_d$, that is $u = \mathbf 1$.
    """

    def __init__(self, base: DecomposableSimilarity, dimensions: int) -> None:
        super().__init__()
        self.base = check_kind("base", base, DecomposableSimilarity)
        self.dimensions = check_count("dimensions", dimensions)
        self.missing_is_evidence = base.missing_is_evidence
        self.weights = nn.Parameter(torch.zeros(dimensions))
        with torch.no_grad():
            self.weights[-1] = 1

    @override
    def configuration(self) -> dict[str, object]:
        return {"base": self.base, "dimensions": self.dimensions}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        return weighed_by_rank([self.base], rank_weights_of(self.weights).unsqueeze(0), patterns, queries)

    partial = forward

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        return Contributions(by_rank(self.base, self.coefficients, patterns, queries), {})

    @override
    def reads_gaps(self, patterns: Patterns, queries: Queries) -> bool:
        return self.missing_is_evidence or have_kernel([self.base], patterns, queries)

    @override
    def features(self, patterns: Patterns, queries: Queries) -> Features:
        with torch.no_grad():
            return sort_ascending_(self.base.addends(patterns, queries)).flip(-1)

    @property
    @override
    def coefficients(self) -> Coefficients:
        return rank_weights_of(self.weights)

    @override
    def set_coefficients(self, coefficients: Coefficients) -> None:
        with torch.no_grad():
            self.weights.copy_(subspace_weights_of(coefficients))

    @override
    def roughness(self) -> Tensor:
        """The steps of u from rank to rank, $w_1 .. w_{d-1}$: all zero for the base similarity, scaled at will."""
        identity = torch.eye(self.dimensions, dtype=torch.float64)
        return identity[:-1] - identity[1:]

    @override
    def starts(self) -> Tensor:
        return torch.ones(1, self.dimensions, dtype=torch.float64)

    @override
    def cone(self) -> tuple[Tensor, Tensor]:
        r"""Rank weights that fall, $w_i \ge 0$ but for $w_d$ of a base that is linear."""
        bounded = torch.ones(self.dimensions, dtype=torch.bool)
        bounded[-1] = not self.base.is_linear
        return torch.ones(self.dimensions, self.dimensions, dtype=torch.float64).tril(), bounded

    @override
    def set_mixture(self, weights: Tensor) -> None:
        with torch.no_grad():
            self.weights.copy_(weights)


def have_kernel(bases: Sequence[DecomposableSimilarity], patterns: Patterns, queries: Queries) -> bool:
    return serves(patterns, queries) and all(base.kernel is not None for base in bases)


def weighed_by_rank(
    bases: Sequence[DecomposableSimilarity], rank_weights: Tensor, patterns: Patterns, queries: Queries
) -> Scores:
    r"""$\sum_k u_k^\top \tilde q^{(k)}$ for rank weights (k, d): all at once by the kernel, or one by one."""
    rank_weights = rank_weights.to(patterns.dtype)
    if not have_kernel(bases, patterns, queries):
        terms = zip(bases, rank_weights, strict=True)
        scores = [ranked_scores(base.rule_for(patterns, queries), u, patterns, queries) for base, u in terms]
        return torch.stack(scores).sum(0) if len(scores) > 1 else scores[0]
    names = [base.kernel for base in bases if base.kernel is not None]
    asked = torch.stack([base.as_kernel_sees(queries) for base in bases], dim=-3)
    if patterns.ndim <= 3:
        return footprint_scores(names, rank_weights, patterns, asked)
    grouped = footprint_scores(names, rank_weights, patterns.flatten(0, -3), asked.flatten(0, -4))
    return grouped.view(*patterns.shape[:-2], *grouped.shape[1:])


def by_rank(base: DecomposableSimilarity, rank_weights: Tensor, patterns: Patterns, queries: Queries) -> PerDimension:
    """Addend of each dimension, (b, n, d): its similarity times the weight (d,) or (n, d) of the rank that it has."""
    values = base.addends(patterns, queries)
    ranks = values.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return values * rank_weights.to(values).expand_as(values).gather(-1, ranks)


def rank_weights_of(subspace_weights: Tensor) -> Tensor:
    r"""$u = U^\top w$: what each rank counts, given what each subspace size counts."""
    return subspace_weights.flip(-1).cumsum(-1).flip(-1)


def subspace_weights_of(rank_weights: Tensor) -> Tensor:
    r"""$w$ from $u$: $w_i = u_i - u_{i+1}$, $w_d = u_d$."""
    return torch.cat([rank_weights[..., :-1] - rank_weights[..., 1:], rank_weights[..., -1:]], dim=-1)


def from_paper_weights(weights: Vector) -> Vector:
    """Weights of the paper's notation table, lemmas and ablations (ascending order, upper-right U) in our order."""
    return weights.flip(-1)
