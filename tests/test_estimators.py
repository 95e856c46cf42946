"""The estimators: scikit-learn's own checks, and what is ours."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import torch
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import nan_euclidean_distances
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.estimators import AssociativeImputer, AssociativeRetriever, CorruptionModel
from ahop.estimators import _imputation as filling
from ahop.estimators._neighborhood import Twins
from ahop.estimators._row_memory import distinct_rows, row_keys
from ahop.estimators._threads import threads
from ahop.estimators.imputer import Standardization

Rows = NDArray[Any]
NAMES = [f"sensor {number}" for number in range(8)]


def ids_of(answer: ahop.Recall[Any]) -> NDArray[Any]:
    assert answer.labels is not None
    return answer.labels


def patterns(count: int = 60, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(count, len(NAMES)))


def damaged(rows: Rows, seed: int = 1, missing: float = 0.1) -> Rows:
    """Shifted, with noise and gaps."""
    rng = np.random.default_rng(seed)
    copies = rows + 0.8 + 0.2 * rng.normal(size=rows.shape)
    copies[rng.random(rows.shape) < missing] = np.nan
    return copies


def with_gaps(rows: Rows, share: float = 0.3, seed: int = 0) -> Rows:
    return np.where(np.random.default_rng(seed).random(rows.shape) < share, np.nan, rows)


@pytest.fixture(scope="module")
def model() -> CorruptionModel:
    return CorruptionModel("mixture", random_state=0).fit(damaged(patterns()), patterns())


# What scikit-learn asks of everyone.


@pytest.mark.filterwarnings("ignore:.*too few to learn a corruption from:UserWarning")  # there are three labels
@parametrize_with_checks([CorruptionModel("debiased"), AssociativeRetriever(), AssociativeImputer()])
def test_scikit_learn_finds_nothing_to_complain_about(estimator: Any, check: Any) -> None:
    check(estimator)


def test_without_scikit_learn_the_error_says_what_to_install() -> None:
    script = "import sys; sys.modules['sklearn'] = None; import ahop; import ahop.estimators"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "MissingPackageError" in done.stderr
    assert "pip install 'ahop[sklearn]'" in done.stderr


@pytest.mark.parametrize("n_jobs", [None, 1, 2, -1])
def test_torch_has_its_threads_back_afterwards(n_jobs: int | None) -> None:
    before = torch.get_num_threads()
    with threads(n_jobs):
        assert torch.get_num_threads() == {None: before, 1: 1, 2: 2}.get(n_jobs, torch.get_num_threads())
    assert torch.get_num_threads() == before
    with pytest.raises(InvalidValueError, match="must not be 0"), threads(0):
        pass


# The corruption model.


def test_a_corruption_is_learned_from_copies_and_origins(model: CorruptionModel) -> None:
    assert model.corruption_ is not None
    assert model.corruption_.shifts == pytest.approx([0.8] * len(NAMES), abs=0.15)
    assert "offset up to" in model.report()
    assert model.kind_ == "mixture"
    euclidean = CorruptionModel("euclidean", random_state=0).fit(damaged(patterns()), patterns())
    unseen = patterns(seed=5)
    assert model.score(damaged(unseen, seed=6), unseen) > euclidean.score(damaged(unseen, seed=6), unseen)


def test_copies_of_one_origin_share_a_pattern_even_if_it_has_gaps() -> None:
    origins = with_gaps(patterns(30), 0.2)
    both = np.concatenate([origins, origins])
    fitted = CorruptionModel("debiased", random_state=0).fit(damaged(both), both)
    assert fitted.origins_.shape == origins.shape
    assert np.isfinite(fitted.score(damaged(both), both))


def test_the_score_is_the_mean_log_posterior_of_the_right_origin(model: CorruptionModel) -> None:
    origins = patterns(20, seed=3)
    copies = damaged(origins, seed=4)
    recalled = model.memory(origins).recall(copies, k=20)
    right = recalled.posterior[recalled.indices == np.arange(20)[:, None]]
    assert model.score(copies, origins) == pytest.approx(np.log(right).mean())
    assert model.score(origins + 0.8, origins) > model.score(copies, origins)


def test_names_stand_for_the_mean_of_their_copies() -> None:
    origins = patterns(40)
    names = np.repeat([f"place {number:02}" for number in range(40)], 5)
    copies = damaged(np.repeat(origins, 5, axis=0))
    fitted = CorruptionModel("mixture", random_state=0).fit(copies, names)
    assert fitted.labels_ is not None
    assert list(fitted.labels_) == sorted(set(names))
    assert_allclose(fitted.origins_, origins + 0.8, atol=0.5)
    assert fitted.score(copies, names) > np.log(0.9)
    with pytest.raises(InvalidValueError, match="names of origins that were learned"):
        fitted.score(copies[:1], ["nowhere"])


def test_more_pairs_are_learned_together_with_the_first() -> None:
    origins, copies = patterns(), damaged(patterns())
    whole = CorruptionModel("mixture", random_state=0).fit(copies, origins)
    parts = CorruptionModel("mixture", random_state=0)
    parts.partial_fit(copies[:25], origins[:25]).partial_fit(copies[25:], origins[25:])
    assert parts.score(copies, origins) == pytest.approx(whole.score(copies, origins))
    with pytest.raises(ShapeError, match="of the same kind each time"):
        parts.partial_fit(copies[:2], ["a", "b"])
    with pytest.raises(InvalidValueError, match="each time or never"):
        parts.partial_fit(copies[:2], origins[:2], groups=["a", "b"])


def devices() -> tuple[Rows, Rows, list[str]]:
    """Two devices that shift the other way."""
    origins = np.concatenate([patterns(), patterns(seed=1)])
    groups = ["up"] * 60 + ["down"] * 60
    shift = np.where(np.array(groups) == "up", 1.0, -1.0)[:, None]
    return origins + shift + 0.2 * np.random.default_rng(2).normal(size=origins.shape), origins, groups


def test_each_group_has_a_corruption_of_its_own() -> None:
    copies, origins, groups = devices()
    fitted = CorruptionModel("debiased", random_state=0).fit(copies[::2], origins[::2], groups[::2])
    assert fitted.score(copies, origins, groups) > fitted.score(copies, origins)
    retriever = AssociativeRetriever(fitted).fit(origins)
    found = ids_of(retriever.retrieve(copies, 1, groups=groups))[:, 0]
    assert np.mean(found == np.arange(len(origins))) > 0.95
    fitted.partial_fit(copies[1::4], origins[1::4], groups[1::4])
    assert sorted(fitted.memory_.model.group_names) == ["down", "up"]


def test_copies_teach_without_their_origins_if_it_is_known_what_is_stored() -> None:
    stored = patterns(200)
    copies, test = damaged(stored[:80], seed=1), damaged(stored, seed=2)
    model = CorruptionModel(random_state=0).fit(copies, patterns=stored)
    right = AssociativeRetriever(model).fit(stored).predict(test) == np.arange(200)
    plain = AssociativeRetriever().fit(stored).predict(test) == np.arange(200)
    assert right.mean() > plain.mean() + 0.1
    assert "unlabeled queries" in model.report()
    learned = AssociativeRetriever("auto").fit(stored, queries=copies)
    assert (learned.predict(test) == np.arange(200)).mean() > plain.mean() + 0.1
    with pytest.raises(InvalidValueError, match="not both"):
        model.fit(copies, stored[:80], patterns=stored)
    with pytest.raises(InvalidValueError, match="call `fit`"):
        model.partial_fit(copies, stored[:80])
    with pytest.raises(InvalidValueError, match="go together"):
        AssociativeRetriever().fit(stored, queries=copies)
    with pytest.raises(InvalidValueError, match="go together"):
        AssociativeRetriever("auto").fit(stored)


def test_groups_are_routed_by_a_search() -> None:
    copies, origins, groups = devices()
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = CorruptionModel("debiased", random_state=0)
        estimator.set_fit_request(groups=True).set_score_request(groups=True)
        search = GridSearchCV(estimator, {"n_jobs": [1]}, cv=2).fit(copies[::4], origins[::4], groups=groups[::4])
    assert search.best_estimator_.memory_.model.group_names


def test_the_kind_can_be_searched_for() -> None:
    search = GridSearchCV(CorruptionModel(random_state=0), {"kind": ["euclidean", "debiased"]}, cv=3)
    search.fit(damaged(patterns()), patterns())
    assert search.best_params_ == {"kind": "debiased"}


@pytest.mark.filterwarnings("ignore:.*too few to learn a corruption from:UserWarning")
def test_too_few_pairs_are_said_in_the_report() -> None:
    assert "too few to learn from" in CorruptionModel().fit(patterns(3), patterns(3)).report()


def test_mistakes_in_pairs_say_the_mend() -> None:
    origins = patterns()
    with pytest.raises(InvalidValueError, match="Pass the origins of the copies"):
        CorruptionModel().fit(origins, None)
    with pytest.raises(ShapeError, match="must have the shape of X"):
        CorruptionModel().fit(origins, origins[:, :3])
    with pytest.raises(InvalidValueError, match="`similarity` must be one of 'auto'"):
        CorruptionModel("nonsense").fit(origins, origins)


# The retriever.


def test_origins_are_found_through_a_learned_corruption(model: CorruptionModel) -> None:
    stored = patterns(200, seed=7)
    copies = damaged(stored, seed=8)
    plain = AssociativeRetriever().fit(stored)
    learned = AssociativeRetriever(model).fit(stored)
    rows = np.arange(200)
    assert learned.score(copies, rows) > max(0.95, plain.score(copies, rows))
    answer = learned.retrieve(copies, 3)
    assert ids_of(answer).shape == answer.posterior.shape == answer.indices.shape == (200, 3)
    assert (np.diff(answer.posterior) <= 0).all()
    assert_array_equal(answer.labels, answer.indices)
    assert plain.retrieve(copies).unknown is None


def test_what_is_not_stored_is_said_to_be_unknown(model: CorruptionModel) -> None:
    stored, others = patterns(100, seed=7), patterns(100, seed=70)
    retriever = AssociativeRetriever(model).fit(stored)
    known, unknown = retriever.retrieve(damaged(stored)).unknown, retriever.retrieve(damaged(others)).unknown
    assert known is not None
    assert unknown is not None
    assert known.mean() < 0.2 < 0.8 < unknown.mean()


def test_patterns_that_share_an_id_add_up() -> None:
    stored = np.array([[0.0], [2.0], [2.2]])
    retriever = AssociativeRetriever(beta=1.0).fit(stored, ["left", "right", "right"])
    weights = np.exp(-((stored[:, 0] - 0.9) ** 2))
    expected = [weights[0] / weights.sum(), weights[1:].sum() / weights.sum()]
    assert_allclose(retriever.predict_proba([[0.9]]), [expected])
    assert list(retriever.classes_) == ["left", "right"]
    assert ids_of(retriever.retrieve([[0.9]], 1))[0, 0] == "left"
    assert retriever.predict([[0.9]])[0] == "right"


def test_a_mask_is_as_good_as_gaps(model: CorruptionModel) -> None:
    retriever = AssociativeRetriever(model).fit(patterns())
    copies, mask = damaged(patterns()), np.random.default_rng(3).random((60, len(NAMES))) < 0.4
    masked, gapped = retriever.retrieve(copies, mask=mask), retriever.retrieve(np.where(mask, np.nan, copies))
    assert_array_equal(masked.labels, gapped.labels)
    assert_array_equal(masked.posterior, gapped.posterior)
    framed = retriever.retrieve(copies, mask=pd.DataFrame(mask))
    assert_array_equal(framed.posterior, gapped.posterior)
    with pytest.raises(ShapeError, match="`mask` must be booleans of shape"):
        retriever.retrieve(copies, mask=mask[:2])


def test_neighbors_are_those_of_scikit_learn() -> None:
    stored, queries = patterns(), patterns(20, seed=4)
    ours, theirs = AssociativeRetriever(n_neighbors=4).fit(stored), NearestNeighbors(n_neighbors=4).fit(stored)
    distances, rows = ours.kneighbors(queries)
    assert_array_equal(rows, theirs.kneighbors(queries, return_distance=False))
    assert_array_equal(ours.kneighbors(n_neighbors=2, return_distance=False), theirs.kneighbors(n_neighbors=2)[1])
    assert (distances >= 0).all()
    assert (np.diff(distances) >= 0).all()
    assert_allclose(np.exp(-distances), ours.retrieve(queries).posterior)
    gapped = with_gaps(queries)
    expected = nan_euclidean_distances(gapped, stored).argmin(axis=1)
    assert_array_equal(ours.kneighbors(gapped, 1, return_distance=False)[:, 0], expected)
    with pytest.raises(InvalidValueError, match="`n_neighbors` must be at most 59"):
        ours.kneighbors(n_neighbors=60)


def test_no_pattern_is_its_own_neighbor() -> None:
    stored = np.concatenate([patterns(10), patterns(10)])
    rows = AssociativeRetriever(n_neighbors=1).fit(stored).kneighbors(return_distance=False)
    assert_array_equal(np.sort(rows[:, 0]), np.arange(20))
    assert_array_equal(rows[:, 0], (np.arange(20) + 10) % 20)


def test_damaged_rows_are_restored(model: CorruptionModel) -> None:
    stored = patterns(100, seed=7)
    restored = AssociativeRetriever(model).fit(stored).transform(damaged(stored))
    assert np.abs(restored - stored).mean() < 0.1


def test_more_patterns_are_stored_behind_the_others(model: CorruptionModel) -> None:
    stored, copies = patterns(), damaged(patterns())
    names = np.array([f"{number}" for number in range(60)])
    whole = AssociativeRetriever(model).fit(stored, names)
    parts = AssociativeRetriever(model).partial_fit(stored[:9], names[:9]).partial_fit(stored[9:], names[9:])
    assert_array_equal(parts.predict(copies), whole.predict(copies))
    assert_allclose(parts.predict_proba(copies), whole.predict_proba(copies))
    counted = AssociativeRetriever().fit(stored[:9]).partial_fit(stored[9:])
    assert_array_equal(counted.ids_, np.arange(60))
    with pytest.raises(InvalidValueError, match="each time or never"):
        counted.partial_fit(stored, names)


@pytest.mark.parametrize("container", [csr_array, csr_matrix, csc_array])
def test_sparse_rows_are_the_same_as_dense_ones(container: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = np.where(np.abs(patterns()) < 0.7, 0.0, patterns())
    dense, sparse = AssociativeRetriever().fit(stored), AssociativeRetriever().fit(container(stored))
    # Blocks of a few rows each.
    monkeypatch.setattr(
        "ahop.estimators.retriever.blocks", lambda count, _: (slice(i, i + 7) for i in range(0, count, 7))
    )
    assert_allclose(sparse.transform(container(stored)), dense.transform(stored))
    assert_array_equal(sparse.retrieve(container(stored)).labels, dense.retrieve(stored).labels)
    assert_array_equal(sparse.kneighbors(container(stored))[1], dense.kneighbors(stored)[1])
    masked = sparse.retrieve(container(stored), mask=stored == 0)
    assert_array_equal(masked.labels, dense.retrieve(np.where(stored == 0, np.nan, stored)).labels)


def test_a_clone_keeps_what_the_corruption_model_has_learned(model: CorruptionModel) -> None:
    retriever = clone(AssociativeRetriever(model))
    assert retriever.corruption.memory_ is model.memory_
    assert retriever.set_params(corruption__verbose=True).corruption is not model
    assert not model.verbose
    with pytest.raises(InvalidTypeError, match=r"`fit\(copies, origins\)` first"):
        AssociativeRetriever(clone(model)).fit(patterns())


def test_models_can_be_searched_among_if_they_are_frozen(model: CorruptionModel) -> None:
    stored = np.repeat(patterns(), 2, axis=0)
    ids = np.repeat(np.arange(60), 2)
    stored[1::2] = damaged(patterns())
    grid = {"corruption": [None, "manhattan", FrozenEstimator(model)]}
    # Each fold stores the originals and asks for the copies.
    folds = [(np.arange(0, 120, 2), np.arange(1, 120, 2))]
    search = GridSearchCV(AssociativeRetriever(), grid, cv=folds, refit=False).fit(stored, ids)
    assert search.best_params_["corruption"] is not None
    assert not isinstance(search.best_params_["corruption"], str)


def test_the_guessed_temperature_knows_no_units() -> None:
    for name in ("euclidean", "manhattan", "dot"):
        fits = [AssociativeRetriever(name).fit(scale * patterns()) for scale in (1.0, 1000.0)]
        ours, theirs = (
            fit.predict_proba(scale * patterns(5, seed=1)) for fit, scale in zip(fits, (1, 1000), strict=True)
        )
        assert_allclose(ours, theirs, rtol=1e-6, atol=1e-12)
    alone = AssociativeRetriever().fit(patterns(1))
    assert alone.predict(patterns(3))[0] == 0
    assert AssociativeRetriever().fit(np.zeros((4, 2))).predict_proba(np.zeros((1, 2))) == pytest.approx(0.25)


def test_the_columns_must_be_those_of_the_corruption_model(model: CorruptionModel) -> None:
    with pytest.raises(ShapeError, match="`X` must have 8 columns"):
        AssociativeRetriever(model).fit(patterns()[:, :3])
    with pytest.raises(InvalidValueError, match="`corruption` must be one of 'euclidean'"):
        AssociativeRetriever("nonsense").fit(patterns())


# Frames.


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_known_by_their_names(frame: Any) -> None:
    def framed(rows: Rows, names: list[str] = NAMES) -> Any:
        places = [NAMES.index(name) for name in names]
        return frame(dict(zip(names, rows[:, places].T, strict=True)))

    turned = NAMES[::-1]
    origins, copies = patterns(), damaged(patterns())
    model = CorruptionModel("mixture", random_state=0).fit(framed(copies), framed(origins, turned))
    assert model.score(framed(copies, turned), framed(origins)) == pytest.approx(
        CorruptionModel("mixture", random_state=0).fit(copies, origins).score(copies, origins)
    )
    retriever = AssociativeRetriever(model).fit(framed(origins, turned))
    assert list(retriever.feature_names_in_) == NAMES
    assert_array_equal(
        retriever.retrieve(framed(copies, turned)).posterior, retriever.retrieve(framed(copies)).posterior
    )
    imputer = AssociativeImputer(random_state=0).fit(framed(copies))
    assert_array_equal(imputer.transform(framed(copies, turned)), imputer.transform(framed(copies)))


def test_columns_that_are_missing_are_named_with_the_mend() -> None:
    stored = pd.DataFrame(patterns(), columns=NAMES)
    retriever = AssociativeRetriever().fit(stored)
    fewer = stored.drop(columns="sensor 3").assign(other=1.0)
    with pytest.raises(InvalidValueError, match="missing are 'sensor 3', not known are 'other'"):
        retriever.retrieve(fewer)
    mended = retriever.retrieve(fewer.reindex(columns=retriever.feature_names_in_), 1)
    assert_array_equal(ids_of(mended)[:, 0], np.arange(60))


@pytest.mark.parametrize(("kind", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_frames_come_out_if_they_are_asked_for(kind: str, frame: Any) -> None:
    rows = pd.DataFrame(with_gaps(patterns()), columns=NAMES).assign(empty=np.nan)
    imputer = AssociativeImputer(add_indicator=True, random_state=0).set_output(transform=kind)
    filled = imputer.fit_transform(rows)
    assert isinstance(filled, frame)
    assert list(filled.columns) == [*NAMES, *(f"missingindicator_{name}" for name in [*NAMES, "empty"])]
    restored = AssociativeRetriever().set_output(transform=kind).fit_transform(rows[NAMES])
    assert isinstance(restored, frame)
    assert list(restored.columns) == NAMES


# The imputer.


def test_it_fills_digits_better_than_the_mean_of_neighbors() -> None:
    digits = load_digits().data[:600]
    gapped = with_gaps(digits, 0.3, seed=11)
    hidden = np.isnan(gapped)

    def error(filled: Rows) -> float:
        return float(np.sqrt(np.square(filled - digits)[hidden].mean()))

    ours = error(AssociativeImputer(random_state=0, keep_empty_features=True).fit_transform(gapped))
    theirs = min(error(KNNImputer(n_neighbors=k, keep_empty_features=True).fit_transform(gapped)) for k in (3, 5, 10))
    assert ours < 0.9 * theirs


def test_it_says_how_well_it_fills() -> None:
    digits = load_digits().data[:600]
    gapped = with_gaps(digits, 0.3, seed=12)
    imputer = AssociativeImputer(random_state=0, keep_empty_features=True)
    error = np.square(imputer.fit_transform(gapped) - digits)[np.isnan(gapped)].mean()
    assert error < np.nanmean(imputer.expected_error_**2) < 1.6 * error


def test_what_was_observed_stays_and_no_value_leaves_its_range() -> None:
    rows = with_gaps(np.exp(patterns(200)))
    filled = AssociativeImputer(random_state=0).fit_transform(rows)
    seen = ~np.isnan(rows)
    assert_array_equal(filled[seen], rows[seen])
    assert (filled >= np.nanmin(rows, axis=0)).all()
    assert (filled <= np.nanmax(rows, axis=0)).all()


def test_rows_that_were_learned_from_are_filled_as_if_they_were_new() -> None:
    rows = with_gaps(patterns(150))
    rows[100:] = rows[:50]  # twins that know nothing more
    imputer = AssociativeImputer(random_state=0)
    assert_array_equal(imputer.fit_transform(rows), imputer.fit(rows).transform(rows))
    assert_allclose(imputer.transform(rows[:50]), imputer.transform(rows[100:]), rtol=1e-6)
    assert_allclose(imputer.transform(rows[3:4]), imputer.transform(rows)[3:4], rtol=1e-4)


def test_a_seed_gives_the_same_numbers_again() -> None:
    rows = with_gaps(patterns(150))
    first, second = (AssociativeImputer(random_state=3).fit_transform(rows) for _ in range(2))
    assert_array_equal(first, second)


def test_columns_that_are_functions_of_others_are_filled_exactly_enough() -> None:
    column = np.random.default_rng(0).uniform(1, 2, size=(400, 1))
    rows = np.hstack([column, 3 - column, 1e6 * column, 1e-6 * column])
    gapped = with_gaps(rows)
    gapped[:, 0] = rows[:, 0]
    filled = AssociativeImputer(random_state=0).fit_transform(gapped)
    assert_allclose(filled / rows, 1, atol=0.05)


def test_with_nothing_to_go_by_it_fills_the_mean() -> None:
    rows = with_gaps(patterns(100))
    imputer = AssociativeImputer(random_state=0).fit(rows)
    assert_allclose(imputer.transform(np.full((1, 8), np.nan))[0], np.nanmean(rows, axis=0), rtol=1e-5, atol=1e-6)
    assert_allclose(imputer.statistics_, np.nanmean(rows, axis=0))
    one_column = AssociativeImputer(random_state=0).fit_transform(rows[:, :1])
    assert_allclose(one_column[np.isnan(rows[:, :1])], np.nanmean(rows[:, 0]), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_rows_are_filled_too(count: int) -> None:
    rows = patterns(count)
    rows[0, 0] = rows[-1, 1] = np.nan
    filled = AssociativeImputer(random_state=0, keep_empty_features=True).fit_transform(rows)
    assert np.isfinite(filled).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1e150, 1e307])
def test_numbers_of_any_size_are_filled(scale: float) -> None:
    rows = with_gaps(patterns(100))
    scaled = rows * [scale, *[1.0] * 7]
    scaled[:, 5] = 4.25
    scaled[3, 5] = np.nan
    filled = AssociativeImputer(random_state=0).fit(scaled).transform(scaled)
    assert np.isfinite(filled).all()
    assert filled[3, 5] == 4.25
    beyond = np.array([[np.nan, *[1e300] * 7]])
    assert np.isfinite(AssociativeImputer(random_state=0).fit(rows).transform(beyond)).all()


def test_empty_columns_are_dropped_or_kept_as_zeros() -> None:
    rows = with_gaps(patterns(50))
    rows[:, 2] = np.nan
    assert AssociativeImputer().fit_transform(rows).shape == (50, 7)
    kept = AssociativeImputer(keep_empty_features=True).fit(rows)
    assert (kept.transform(rows)[:, 2] == 0).all()
    assert kept.transform(patterns(3))[0, 2] == patterns(3)[0, 2]
    nothing = np.full((4, 2), np.nan)
    assert AssociativeImputer().fit_transform(nothing).shape == (4, 0)
    assert (AssociativeImputer(keep_empty_features=True).fit_transform(nothing) == 0).all()


def test_the_two_ways_to_solve_for_the_step_agree() -> None:
    table = torch.randn(40, 10)
    columns = filling.Columns(torch.ones(10), table.amin(0), table.amax(0))
    rows = filling.FilledRows(table, table, columns, torch.zeros(10))
    queries = torch.where(torch.rand(7, 10) < 0.4, torch.nan, torch.randn(7, 10))
    shares = rows.neighbors(queries, 5).shares
    variation, mean = torch.randn(7, 5, 10) * shares.sqrt().unsqueeze(-1), torch.randn(7, 10)
    unexplained = 0.3 + torch.rand(7, 10)
    by_columns = rows._step_by_columns(variation, unexplained, queries, mean)
    by_neighbors = rows._step_by_neighbors(variation, unexplained, queries, mean)
    torch.testing.assert_close(by_columns, by_neighbors, rtol=1e-3, atol=1e-4)


def test_many_columns_are_filled_by_the_other_way() -> None:
    factors = np.random.default_rng(0).normal(size=(3, 150))
    rows = np.random.default_rng(1).normal(size=(300, 3)) @ factors
    gapped = with_gaps(rows, 0.5)
    filled = AssociativeImputer(random_state=0).fit_transform(gapped)
    assert np.abs(filled - rows)[np.isnan(gapped)].mean() < 0.2 * rows.std()


def test_twins_have_the_same_values_and_the_same_gaps() -> None:
    rows = torch.tensor([[0.0, torch.nan], [1.0, 2.0], [-0.0, torch.nan], [0.0, 0.0]])
    twins = Twins(torch.tensor([[1.0, 2.0], [5.0, 5.0], [0.0, torch.nan]]), rows)
    scores = twins.leave_out(torch.zeros(2, 4), slice(1, 3))
    assert scores[0].isfinite().all()
    assert scores[1].isinf().tolist() == [True, False, True, False]


def test_rows_with_gaps_are_told_apart() -> None:
    rows = np.array([[1.0, np.nan], [np.nan, 1.0], [1.0, np.nan], [0.0, 1.0], [-0.0, 1.0]])
    keys = row_keys(rows)
    assert keys[0] == keys[2] != keys[1]
    assert keys[3] == keys[4]
    different, places = distinct_rows(rows)
    assert len(different) == 3
    assert_array_equal(different[places], rows)


def test_columns_come_back_from_standard_deviations() -> None:
    rows = with_gaps(patterns(50)) * [1e-200, 1e200, 1, 1, 1, 1, 1, 1]
    rows[:, 7] = 3.0
    columns = Standardization.of(rows)
    assert_allclose(columns.undo(columns.apply(rows)), rows, rtol=1e-4)
    assert columns.relative_spread.tolist()[:2] == [0.0, 1.0]
    assert columns.relative_spread[7] == 0


# Together.


def test_they_work_in_pipelines_and_searches() -> None:
    digits = load_digits(n_class=4)
    rows, labels = with_gaps(digits.data[:200], 0.3), digits.target[:200]
    pipeline = make_pipeline(AssociativeImputer(random_state=0), StandardScaler(), LogisticRegression(max_iter=500))
    search = GridSearchCV(pipeline, {"associativeimputer__n_neighbors": [8, None]}, cv=2).fit(rows, labels)
    assert search.best_score_ > 0.9
    retriever = make_pipeline(AssociativeImputer(random_state=0), AssociativeRetriever(beta=0.01))
    assert retriever.fit(rows, labels).score(rows, labels) > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_precision_stays(dtype: Any, model: CorruptionModel) -> None:
    stored = with_gaps(patterns().astype(dtype))
    assert AssociativeImputer(random_state=0).fit_transform(stored).dtype == dtype
    assert AssociativeRetriever().fit(stored).transform(stored).dtype == dtype
    assert AssociativeRetriever(model).fit(stored).predict_proba(stored).dtype == dtype
    assert AssociativeRetriever(model).fit(stored).transform(stored).dtype == dtype
    fitted = CorruptionModel("mixture", random_state=0).fit(damaged(patterns()).astype(dtype), patterns().astype(dtype))
    assert fitted.origins_.dtype == dtype
    assert AssociativeRetriever(fitted).fit(patterns()).score(damaged(patterns()), np.arange(60)) > 0.9


def test_they_come_back_from_a_pickle(model: CorruptionModel) -> None:
    copies = damaged(patterns())
    retriever = AssociativeRetriever(model).fit(patterns(), [f"id {number}" for number in range(60)])
    imputer = AssociativeImputer(random_state=0).fit(copies)
    again = pickle.loads(pickle.dumps([model, retriever, imputer]))
    assert again[0].score(copies, patterns()) == model.score(copies, patterns())
    assert again[0].report() == model.report()
    assert_array_equal(again[1].retrieve(copies).posterior, retriever.retrieve(copies).posterior)
    assert_array_equal(again[1].predict(copies), retriever.predict(copies))
    assert_array_equal(again[2].transform(copies), imputer.transform(copies))


def test_a_corruption_model_is_what_fit_would_have_learned() -> None:
    origins, copies = patterns(), damaged(patterns())
    fitted = CorruptionModel("mixture", random_state=0).fit(copies, origins)
    memory = ahop.fit(origins, pairs=(np.arange(60), copies), similarity="mixture", progress=False)
    ours = AssociativeRetriever(fitted).fit(origins).retrieve(copies, 1)
    assert np.mean(ours.labels == memory.recall(copies).indices) > 0.95
