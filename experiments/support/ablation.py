"""What only the ablations need: unsorted similarities, and Adam on a transform U that may be learned."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import ahop
from ahop.similarities import LinearSimilarity, Similarity


class UnsortedSimilarity(LinearSimilarity):
    r"""$s = \sum_k u_k^\top q_k$ over dimensions in their own order: a footprint that was never sorted."""

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.dis = nn.Parameter(torch.ones(dimensions))
        self.dot = nn.Parameter(torch.ones(dimensions))

    def forward(self, patterns: Tensor, queries: Tensor) -> Tensor:
        crossed = (queries * (2 * self.dis + self.dot)) @ patterns.mT
        return crossed - (self.dis * queries**2).sum(-1, keepdim=True) - (self.dis * patterns**2).sum(-1)

    def features(self, patterns: Tensor, queries: Tensor) -> Tensor:
        difference = queries.unsqueeze(-2) - patterns.unsqueeze(-3)
        return torch.cat([-difference.square(), queries.unsqueeze(-2) * patterns.unsqueeze(-3)], dim=-1)

    @property
    def coefficients(self) -> Tensor:
        return torch.cat([self.dis, self.dot])

    def set_coefficients(self, coefficients: Tensor) -> None:
        with torch.no_grad():
            self.dis.copy_(coefficients[: self.dimensions])
            self.dot.copy_(coefficients[self.dimensions :])

    def roughness(self) -> Tensor:
        """Deviations from the mean of each half: no dimension is next to another here."""
        deviation = torch.eye(self.dimensions, dtype=torch.float64) - 1 / self.dimensions
        return torch.block_diag(deviation, deviation)  # type: ignore[no-untyped-call, no-any-return]

    def starts(self) -> Tensor:
        ones = torch.ones(1, self.dimensions, dtype=torch.float64)
        return torch.block_diag(ones, ones)  # type: ignore[no-untyped-call, no-any-return]


class PlainSimilarity(Similarity):
    r"""$s = \sum_k u_k^\top \tilde q_k$ as the formula reads, sorted or not: what a kernel is measured by."""

    def __init__(self, dimensions: int, is_sorted: bool) -> None:
        super().__init__()
        self.bases = [ahop.EuclideanSimilarity(), ahop.DotSimilarity()]
        self.is_sorted = is_sorted
        self.weights = nn.Parameter(torch.ones(len(self.bases), dimensions))

    def forward(self, patterns: Tensor, queries: Tensor) -> Tensor:
        scores = []
        for base, weights in zip(self.bases, self.weights, strict=True):
            addends = base.per_dimension(patterns, queries)
            scores.append((addends.sort(-1, descending=True).values if self.is_sorted else addends) @ weights)
        return torch.stack(scores).sum(0)


@dataclass(frozen=True)
class Start:
    """Where Adam starts: a matrix U, which is learned too or stays."""

    transform: Tensor
    is_learned: bool = False


def fits_with_adam(
    memory: ahop.AssociativeMemory,
    pairs: ahop.Pairs,
    starts: Sequence[Start],
    epochs: int,
    learning_rate: float = 0.1,
) -> list[ahop.AssociativeMemory]:
    r"""The paper's recipe for $s = \sum_k \beta_k w_k^\top U q_k$ from each start, on features that are computed once.

    Starts at $U^\top w$ nearest to all ones, the base similarities, whatever U is. Fits share nothing but the reading
    of the features, which takes most of the time.
    """
    similarity = memory.similarity
    assert isinstance(similarity, LinearSimilarity)
    features = similarity.features(memory.patterns, pairs.queries)
    bases = features.shape[-1] // similarity.dimensions
    flat, origins = features.flatten(0, 1), pairs.origins.repeat(len(starts))
    fits = [_AdamFit(start, bases, similarity.dimensions, learning_rate) for start in starts]
    for _ in range(epochs):
        scores = torch.stack([fit.coefficients() for fit in fits]) @ flat.mT
        loss = nn.functional.cross_entropy(scores.view(-1, len(memory)), origins) * len(fits)
        for fit in fits:
            fit.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for fit in fits:
            fit.optimizer.step()
    return [_with_coefficients(memory, fit.coefficients().detach()) for fit in fits]


class _AdamFit:
    """The parameters of one fit."""

    def __init__(self, start: Start, bases: int, dimensions: int, learning_rate: float) -> None:
        nearest = torch.linalg.lstsq(start.transform.mT, torch.ones(dimensions, 1)).solution.mT
        self.weights = nn.Parameter(nearest.expand(bases, -1).clone())
        self.betas = nn.Parameter(torch.ones(bases, 1))
        self.matrix = nn.Parameter(start.transform.clone(), requires_grad=start.is_learned)
        learned = [self.weights, self.betas, *([self.matrix] if start.is_learned else [])]
        self.optimizer = torch.optim.Adam(learned, lr=learning_rate)

    def coefficients(self) -> Tensor:
        return (self.betas * (self.weights @ self.matrix)).flatten()


def _with_coefficients(memory: ahop.AssociativeMemory, coefficients: Tensor) -> ahop.AssociativeMemory:
    fitted = memory.copy()
    assert isinstance(fitted.similarity, LinearSimilarity)
    fitted.similarity.set_coefficients(coefficients)
    return fitted
