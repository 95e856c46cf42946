"""The networks that classify by likeness to prototypes."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ahop.modulations.base import Modulation
from ahop.modulations.kernel import KernelModulation
from ahop.modulations.unmodulated import Unmodulated
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity

SIMILARITIES = ("adaptive", "euclidean", "dot", "kernel")


class PrototypeNetwork(nn.Module):
    r"""$\mathrm{MLP}(\mathrm{LayerNorm}(\mathrm{sim}(\Xi, x)))$.

    Paper:
        The memory-based classifier of [apd:tabular], if there is no embedding.

    Args:
        start: (n, d), where the prototypes start.
        similarity: one of `SIMILARITIES`; "kernel" is an inner product of what a learned matrix makes of both.
        embedding: how many coordinates to learn for the comparison, in which the prototypes then live; None for those
            of the rows.
        learn_prototypes: whether they move, or stay where they start.
    """

    def __init__(
        self, start: Tensor, similarity: str, embedding: int | None, hidden: int, classes: int, learn_prototypes: bool
    ) -> None:
        super().__init__()
        self.embedding = nn.Identity() if embedding is None else nn.Linear(start.shape[1], embedding)
        placed = self.embedding(start).detach().clone()
        self.prototypes = nn.Parameter(placed, requires_grad=learn_prototypes)
        self.similarity, self.modulation = _comparison(similarity, placed.shape[1])
        self.norm = nn.LayerNorm(len(start))
        self.head = nn.Sequential(nn.Linear(len(start), hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def likeness(self, rows: Tensor) -> Tensor:
        """Similarity of rows (b, d) to the prototypes, (b, n); zero for a row of which nothing was observed."""
        scores: Tensor = self.similarity(self.modulation(self.prototypes), self.embedded(rows))
        return scores.masked_fill(rows.isnan().all(-1, keepdim=True), 0)

    def embedded(self, rows: Tensor) -> Tensor:
        """Embedding (b, e) of rows (b, d). A linear map knows no gaps: there, they are at the mean, zero."""
        is_linear = isinstance(self.embedding, nn.Linear)
        placed: Tensor = self.embedding(rows.nan_to_num(0.0)) if is_linear else rows
        return placed

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.likeness(rows)))
        return logits


class Committee(nn.Module):
    """Networks that learn alone and answer together: logarithms of the mean of their probabilities."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, rows: Tensor) -> Tensor:
        said = torch.stack([member(rows).log_softmax(-1) for member in self.members])
        return said.logsumexp(0) - torch.tensor(float(len(said))).log()


def _comparison(name: str, dimensions: int) -> tuple[Similarity, Modulation]:
    if name == "adaptive":
        return AdaptiveSimilarity(dimensions), Unmodulated()
    if name == "euclidean":
        return EuclideanSimilarity(), Unmodulated()
    return DotSimilarity(), KernelModulation(dimensions) if name == "kernel" else Unmodulated()
