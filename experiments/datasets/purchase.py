"""Purchase: does a visit to a shop on the web end in a purchase?"""

from experiments.datasets._delimited import parse_rows
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import PURCHASE
from experiments.datasets._tabular import as_table
from experiments.datasets.table import Table

FILE = "online_shoppers_intention.csv"
COLUMNS = (
    "Administrative",
    "Administrative_Duration",
    "Informational",
    "Informational_Duration",
    "ProductRelated",
    "ProductRelated_Duration",
    "BounceRates",
    "ExitRates",
    "PageValues",
    "SpecialDay",
    "Month",
    "OperatingSystems",
    "Browser",
    "Region",
    "TrafficType",
    "VisitorType",
    "Weekend",
)
# Four of these are written as numbers, which name a browser or a region and measure nothing.
WORDS = ("Month", "OperatingSystems", "Browser", "Region", "TrafficType", "VisitorType", "Weekend")


def load_purchase(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> Table:
    """UCI Online Shoppers Purchasing Intention: 12330 rows, 17 columns.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    found = find(PURCHASE, folder, download, progress)
    rows = parse_rows(found.read()[FILE], found.where(FILE))
    return as_table(PURCHASE, [rows], columns=COLUMNS, words=WORDS, target="Revenue", notes=found.edition.notes)
