"""Vaccine: who had the flu shots of 2009?"""

from dataclasses import replace
from typing import Literal

from ahop.errors import FileFormatError, InvalidValueError
from experiments.datasets._delimited import parse_rows
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import VACCINE
from experiments.datasets._tabular import as_table
from experiments.datasets.table import Table

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
        folder: As for every dataset: see `experiments.datasets`.
        target: Which of the two answers; the first has its classes nearly in balance.
    """
    if target not in TARGETS:
        raise InvalidValueError(f"`target` must be one of {', '.join(TARGETS)}; got {target!r}.")
    found = find(VACCINE, folder, download, progress)
    (features, labels) = (parse_rows(content, found.where(name)) for name, content in found.read().items())
    if features.columns.get("respondent_id") != labels.columns.get("respondent_id"):
        raise FileFormatError(f"`{features.where}` and `{labels.where}` are not about the same people in one order.")
    names = [name for name in features.columns if name != "respondent_id"]
    rows = replace(features, columns=features.columns | {target: labels.columns[target]})
    notes = found.edition.notes
    return as_table(VACCINE, [rows], columns=names, words=WORDS, target=target, missing=("",), notes=notes)
