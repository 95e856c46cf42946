"""The associative memory."""

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ahop._core.blocks import blocks
from ahop._core.checks import check_count
from ahop._core.derived import keep_derived
from ahop._core.frames import index_of, names_of
from ahop._core.html import facts
from ahop._core.inputs import as_log_prior, as_patterns, as_queries, as_query, as_rows, flags_of, same_kind
from ahop._core.kernels.packing import keep_packed, worth_packing
from ahop._core.label_tensors import as_text, numbers_of_entries
from ahop._core.labels import as_labels, frozen
from ahop._core.locks import CopyableLock
from ahop._core.missing import filled, holds_nan, observed
from ahop._core.tensors import all_finite, saturate
from ahop._core.typing import Array, Entries, NotTensor, PerQuery, Queries, RowsLike, Scores, Weights
from ahop._core.words import told
from ahop.energies.base import Energy
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.memory.explain import Compared, explain
from ahop.memory.explanation import Explanation
from ahop.memory.model import DEFAULT_ENERGY, Model
from ahop.memory.ranking import posterior_of
from ahop.memory.recall import Recall, in_kind_of, labels_at
from ahop.memory.report import Report
from ahop.memory.saving.archive import write_archive
from ahop.memory.saving.description import describe_model
from ahop.memory.saving.export import export
from ahop.memory.scoring import rank, rank_together, settled, with_prior, without_floor
from ahop.memory.unknown import UnknownDetector
from ahop.modulations.base import Modulation
from ahop.separations.base import Separation
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import Similarity

Value = TypeVar("Value")


class _Part(Generic[Value]):
    """A part of a memory's model. Setting it makes a new model: who recalls at this moment goes on with the old one."""

    def __init__(self, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, memory: None, owner: type) -> "_Part[Value]": ...
    @overload
    def __get__(self, memory: "AssociativeMemory", owner: type) -> Value: ...
    def __get__(self, memory: "AssociativeMemory | None", owner: type) -> Any:
        return self if memory is None else getattr(memory.model, self._name)

    def __set__(self, memory: "AssociativeMemory", value: Value) -> None:
        memory.model = memory.model.replaced(**{self._name: value})


@dataclass(frozen=True)
class _State:
    """What answers one call, whatever is added or learned meanwhile: patterns, labels and model belong together."""

    patterns: Tensor
    log_prior: Tensor | None
    labels: NDArray[np.object_] | None
    model: Model

    def stored(self) -> Tensor:
        """The patterns as the similarity sees them."""
        keep_packed(self.patterns)
        keep_derived(self.patterns)
        return self.model.modulation(self.patterns)

    def scores(self, queries: Queries) -> Scores:
        scores = self.model.similarity(self.stored(), queries)
        return scores if self.log_prior is None else with_prior(scores, self.log_prior, self.model.separation)

    def weights(self, queries: Queries) -> Weights:
        return self.model.separation(self.scores(queries))

    def read(self, weights: Weights) -> Queries:
        answers = weights @ self.patterns
        if all_finite(answers):
            return answers
        if not holds_nan(self.patterns):  # weights that are no distribution may be very large
            return _held_finite(weights, self.patterns)
        is_mean = self.model.separation.is_distribution
        mass = (weights if is_mean else torch.ones_like(weights)) @ observed(self.patterns)
        sums = _held_finite(weights, filled(self.patterns))
        return (sums / mass.where(mass > 0, 1.0) if is_mean else sums).where(mass > 0, torch.nan)


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
        similarity: Similarity | Model | None = None,
        separation: Separation | None = None,
        modulation: Modulation | None = None,
        energy: Energy | None = DEFAULT_ENERGY,
        log_prior: Array | None = None,
        labels: Entries | None = None,
    ) -> None:
        super().__init__()
        stored = as_patterns(patterns)
        if not isinstance(patterns, Tensor) and worth_packing(stored):
            # torch counts the changes to a tensor, nobody those to an array: blocks would be stale
            stored = stored.clone()
        self.register_buffer("patterns", stored)
        self.register_buffer("log_prior", None if log_prior is None else as_log_prior(log_prior, stored))
        self.model = _model(similarity, separation, modulation, energy, stored.shape[1])
        self.labels = _labels(patterns, labels, len(stored))
        self.dimensions = names_of(patterns)
        self._lock = CopyableLock()
        self._check_sizes()

    similarity = _Part[Similarity]("similarity")
    separation = _Part[Separation]("separation")
    modulation = _Part[Modulation]("modulation")
    energy_function = _Part[Energy | None]("energy")
    detector = _Part[UnknownDetector | None]("detector")
    report = _Part[Report | None]("report")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), _Part):
            object.__setattr__(self, name, value)  # torch would keep modules beside the model
        else:
            super().__setattr__(name, value)

    def __len__(self) -> int:
        return len(self.patterns)

    def extra_repr(self) -> str:
        return f"patterns={tuple(self.patterns.shape)}"

    def _repr_html_(self) -> str:
        count, width = self.patterns.shape
        gaps = int(self.patterns.isnan().sum()) / max(1, self.patterns.numel())
        known = {
            "patterns": f"{count} rows of {width} dimensions, {100 * gaps:.0f} % missing",
            "labels": "none" if self.labels is None else told(self.labels.tolist()),
            "similarity": type(self.similarity).__name__,
            "tells unknown queries": "no" if self.detector is None else "yes",
        }
        words = "Nothing was learned yet." if self.report is None else str(self.report)
        return facts("AssociativeMemory", known, words)

    def forward(self, queries: RowsLike) -> Array:
        return self.retrieve(queries)

    def scores(self, queries: RowsLike) -> Scores:
        r"""$\mathrm{sim}(\mathrm{mod}(\Xi), x) + \log p(\xi)$, (b, n)."""
        state = self._state()
        return state.scores(as_queries(queries, state.patterns, dimensions=self.dimensions))

    def weights(self, queries: RowsLike) -> Weights:
        r"""$\mathrm{sep}(s)$, (b, n)."""
        state = self._state()
        return state.weights(as_queries(queries, state.patterns, dimensions=self.dimensions))

    @overload
    def retrieve(self, queries: Tensor) -> Tensor: ...
    @overload
    def retrieve(self, queries: NotTensor) -> NDArray[Any]: ...
    def retrieve(self, queries: RowsLike) -> Array:
        r"""$y = \mathrm{sep}(s)\,\Xi$, (b, d), of the same kind as the queries; also what calling the memory does."""
        state = self._state()
        checked = as_queries(queries, state.patterns, dimensions=self.dimensions)
        row_bytes = 4 * len(state.patterns) * state.patterns.element_size()
        parts = [state.read(state.weights(checked[rows])) for rows in blocks(len(checked), row_bytes)]
        return same_kind(torch.cat(parts) if parts else checked, queries)

    def read(self, weights: Weights) -> Queries:
        r"""$p\,\Xi$, (b, d): the answer that weights stand for.

        Each coordinate is read from the patterns that were observed there: their mean if the weights are a
        distribution, else their sum. It is NaN where there are none, or none with weight to take a mean of.
        """
        return self._state().read(weights)

    @overload
    def recall(
        self,
        queries: Tensor,
        k: int = 1,
        *,
        where: Entries | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[Tensor]: ...
    @overload
    def recall(
        self,
        queries: NotTensor,
        k: int = 1,
        *,
        where: Entries | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[NDArray[Any]]: ...
    def recall(
        self,
        queries: RowsLike,
        k: int = 1,
        *,
        where: Entries | None = None,
        groups: Sequence[object] | None = None,
        same: Entries | None = None,
    ) -> Recall[Any]:
        """The k stored patterns that each query most likely came from.

        Scores are looked at in blocks and forgotten. Separations that are no distribution (Hop, D-Hop, E-Hop) rank by
        score, and their posterior is its softmax.

        Args:
            queries: (b, d), NaN where nothing was observed. The columns of a frame are put into the order of the stored
                one; those that it has not got were not observed.
            where: which rows may be answered, as flags (n,) or as numbers; the posterior is among them. Beyond those
                there are, the index is -1.
            groups: where each query comes from, such as its device, if the memory was fitted with groups. Those that
                it does not know are answered by what all have in common.
            same: which queries have their origin in common, such as repeated scans or the frames of a video: an entry
                for each query, equal where the origin is the same. What they say is added, and there is one answer for
                each entry, in the order of their first appearance. They must be damaged independently of each other:
                a damage that they share is counted as often as there are queries.
        """
        state = self._state()
        patterns, prior, labels, model = state.patterns, state.log_prior, state.labels, state.model
        checked, stored = as_queries(queries, patterns, dimensions=self.dimensions), state.stored()
        k = min(check_count("k", k), len(patterns))
        rows = (
            None if where is None else flags_of("where", where, len(patterns)).to(stored.device).nonzero().squeeze(-1)
        )
        if same is None:
            ranked = rank(model, stored, checked, k, groups=groups, rows=rows, log_prior=prior)
            posterior, unknown = posterior_of(ranked, model, k)
        else:
            numbers = numbers_of_entries("same", same, len(checked)).to(stored.device)
            ranked, unknown = rank_together(
                model, stored, checked, numbers, k, groups=groups, rows=rows, log_prior=prior
            )
            posterior = posterior_of(ranked, without_floor(model), k)[0]
        found = patterns[ranked.ids.clamp_min(0)]
        if where is not None:
            found = found.masked_fill((ranked.ids < 0).unsqueeze(-1), torch.nan)
        named = labels_at(labels, ranked.ids)
        return in_kind_of(queries, Recall(ranked.ids, posterior, found, unknown, named, model.is_checked))

    def explain(self, query: RowsLike | Entries, *, against: object = None, group: object = None) -> Explanation:
        """Why this query is answered as it is: what each dimension says for the answer, and against its rival.

        Args:
            query: one row, (d,) or (1, d).
            against: label of the rival, or its row if there are no labels; or "unknown", if no label is that, for what
                tells the answer from a query of no stored pattern. Default: the second answer.
            group: where the query comes from, if the memory was fitted with groups.
        """
        state = self._state()
        prior, labels, model = state.log_prior, state.labels, state.model.for_group(group)
        asked, stored = as_query(query, state.patterns, self.dimensions), state.stored()
        model = settled(model, stored, asked)
        ranked = rank(model, stored, asked, 2, log_prior=prior)
        return explain(model, ranked, Compared.among(ranked, against, stored, prior, labels, self.dimensions), asked)

    def for_group(self, group: object) -> "AssociativeMemory":
        """The same memory as queries of this group see it; itself if the group is not known."""
        state = self._state()
        model = state.model.for_group(group)
        if model is state.model:
            return self
        view = AssociativeMemory(state.patterns, model, log_prior=state.log_prior, labels=state.labels)
        view.dimensions = self.dimensions
        return view

    def energy(self, queries: RowsLike) -> PerQuery:
        r"""$E(x) = Q(x) - \Psi^*(s)$, (b,)."""
        state = self._state()
        model = state.model
        if model.energy is None:
            raise UnsupportedError("This network has no energy (Table 1 of the paper gives none for U-Hop).")
        checked = as_queries(queries, state.patterns, dimensions=self.dimensions)
        return model.energy(checked, state.scores(checked), model.separation, model.modulation)

    def add(self, patterns: RowsLike, labels: Entries | None = None) -> Tensor:
        """Store more patterns behind the others; returns their rows. Several threads may add: each gets its own rows.

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
        with self._lock:
            before = len(self)
            if len(more):
                self.model = self.model.with_similarities(lambda similarity: similarity.grown(len(more)))
                self.patterns = torch.cat([self.patterns, more])
                if self.labels is not None and named is not None:
                    self.labels = frozen(np.concatenate([self.labels, named]), len(self))
            return torch.arange(before, len(self), device=self.patterns.device)

    def remove(self, indices: Entries) -> None:
        """Forget the patterns in these rows; the rows behind them move up."""
        with self._lock:
            gone = as_rows("indices", indices, len(self)).to(self.patterns.device).flatten()
            kept = torch.ones(len(self), dtype=torch.bool, device=self.patterns.device)
            kept[gone] = False
            rows = kept.nonzero().squeeze(-1)
            if not len(rows):
                raise InvalidValueError("`indices` names every stored pattern; a memory keeps at least one.")
            if self.log_prior is not None and bool(torch.isneginf(self.log_prior[rows]).all()):
                raise InvalidValueError(
                    "`indices` names every pattern whose prior is not zero; a memory keeps at least one of these."
                )
            self.model = self.model.with_similarities(lambda similarity: similarity.rows(rows))
            self.patterns = self.patterns[rows]
            if self.log_prior is not None:
                self.log_prior = self.log_prior[rows]
            if self.labels is not None:
                self.labels = frozen(self.labels[rows.cpu().numpy()], len(rows))

    def copy(self) -> "AssociativeMemory":
        """The same memory with parts of its own; the stored patterns are shared, not copied."""
        with self._lock:
            shared: dict[int, object] = {id(each): each for each in (self.patterns, self.labels)}
            return copy.deepcopy(self, shared)

    def __getstate__(self) -> dict[str, Any]:
        """One state, which all copies are made of: whatever is added meanwhile goes to tensors of its own."""
        with self._lock:
            return {name: copy.copy(value) if isinstance(value, dict) else value for name, value in vars(self).items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that `ahop.load` reads. No pickle; written beside, then moved into place."""
        state = copy.copy(self)  # nobody adds to it
        manifest = describe_model(state.model)
        if state.dimensions is not None:
            manifest["dimensions"] = list(state.dimensions)
        labels = {} if state.labels is None else {"labels": as_text(state.labels)}
        write_archive(path, manifest, {**state.state_dict(), **labels})

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write one file for `ahop.scorer`, which recalls with numpy alone; best called something.npz. No pickle.

        Raises:
            UnsupportedError: the scorer does not know this similarity; the error says which it knows.
        """
        state, named = self._state(), self.dimensions
        words = None if state.labels is None else state.labels.tolist()
        export(path, state.model, state.stored(), state.log_prior, words, None if named is None else list(named))

    def _state(self) -> _State:
        if torch.compiler.is_compiling():  # a compiler sees no other thread
            return _State(self.patterns, self.log_prior, self.labels, self.model)
        with self._lock:
            return _State(self.patterns, self.log_prior, self.labels, self.model)

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


def _model(
    similarity: Similarity | Model | None,
    separation: Separation | None,
    modulation: Modulation | None,
    energy: Energy | None,
    dimensions: int,
) -> Model:
    if not isinstance(similarity, Model):
        chosen = AdaptiveSimilarity(dimensions) if similarity is None else similarity
        return Model(chosen, separation, modulation, energy)
    if separation is not None or modulation is not None or energy is not DEFAULT_ENERGY:
        raise InvalidTypeError(
            "A model brings its own separation, modulation and energy: leave these out, or change the model by "
            "`model.replaced(separation=...)`."
        )
    return similarity


def _held_finite(weights: Weights, patterns: Tensor) -> Queries:
    """Sums of weighed patterns, held at the largest finite number."""
    largest = weights.detach().abs().amax(-1, keepdim=True)
    largest = largest.where(largest > 1, 1)
    return saturate(saturate((weights / largest) @ patterns) * largest)


def _labels(patterns: RowsLike, labels: Entries | None, count: int) -> NDArray[np.object_] | None:
    """Those that are given, else those that a frame has."""
    found = index_of(patterns) if labels is None else labels
    return None if found is None else as_labels(found, count)
