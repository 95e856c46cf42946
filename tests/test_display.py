"""The picture of a decision: its numbers by a slow recomputation, and its bars by its numbers."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ahop.errors import InvalidTypeError, ShapeError
from ahop.estimators import PrototypeClassifier, PrototypeDisplay
from ahop.estimators._prototypes import PrototypeNetwork
from ahop.estimators._row_memory import RowMemory

matplotlib.use("Agg")
COLUMNS = ["alcohol", "ash", "hue", "proline", "flavanoids"]
EMBEDDED: dict[str, Any] = {"n_members": 3, "embedding": 6, "hidden": 8}
ADAPTIVE: dict[str, Any] = {
    "similarity": "adaptive",
    "intervals": None,
    "embedding": None,
    "n_members": 2,
    "n_row_memories": 0,
}
FORMS = [EMBEDDED, ADAPTIVE, {**EMBEDDED, "similarity": "adaptive"}, {**ADAPTIVE, "similarity": "kernel"}]


def wines() -> tuple[Any, NDArray[Any]]:
    """A frame with gaps, and three classes by name."""
    wine = load_wine(as_frame=True)
    frame = wine.data[COLUMNS]
    gaps = np.random.default_rng(0).random(frame.shape) < 0.2
    return frame.mask(gaps), wine.target_names[wine.target]


def fitted(**form: Any) -> PrototypeClassifier:
    chosen: dict[str, Any] = {"max_epochs": 3, "learning_rate": 1e-2, "random_state": 0, **form}
    return PrototypeClassifier(chosen.pop("n_prototypes", 7), **chosen).fit(*wines())


@pytest.fixture(autouse=True)
def _figures_are_closed() -> Iterator[None]:
    yield
    plt.close("all")


class Slowly:
    """A committee written out: one prototype, one rank, one member at a time."""

    def __init__(self, model: PrototypeClassifier, row: Any) -> None:
        coordinates = model.columns_.apply(np.asarray(row, dtype=np.float64))
        self.coordinates = coordinates.double()
        members = [member.double() for member in model.network_.members]
        self.members: list[Any] = [member for member in members if isinstance(member, PrototypeNetwork)]
        memories = [member for member in members if isinstance(member, RowMemory)]
        self.votes = [member(self.coordinates)[0].softmax(-1).detach().numpy() for member in memories]
        self.scores = [member.likeness(self.coordinates)[0].detach().numpy() for member in self.members]
        self.chosen = int(np.mean(self.said({}), axis=0).argmax())

    def probabilities(self, place: int, scores: Any = None) -> NDArray[np.float64]:
        scores = self.scores[place] if scores is None else scores
        member = self.members[place]
        first, last = member.head[0], member.head[2]
        weight, bias = (part.detach().numpy() for part in (member.norm.weight, member.norm.bias))
        normal = (scores - scores.mean()) / np.sqrt(scores.var() + member.norm.eps) * weight + bias
        inner = np.maximum(first.weight.detach().numpy() @ normal + first.bias.detach().numpy(), 0)
        logits = last.weight.detach().numpy() @ inner + last.bias.detach().numpy()
        odds = np.exp(logits - logits.max())
        answer: NDArray[np.float64] = odds / odds.sum()
        return answer

    def said(self, changed: dict[int, Any]) -> list[NDArray[np.float64]]:
        return [self.probabilities(place, changed.get(place)) for place in range(len(self.members))] + self.votes

    def log_odds(self, changed: dict[int, Any]) -> float:
        share = np.mean(self.said(changed), axis=0)[self.chosen]
        return float(np.log(share) - np.log1p(-share))

    def effects(self) -> list[float]:
        found = []
        for place, scores in enumerate(self.scores):
            for prototype in range(len(scores)):
                silent = scores.copy()
                silent[prototype] = np.delete(scores, prototype).mean()
                found.append(self.log_odds({}) - self.log_odds({place: silent}))
        return found

    def rank_effects(self, base: int) -> list[float]:
        found = []
        for rank in range(self.members[0].similarity.dimensions):
            changed = {}
            for place, member in enumerate(self.members):
                part, beta = member.similarity.footprints[base], member.similarity.betas[base].item()
                each = part.base.addends(member.prototypes, member.embedded(self.coordinates))[0].detach().numpy()
                # A rank is in all subspaces that are at least as large as it.
                term = beta * part.weights[rank:].sum().item() * -np.sort(-each, axis=1)[:, rank]
                changed[place] = self.scores[place] - term + term.mean()
            found.append(self.log_odds({}) - self.log_odds(changed))
        return found


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("number", [3, 90])
def test_effects_are_what_the_log_odds_lose_without_the_prototype(form: dict[str, Any], number: int) -> None:
    model, row = fitted(**form), wines()[0].iloc[[number]]
    assert row.isna().to_numpy().any() == (number == 3)
    display = PrototypeDisplay.from_estimator(model, row)
    predicted = model.predict(row)[0]
    slowly = Slowly(model, row)
    assert display.predicted == predicted == model.classes_[slowly.chosen]
    assert display.log_odds == pytest.approx(slowly.log_odds({}), abs=1e-4)
    assert_allclose(display.effects, slowly.effects(), atol=2e-5)
    assert np.abs(display.effects).max() > 1e-3
    if model.similarity == "adaptive":
        assert list(display.rank_effects) == ["euclidean", "dot"]
        for base, effects in enumerate(display.rank_effects.values()):
            assert_allclose(effects, slowly.rank_effects(base), atol=2e-5)
            assert np.abs(effects).max() > 1e-3
    else:
        assert display.rank_effects == {}


def test_with_its_normalized_likeness_at_zero_a_prototype_says_nothing() -> None:
    """A prototype that the others agree with on average has no effect; one alone has none either."""
    model, row = fitted(n_members=1, n_prototypes=1), wines()[0].iloc[[0]]
    assert_array_equal(PrototypeDisplay.from_estimator(model, row).effects, [0.0])


@pytest.mark.parametrize("form", [EMBEDDED, ADAPTIVE], ids=str)
def test_the_bars_are_the_numbers_and_speak_of_where_prototypes_differ(form: dict[str, Any]) -> None:
    row = wines()[0].iloc[[90]]
    display = PrototypeDisplay.from_estimator(fitted(**form), row, most=5, columns=2)
    shown = display.strongest(5)
    assert_array_equal(np.abs(display.effects[shown]), np.sort(np.abs(display.effects))[::-1][:5])
    first = display.axes_[0]
    bars = sorted(first.patches, key=lambda bar: bar.get_y())
    assert_allclose([bar.get_width() for bar in bars], display.effects[shown])
    words = {container.get_label(): container.patches for container in first.containers}
    assert_array_equal([bar in words.get("alike", ()) for bar in bars], display.likeness[shown] > 0)
    labels = [label.get_text() for label in first.get_yticklabels()]
    spread = np.nanstd(display.prototypes, axis=0)
    for label, number in zip(labels, shown, strict=True):
        apart = np.abs(display.prototypes[number] - row.to_numpy()[0]) / spread
        columns = sorted(np.flatnonzero(~np.isnan(apart)), key=lambda column: -apart[column])[:2]
        written = re.findall(r"^(\w+) (\S+) \((\S+)\)$", label, re.MULTILINE)
        assert [name for name, _, _ in written] == [COLUMNS[column] for column in columns]
        for column, (_, theirs, own) in zip(columns, written, strict=True):
            assert float(theirs) == pytest.approx(display.prototypes[number, column], abs=0.02 * spread[column])
            assert float(own) == pytest.approx(row.iloc[0, column], abs=0.02 * spread[column])
    assert display.figure_ is first.figure
    assert len(display.axes_) == (2 if display.rank_effects else 1)
    for line, effects in zip(display.axes_[-1].lines, display.rank_effects.values(), strict=False):
        assert_array_equal(line.get_ydata(), effects)
        assert_array_equal(line.get_xdata(), np.arange(len(effects)) + 1)
    assert str(display.predicted) in display.figure_.get_suptitle()


def test_a_row_of_gaps_differs_nowhere() -> None:
    nothing = np.full((1, len(COLUMNS)), np.nan)
    frame, classes = wines()
    model = PrototypeClassifier(7, **EMBEDDED, max_epochs=2, random_state=0).fit(frame.to_numpy(), classes)
    display = PrototypeDisplay.from_estimator(model, nothing)
    assert np.isfinite(display.effects).all()
    assert {label.get_text() for label in display.axes_[0].get_yticklabels()} == {"nothing to compare"}


def test_it_draws_where_it_is_told() -> None:
    figure = plt.figure()
    display = PrototypeDisplay.from_estimator(fitted(**ADAPTIVE), wines()[0].iloc[[0]], figure=figure)
    assert display.figure_ is figure
    again = display.plot(most=1)
    assert again is display
    assert len(again.axes_[0].patches) == 1
    assert again.figure_ is not figure


def test_names_come_from_frames_pipelines_or_the_caller() -> None:
    frame, classes = wines()
    row = frame.iloc[[0]]
    assert PrototypeDisplay.from_estimator(fitted(**EMBEDDED), row).names == COLUMNS
    frame["place"] = np.where(frame["hue"] > 1, "north", "south")
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["place"]), remainder="passthrough")
    pipeline = make_pipeline(encode, PrototypeClassifier(7, **EMBEDDED, max_epochs=2)).fit(frame, classes)
    display = PrototypeDisplay.from_estimator(pipeline, frame.iloc[[0]])
    assert display.names[:3] == ["onehotencoder__place_north", "onehotencoder__place_south", "remainder__alcohol"]
    assert display.predicted == pipeline.predict(frame.iloc[[0]])[0]
    plain = make_pipeline(StandardScaler(), PrototypeClassifier(7, **EMBEDDED, max_epochs=2))
    values = np.nan_to_num(frame[COLUMNS].to_numpy())
    plain.fit(values, classes)
    assert PrototypeDisplay.from_estimator(plain, values[:1]).names == [f"x{place}" for place in range(5)]
    assert PrototypeDisplay.from_estimator(plain, values[:1], feature_names="abcde").names == list("abcde")
    sparse = PrototypeDisplay.from_estimator(plain[-1], csr_array(values[:1]))
    assert_array_equal(sparse.effects, PrototypeDisplay.from_estimator(plain[-1], values[:1]).effects)


def test_what_cannot_be_shown_is_said() -> None:
    frame, _ = wines()
    model = fitted(**EMBEDDED)
    with pytest.raises(ShapeError, match=r"one row, of shape \(1, 5\); got shape \(2, 5\)"):
        PrototypeDisplay.from_estimator(model, frame.iloc[:2])
    with pytest.raises(ShapeError, match="must be 5, one for each column; got 1"):
        PrototypeDisplay.from_estimator(model, frame.iloc[[0]], feature_names=["hue"])
    with pytest.raises(InvalidTypeError, match="must be of the kind PrototypeClassifier; got StandardScaler"):
        PrototypeDisplay.from_estimator(StandardScaler(), frame.iloc[[0]])
    with pytest.raises(NotFittedError):
        PrototypeDisplay.from_estimator(PrototypeClassifier(), frame.iloc[[0]])


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    display = PrototypeDisplay.from_estimator(fitted(**EMBEDDED), wines()[0].iloc[[0]])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'ahop\[plots\]'"):
        display.plot()
