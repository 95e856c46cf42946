"""Real tables, the classifiers that compete on them, and what is tuned of each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from statistics import mean
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, QuantileTransformer, StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from ahop.estimators import PrototypeClassifier
from experiments import datasets
from experiments.support.harness import Row

TABLES: dict[str, Callable[..., datasets.Table]] = {
    "Adult": datasets.load_adult,
    "Bank": datasets.load_bank,
    "Vaccine": datasets.load_vaccine,
    "Purchase": datasets.load_purchase,
    "Heart": datasets.load_heart,
}
# Accuracy or AUC, the paper does not say which.
PAPER: dict[str, tuple[float, ...]] = {
    "M-Hop": (0.8080, 0.9085, 0.7975, 0.8822, 0.6325),
    "K2-Hop": (0.8172, 0.9092, 0.7971, 0.8825, 0.6473),
    "A-Hop": (0.8634, 0.9139, 0.8042, 0.9007, 0.7315),
    "Extra Trees": (0.8595, 0.9098, 0.7932, 0.8916, 0.7175),
    "Random Forest": (0.8592, 0.9132, 0.7918, 0.9002, 0.7254),
    "AdaBoost": (0.8597, 0.9094, 0.8011, 0.8865, 0.7294),
    "XGBoost": (0.8640, 0.9152, 0.8034, 0.9032, 0.7370),
}
TEST_SHARE = 0.2
QUICK_ROWS = 1500
# The paper's classifier, and none of what was added to it.
FAITHFUL: dict[str, Any] = {
    "init": "kmeans",
    "learn_prototypes": False,
    "intervals": None,
    "embedding": None,
    "n_members": 1,
    "n_row_memories": 0,
    "loss": "squared",
    "weight_decay": 0.0,
    "max_epochs": 30,
}


Space: TypeAlias = dict[str, list[Any]]


@dataclass(frozen=True)
class Contender:
    """A classifier and what is tuned of it.

    Attributes:
        build: (columns in words, columns of numbers, seed) -> a pipeline.
        space: names of its arguments -> values to try; empty if it comes with its defaults.
        settled: arguments that are dear and change little: tuned without them, fitted with them.
    """

    build: Callable[[list[int], list[int], int], Pipeline]
    space: Space
    settled: dict[str, Any] | None = None


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to be tested on, and which columns are words and which are numbers."""

    table: datasets.Table
    train: NDArray[np.intp]
    test: NDArray[np.intp]

    @property
    def columns(self) -> tuple[list[int], list[int]]:
        words = self.table.categorical
        return np.flatnonzero(words).tolist(), np.flatnonzero(~words).tolist()

    @property
    def training(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        return self.table.features[self.train], self.table.target[self.train]

    def score(self, model: Any) -> dict[str, float]:
        likely = model.predict_proba(self.table.features[self.test])[:, 1]
        truth = self.table.target[self.test]
        return {
            "accuracy": float(accuracy_score(truth, likely > 0.5)),
            "auc": float(roc_auc_score(truth, likely)),
        }


def split(dataset: str, seed: int, quick: bool) -> Split:
    """The quick form has few of the rows."""
    table = TABLES[dataset]()
    rows = np.arange(len(table.target))
    if quick:
        rows = np.random.default_rng(seed).choice(rows, QUICK_ROWS, replace=False)
    train, test = train_test_split(rows, test_size=TEST_SHARE, stratify=table.target[rows], random_state=seed)
    return Split(table, train, test)


def table_cells(models: Iterable[str], seeds: Iterable[int], quick: bool) -> list[Row]:
    """Each model on each table and split; the quick form has the smallest table alone."""
    tables = ("Purchase",) if quick else TABLES
    return [{"dataset": table, "model": model, "seed": seed} for seed, table, model in product(seeds, tables, models)]


def means(rows: list[Row]) -> list[Row]:
    """Over the tables, for models that have seen all of them."""
    found = []
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == model]
        if len(mine) == len(TABLES):
            over = {key: round(mean(row[key] for row in mine), 5) for key in ("accuracy", "auc", "seconds")}
            published = round(mean(PAPER[model]), 4) if model in PAPER else None
            found.append({"dataset": "mean of the five", "model": model, **over, "paper": published})
    return found


def contenders() -> dict[str, Contender]:
    """Those of the paper's table, two strong plain ones, and ours."""
    forest: Space = {"model__max_features": [0.2, 0.4, 0.7], "model__min_samples_leaf": [1, 2, 4, 8, 16]}
    boosted: Space = {"model__learning_rate": [0.02, 0.04, 0.08], "model__max_depth": [3, 4, 5, 6, 8]}
    faithful: Space = {
        "columns__numbers__scale": ["passthrough", QuantileTransformer(output_distribution="normal")],
        "model__n_prototypes": [64, 128, 256],
        "model__hidden": [32, 128],
        "model__learning_rate": [1e-3, 2e-3, 5e-3, 1e-2],
        "model__init": ["kmeans", "sample"],
        "model__batch_size": [250, 1000],
    }
    return {
        "M-Hop": Contender(_faithful("dot"), faithful),
        "K2-Hop": Contender(_faithful("kernel"), faithful),
        "A-Hop": Contender(_faithful("adaptive"), faithful),
        "Extra Trees": Contender(_trees(ExtraTreesClassifier), forest, {"model__n_estimators": 200}),
        "Random Forest": Contender(_trees(RandomForestClassifier), forest, {"model__n_estimators": 200}),
        "AdaBoost": Contender(
            _boosted_stumps,
            {"model__learning_rate": [0.3, 0.6, 1.0], "model__estimator__max_depth": [1, 2, 3]},
            {"model__n_estimators": 200},
        ),
        "XGBoost": Contender(
            _xgboost,
            boosted
            | {
                "model__n_estimators": [200, 400],
                "model__subsample": [0.7, 1.0],
                "model__colsample_bytree": [0.4, 0.7, 1.0],
                "model__min_child_weight": [1, 5, 20],
                "model__reg_lambda": [1, 10],
            },
        ),
        "HistGradientBoosting": Contender(
            _hist_gradient_boosting,
            boosted
            | {
                "model__max_iter": [200, 400],
                "model__max_features": [0.4, 0.7, 1.0],
                "model__min_samples_leaf": [10, 20, 50],
                "model__l2_regularization": [0, 1, 10],
            },
        ),
        "kNN": Contender(
            _nearest, {"model__n_neighbors": [15, 31, 63, 127], "model__weights": ["uniform", "distance"]}
        ),
        "ahop": Contender(
            ours,
            {
                "model__intervals": [8, 16],
                "model__learning_rate": [2e-3, 3e-3],
                "model__weight_decay": [0.1, 0.3],
                "model__similarity": ["euclidean", "dot"],
            },
            {"model__n_members": 2, "model__n_row_memories": 2},
        ),
    }


def ours(words: list[int], numbers: list[int], seed: int, **changed: Any) -> Pipeline:
    """Categories in one-hot coordinates, numbers and gaps as they are."""
    columns = ColumnTransformer(
        [
            ("words", OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=10), words),
            ("numbers", "passthrough", numbers),
        ],
        sparse_threshold=0,
    )
    usual = {"n_members": 1, "n_row_memories": 0, "random_state": seed, "n_jobs": 1}
    model = PrototypeClassifier(**{**usual, **changed})
    return Pipeline([("columns", columns), ("model", model)])


def _faithful(similarity: Any) -> Callable[[list[int], list[int], int], Pipeline]:
    """One dimension for each column, so that a subspace is a set of columns: a category is the mean of its classes."""

    def build(words: list[int], numbers: list[int], seed: int) -> Pipeline:
        measured = Pipeline([("gaps", SimpleImputer(keep_empty_features=True)), ("scale", "passthrough")])
        encoder = _class_means(seed)
        columns = ColumnTransformer([("words", encoder, words), ("numbers", measured, numbers)])
        model = PrototypeClassifier(similarity=similarity, random_state=seed, n_jobs=1, **FAITHFUL)
        return Pipeline([("columns", columns), ("model", model)])

    return build


def _trees(kind: Any) -> Callable[[list[int], list[int], int], Pipeline]:
    def build(words: list[int], numbers: list[int], seed: int) -> Pipeline:
        return Pipeline([("columns", _codes(words, numbers)), ("model", kind(100, random_state=seed, n_jobs=1))])

    return build


def _boosted_stumps(words: list[int], numbers: list[int], seed: int) -> Pipeline:
    """It refuses gaps: they become a number that nothing else is."""
    model = AdaBoostClassifier(DecisionTreeClassifier(random_state=seed), n_estimators=100, random_state=seed)
    gaps = SimpleImputer(strategy="constant", fill_value=-1, keep_empty_features=True)
    return Pipeline([("columns", _codes(words, numbers)), ("gaps", gaps), ("model", model)])


def _xgboost(words: list[int], numbers: list[int], seed: int) -> Pipeline:
    kinds = ["c" if column in words else "q" for column in range(len(words) + len(numbers))]
    model = XGBClassifier(tree_method="hist", enable_categorical=True, feature_types=kinds, random_state=seed, n_jobs=1)
    return Pipeline([("model", model)])


def _hist_gradient_boosting(words: list[int], numbers: list[int], seed: int) -> Pipeline:
    model = HistGradientBoostingClassifier(categorical_features=words, early_stopping=False, random_state=seed)
    return Pipeline([("model", model)])


def _nearest(words: list[int], numbers: list[int], seed: int) -> Pipeline:
    columns = ColumnTransformer(
        [
            ("words", make_pipeline(_class_means(seed), StandardScaler()), words),
            ("numbers", make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler()), numbers),
        ]
    )
    return Pipeline([("columns", columns), ("model", KNeighborsClassifier(n_jobs=1))])


def _class_means(seed: int) -> TargetEncoder:
    """A category becomes the mean class of its rows; each part of the training rows learns it from the others."""
    return TargetEncoder(target_type="binary", cv=StratifiedKFold(5, shuffle=True, random_state=seed))


def _codes(words: list[int], numbers: list[int]) -> ColumnTransformer:
    """Categories as their numbers, which do for trees; gaps stay."""
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    return ColumnTransformer([("words", encoder, words), ("numbers", "passthrough", numbers)])
