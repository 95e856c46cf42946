"""The associative memory."""

import copy
import os
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, final, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.checks import check_kind
from ahop._core.columns import described
from ahop._core.frames import columns_of, index_of
from ahop._core.html import facts
from ahop._core.inputs import as_log_prior, as_patterns, as_queries, as_query, as_rows, flags_of, same_kind
from ahop._core.label_tensors import as_text
from ahop._core.labels import as_labels, frozen
from ahop._core.locks import CopyableLock
from ahop._core.prepared import worth_preparing
from ahop._core.typing import Array, Entries, NotTensor, PerQuery, Queries, RowsLike, Scores, Weights
from ahop._core.words import told
from ahop.energies.base import Energy
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.memory.explanation import Explanation
from ahop.memory.model import DEFAULT_ENERGY, Model
from ahop.memory.recall import Recall
from ahop.memory.recaller import BaseRecaller
from ahop.memory.report import Report
from ahop.memory.saving.archive import write_archive
from ahop.memory.saving.description import describe_model
from ahop.memory.state import State
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


@final
class AssociativeMemory(nn.Module, BaseRecaller[Entries]):
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
        model: all four ingredients and what was learned, such as `memory.model` of another memory; instead of them.

    Attributes:
        labels: (n,) or None if there are none.
        columns: the names of the columns, or None if there are none.
        dimensions: the number of columns.

    Paper:
        Section 2.1, the unified framework; with the defaults, A-Hop [eqn:ret-dyn].

    Example:
        >>> memory = AssociativeMemory(torch.eye(3), separation=Softmax(beta=10.0))
        >>> memory.recall(torch.tensor([[0.9, 0.2, 0.0]]), k=1).indices
        tensor([[0]])
    """

    patterns: Tensor
    log_prior: Tensor | None
    columns: tuple[str, ...] | None = None
    _last: State | None = None  # of the last call: it holds what was made of the patterns

    def __init__(
        self,
        patterns: RowsLike,
        similarity: Similarity | None = None,
        separation: Separation | None = None,
        modulation: Modulation | None = None,
        energy: Energy | None = DEFAULT_ENERGY,
        log_prior: Array | None = None,
        labels: Entries | None = None,
        *,
        model: Model | None = None,
    ) -> None:
        super().__init__()
        columns = columns_of(patterns)
        stored = as_patterns(patterns, columns=columns)
        if not isinstance(patterns, Tensor) and worth_preparing(stored):
            # torch counts the changes to a tensor, nobody those to an array
            stored = stored.clone()
        self.register_buffer("patterns", stored)
        self.register_buffer("log_prior", None if log_prior is None else as_log_prior(log_prior, stored))
        self.model = _model(model, similarity, separation, modulation, energy, stored.shape[1])
        self.labels = _labels(patterns, labels, len(stored))
        self.columns = columns
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

    @property
    @override
    def dimensions(self) -> int:
        return self.patterns.shape[1]

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
        return state.scores(self._checked(queries))

    def weights(self, queries: RowsLike) -> Weights:
        r"""$\mathrm{sep}(s)$, (b, n)."""
        state = self._state()
        return state.weights(self._checked(queries))

    @overload
    def retrieve(self, queries: Tensor) -> Tensor: ...
    @overload
    def retrieve(self, queries: NotTensor) -> NDArray[Any]: ...
    def retrieve(self, queries: RowsLike) -> Array:
        r"""$y = \mathrm{sep}(s)\,\Xi$, (b, d), of the same kind as the queries; also what calling the memory does."""
        state = self._state()
        checked = self._checked(queries)
        row_bytes = 4 * len(state.patterns) * state.patterns.element_size()
        parts = [state.read(state.weights(checked[rows])) for rows in blocks(len(checked), row_bytes)]
        return same_kind(torch.cat(parts) if parts else checked, queries)

    def read(self, weights: Weights) -> Queries:
        r"""$p\,\Xi$, (b, d): the answer that weights stand for.

        Each coordinate is read from the patterns that were observed there: their mean if the weights are a
        distribution, else their sum. It is NaN where there are none, or none with weight to take a mean of.
        """
        return self._state().read(weights)

    def explain(self, query: RowsLike | Entries, *, against: object = None, group: object = None) -> Explanation:
        """Why this query is answered as it is: what each dimension says for the answer, and against its rival.

        Args:
            query: one row, (d,) or (1, d).
            against: label of the rival, or its row if there are no labels; or "unknown", if no label is that, for what
                tells the answer from a query of no stored pattern. Default: the second answer.
            group: where the query comes from, if the memory was fitted with groups.
        """
        state = self._state()
        asked = as_query(query, state.patterns, self.columns, self._query_dimensions)
        return state.explained(asked, against, group, state.labels, self.columns)

    def for_group(self, group: object) -> "AssociativeMemory":
        """View of the memory for queries of this group; itself if the group is not known."""
        state = self._state()
        model = state.model.for_group(group)
        if model is state.model:
            return self
        view = AssociativeMemory(state.patterns, model=model, log_prior=state.log_prior, labels=state.labels)
        view.columns = self.columns
        return view

    def energy(self, queries: RowsLike) -> PerQuery:
        r"""$E(x) = Q(x) - \Psi^*(s)$, (b,)."""
        state = self._state()
        model = state.model
        if model.energy is None:
            raise UnsupportedError("This network has no energy (Table 1 of the paper gives none for U-Hop).")
        checked = self._checked(queries)
        return model.energy(checked, state.scores(checked), model.separation, model.modulation)

    def add(self, patterns: RowsLike, labels: Entries | None = None) -> Tensor:
        """Store more patterns behind the others; returns their rows. Several threads may add: each gets its own rows.

        Args:
            labels: one for each of them, if the memory has labels; default the index of a pandas frame.
        """
        more = as_queries(patterns, self.patterns, "patterns", self.columns)
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
        """Copy the memory with parts of its own; the stored patterns are shared, not copied."""
        with self._lock:
            shared: dict[int, object] = {id(each): each for each in (self.patterns, self.labels)}
            return copy.deepcopy(self, shared)

    def __getstate__(self) -> dict[str, Any]:
        """One state, which all copies are made of: whatever is added meanwhile goes to tensors of its own."""
        with self._lock:
            mine = {name: copy.copy(value) if isinstance(value, dict) else value for name, value in vars(self).items()}
        mine.pop("_last", None)
        return mine

    @override
    def _apply(self, fn: Any, recurse: bool = True) -> "AssociativeMemory":
        try:
            moved: AssociativeMemory = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        except (AssertionError, RuntimeError) as error:
            if torch.cuda.is_available():
                raise
            raise UnsupportedError(
                f"This machine has no GPU that torch could use: {str(error).rstrip('.')}. Leave the memory where it "
                "is: recall is compiled for the processor."
            ) from error
        return moved

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file that `ahop.load` reads, with no pickle. A file of that name is replaced.

        It is written beside its place and then moved there: it is the old file or the new one, never a part.
        """
        state = copy.copy(self)  # nobody adds to it
        manifest = describe_model(state.model)
        if state.columns is not None:
            manifest.update(described(state.columns))
        labels = {} if state.labels is None else {"labels": as_text(state.labels)}
        write_archive(path, manifest, {**state.state_dict(), **labels})

    @override
    def _like(self) -> Tensor:
        return self.patterns

    @property
    @override
    def _query_dimensions(self) -> int | None:
        return self.model.query_dimensions

    @override
    def _recalled(
        self, queries: Queries, k: int, where: Entries | None, groups: Sequence[object] | None
    ) -> Recall[Tensor]:
        state = self._state()
        return state.recalled(queries, k, _rows(where, state.patterns), groups)

    @override
    def _recalled_together(
        self, queries: Queries, k: int, where: Entries | None, groups: Sequence[object] | None, same: Entries
    ) -> Recall[Tensor]:
        state = self._state()
        return state.recalled_together(queries, k, _rows(where, state.patterns), groups, same)

    def _state(self) -> State:
        if torch.compiler.is_compiling():  # a compiler sees no other thread
            return State(self.patterns, self.log_prior, self.labels, self.model)
        with self._lock:
            parts = self.patterns, self.log_prior, self.labels, self.model
            last = self._last
            if last is None or any(
                now is not then
                for now, then in zip(parts, (last.patterns, last.log_prior, last.labels, last.model), strict=True)
            ):
                last = self._last = State(*parts)
            return last

    def _check_labels(self, named: NDArray[np.object_] | None, count: int) -> None:
        """Check the labels of patterns that are to be added."""
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
    model: Model | None,
    similarity: Similarity | None,
    separation: Separation | None,
    modulation: Modulation | None,
    energy: Energy | None,
    dimensions: int,
) -> Model:
    if model is None:
        return Model(
            AdaptiveSimilarity(dimensions) if similarity is None else similarity, separation, modulation, energy
        )
    if any(each is not None for each in (similarity, separation, modulation)) or energy is not DEFAULT_ENERGY:
        raise InvalidTypeError(
            "A `model` brings its own similarity, separation, modulation and energy: leave these out, or change the "
            "model by `model.replaced(separation=...)`."
        )
    return check_kind("model", model, Model)


def _labels(patterns: RowsLike, labels: Entries | None, count: int) -> NDArray[np.object_] | None:
    """Those that are given, else those that a frame has."""
    found = index_of(patterns) if labels is None else labels
    return None if found is None else as_labels(found, count)


def _rows(where: Entries | None, patterns: Tensor) -> Tensor | None:
    """The numbers of rows that may be answered; None for all."""
    return None if where is None else flags_of("where", where, len(patterns)).to(patterns.device).nonzero().squeeze(-1)
