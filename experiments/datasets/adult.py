"""Adult: does a person of the census of 1994 earn more than 50 000 dollars a year?"""

from dataclasses import replace

from experiments.datasets._delimited import parse_rows
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import ADULT
from experiments.datasets._tabular import as_table
from experiments.datasets.table import Table

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
WORDS = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)


def load_adult(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Table:
    """UCI Adult: 32561 training and 16281 test rows, 14 columns.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    found = find(ADULT, folder, download, progress)
    parts = [
        parse_rows(content, found.where(name), names=(*COLUMNS, "income"), comment="|")
        for name, content in found.read().items()
    ]
    # The test file writes its labels with a full stop behind.
    labels = [[label.removesuffix(".") for label in rows.columns["income"]] for rows in parts]
    parts = [replace(rows, columns=rows.columns | {"income": label}) for rows, label in zip(parts, labels, strict=True)]
    return as_table(
        ADULT, parts, columns=COLUMNS, words=WORDS, target="income", missing=("?",), notes=found.edition.notes
    )
