"""The adaptive similarity of A-Hop."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.checks import check_count, check_kind
from ahop._core.tensors import block_diagonal
from ahop._core.typing import Coefficients, Features, Patterns, Queries, Scores
from ahop.errors import InvalidValueError
from ahop.similarities.base import DecomposableSimilarity, LinearSimilarity
from ahop.similarities.contributions import Contributions
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.footprint import FootprintSimilarity, by_rank, have_kernel, weighed_by_rank


def default_bases() -> list[DecomposableSimilarity]:
    """The paper's two: squared distance and inner product."""
    return [EuclideanSimilarity(), DotSimilarity()]


def check_bases(bases: Sequence[DecomposableSimilarity] | None) -> list[DecomposableSimilarity]:
    chosen = default_bases() if bases is None else list(bases)
    if not chosen:
        raise InvalidValueError(
            "`bases` must name at least one similarity; got none. Leave it out for the paper's two."
        )
    return [check_kind("bases", base, DecomposableSimilarity) for base in chosen]


@final
class AdaptiveSimilarity(LinearSimilarity):
    r"""$s(\xi, x) = \sum_k \beta_k \, w_k^\top \mathrm{ftpt}_k(\xi, x)$.

    Any number of decomposable base similarities, each with weights over subspace sizes. Linear in
    $\beta_k U^\top w_k$, so `fit` finds the global optimum.

    Paper:
        Section 3.3 [sec:ada_sim_a_hop]; its design in [apd:optimal].

    Example:
        >>> AdaptiveSimilarity(64)
        AdaptiveSimilarity(dimensions=64, bases=[EuclideanSimilarity(), DotSimilarity()])
    """

    def __init__(self, dimensions: int, bases: Sequence[DecomposableSimilarity] | None = None) -> None:
        super().__init__()
        self.dimensions = check_count("dimensions", dimensions)
        self.footprints = nn.ModuleList(FootprintSimilarity(base, dimensions) for base in check_bases(bases))
        self.missing_is_evidence = any(part.missing_is_evidence for part in self._parts())
        self.betas = nn.Parameter(torch.ones(len(self.footprints)))

    @override
    def configuration(self) -> dict[str, object]:
        return {"dimensions": self.dimensions, "bases": self._bases()}

    @override
    def forward(self, patterns: Patterns, queries: Queries) -> Scores:
        parts = zip(self.betas.to(patterns.dtype), self._parts(), strict=True)
        rank_weights = torch.stack([beta * part.coefficients.to(patterns.dtype) for beta, part in parts])
        return weighed_by_rank(self._bases(), rank_weights, patterns, queries)

    partial = forward

    @override
    def contributions(self, patterns: Patterns, queries: Queries) -> Contributions:
        terms = zip(self.betas, self._parts(), strict=True)
        found = [by_rank(part.base, beta * part.coefficients, patterns, queries) for beta, part in terms]
        return Contributions(torch.stack(found).sum(0), {})

    @override
    def reads_gaps(self, patterns: Patterns, queries: Queries) -> bool:
        return self.missing_is_evidence or have_kernel(self._bases(), patterns, queries)

    @override
    def features(self, patterns: Patterns, queries: Queries) -> Features:
        return torch.cat([part.features(patterns, queries) for part in self._parts()], dim=-1)

    @property
    @override
    def coefficients(self) -> Coefficients:
        parts = zip(self.betas, self._parts(), strict=True)
        return torch.cat([beta * part.coefficients for beta, part in parts])

    @override
    def set_coefficients(self, coefficients: Coefficients) -> None:
        for part, chunk in zip(self._parts(), coefficients.view(-1, self.dimensions), strict=True):
            part.set_coefficients(chunk)
        with torch.no_grad():
            self.betas.fill_(1)

    @override
    def roughness(self) -> Tensor:
        return block_diagonal([part.roughness() for part in self._parts()])

    @override
    def starts(self) -> Tensor:
        return block_diagonal([part.starts() for part in self._parts()])

    @override
    def cone(self) -> tuple[Tensor, Tensor]:
        parts = [part.cone() for part in self._parts()]
        return block_diagonal([each for each, _ in parts]), torch.cat([bounded for _, bounded in parts])

    @override
    def set_mixture(self, weights: Tensor) -> None:
        for part, chunk in zip(self._parts(), weights.view(-1, self.dimensions), strict=True):
            part.set_mixture(chunk)
        with torch.no_grad():
            self.betas.fill_(1)

    def _bases(self) -> list[DecomposableSimilarity]:
        return [part.base for part in self._parts()]

    def _parts(self) -> list[FootprintSimilarity]:
        return [part for part in self.footprints if isinstance(part, FootprintSimilarity)]
