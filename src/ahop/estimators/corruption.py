"""A scikit-learn estimator that learns how copies get corrupted."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from ahop._core.checks import as_group_names
from ahop._core.typing import Array
from ahop.errors import InvalidValueError, ShapeError
from ahop.estimators._posterior import log_posterior
from ahop.estimators._row_memory import distinct_rows
from ahop.estimators._threads import threads
from ahop.estimators._validation import by_name, checked_rows, names_of, seed_from
from ahop.fitting.fit import fit
from ahop.memory.memory import AssociativeMemory


class CorruptionModel(BaseEstimator):  # type: ignore[misc]
    r"""$p(\text{copy} \mid \text{origin})$, learned from pairs: X are the copies, y their origins. NaN may be in both.

    Where nobody knows the origins, `fit(copies, patterns=stored)` learns from the copies and what is stored.

    The distinct rows of y are the patterns that the copies are told apart by, and `ahop.fit` does the rest. What was
    learned does not know these patterns: give the model to `AssociativeRetriever(corruption=model)`, which stores
    others.

    Args:
        kind: "auto" compares what can be learned on pairs that were held out; or one of them by its name, as
            `similarity` of `ahop.fit`.
        random_state: of the split into pairs to learn from and pairs to judge by.
        n_jobs: how many threads torch may use; None leaves that as it is.
        verbose: show a bar.

    Attributes:
        memory_: the distinct origins, with the similarity that was learned.
        corruption_: what was found out about the copies, in numbers; None if the pairs were too few.
        kind_: the similarity that was chosen.
        origins_: the distinct origins, (n, d).
        labels_: the name of each, if y were names; else None.

    Example:
        >>> origins = np.random.default_rng(0).normal(size=(50, 4))
        >>> CorruptionModel("debiased").fit(origins + 1, origins).corruption_.shifted
        4
    """

    def __init__(
        self,
        kind: str = "auto",
        *,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kind = kind
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.two_d_labels = True
        return tags

    def fit(self, X: Any, y: Any = None, groups: Any = None, *, patterns: Any = None) -> Self:
        """Learn from pairs; or from copies alone, if it is known what they may be copies of.

        Args:
            X: (m, d), the copies.
            y: (m, d), the origin of each. Or (m,), its name: then the origin is the mean of the copies of that name.
            groups: (m,), where each copy comes from, such as its device; each may have a corruption of its own.
            patterns: (n, d), instead of y: the copies come from these, and nobody knows which from which.
        """
        if patterns is not None:
            return self._learn_unlabeled(X, y, groups, patterns)
        copies, origins = self._check(X, y, reset=True)
        self._copies, self._origins = copies, origins
        self._groups = None if groups is None else as_group_names(groups, len(copies))
        return self._learn()

    def partial_fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn from more pairs, together with those seen before, which are kept for that."""
        if not hasattr(self, "memory_"):
            return self.fit(X, y, groups)
        if not hasattr(self, "_copies"):
            raise InvalidValueError("What was learned without origins is not learned on: call `fit` with all copies.")
        copies, origins = self._check(X, y, reset=False)
        if origins.ndim != self._origins.ndim:
            raise ShapeError(
                "`y` must be of the same kind each time, origins (m, d) or their names (m,); got the other."
            )
        if (groups is None) != (self._groups is None):
            raise InvalidValueError("Pass `groups` each time or never; for pairs of no group invent a name.")
        if groups is not None and self._groups is not None:
            self._groups = [*self._groups, *as_group_names(groups, len(copies))]
        self._copies = np.concatenate([self._copies, copies])
        self._origins = np.concatenate([self._origins, origins])
        return self._learn()

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """The mean log posterior of the right origin among the distinct ones of y; zero is perfect.

        If y are names, among the origins that were learned.
        """
        check_is_fitted(self)
        copies, given = self._check(X, y, reset=False)
        origins, places = (self.origins_, self._places(given)) if given.ndim == 1 else distinct_rows(given)
        names = [""] * len(copies) if groups is None else as_group_names(groups, len(copies))
        memory, found = self.memory(origins), np.empty(len(copies))
        with threads(self.n_jobs):
            for name in sorted(set(names)):
                rows = np.flatnonzero(np.array(names) == name)
                logs = log_posterior(memory.for_group(name), torch.from_numpy(copies[rows]))
                found[rows] = logs.numpy()[np.arange(len(rows)), places[rows]]
        return float(found.mean())

    def report(self) -> str:
        """Report of the fit, in words."""
        check_is_fitted(self)
        return str(self.memory_.report)

    def memory(self, patterns: Array) -> AssociativeMemory:
        """A memory of other patterns that expects the same corruption."""
        check_is_fitted(self)
        return AssociativeMemory(patterns, model=self.memory_.model)

    def _learn(self) -> Self:
        origins, places = self._distinct()
        return self._fit_memory(origins, pairs=(places, self._copies), groups=self._groups)

    def _learn_unlabeled(self, X: Any, y: Any, groups: Any, patterns: Any) -> Self:
        if y is not None:
            raise InvalidValueError("Pass the origins `y` of the copies, or `patterns` they may come from, not both.")
        queries = checked_rows(self, X, reset=True)
        stored = check_array(by_name(self, patterns), dtype=queries.dtype, ensure_all_finite="allow-nan", copy=True)
        if stored.shape[1] != queries.shape[1]:
            raise ShapeError(f"`patterns` must have the {queries.shape[1]} columns of X; got shape {stored.shape}.")
        self._fit_memory(stored, queries=queries, groups=groups)
        self.labels_: NDArray[Any] | None = None
        for kept in ("_copies", "_origins", "_groups"):  # pairs of another fit
            self.__dict__.pop(kept, None)
        return self

    def _fit_memory(self, origins: NDArray[Any], **known: Any) -> Self:
        seed = seed_from(self.random_state)
        with threads(self.n_jobs):
            self.memory_ = fit(origins, similarity=self.kind, seed=seed, progress=self.verbose, **known)
        report: Any = self.memory_.report
        self.origins_, self.kind_, self.corruption_ = origins, report.chosen, report.corruption
        return self

    def _check(self, X: Any, y: Any, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        if y is None:
            raise InvalidValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None. Pass the "
                "origins of the copies, one row each."
            )
        copies = checked_rows(self, X, reset=reset, copy=True)
        if set(names_of(y) or []) & set(names_of(X) or []):  # else y has names of its own, and places decide
            y = by_name(self, y)
        if np.ndim(y) == 1:
            check_consistent_length(copies, y)
            return copies, np.asarray(y)
        origins = check_array(y, dtype=copies.dtype, ensure_all_finite="allow-nan", copy=True, input_name="y")
        if origins.shape != copies.shape:
            raise ShapeError(
                f"`y` must have the shape of X, {copies.shape}, an origin for each copy; got shape {origins.shape}. "
                "Where origins have names, pass these, (m,)."
            )
        return copies, origins

    def _distinct(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The distinct origins, and which of them each copy came from."""
        if self._origins.ndim == 2:
            self.labels_ = None
            return distinct_rows(self._origins)
        self.labels_, places = np.unique(self._origins, return_inverse=True)
        return _means(self._copies, places, len(self.labels_)), places

    def _places(self, names: NDArray[Any]) -> NDArray[np.intp]:
        if self.labels_ is None or not np.isin(names, self.labels_).all():
            raise InvalidValueError("`y` must be names of origins that were learned from; pass the origins themselves.")
        return np.searchsorted(self.labels_, names)


def _means(copies: NDArray[Any], places: NDArray[np.intp], count: int) -> NDArray[Any]:
    """The mean (count, d) of the copies of each origin, of what was observed; NaN where nothing was."""
    values, seen = np.nan_to_num(copies), (~np.isnan(copies)).astype(copies.dtype)
    sums, counts = np.zeros((2, count, copies.shape[1]), copies.dtype)
    np.add.at(sums, places, values)
    np.add.at(counts, places, seen)
    means: NDArray[Any] = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    return means
