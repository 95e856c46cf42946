"""A table of measurements, with an answer for each row."""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typing_extensions import override


@final
@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Rows of numbers, and the class of each row.

    One rule for every cell of `features`: a measurement is itself, a category is its place in `categories`, and what
    the source says was not observed is NaN, as everywhere in ahop.

    Attributes:
        features: One row for each case, one column for each of `names`.
        target: The class of each row, its place in `class_names`.
        categories: For each column the words its numbers stand for, and none for a measured column.
        is_test: The rows that the source sets aside for testing; none where it does not say.
        notes: What differs from the official data, and what a careful user should know.
    """

    name: str
    features: NDArray[np.float64]
    target: NDArray[np.int64]
    names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    target_name: str
    class_names: tuple[str, ...]
    is_test: NDArray[np.bool_]
    notes: tuple[str, ...]

    @property
    def categorical(self) -> NDArray[np.bool_]:
        """The columns whose numbers stand for words."""
        return np.array([bool(words) for words in self.categories])

    def rows(self, chosen: NDArray[Any]) -> "Table":
        """The same table with these rows alone: a mask, or row numbers."""
        return replace(self, features=self.features[chosen], target=self.target[chosen], is_test=self.is_test[chosen])

    def frame(self) -> Any:
        """A pandas DataFrame: categories in words, gaps as pandas marks them, the target as the last column."""
        categorical = pd.Categorical.from_codes
        columns = {
            name: categorical(np.where(np.isnan(values), -1, values).astype(int), list(words)) if words else values
            for name, values, words in zip(self.names, self.features.T, self.categories, strict=True)
        }
        columns[self.target_name] = categorical(self.target, list(self.class_names))
        return pd.DataFrame(columns)

    @override
    def __repr__(self) -> str:
        words = int(self.categorical.sum())
        return f"Table({self.name}: {len(self.features)} rows, {len(self.names)} columns of which {words} in words)"
