"""Bank: will a client subscribe to a deposit after a call?"""

from experiments.datasets._delimited import parse_rows
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import BANK
from experiments.datasets._tabular import as_table
from experiments.datasets.table import Table

FILE = "bank-additional-full.csv"
COLUMNS = (
    "age",
    "job",
    "marital",
    "education",
    "default",
    "housing",
    "loan",
    "contact",
    "month",
    "day_of_week",
    "duration",
    "campaign",
    "pdays",
    "previous",
    "poutcome",
    "emp.var.rate",
    "cons.price.idx",
    "cons.conf.idx",
    "euribor3m",
    "nr.employed",
)
WORDS = (
    "job",
    "marital",
    "education",
    "default",
    "housing",
    "loan",
    "contact",
    "month",
    "day_of_week",
    "poutcome",
)
NOTES = (
    "`unknown`, which the source says marks a missing value, is NaN.",
    "`pdays` is 999 for clients that were never called before.",
    "`duration` is known only after the call: leave it out of honest predictions.",
)


def load_bank(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Table:
    """UCI Bank Marketing, the variant `bank-additional-full`: 41188 rows, 20 columns.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    found = find(BANK, folder, download, progress)
    rows = parse_rows(found.read()[FILE], found.where(FILE), separator=";")
    notes = (*found.edition.notes, *NOTES)
    return as_table(BANK, [rows], columns=COLUMNS, words=WORDS, target="y", missing=("unknown",), notes=notes)
