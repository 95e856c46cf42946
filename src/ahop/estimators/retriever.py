"""A scikit-learn estimator that retrieves stored patterns."""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor
from typing_extensions import override

from ahop._core.blocks import blocks
from ahop._core.checks import check_choice, check_count
from ahop._core.tensors import lowest
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.estimators._posterior import log_posterior
from ahop.estimators._threads import threads
from ahop.estimators._validation import by_name, checked_rows, dense
from ahop.fitting.fit import fit
from ahop.memory.memory import AssociativeMemory
from ahop.memory.recall import Recall, in_kind_of, joined, labels_at
from ahop.memory.recaller import BaseRecaller
from ahop.separations.softmax import Softmax
from ahop.similarities.base import Similarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity

FIXED: dict[str, type[Similarity]] = {
    "euclidean": EuclideanSimilarity,
    "manhattan": ManhattanSimilarity,
    "dot": DotSimilarity,
}
LEARNED = "auto"
# A fixed metric knows no temperature. At this one, half of the patterns prefer themselves to their nearest neighbor by
# at least so much, in logarithms; found from at most so many.
PREFERENCE, ASKED = 4.0, 256
LEAST_LEAD, MOST_LEAD = 1e-30, 1e30


class AssociativeRetriever(OneToOneFeatureMixin, TransformerMixin, BaseRecaller[Any], BaseEstimator):  # type: ignore[misc]
    r"""$p(\text{pattern} \mid \text{copy})$ over stored patterns: which of them, and how sure. NaN is "not observed".

    Like `sklearn.neighbors.NearestNeighbors`, but with a similarity that was learned, and probabilities.

    Args:
        corruption: None or "euclidean" for the squared distance over what was observed on both sides, "manhattan" or
            "dot"; "auto" to learn from `queries` at `fit`; or a `CorruptionModel` that was fitted. Clones share that
            one and do not fit it anew; a search that tries models needs them frozen,
            `sklearn.frozen.FrozenEstimator(model)`.
        n_neighbors: how many patterns are answered if nothing else is said.
        beta: the inverse temperature of the posterior. None is what the corruption model has calibrated; for fixed
            metrics a guess from how far apart the patterns are, which nothing has calibrated.
        n_jobs: how many threads torch may use; None leaves that as it is.

    Attributes:
        memory_: the stored patterns and their similarity.
        ids_: of each pattern, (n,).
        classes_: the different ids in rising order.

    Example:
        >>> retriever = AssociativeRetriever().fit(np.eye(3), ["a", "b", "c"])
        >>> retriever.predict([[0.1, np.nan, 0.9]])
        array(['c'], dtype='<U1')
    """

    def __init__(
        self, corruption: Any = None, n_neighbors: int = 5, *, beta: float | None = None, n_jobs: int | None = None
    ) -> None:
        self.corruption = corruption
        self.n_neighbors = n_neighbors
        self.beta = beta
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.classifier_tags = ClassifierTags()  # there is a `predict_proba`; but what is stored need not be classes
        return tags

    def __sklearn_clone__(self) -> Self:
        # What a corruption model has learned is an argument here, not something to be learned again.
        fresh: Self = super().__sklearn_clone__()
        fresh.corruption = copy(self.corruption)
        return fresh

    def fit(self, X: Any, y: Any = None, *, queries: Any = None) -> Self:
        """Store patterns.

        Args:
            X: (n, d), dense or sparse; NaN where nothing was observed, and zeros are zeros.
            y: (n,), the id of each; several may share one. Default: their row numbers.
            queries: (b, d) such as a log has them, whose origins nobody knows: with `corruption="auto"`, what happens
                to copies is learned from these.
        """
        if (queries is not None) != (isinstance(self.corruption, str) and self.corruption == LEARNED):
            raise InvalidValueError('`queries` and `corruption="auto"` go together: pass both or none.')
        patterns = dense(self._validate(X, reset=True))
        self._named = y is not None
        self._keep_ids(_check_ids(y, len(patterns), stored=0))
        with threads(self.n_jobs):
            self.memory_ = self._memory(patterns, queries)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Store more patterns behind the others. A temperature that was guessed stays as it is."""
        if not hasattr(self, "memory_"):
            return self.fit(X, y)
        if (y is not None) != self._named:
            raise InvalidValueError("Pass ids `y` each time or never: row numbers could not be told from names.")
        patterns = dense(self._validate(X, reset=False))
        ids = _check_ids(y, len(patterns), len(self.memory_))
        self.memory_.add(patterns)
        self._keep_ids(np.concatenate([self.ids_, ids]))
        return self

    def retrieve(self, X: Any, k: int | None = None, *, mask: Any = None, groups: Any = None) -> Recall[NDArray[Any]]:
        """The k patterns that each row most likely came from.

        Args:
            k: how many; default `n_neighbors`, and no more than are stored.
            mask: (b, d), True for entries to ignore, as if they were NaN.
            groups: (b,), where each row comes from, if the corruption model was fitted with groups.
        """
        check_is_fitted(self)
        count = min(check_count("k", self.n_neighbors if k is None else k), len(self.memory_))
        with threads(self.n_jobs):
            parts = [
                self.memory_.recall(queries, count, groups=None if groups is None else list(groups)[part])
                for part, queries in self._query_blocks(X, mask)
            ]
        return self._label(in_kind_of((), joined(parts)))

    @property
    @override
    def columns(self) -> tuple[str, ...] | None:
        return self.memory_.columns

    @property
    @override
    def dimensions(self) -> int:
        return self.memory_.dimensions

    @override
    def _like(self) -> Tensor:
        check_is_fitted(self)
        return self.memory_.patterns

    @override
    def _recalled(self, queries: Tensor, k: int, where: Any, groups: Any) -> Recall[Tensor]:
        return self._recalled_together(queries, k, where, groups, None)

    @override
    def _recalled_together(self, queries: Tensor, k: int, where: Any, groups: Any, same: Any) -> Recall[Tensor]:
        with threads(self.n_jobs):
            found = self.memory_.recall(queries, k, where=where, groups=groups, same=same)
        return self._label(found)

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Distances and rows of the nearest patterns, (b, k) each. A distance is the negative log posterior.

        Args:
            X: default the stored patterns; then none of them is its own neighbor.
        """
        check_is_fitted(self)
        count = check_count("n_neighbors", self.n_neighbors if n_neighbors is None else n_neighbors)
        stored = len(self.memory_) - (X is None)
        if count > stored:
            raise InvalidValueError(f"`n_neighbors` must be at most {stored}, as many as there are; got {count}.")
        distances, rows = [], []
        with threads(self.n_jobs):
            for part, queries in self._query_blocks(self.memory_.patterns.numpy() if X is None else X):
                itself = torch.arange(part.start, part.stop) if X is None else None
                best = log_posterior(self.memory_, queries, itself).topk(count, dim=-1)
                distances.append(-best.values.numpy().clip(max=0))
                rows.append(best.indices.numpy())
        found = np.concatenate(rows)
        return (np.concatenate(distances), found) if return_distance else found

    def transform(self, X: Any) -> NDArray[Any]:
        """The rows restored, (b, d): the posterior mean of the stored patterns, in every entry.

        To fill gaps and leave the rest, take `AssociativeImputer`.
        """
        check_is_fitted(self)
        with threads(self.n_jobs), torch.no_grad():
            return np.concatenate([self.memory_.retrieve(queries).numpy() for _, queries in self._query_blocks(X)])

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely id of each row, (b,); the posteriors of patterns that share an id add up."""
        likely: NDArray[np.intp] = self.predict_proba(X).argmax(axis=1)
        answer: NDArray[Any] = self.classes_[likely]
        return answer

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of `classes_`, (b, c)."""
        check_is_fitted(self)
        parts = []
        with threads(self.n_jobs):
            for _, queries in self._query_blocks(X):
                posterior = log_posterior(self.memory_, queries).exp()
                none = posterior.new_zeros(len(queries), len(self.classes_))
                parts.append(none.index_add(1, self._class_of, posterior).numpy())
        return np.concatenate(parts)

    def score(self, X: Any, y: Any) -> float:
        """The share of rows whose id comes first."""
        return float(np.mean(self.predict(X) == column_or_1d(y)))

    def _label(self, found: Recall[Any]) -> Recall[Any]:
        """Put ids in place of labels."""
        return replace(found, labels=labels_at(self.ids_.astype(object), found.indices))

    def _keep_ids(self, ids: NDArray[Any]) -> None:
        self.ids_ = ids
        self.classes_, places = np.unique(ids, return_inverse=True)
        self._class_of = torch.from_numpy(places)

    def _memory(self, patterns: NDArray[Any], queries: Any) -> AssociativeMemory:
        memory: AssociativeMemory
        if queries is not None:
            memory = fit(patterns, queries=dense(self._validate(queries, reset=False)), progress=False)
        elif self.corruption is None or isinstance(self.corruption, str):
            name = check_choice("corruption", self.corruption or "euclidean", tuple(FIXED))
            fixed = AssociativeMemory(patterns, FIXED[name]())
            fixed.separation = Softmax(_guess_beta(fixed) if self.beta is None else float(self.beta))
            return fixed
        else:
            memory = self.corruption.memory(patterns)
        if self.beta is not None:
            memory.separation = Softmax(float(self.beta))
        return memory

    def _validate(self, X: Any, reset: bool) -> Any:
        """An array or a sparse matrix; columns in the order of the model that knows them, or of the first fit."""
        if reset and not (self.corruption is None or isinstance(self.corruption, str)):
            X = by_name(_check_fitted(self.corruption), X)
        checked = checked_rows(self, X, reset=reset, copy=reset, sparse="csr")
        expected = getattr(self.corruption, "n_features_in_", checked.shape[1])
        if checked.shape[1] != expected:
            raise ShapeError(
                f"`X` must have {expected} columns, as the copies had that `corruption` was fitted to; "
                f"got {checked.shape[1]}."
            )
        return checked

    def _query_blocks(self, X: Any, mask: Any = None) -> Iterator[tuple[slice, Tensor]]:
        """Rows of the queries, and these rows, dense; as many as scores of them fit the budget."""
        queries = self._validate(X, reset=False)
        ignored = None if mask is None else _check_mask(by_name(self, mask), queries.shape)
        row_bytes = queries.dtype.itemsize * (queries.shape[1] + 4 * len(self.memory_))
        for part in blocks(queries.shape[0], row_bytes):
            shown = dense(queries[part])
            shown = shown if ignored is None else np.where(ignored[part], np.nan, shown)
            yield part, torch.from_numpy(np.require(shown, requirements="W"))


def _check_fitted(corruption: Any) -> Any:
    if not hasattr(corruption, "memory_"):
        raise InvalidTypeError(
            "`corruption` must be None, the name of a metric, or a `CorruptionModel` that was fitted; "
            f"got {corruption!r}. Call its `fit(copies, origins)` first; a search forgets that unless the model is "
            "frozen, `sklearn.frozen.FrozenEstimator(model)`."
        )
    return corruption


def _check_ids(y: Any, count: int, stored: int) -> NDArray[Any]:
    """One id for each pattern; row numbers, if none are given."""
    if y is None:
        return np.arange(stored, stored + count)
    ids: NDArray[Any] = column_or_1d(y)
    if len(ids) != count:
        raise ShapeError(f"`y` must have shape ({count},), one id for each pattern; got shape {ids.shape}.")
    return ids


def _check_mask(mask: Any, shape: tuple[int, int]) -> NDArray[np.bool_]:
    checked = np.asarray(mask)
    if checked.shape != shape or checked.dtype != np.bool_:
        raise ShapeError(
            f"`mask` must be booleans of shape {shape}, True for entries to ignore; "
            f"got dtype {checked.dtype} and shape {checked.shape}."
        )
    return checked


def _guess_beta(memory: AssociativeMemory) -> float:
    """From how much the patterns prefer themselves; one, if nothing can be told."""
    rows = torch.linspace(0, len(memory) - 1, min(len(memory), ASKED)).long()
    scores = memory.scores(memory.patterns[rows])
    own = scores.gather(-1, rows.unsqueeze(-1)).squeeze(-1)
    others = scores.scatter(-1, rows.unsqueeze(-1), -torch.inf).amax(-1)
    lead = (own - others)[others > 0.5 * lowest(scores.dtype)].abs()  # of those that share something with another
    lead = lead[lead > 0]
    return PREFERENCE / min(max(float(lead.median()), LEAST_LEAD), MOST_LEAD) if len(lead) else 1.0
