"""The classifier by prototypes: scikit-learn's own checks, real data, gaps, frames."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from ahop.errors import InvalidValueError
from ahop.estimators import PrototypeClassifier
from ahop.estimators._columns import CutColumns

# None of what was added to it.
PAPER: dict[str, Any] = {
    "similarity": "adaptive",
    "init": "kmeans",
    "learn_prototypes": False,
    "intervals": None,
    "embedding": None,
    "n_members": 1,
    "n_row_memories": 0,
    "loss": "squared",
}


@parametrize_with_checks([PrototypeClassifier(16, n_members=2, n_row_memories=1, embedding=16, hidden=32)])
def test_it_keeps_the_contract_of_scikit_learn(estimator, check) -> None:  # type: ignore[no-untyped-def]
    check(estimator)


@pytest.mark.parametrize("loss", ["log", "squared"])
@pytest.mark.parametrize("similarity", ["adaptive", "euclidean", "dot", "kernel"])
def test_digits_are_told_apart(similarity: Any, loss: Any) -> None:
    X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    added = {**PAPER, "similarity": similarity, "loss": loss, "learn_prototypes": True}
    model = PrototypeClassifier(32, **added, max_epochs=25, learning_rate=2e-2, weight_decay=0, random_state=0)
    assert model.fit(X_train, y_train).score(X_test, y_test) > 0.9


def test_as_it_comes_it_is_no_worse_than_a_forest() -> None:
    X_train, X_test, y_train, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    forest = RandomForestClassifier(random_state=0).fit(X_train, y_train)
    model = PrototypeClassifier(random_state=0).fit(X_train, y_train)
    assert model.score(X_test, y_test) >= forest.score(X_test, y_test)


@pytest.mark.parametrize("form", [{"n_members": 2}, {**PAPER, "max_epochs": 40, "learning_rate": 1e-2}])
def test_gaps_need_no_imputer(form: dict[str, Any]) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = PrototypeClassifier(32, **form, random_state=0).fit(X_train, y_train)
    assert model.score(X_test, y_test) > 0.93


@pytest.mark.parametrize("form", [{"n_members": 1}, {"n_members": 1, "intervals": None}, PAPER])
def test_a_row_of_which_nothing_was_observed_gets_probabilities(form: dict[str, Any]) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = PrototypeClassifier(8, **form, max_epochs=2, random_state=0).fit(X, y)
    unseen = model.predict_proba(np.full((1, X.shape[1]), np.nan))
    np.testing.assert_allclose(unseen.sum(), 1)


def test_a_gap_in_a_column_that_had_none_is_read_as_the_usual() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = PrototypeClassifier(8, n_members=1, max_epochs=2, random_state=0).fit(X, y)
    gap, coordinates = X[:1].copy(), model.columns_.apply(X)
    gap[0, 0] = np.nan
    width = len(model.columns_.usual[0])  # type: ignore[union-attr]
    np.testing.assert_allclose(
        model.columns_.apply(gap)[0, 1 : 1 + width], coordinates[:, 1 : 1 + width].mean(0), rtol=1e-4
    )


def test_a_gap_is_told_from_a_value() -> None:
    """Whether something is missing decides the class here, and nothing else does."""
    X = np.random.default_rng(0).random((400, 2))
    X[::2, 0] = np.nan
    y = np.arange(400) % 2
    model = PrototypeClassifier(16, n_members=1, random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) == 1


def test_prototypes_stand_among_the_data() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    fixed = PrototypeClassifier(4, **{**PAPER, "init": "sample"}, max_epochs=1, random_state=0).fit(X, y)
    assert fixed.prototypes_.shape == (4, X.shape[1])
    assert all(np.isclose(X, prototype, rtol=1e-4).all(1).any() for prototype in fixed.prototypes_)
    embedded = PrototypeClassifier(4, n_members=3, max_epochs=1, random_state=0).fit(X, y)
    assert embedded.prototypes_.shape == (12, X.shape[1])
    assert all((prototype == X).all(1).any() for prototype in embedded.prototypes_)


def test_columns_are_cut_where_the_classes_change() -> None:
    value = np.linspace(-1, 1, 500)
    noise, constant = np.random.default_rng(0).random(500), np.ones(500)
    model = PrototypeClassifier(4, intervals=2, n_members=1, max_epochs=1)
    model.fit(np.column_stack([value, noise, constant]), value > 0.3)
    assert isinstance(model.columns_, CutColumns)
    cuts = model.columns_.cuts
    np.testing.assert_allclose(cuts[0], [-1, 0.3], atol=0.01)
    assert len(cuts[2]) == 0


def test_a_coordinate_is_a_step_at_its_cut() -> None:
    value = np.linspace(-1, 1, 500)
    model = PrototypeClassifier(4, intervals=2, n_members=1, max_epochs=1).fit(value[:, None], value > 0.3)
    steps = model.columns_.apply(np.array([[-1.0], [0.0], [0.5]])).numpy()
    np.testing.assert_array_equal(steps[:, 1:], [[0, 0], [1, 0], [1, 1]])


def test_ten_steps_are_enough() -> None:
    """The warm-up would be one step long then, and the schedule divides by one less."""
    X, y = load_breast_cancer(return_X_y=True)
    PrototypeClassifier(4, n_members=1, batch_size=len(X), max_epochs=10, random_state=0).fit(X, y)


def test_the_number_of_row_memories_is_checked() -> None:
    with pytest.raises(InvalidValueError, match="n_row_memories"):
        PrototypeClassifier(n_row_memories=-1).fit([[0.0], [1.0]], [0, 1])


def test_more_rows_are_learned_by_partial_fit() -> None:
    X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    model = PrototypeClassifier(32, n_members=1, random_state=0)
    scores = []
    for _ in range(8):
        for part in np.array_split(np.arange(len(X_train)), 4):
            model.partial_fit(X_train[part], y_train[part], classes=np.arange(10))
        scores.append(model.score(X_test, y_test))
    assert scores[-1] > 0.93
    assert scores[-1] > scores[0]
    assert model.n_iter_ == 32
    with pytest.raises(InvalidValueError, match="classes"):
        model.partial_fit(X_train[:2], [10, 11])


def test_a_search_in_a_pipeline_over_a_frame_with_gaps_and_categories() -> None:
    random = np.random.default_rng(0)
    age, group = random.normal(40, 10, 300), random.choice(["a", "b", "c"], 300)
    target = np.where((age > 40) ^ (group == "a"), "yes", "no")
    age[random.random(300) < 0.1] = np.nan
    frame = pd.DataFrame({"age": age, "group": group})
    encode = ColumnTransformer([("group", OneHotEncoder(sparse_output=False), ["group"])], remainder="passthrough")
    pipeline = Pipeline([("encode", encode), ("classify", PrototypeClassifier(8, n_members=2, random_state=0))])
    search = GridSearchCV(pipeline, {"classify__n_prototypes": [4, 16]}, cv=3).fit(frame, target)
    assert search.best_score_ > 0.8
    assert set(search.predict(frame)) == {"yes", "no"}


def test_columns_are_known_by_name() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = PrototypeClassifier(8, n_members=1, max_epochs=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X[X.columns[::-1]]))


def test_the_same_seed_gives_the_same_answers() -> None:
    X, y = load_digits(return_X_y=True)
    once, twice = (PrototypeClassifier(8, n_members=2, max_epochs=2, random_state=3).fit(X, y) for _ in range(2))
    assert (once.predict_proba(X) == twice.predict_proba(X)).all()
