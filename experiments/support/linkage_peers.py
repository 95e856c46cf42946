"""Splink 5 and recordlinkage, with the comparisons that their manuals recommend, one to one."""

import logging
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import recordlinkage
from numpy.typing import NDArray
from splink import Linker, SettingsCreator, block_on
from splink import comparison_level_library as levels
from splink import comparison_library as comparisons
from splink.internals.duckdb.database_api import DuckDBAPI

from experiments.support.linkage_tasks import DIGITS, Task, jaro_winkler

# Relative differences of numbers that are told apart.
CLOSE = (0.01, 0.05, 0.2)
# By Jaro and Winkler.
ALIKE = 0.85
# Above so many pairs of rows they are blocked: pairs that agree in one of these.
MANY_PAIRS = 4_000_000
Scored = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def splink(task: Task, seed: int) -> Scored:
    """Left rows, right rows, and the probability of each pair that is likelier than not at all."""
    logging.getLogger("splink").setLevel(logging.ERROR)
    tables = [_numbered(each) for each in (task.left, task.right)]
    api = DuckDBAPI()
    registered = [api.register(each, dataset_display_name=name) for each, name in zip(tables, "ab", strict=True)]
    is_large = len(task.left) * len(task.right) > MANY_PAIRS
    every: list[Any] = [block_on(_plain(name)) for name in (*task.texts, *task.numbers)] if is_large else ["1=1"]
    settings = SettingsCreator(
        link_type="link_only",
        blocking_rules_to_generate_predictions=every,
        comparisons=[_comparison(task, name) for name in task.left.columns],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linker = Linker(registered, settings, log_level=logging.ERROR)
        certain: list[Any] = [block_on(*pair) for pair in _pairs(task)]
        linker.training.estimate_probability_two_random_records_match(certain, recall=0.7)
        linker.training.estimate_u_using_random_sampling(max_pairs=5e6, seed=seed + 1)
        for name in _blocks(task):
            with suppress(ValueError):  # a level that no match is on takes it below the least number that it allows
                linker.training.estimate_parameters_using_expectation_maximisation(block_on(name))
        predicted: Any = linker.inference.predict(threshold_match_probability=0.001)
        found = predicted.as_pandas_dataframe()
    is_left = (found["source_dataset_l"] == "a").to_numpy()
    one, other = (found[f"unique_id_{side}"].to_numpy(np.int64) for side in "lr")
    return np.where(is_left, one, other), np.where(is_left, other, one), found["match_probability"].to_numpy()


def ecm(task: Task) -> Scored:
    """The same by the classifier of recordlinkage that needs no labels."""
    agrees: dict[str, NDArray[np.bool_]] = {}
    for name in task.left.columns:
        right, left = (each[name].to_numpy() for each in (task.right, task.left))
        if name in task.texts:
            agrees[name] = jaro_winkler(task, name) >= ALIKE
        elif name in task.codes:
            agrees[name] = right[:, None] == left
        else:
            agrees[name] = np.abs(right[:, None].astype(float) - left.astype(float)) <= CLOSE[1] * np.abs(
                left.astype(float)
            )
    places = np.ones((len(task.right), len(task.left)), bool)
    if places.size > MANY_PAIRS:
        places = np.any([agrees[name] for name in task.texts], axis=0)
    rows = places.nonzero()
    found = pd.DataFrame({name: each[rows].astype(int) for name, each in agrees.items()})
    classifier = recordlinkage.ECMClassifier()
    classifier.fit(found)
    return rows[1], rows[0], np.asarray(classifier.prob(found), np.float64)


def one_to_one(scored: Scored, task: Task, threshold: float) -> NDArray[np.int64]:
    """For each right row the left one, likeliest pairs first; -1 for none."""
    left, right, probability = scored
    linked, taken = np.full(len(task.right), -1), np.zeros(len(task.left), bool)
    for place in np.argsort(-probability, kind="stable"):
        if probability[place] < threshold:
            break
        if linked[right[place]] < 0 and not taken[left[place]]:
            linked[right[place]] = left[place]
            taken[left[place]] = True
    return linked


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.astype(object).where(frame.notna(), None)
    return pd.concat([pd.DataFrame({"unique_id": np.arange(len(frame))}), frame.rename(columns=_plain)], axis=1)


def _plain(name: str) -> str:
    """A name that SQL has no other use for."""
    return "of_" + name.replace("-", "_").replace(".", "_")


def _comparison(task: Task, name: str) -> Any:
    plain = _plain(name)
    if name in task.codes:
        return comparisons.ExactMatch(plain).configure(term_frequency_adjustments=True)
    if name in ("given_name", "surname"):
        return comparisons.NameComparison(plain)
    if name in DIGITS:
        return comparisons.DamerauLevenshteinAtThresholds(plain, [1, 2])
    if name in task.texts:
        found = comparisons.JaroWinklerAtThresholds(plain, [0.9, 0.8])
        return found.configure(term_frequency_adjustments=True)
    near = [levels.PercentageDifferenceLevel(plain, share) for share in CLOSE]
    return comparisons.CustomComparison(
        [levels.NullLevel(plain), levels.ExactMatchLevel(plain), *near, levels.ElseLevel()], output_column_name=plain
    )


def _pairs(task: Task) -> list[tuple[str, ...]]:
    """Columns that say enough together: those of most different values, as their user knows them."""
    names = [_plain(name) for name in _by_values(task)]
    return [tuple(names[:3]), (names[0], names[1], names[3])]


def _blocks(task: Task) -> list[str]:
    """Columns within whose equal values the errors of all others are estimated."""
    return [_plain(name) for name in _by_values(task)[:3]]


def _by_values(task: Task) -> list[str]:
    return sorted(task.left.columns, key=lambda name: -task.left[name].nunique())
