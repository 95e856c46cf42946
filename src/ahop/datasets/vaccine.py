"""Vaccine: who had the flu shots of 2009?"""

from dataclasses import replace
from typing import Literal

from ahop._core.checks import check_choice
from ahop.datasets._delimited import parse_rows
from ahop.datasets._finding import find
from ahop.datasets._folders import Folder
from ahop.datasets._sources import VACCINE
from ahop.datasets._tabular import as_table
from ahop.datasets.table import Table
from ahop.errors import FileFormatError

TARGETS = ("seasonal_vaccine", "h1n1_vaccine")
WORDS = (
    "age_group",
    "education",
    "race",
    "sex",
    "income_poverty",
    "marital_status",
    "rent_or_own",
    "employment_status",
    "hhs_geo_region",
    "census_msa",
    "employment_industry",
    "employment_occupation",
)


def load_vaccine(
    folder: Folder | None = None,
    *,
    target: Literal["seasonal_vaccine", "h1n1_vaccine"] = "seasonal_vaccine",
    download: bool = False,
    progress: bool = True,
) -> Table:
    """Flu Shot Learning of DrivenData: 26707 rows, 35 columns, or 32 of them as `notes` then says.

    Args:
        folder: As for every dataset: see `ahop.datasets`.
        target: Which of the two answers; the first has its classes nearly in balance.
    """
    check_choice("target", target, TARGETS)
    found = find(VACCINE, folder, download, progress)
    (features, labels) = (parse_rows(content, found.where(name)) for name, content in found.read().items())
    if features.columns.get("respondent_id") != labels.columns.get("respondent_id"):
        raise FileFormatError(f"`{features.where}` and `{labels.where}` are not about the same people in one order.")
    names = [name for name in features.columns if name != "respondent_id"]
    rows = replace(features, columns=features.columns | {target: labels.columns[target]})
    notes = found.edition.notes
    return as_table(VACCINE, [rows], columns=names, words=WORDS, target=target, missing=("",), notes=notes)
