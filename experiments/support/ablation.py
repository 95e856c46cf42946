"""What only the ablations need: unsorted similarities, and Adam on a transform U that may be learned."""

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


def fit_with_adam(
    memory: ahop.AssociativeMemory,
    pairs: ahop.Pairs,
    transform: Tensor,
    learn_transform: bool,
    epochs: int,
    learning_rate: float = 0.1,
) -> ahop.AssociativeMemory:
    r"""The paper's recipe for $s = \sum_k \beta_k w_k^\top U q_k$, on pairs whose features are computed once.

    Starts at $U^\top w$ nearest to all ones, the base similarities, whatever U is.
    """
    similarity = memory.similarity
    assert isinstance(similarity, LinearSimilarity)
    features = similarity.features(memory.patterns, pairs.queries)
    bases = features.shape[-1] // similarity.dimensions
    start = torch.linalg.lstsq(transform.mT, torch.ones(similarity.dimensions, 1)).solution.mT
    weights = nn.Parameter(start.expand(bases, -1).clone())
    betas = nn.Parameter(torch.ones(bases, 1))
    matrix = nn.Parameter(transform.clone(), requires_grad=learn_transform)
    optimizer = torch.optim.Adam([weights, betas, *([matrix] if learn_transform else [])], lr=learning_rate)
    for _ in range(epochs):
        scores = features @ (betas * (weights @ matrix)).flatten()
        loss = nn.functional.cross_entropy(scores, pairs.origins)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    fitted = memory.copy()
    assert isinstance(fitted.similarity, LinearSimilarity)
    fitted.similarity.set_coefficients((betas * (weights @ matrix)).flatten().detach())
    return fitted
