"""Heart: who has a cardiovascular disease?"""

from experiments.datasets._delimited import parse_rows
from experiments.datasets._digests import check_numbers, digest_of_rows
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import HEART
from experiments.datasets._tabular import as_table
from experiments.datasets.table import Table

FILE = "cardio_train.csv"
COLUMNS = (
    "age",
    "gender",
    "height",
    "weight",
    "ap_hi",
    "ap_lo",
    "cholesterol",
    "gluc",
    "smoke",
    "alco",
    "active",
)
NOTES = (
    "Some blood pressures (`ap_hi`, `ap_lo`) were recorded wrongly: negative, or far too large.",
    "`age` is in days; `gender` is 1 for women and 2 for men; `id` is left out.",
)


def load_heart(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Table:
    """Cardiovascular Disease of S. Ulianova: 70000 rows, 11 columns.

    Nobody published a checksum of it, so its numbers are compared with those of copies that agree.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    found = find(HEART, folder, download, progress)
    rows = parse_rows(found.read()[FILE], found.where(FILE), separator=";")
    notes = (*found.edition.notes, *NOTES)
    table = as_table(HEART, [rows], columns=COLUMNS, words=("gender",), target="cardio", notes=notes)
    check_numbers(digest_of_rows(table.features, table.target), HEART.numbers, found.where(FILE))
    return table
