"""The classifier by prototypes: scikit-learn's own checks, real data, gaps, frames."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from ahop.estimators.classifier import PrototypeClassifier


@parametrize_with_checks(
    [
        PrototypeClassifier(n_prototypes=16, max_epochs=40, batch_size=64, learning_rate=1e-2),
        PrototypeClassifier(n_prototypes=8, init="sample", similarity="euclidean", max_epochs=60, learning_rate=1e-2),
    ]
)
def test_it_keeps_the_contract_of_scikit_learn(estimator, check) -> None:  # type: ignore[no-untyped-def]
    check(estimator)


@pytest.mark.parametrize("loss", ["log", "squared"])
@pytest.mark.parametrize("similarity", ["adaptive", "dot"])
def test_digits_are_told_apart(similarity: str, loss: str) -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = PrototypeClassifier(32, similarity=similarity, loss=loss, max_epochs=25, learning_rate=3e-2, random_state=0)  # type: ignore[arg-type]
    assert model.fit(X_train, y_train).score(X_test, y_test) > 0.93


def test_gaps_need_no_imputer() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = PrototypeClassifier(16, max_epochs=40, random_state=0).fit(X_train, y_train)
    assert model.score(X_test, y_test) > 0.93
    assert np.isfinite(model.prototypes_).all()


def test_prototypes_stand_among_the_data() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = PrototypeClassifier(4, max_epochs=1, learning_rate=1e-6, random_state=0).fit(X, y)
    assert model.prototypes_.shape == (4, X.shape[1])
    assert ((model.prototypes_ >= X.min(0) - 1e-3) & (model.prototypes_ <= X.max(0) + 1e-3)).all()


def test_a_search_in_a_pipeline_over_a_frame_with_gaps_and_categories() -> None:
    random = np.random.default_rng(0)
    age, group = random.normal(40, 10, 300), random.choice(["a", "b", "c"], 300)
    target = np.where((age > 40) ^ (group == "a"), "yes", "no")
    age[random.random(300) < 0.1] = np.nan
    frame = pd.DataFrame({"age": age, "group": group})
    encode = ColumnTransformer([("group", OneHotEncoder(sparse_output=False), ["group"])], remainder="passthrough")
    pipeline = Pipeline(
        [("encode", encode), ("classify", PrototypeClassifier(8, max_epochs=30, learning_rate=1e-2, random_state=0))]
    )
    search = GridSearchCV(pipeline, {"classify__n_prototypes": [4, 16]}, cv=3).fit(frame, target)
    assert search.best_score_ > 0.8
    assert set(search.predict(frame)) == {"yes", "no"}


def test_the_same_seed_gives_the_same_answers() -> None:
    X, y = load_digits(return_X_y=True)
    once, twice = (make_pipeline(PrototypeClassifier(8, max_epochs=2, random_state=3)).fit(X, y) for _ in range(2))
    assert (once.predict_proba(X) == twice.predict_proba(X)).all()
