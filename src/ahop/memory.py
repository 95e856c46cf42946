"""The waist of the house: stored patterns, and how they answer."""

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any, final, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ahop._archive import describe, write_archive
from ahop._blocks import blocks
from ahop._checks import (
    as_group_names,
    as_log_prior,
    as_patterns,
    as_queries,
    as_rows,
    check_count,
    check_kind,
    same_kind,
)
from ahop._frames import index_of, names_of
from ahop._labels import as_labels, as_text, frozen
from ahop._missing import filled, holds_nan, observed
from ahop._tensors import lowest
from ahop._typing import Array, Entries, NotTensor, PerQuery, Queries, RowsLike, Scores, Weights
from ahop.energies.base import Energy
from ahop.energies.free import FreeEnergy
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.kernels.packing import grown, keep_packed, taken, worth_packing
from ahop.modulations.base import Modulation
from ahop.modulations.unmodulated import Unmodulated
from ahop.recaller import Recall, in_kind_of, labels_at
from ahop.scanning import scan
from ahop.separations.base import Separation
from ahop.separations.softmax import Softmax
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import Similarity
from ahop.unknown import UnknownDetector

DEFAULT_ENERGY = FreeEnergy()


@final
class AssociativeMemory(nn.Module):
    r"""$y = \mathrm{sep}(\mathrm{sim}(\mathrm{mod}(\Xi), x))\,\Xi$: four ingredients and the stored patterns.

    Args:
        patterns: (n, d), one row each; NaN where nothing was observed, as in queries. The columns of a frame name the
            dimensions, and frames of queries are then put into their order.
        similarity: default the paper's adaptive similarity, which starts as distance plus inner product.
        separation: default softmax.
        modulation: default none.
        energy: default $-\Psi^*(s)$; None for networks without one.
        log_prior: (n,) how often each pattern is the origin, in logarithms; None if all are alike.
        labels: (n,) what each pattern is called: strings and whole numbers as they are, everything else by `str`.
            Default: the index of a pandas frame, if it does not just count the rows.

    Attributes:
        labels: (n,) or None if there are none.
        dimensions: the names of the columns, or None if there are none.

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
        patterns: RowsLike,
        similarity: Similarity | None = None,
        separation: Separation | None = None,
        modulation: Modulation | None = None,
        energy: Energy | None = DEFAULT_ENERGY,
        log_prior: Array | None = None,
        labels: Entries | None = None,
    ) -> None:
        super().__init__()
        stored = as_patterns(patterns)
        if not isinstance(patterns, Tensor) and worth_packing(stored):
            stored = (
                stored.clone()
            )  # torch counts the changes to a tensor, nobody those to an array: blocks would be stale
        self.register_buffer("patterns", stored)
        similarity = AdaptiveSimilarity(self.patterns.shape[1]) if similarity is None else similarity
        self.similarity = check_kind("similarity", similarity, Similarity)
        self.separation = check_kind("separation", separation or Softmax(), Separation)
        self.modulation = check_kind("modulation", modulation or Unmodulated(), Modulation)
        self.energy_function = None if energy is None else check_kind("energy", energy, Energy)
        self.register_buffer("log_prior", None if log_prior is None else as_log_prior(log_prior, self.patterns))
        self.detector: UnknownDetector | None = None
        self.group_names: list[str] = []
        self.by_group = nn.ModuleList()
        self.report: object = None
        self.labels = _labels(patterns, labels, len(stored))
        self.dimensions = names_of(patterns)
        self._check_sizes()

    def __len__(self) -> int:
        return len(self.patterns)

    def extra_repr(self) -> str:
        return f"patterns={tuple(self.patterns.shape)}"

    def forward(self, queries: RowsLike) -> Array:
        return self.retrieve(queries)

    def scores(self, queries: RowsLike) -> Scores:
        r"""$\mathrm{sim}(\mathrm{mod}(\Xi), x) + \log p(\xi)$, (b, n)."""
        checked = as_queries(queries, self.patterns, dimensions=self.dimensions)
        return self._with_prior(self.similarity(self._stored(), checked))

    def weights(self, queries: RowsLike) -> Weights:
        r"""$\mathrm{sep}(s)$, (b, n)."""
        return self.separation(self.scores(queries))

    @overload
    def retrieve(self, queries: Tensor) -> Tensor: ...
    @overload
    def retrieve(self, queries: NotTensor) -> NDArray[Any]: ...
    def retrieve(self, queries: RowsLike) -> Array:
        r"""$y = \mathrm{sep}(s)\,\Xi$, (b, d), of the same kind as the queries; also what calling the memory does."""
        checked = as_queries(queries, self.patterns, dimensions=self.dimensions)
        parts = [self.read(self.weights(block)) for block in self._query_blocks(checked)]
        return same_kind(torch.cat(parts) if parts else checked, queries)

    def read(self, weights: Weights) -> Queries:
        r"""$p\,\Xi$, (b, d): the answer that weights stand for.

        Each coordinate is read from the patterns that were observed there: their mean if the weights are a
        distribution, else their sum. It is NaN where there are none, or none with weight to take a mean of.
        """
        answers = weights @ self.patterns
        if not holds_nan(answers) or not holds_nan(self.patterns):  # a gap that has weight shows in the answers
            return answers
        is_mean = self.separation.is_distribution
        mass = (weights if is_mean else torch.ones_like(weights)) @ observed(self.patterns)
        sums = weights @ filled(self.patterns)
        return (sums / mass.where(mass > 0, 1.0) if is_mean else sums).where(mass > 0, torch.nan)

    @overload
    def recall(self, queries: Tensor, k: int = 1, groups: Sequence[object] | None = None) -> Recall[Tensor]: ...
    @overload
    def recall(
        self, queries: NotTensor, k: int = 1, groups: Sequence[object] | None = None
    ) -> Recall[NDArray[Any]]: ...
    def recall(self, queries: RowsLike, k: int = 1, groups: Sequence[object] | None = None) -> Recall[Any]:
        """The k stored patterns that each query most likely came from.

        Separations that are no distribution (Hop, D-Hop, E-Hop) rank by score, and their posterior is its softmax.

        Args:
            queries: (b, d), NaN where nothing was observed. The columns of a frame are put into the order of the stored
                one; those that it has not got were not observed.
            groups: where each query comes from, such as its device, if the memory was fitted with groups. Those that
                it does not know are answered by what all have in common.
        """
        checked = as_queries(queries, self.patterns, dimensions=self.dimensions)
        k = min(check_count("k", k), len(self))
        separation = self.separation if self.separation.is_distribution else Softmax()
        indices = torch.empty(len(checked), k, dtype=torch.long, device=self.patterns.device)
        posterior = checked.new_empty(len(checked), k)
        unknown = None if self.detector is None else checked.new_empty(len(checked))
        with torch.no_grad():
            stored = self._stored()
            for memory, rows in self._by_group(groups, len(checked)):
                if isinstance(separation, Softmax) and self.log_prior is None and self.detector is None:
                    best_of_all = scan(memory.similarity, separation, stored, checked[rows], k)
                    indices[rows], posterior[rows] = best_of_all.indices, best_of_all.posterior
                    continue
                for part in blocks(len(rows), self._row_bytes()):
                    asked = rows[part]
                    alike = memory.similarity(stored, checked[asked])
                    scores = self._with_prior(alike)
                    best = scores.topk(k, dim=-1).indices
                    indices[asked], posterior[asked] = best, separation(scores).gather(-1, best)
                    if self.detector is not None and unknown is not None:
                        unknown[asked] = self.detector(alike)
        labels = labels_at(self.labels, indices)
        return in_kind_of(queries, Recall(indices, posterior, self.patterns[indices], unknown, labels))

    def for_group(self, group: object) -> "AssociativeMemory":
        """The same memory as queries of this group see it; itself if the group is not known."""
        if str(group) not in self.group_names:
            return self
        similarity = self.by_group[self.group_names.index(str(group))]
        view = copy.copy(self)
        view._modules = {**self._modules, "similarity": similarity}
        return view

    def energy(self, queries: RowsLike) -> PerQuery:
        r"""$E(x) = Q(x) - \Psi^*(s)$, (b,)."""
        if self.energy_function is None:
            raise UnsupportedError("This network has no energy (Table 1 of the paper gives none for U-Hop).")
        checked = as_queries(queries, self.patterns, dimensions=self.dimensions)
        return self.energy_function(checked, self.scores(checked), self.separation, self.modulation)

    def add(self, patterns: RowsLike, labels: Entries | None = None) -> Tensor:
        """Store more patterns behind the others; answers their rows.

        Args:
            labels: one for each of them, if the memory has labels; default the index of a pandas frame.
        """
        more = as_queries(patterns, self.patterns, "patterns", self.dimensions)
        named = _labels(patterns, labels, len(more))
        if self.log_prior is not None:
            raise UnsupportedError(
                "A memory with a `log_prior` cannot grow: build it anew with a prior for all patterns."
            )
        self._check_labels(named, len(more))
        before = len(self)
        if len(more):
            self._replace_similarities(lambda similarity: similarity.grown(len(more)))
            self.patterns = grown(self.patterns, more)
            if self.labels is not None and named is not None:
                self.labels = frozen(np.concatenate([self.labels, named]), len(self))
        return torch.arange(before, len(self), device=self.patterns.device)

    def remove(self, indices: Entries) -> None:
        """Forget the patterns in these rows; the rows behind them move up."""
        gone = as_rows("indices", indices, len(self)).to(self.patterns.device).flatten()
        kept = torch.ones(len(self), dtype=torch.bool, device=self.patterns.device)
        kept[gone] = False
        rows = kept.nonzero().squeeze(-1)
        if not len(rows):
            raise InvalidValueError("`indices` names every stored pattern; a memory keeps at least one.")
        self._replace_similarities(lambda similarity: similarity.rows(rows))
        self.patterns = taken(self.patterns, rows)
        if self.log_prior is not None:
            self.log_prior = self.log_prior[rows]
        if self.labels is not None:
            self.labels = frozen(self.labels[rows.cpu().numpy()], len(rows))

    def copy(self) -> "AssociativeMemory":
        """The same memory with parts of its own; the stored patterns are shared, not copied."""
        shared: dict[int, object] = {id(self.patterns): self.patterns, id(self.labels): self.labels}
        return copy.deepcopy(self, shared)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that `ahop.load` reads. No pickle; written beside, then moved into place."""
        parts = {
            "similarity": describe(self.similarity),
            "separation": describe(self.separation),
            "modulation": describe(self.modulation),
            "energy": None if self.energy_function is None else describe(self.energy_function),
            "detector": None if self.detector is None else describe(self.detector),
        }
        manifest: dict[str, object] = {"memory": parts}
        if self.group_names:
            described = [describe(each) for each in self.by_group if isinstance(each, Similarity)]
            manifest["groups"] = {"names": self.group_names, "similarities": described}
        if self.report is not None:
            manifest["report"] = str(self.report)
        if self.dimensions is not None:
            manifest["dimensions"] = list(self.dimensions)
        labels = {} if self.labels is None else {"labels": as_text(self.labels)}
        write_archive(path, manifest, {**self.state_dict(), **labels})

    def _stored(self) -> Tensor:
        keep_packed(self.patterns)
        return self.modulation(self.patterns)

    def _replace_similarities(self, change: Callable[[Similarity], Similarity]) -> None:
        """That of the memory, and those of its groups."""
        self.similarity = change(self.similarity)
        self.by_group = nn.ModuleList(change(each) for each in self.by_group if isinstance(each, Similarity))

    def _with_prior(self, scores: Scores) -> Scores:
        if self.log_prior is None:
            return scores
        # A query that nothing is known about gets the prior, which would be lost beside so low a number.
        unknown = (scores == lowest(scores.dtype)).all(-1, keepdim=True)
        # The separation sharpens scores, and must not sharpen the prior.
        return scores.masked_fill(unknown, 0) + self.log_prior / self.separation.beta

    def _query_blocks(self, queries: Queries) -> list[Tensor]:
        """The queries in blocks whose scores and weights fit the budget."""
        return [queries[rows] for rows in blocks(len(queries), self._row_bytes())]

    def _row_bytes(self) -> int:
        return 4 * len(self) * self.patterns.element_size()

    def _by_group(self, groups: Sequence[object] | None, count: int) -> list[tuple["AssociativeMemory", Tensor]]:
        """Memories, and the rows of the queries that each answers."""
        device = self.patterns.device
        if groups is None:
            return [(self, torch.arange(count, device=device))]
        names = as_group_names(groups, count)
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            rows.setdefault(name, []).append(row)
        return [(self.for_group(name), torch.tensor(where, device=device)) for name, where in rows.items()]

    def _check_labels(self, named: NDArray[np.object_] | None, count: int) -> None:
        """Of patterns that are to be added."""
        if self.labels is not None and named is None and count:
            raise InvalidTypeError(
                f"`labels` are needed: those that are stored have labels, such as {self.labels[0]!r}. Pass "
                f"`labels=[...]`, one for each of the {count} patterns."
            )
        if self.labels is None and named is not None:
            raise InvalidTypeError(
                "`labels` cannot be kept: those that are stored have none. Leave them out, `reset_index(drop=True)` "
                "for a frame; or build the memory with `labels=`."
            )

    def _check_sizes(self) -> None:
        count, dimensions = self.patterns.shape
        for name, part in (("similarity", self.similarity), ("modulation", self.modulation)):
            made_for = part.configuration()
            if made_for.get("count", count) != count or made_for.get("dimensions", dimensions) != dimensions:
                raise ShapeError(
                    f"`{name}` must be made for {count} patterns of {dimensions} dimensions, as the memory stores; "
                    f"got {part!r}."
                )


def _labels(patterns: RowsLike, labels: Entries | None, count: int) -> NDArray[np.object_] | None:
    """Those that are given, else those that a frame has."""
    found = index_of(patterns) if labels is None else labels
    return None if found is None else as_labels(found, count)
