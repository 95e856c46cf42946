"""Input validation: rows with missing values, frames with known columns, seeds."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ahop.errors import InvalidValueError

FLOATS = (np.float64, np.float32)
SEEDS = 2**31 - 1


def checked_rows(
    estimator: Any, X: Any, *, reset: bool, copy: bool = False, sparse: Literal["csr", False] = False
) -> Any:
    """An array (n, d) of floats, NaN allowed; sparse ones too, if a format is named.

    Args:
        reset: whether the estimator is fitted anew; else rows must have the columns that it knows.
    """
    X = X if reset else by_name(estimator, X)
    return validate_data(
        estimator, X, dtype=FLOATS, accept_sparse=sparse, ensure_all_finite="allow-nan", copy=copy, reset=reset
    )


def dense(rows: Any) -> NDArray[Any]:
    """An array, of sparse rows too."""
    array: NDArray[Any] = rows.toarray() if issparse(rows) else rows
    return array


def seed_from(random_state: Any) -> int:
    """A seed for torch, which knows no random states."""
    return int(check_random_state(random_state).randint(SEEDS))


def by_name(estimator: Any, X: Any) -> Any:
    """A frame with its columns in the order that the estimator was fitted to; anything else as it is."""
    known, given = getattr(estimator, "feature_names_in_", None), names_of(X)
    if known is None or given is None or given == list(known):
        return X
    missing, unknown = sorted(set(known) - set(given)), sorted(set(given) - set(known))
    if missing or unknown or len(given) != len(known):
        raise InvalidValueError(
            f"The columns must be those that {type(estimator).__name__} was fitted to, in any order; "
            f"missing are {_list_names(missing)}, not known are {_list_names(unknown)}. Missing values may be NaN: "
            "pass `frame.reindex(columns=estimator.feature_names_in_)`."
        )
    return X[list(known)]


def names_of(X: Any) -> list[str] | None:
    """The names of a frame's columns; None if it is no frame, or has other names than words."""
    columns = getattr(X, "columns", None)
    names = None if columns is None else list(columns)
    return names if names is not None and all(isinstance(name, str) for name in names) else None


def _list_names(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:5])) or "none"
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
