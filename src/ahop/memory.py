"""The waist of the house: stored patterns, and how they answer."""

import copy
import os
from dataclasses import dataclass
from typing import Generic, final

import torch
from torch import Tensor, nn

from ahop._archive import describe, write_archive
from ahop._blocks import blocks
from ahop._checks import as_log_prior, as_patterns, as_queries, as_rows, check_count, check_kind, same_kind
from ahop._typing import Array, Kind, PerQuery, Queries, Scores, Weights
from ahop.energy import Energy, FreeEnergy
from ahop.errors import InvalidValueError, ShapeError, UndefinedError
from ahop.modulations.base import Modulation
from ahop.modulations.unmodulated import Unmodulated
from ahop.separations.base import Separation
from ahop.separations.softmax import Softmax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import Similarity

DEFAULT_ENERGY = FreeEnergy()


@dataclass(frozen=True)
class Recall(Generic[Kind]):
    """What a memory answers, best first.

    Attributes:
        indices: rows of the stored patterns, (b, k).
        posterior: how sure each of them is, (b, k); over all stored patterns it sums to one.
        patterns: the stored patterns themselves, (b, k, d).
    """

    indices: Kind
    posterior: Kind
    patterns: Kind


@final
class AssociativeMemory(nn.Module):
    r"""$y = \mathrm{sep}(\mathrm{sim}(\mathrm{mod}(\Xi), x))\,\Xi$: four ingredients and the stored patterns.

    Args:
        patterns: (n, d), one row each.
        similarity: default the paper's adaptive similarity, which starts as distance plus inner product.
        separation: default softmax.
        modulation: default none.
        energy: default $-\Psi^*(s)$; None for networks without one.
        log_prior: (n,) how often each pattern is the origin, in logarithms; None if all are alike.

    Paper:
        Section 2.1, the unified framework; with the defaults, A-Hop [eqn:ret-dyn].

    Example:
        >>> memory = AssociativeMemory(torch.eye(3), separation=Softmax(beta=10.0))
        >>> memory.recall(torch.tensor([[0.9, 0.2, 0.0]]), k=1).indices
        tensor([[0]])
    """

    patterns: Tensor
    log_prior: Tensor | None

    def __init__(
        self,
        patterns: Array,
        similarity: Similarity | None = None,
        separation: Separation | None = None,
        modulation: Modulation | None = None,
        energy: Energy | None = DEFAULT_ENERGY,
        log_prior: Array | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("patterns", as_patterns(patterns))
        similarity = AdaptiveSimilarity(self.patterns.shape[1]) if similarity is None else similarity
        self.similarity = check_kind("similarity", similarity, Similarity)
        self.separation = check_kind("separation", separation or Softmax(), Separation)
        self.modulation = check_kind("modulation", modulation or Unmodulated(), Modulation)
        self.energy_function = None if energy is None else check_kind("energy", energy, Energy)
        self.register_buffer("log_prior", None if log_prior is None else as_log_prior(log_prior, self.patterns))
        self.report: object = None
        self._check_sizes()

    def __len__(self) -> int:
        return len(self.patterns)

    def extra_repr(self) -> str:
        return f"patterns={tuple(self.patterns.shape)}"

    def forward(self, queries: Kind) -> Kind:
        return self.retrieve(queries)

    def scores(self, queries: Array) -> Scores:
        r"""$\mathrm{sim}(\mathrm{mod}(\Xi), x) + \log p(\xi)$, (b, n)."""
        checked = as_queries(queries, self.patterns)
        scores = self.similarity(self.modulation(self.patterns), checked)
        return scores if self.log_prior is None else scores + self.log_prior

    def weights(self, queries: Array) -> Weights:
        r"""$\mathrm{sep}(s)$, (b, n)."""
        return self.separation(self.scores(queries))

    def retrieve(self, queries: Kind) -> Kind:
        r"""$y = \mathrm{sep}(s)\,\Xi$, (b, d), of the same kind as the queries; also what calling the memory does."""
        checked = as_queries(queries, self.patterns)
        parts = [self.weights(block) @ self.patterns for block in self._query_blocks(checked)]
        return same_kind(torch.cat(parts) if parts else checked, queries)

    def recall(self, queries: Kind, k: int = 1) -> Recall[Kind]:
        """The k stored patterns that each query most likely came from.

        Separations that are no distribution (Hop, D-Hop, E-Hop) rank by score, and their posterior is its softmax.
        """
        checked = as_queries(queries, self.patterns)
        k = min(check_count("k", k), len(self))
        separation = self.separation if self.separation.is_distribution else Softmax()
        values, indices = [], []
        with torch.no_grad():
            for block in self._query_blocks(checked):
                scores = self.scores(block)
                best = scores.topk(k, dim=-1).indices
                indices.append(best)
                values.append(separation(scores).gather(-1, best))
        rows = torch.cat(indices) if indices else torch.empty(0, k, dtype=torch.long, device=self.patterns.device)
        posterior = torch.cat(values) if values else checked.new_empty(0, k)
        return Recall(same_kind(rows, queries), same_kind(posterior, queries), same_kind(self.patterns[rows], queries))

    def energy(self, queries: Array) -> PerQuery:
        r"""$E(x) = Q(x) - \Psi^*(s)$, (b,)."""
        if self.energy_function is None:
            raise UndefinedError("This network has no energy (Table 1 of the paper gives none for U-Hop).")
        checked = as_queries(queries, self.patterns)
        return self.energy_function(checked, self.scores(checked), self.separation, self.modulation)

    def add(self, patterns: Array) -> Tensor:
        """Store more patterns behind the others; answers their rows."""
        more = as_queries(patterns, self.patterns, name="patterns")
        if self.log_prior is not None:
            raise UndefinedError(
                "A memory with a `log_prior` cannot grow: build it anew with a prior for all patterns."
            )
        before = len(self)
        if len(more):
            self.similarity = self.similarity.grown(len(more))
            self.patterns = torch.cat([self.patterns, more])
        return torch.arange(before, len(self), device=self.patterns.device)

    def remove(self, indices: Array) -> None:
        """Forget the patterns in these rows; the rows behind them move up."""
        gone = as_rows("indices", indices, len(self)).to(self.patterns.device).flatten()
        kept = torch.ones(len(self), dtype=torch.bool, device=self.patterns.device)
        kept[gone] = False
        rows = kept.nonzero().squeeze(-1)
        if not len(rows):
            raise InvalidValueError("`indices` names every stored pattern; a memory keeps at least one.")
        self.similarity = self.similarity.rows(rows)
        self.patterns = self.patterns[rows]
        if self.log_prior is not None:
            self.log_prior = self.log_prior[rows]

    def copy(self) -> "AssociativeMemory":
        """The same memory with parts of its own; the stored patterns are shared, not copied."""
        shared: dict[int, object] = {id(self.patterns): self.patterns}
        return copy.deepcopy(self, shared)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that `ahop.load` reads. No pickle; written beside, then moved into place."""
        parts = {
            "similarity": describe(self.similarity),
            "separation": describe(self.separation),
            "modulation": describe(self.modulation),
            "energy": None if self.energy_function is None else describe(self.energy_function),
        }
        write_archive(path, {"memory": parts}, self.state_dict())

    def _query_blocks(self, queries: Queries) -> list[Tensor]:
        """The queries in blocks whose scores and weights fit the budget."""
        row = 4 * len(self) * self.patterns.element_size()
        return [queries[rows] for rows in blocks(len(queries), row)]

    def _check_sizes(self) -> None:
        count, dimensions = self.patterns.shape
        for name, part in (("similarity", self.similarity), ("modulation", self.modulation)):
            made_for = part.configuration()
            if made_for.get("count", count) != count or made_for.get("dimensions", dimensions) != dimensions:
                raise ShapeError(
                    f"`{name}` must be made for {count} patterns of {dimensions} dimensions, as the memory stores; "
                    f"got {part!r}."
                )
