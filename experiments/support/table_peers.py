"""RealMLP, a network for tables that people use today, by pytabkit.

It comes with its published defaults and is not searched over: a fit holds a fifth of its rows back to choose when to
stop, and takes many minutes on one thread.
"""

from importlib import import_module
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer


def realmlp(words: list[int], numbers: list[int], seed: int) -> Pipeline:
    # Gaps among numbers are refused; they become the mean, and a column that says where they were.
    filled = SimpleImputer(add_indicator=True, keep_empty_features=True)
    columns = ColumnTransformer([("words", "passthrough", words), ("numbers", filled, numbers)])
    named = FunctionTransformer(frame, kw_args={"words": len(words)})
    network = import_module("pytabkit").RealMLP_TD_Classifier(device="cpu", random_state=seed, n_threads=1)
    return Pipeline([("columns", columns), ("frame", named), ("model", network)])


def frame(rows: NDArray[Any], words: int) -> pd.DataFrame:
    """The first columns are categories; a gap is one too, in a word, as NA is refused."""
    names = [f"x{number}" for number in range(rows.shape[1])]
    columns = pd.DataFrame(rows, columns=names)
    categories = columns[names[:words]].astype("string").fillna("gap").astype("category")
    return pd.concat([categories, columns[names[words:]].astype(float)], axis=1)
