"""A scikit-learn imputer."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.impute import MissingIndicator
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor

from ahop._core.checks import check_count
from ahop.estimators._imputation import recall_rows, refill_rows
from ahop.estimators._self_masking import choose
from ahop.estimators._threads import threads
from ahop.estimators._validation import checked_rows, seed_from

# Standard deviations, as a share of the largest value, below which a column is constant but for rounding.
LEAST_SPREAD = 1e-13
# Standard deviations beyond which it does not matter how many there are.
OUT_OF_SIGHT = 1e3


@dataclass(frozen=True)
class Standardization:
    """Mean and scale of the observed values of each column (d,), in float64.

    Attributes:
        peak: the largest magnitude; mean and spread are shares of it, so that no square overflows.
        low: the least value, and `high` the largest.
    """

    peak: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, X: NDArray[Any]) -> "Standardization":
        low, high = np.nanmin(X, axis=0).astype(np.float64), np.nanmax(X, axis=0).astype(np.float64)
        largest = np.maximum(np.abs(low), np.abs(high))
        peak = np.where(largest > 0, largest, 1.0)
        shares = X / peak
        return cls(peak, np.nanmean(shares, axis=0), np.nanstd(shares, axis=0), low, high)

    @property
    def relative_spread(self) -> Tensor:
        """Standard deviations of the columns beside each other; the largest is one."""
        logarithm = np.log(np.where(self._varies, self.spread, 1.0)) + np.log(self.peak)
        relative = np.exp(logarithm - logarithm.max(initial=-np.inf, where=self._varies))
        return torch.from_numpy(np.where(self._varies, relative, 0.0)).float()

    def apply(self, X: NDArray[Any]) -> Tensor:
        standardized = (X / self.peak - self.mean) / np.where(self._varies, self.spread, 1.0)
        return torch.from_numpy(np.clip(standardized, -OUT_OF_SIGHT, OUT_OF_SIGHT)).float()

    def undo(self, values: Tensor) -> NDArray[np.float64]:
        """The values in their own units, none beyond what was observed."""
        shares = values.double().numpy() * np.where(self._varies, self.spread, 0.0) + self.mean
        return np.clip(np.clip(shares, -1.0, 1.0) * self.peak, self.low, self.high)

    @property
    def _varies(self) -> NDArray[np.bool_]:
        return self.spread > LEAST_SPREAD


class AssociativeImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""$\hat x_m = \bar\xi_m + C_{mo} (C_{oo} + D)^{-1} (x_o - \bar\xi_o)$: what is missing, recalled from rows alike.

    The rows that it was fitted to are a memory, and what was observed of a row, $x_o$, is its query. The posterior over
    the nearest rows has a mean $\bar\xi$ and a covariance $C$, to which that of all rows is added; $D$ is what they do
    not explain. Their number, $D$ and whether columns are compared in their own units or in standard deviations are
    chosen by hiding some of what was observed. No value leaves the range that its column had.

    A row is never filled from rows that equal it, gaps included. So `fit_transform(X)` is `fit(X).transform(X)`.

    Args:
        n_neighbors: how many rows are asked; None chooses.
        add_indicator: append columns that say what was missing, as `sklearn.impute.MissingIndicator` does.
        keep_empty_features: keep columns of which nothing was observed, filled with zeros; else they are dropped.
        random_state: of what is hidden.
        n_jobs: how many threads torch may use; None leaves that as it is.

    Attributes:
        statistics_: the mean of each column, which a row is filled with of which nothing was observed.
        expected_error_: the root mean squared error of each column, in its own units, where entries were hidden. As
            these rows then lack more than usual, and others are fewer, it is rather too large.
        indicator_: what adds the columns; None if nothing does.

    Example:
        >>> rows = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, np.nan]])
        >>> AssociativeImputer(random_state=0).fit_transform(rows).shape
        (4, 2)
    """

    def __init__(
        self,
        n_neighbors: int | None = None,
        *,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store rows (n, d), NaN where nothing was observed, and find out how their gaps are filled best."""
        X = checked_rows(self, X, reset=True)
        neighbors = None if self.n_neighbors is None else check_count("n_neighbors", self.n_neighbors)
        generator = Generator().manual_seed(seed_from(self.random_state))
        self.indicator_ = _indicator(X) if self.add_indicator else None
        self._observed = ~np.isnan(X).all(axis=0)
        self._columns = columns = Standardization.of(X[:, self._observed])
        self.statistics_, self.expected_error_ = np.full((2, X.shape[1]), np.nan)
        self.statistics_[self._observed] = columns.mean * columns.peak
        if self._observed.any():
            table = columns.apply(X[:, self._observed])
            # In any order: of rows that are equally near, those asked are then a fair sample.
            table = table[torch.randperm(len(table), generator=generator)]
            with threads(self.n_jobs), torch.no_grad():
                errors = self._learn(table, neighbors, generator)
            self.expected_error_[self._observed] = np.sqrt(errors.numpy()) * columns.spread * columns.peak
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The rows without gaps, (b, d) less the columns that were empty; what was observed stays as it was."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        answers = X.copy()
        with_gaps = np.isnan(X[:, self._observed]).any(axis=1)
        if with_gaps.any():
            places = np.ix_(with_gaps, self._observed)
            answers[places] = np.where(np.isnan(X[places]), self._fill(X[places]), X[places])
        answers = np.nan_to_num(answers) if self.keep_empty_features else answers[:, self._observed]
        return answers if self.indicator_ is None else np.hstack([answers, self.indicator_.transform(X)])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns that come out; those of the indicator last."""
        names: NDArray[Any] = super().get_feature_names_out(input_features)
        kept = names if self.keep_empty_features else names[self._observed]
        return kept if self.indicator_ is None else np.hstack([kept, self.indicator_.get_feature_names_out(names)])

    def _learn(self, table: Tensor, neighbors: int | None, generator: Generator) -> Tensor:
        """Keep the rows, filled; returns the mean squared error to expect of each column."""
        choice = choose(table, self._columns.relative_spread, neighbors, generator)
        recalled = recall_rows(table, choice.columns, choice.first_errors)
        self._settings = choice.settings
        self._rows = refill_rows(recalled, choice.settings, choice.errors)
        return choice.errors

    def _fill(self, X: NDArray[Any]) -> NDArray[np.float64]:
        with threads(self.n_jobs), torch.no_grad():
            return self._columns.undo(self._rows.fill(self._columns.apply(X), self._settings))


def _indicator(X: NDArray[Any]) -> MissingIndicator:
    # Else a global setting might make a frame of what is to be stacked.
    return MissingIndicator(error_on_new=False).set_output(transform="default").fit(X)
