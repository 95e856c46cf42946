"""Tables of measurements and categories, with a class for each row."""

import io
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typing_extensions import override

from experiments.datasets.files import Folder, read
from experiments.datasets.sources import SOURCES

ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
# Columns whose cells are categories; all others are measured.
ADULT_WORDS = (
    *("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country"),
)
BANK_WORDS = (
    *("job", "marital", "education", "default", "housing", "loan", "contact", "month", "day_of_week", "poutcome"),
)
VACCINE_WORDS = (
    *("age_group", "education", "race", "sex", "income_poverty", "marital_status", "rent_or_own"),
    *("employment_status", "census_msa"),
)
# Four of these are written as numbers, which name a browser or a region and measure nothing.
PURCHASE_WORDS = ("Month", "OperatingSystems", "Browser", "Region", "TrafficType", "VisitorType", "Weekend")


@final
@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Rows of numbers, and the class of each row.

    One rule for every cell of `features`: a measurement is itself, a category is its place in `categories`, and a cell
    that was not observed is NaN.

    Attributes:
        features: One row for each case, one column for each of `names`.
        target: The class of each row, its place in `class_names`.
        categories: For each column the words its numbers stand for, and none for a measured column.
        is_test: The rows that the source sets aside for testing; none where it does not say.
    """

    name: str
    features: NDArray[np.float64]
    target: NDArray[np.int64]
    names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    target_name: str
    class_names: tuple[str, ...]
    is_test: NDArray[np.bool_]

    @property
    def categorical(self) -> NDArray[np.bool_]:
        """The columns whose numbers stand for words."""
        return np.array([bool(words) for words in self.categories])

    @override
    def __repr__(self) -> str:
        words = int(self.categorical.sum())
        return f"Table({self.name}: {len(self.features)} rows, {len(self.names)} columns of which {words} in words)"


def load_adult(folder: Folder | None = None, *, download: bool = False) -> Table:
    """Load 32561 training and 16281 test rows: a person of the census of 1994, and the income a year."""
    train, test = (
        _cells(read(file, folder, download), names=ADULT_COLUMNS, comment="|") for file in SOURCES["adult"].files
    )
    cells = pd.concat([train, test], ignore_index=True)
    cells["income"] = cells["income"].str.removesuffix(".")  # as the test file writes its labels
    return _table("adult", cells, ADULT_WORDS, "income", missing="?", is_test=np.arange(len(cells)) >= len(train))


def load_bank(folder: Folder | None = None, *, download: bool = False) -> Table:
    """Load 41188 calls to clients of a bank, and whether they subscribed to a deposit."""
    (file,) = SOURCES["bank"].files
    return _table("bank", _cells(read(file, folder, download), sep=";"), BANK_WORDS, "y", missing="unknown")


def load_vaccine(
    folder: Folder | None = None, *, target: Literal["seasonal_vaccine", "h1n1_vaccine"] = "seasonal_vaccine"
) -> Table:
    """Load 26707 answers to a survey, and whether each person had a flu shot in 2009.

    Args:
        target: The seasonal shot has its classes nearly in balance.
    """
    features, labels = (_cells(read(file, folder)) for file in SOURCES["vaccine"].files)
    cells = features.drop(columns="respondent_id").assign(**{target: labels[target]})
    return _table("vaccine", cells, VACCINE_WORDS, target, missing="")


def load_purchase(folder: Folder | None = None, *, download: bool = False) -> Table:
    """Load 12330 visits to a shop on the web, and whether they ended in a purchase."""
    (file,) = SOURCES["purchase"].files
    return _table("purchase", _cells(read(file, folder, download)), PURCHASE_WORDS, "Revenue")


def load_heart(folder: Folder | None = None) -> Table:
    """Load 70000 patients, and whether they have a cardiovascular disease."""
    (file,) = SOURCES["heart"].files
    return _table("heart", _cells(read(file, folder), sep=";").drop(columns="id"), ("gender",), "cardio")


def _cells(content: bytes, **options: Any) -> Any:
    """Read a frame of the cells as they are written."""
    return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False, skipinitialspace=True, **options)


def _table(
    name: str,
    cells: Any,
    words: Collection[str],
    target: str,
    missing: str | None = None,
    is_test: NDArray[np.bool_] | None = None,
) -> Table:
    names = [column for column in cells if column != target]
    features, categories = np.empty((len(cells), len(names))), []
    for at, column in enumerate(names):
        observed = cells[column].mask(cells[column] == missing)
        if column in words:
            features[:, at], known = _encoded(observed)
        else:
            features[:, at], known = observed.to_numpy(dtype=float, na_value=np.nan), ()
        categories.append(known)
    classes, class_names = _encoded(cells[target])
    return Table(
        name,
        features,
        classes.astype(np.int64),
        tuple(names),
        tuple(categories),
        target,
        class_names,
        np.zeros(len(cells), dtype=bool) if is_test is None else is_test,
    )


def _encoded(cells: Any) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return each cell as the place of its word among all words, NaN where it is missing."""
    words = tuple(sorted(cells.dropna().unique(), key=_order))
    codes = pd.Categorical(cells, categories=words).codes.astype(float)
    return np.where(codes < 0, np.nan, codes), words


def _order(word: str) -> tuple[bool, float, str]:
    """Order numbers by size and before words, so that 10 follows 9."""
    try:
        return False, float(word), word
    except ValueError:
        return True, 0.0, word
