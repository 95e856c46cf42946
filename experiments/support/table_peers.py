"""Networks for tables that people use today: TabM and RealMLP, by pytabkit, if that is installed.

They come with their published defaults and are not searched over: each fit holds a fifth of its rows back to choose
when to stop, and takes minutes on one thread. A run that is resumed where pytabkit is missing leaves them out.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

PEERS = {"TabM": "TabM_D_Classifier", "RealMLP": "RealMLP_TD_Classifier"}


def installed() -> tuple[str, ...]:
    return tuple(PEERS) if find_spec("pytabkit") else ()


def peer(name: str) -> Callable[[list[int], list[int], int], Pipeline]:
    def build(words: list[int], numbers: list[int], seed: int) -> Pipeline:
        # Gaps among numbers are refused; they become the mean, and a column that says where they were.
        filled = SimpleImputer(add_indicator=True, keep_empty_features=True)
        columns = ColumnTransformer([("words", "passthrough", words), ("numbers", filled, numbers)])
        frame = FunctionTransformer(_frame, kw_args={"words": len(words)})
        model = getattr(import_module("pytabkit"), PEERS[name])(device="cpu", random_state=seed, n_threads=1)
        return Pipeline([("columns", columns), ("frame", frame), ("model", model)])

    return build


def _frame(rows: NDArray[Any], words: int) -> pd.DataFrame:
    """The first columns are categories; a gap is a category of its own."""
    names = [f"x{number}" for number in range(rows.shape[1])]
    frame = pd.DataFrame(rows, columns=names)
    return frame.astype(dict.fromkeys(names[:words], "string")).astype(dict.fromkeys(names[:words], "category"))
