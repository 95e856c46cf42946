"""Why a row was classified as it was, as a picture."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from ahop._core.blocks import blocks
from ahop._core.checks import check_count, check_kind
from ahop._core.optional import pyplot
from ahop.errors import ShapeError
from ahop.estimators._prototypes import Committee, PrototypeNetwork
from ahop.estimators._row_memory import RowMemory
from ahop.estimators._threads import threads
from ahop.estimators._validation import checked_rows
from ahop.estimators.classifier import PrototypeClassifier
from ahop.similarities.adaptive import AdaptiveSimilarity

BLUE, ORANGE, GRAY = "#1b5e8c", "#c8702a", "0.4"
MOST_LETTERS = 24


class PrototypeDisplay:
    r"""Log odds of a decision on a row, by prototype and by rank of agreement.

    The effect of a prototype is $\log \frac{p}{1 - p}$ of the predicted class, less the same when the likeness to this
    prototype is that to the others on average, so that it says nothing. The effect of a rank is the same for what the
    dimension that agrees $k$-th best adds to all likenesses, for each base of an adaptive similarity. Both are computed
    and not estimated; but they need not add up, as what decides is not a sum.

    Args:
        effects: of each prototype, (m,). Being unlike a prototype can speak for a class too.
        likeness: to each prototype, (m,), in deviations from the mean of its member; above zero is more than most.
        prototypes: in the units of the data, (m, d).
        row: what was classified, (d,).
        names: of the columns.
        predicted: the class.
        log_odds: of that class, to which effects compare.
        rank_effects: of each base similarity and rank, best first; empty if the similarity is not adaptive.

    Attributes:
        figure_: what was drawn on.
        axes_: of the prototypes, and of the ranks if there are any.

    Example:
        >>> X, y = sklearn.datasets.load_iris(return_X_y=True)
        >>> model = PrototypeClassifier(8, n_members=2, random_state=0).fit(X, y)
        >>> PrototypeDisplay.from_estimator(model, X[[60]]).effects.shape
        (16,)
    """

    def __init__(
        self,
        effects: NDArray[np.float64],
        likeness: NDArray[np.float64],
        prototypes: NDArray[np.float64],
        row: NDArray[np.float64],
        names: Sequence[str],
        predicted: Any,
        log_odds: float,
        rank_effects: dict[str, NDArray[np.float64]],
    ) -> None:
        self.effects = effects
        self.likeness = likeness
        self.prototypes = prototypes
        self.row = row
        self.names = list(names)
        self.predicted = predicted
        self.log_odds = log_odds
        self.rank_effects = rank_effects

    @classmethod
    def from_estimator(
        cls,
        estimator: PrototypeClassifier | Pipeline,
        X: Any,
        *,
        feature_names: Sequence[str] | None = None,
        most: int = 8,
        columns: int = 2,
        figure: Any = None,
    ) -> Self:
        """Find out and draw.

        Args:
            estimator: a `PrototypeClassifier` that was fitted, or a pipeline that ends in one.
            X: one row, (1, d), as `predict` takes it; NaN where nothing was observed.
            feature_names: of the columns that the classifier sees; default those of the frames that it was fitted to,
                or that the steps before it answer with.
            most: as `plot`; likewise `columns` and `figure`.
        """
        if isinstance(estimator, Pipeline):
            before, estimator = estimator[:-1], estimator[-1]
            X = before.transform(X) if len(before) else X
            feature_names = _names_after(before) if feature_names is None else feature_names
        classifier = check_kind("estimator", estimator, PrototypeClassifier)
        check_is_fitted(classifier)
        row = _one_row(classifier, X)
        known = getattr(classifier, "feature_names_in_", None) if feature_names is None else feature_names
        names = [f"x{number}" for number in range(len(row))] if known is None else [str(name) for name in known]
        if len(names) != len(row):
            raise ShapeError(f"`feature_names` must be {len(row)}, one for each column; got {len(names)}.")
        chosen = int(classifier.predict_proba(X).argmax())
        with threads(classifier.n_jobs), torch.no_grad():
            decision = _Decision(classifier.network_, classifier.columns_.apply(row[None]), chosen)
            effects, ranks = decision.effects_of_prototypes(), decision.effects_of_ranks()
        predicted = classifier.classes_[chosen]
        display = cls(
            effects, decision.likeness(), classifier.prototypes_, row, names, predicted, decision.log_odds, ranks
        )
        return display.plot(most=most, columns=columns, figure=figure)

    def strongest(self, most: int = 8) -> NDArray[np.intp]:
        """The prototypes with the largest effects of either sign, strongest first."""
        order: NDArray[np.intp] = np.argsort(-np.abs(self.effects), kind="stable")
        return order[: check_count("most", most)]

    def differences(self, prototype: int, columns: int = 2) -> list[int]:
        """The columns in which a prototype and the row differ most, in deviations of the prototypes; none in gaps."""
        apart = np.abs(self.prototypes[prototype] - self.row) / _spread(self.prototypes)
        order = np.argsort(-np.nan_to_num(apart, nan=-1.0), kind="stable")[: check_count("columns", columns)]
        return [int(column) for column in order if apart[column] > 0]

    def plot(self, *, most: int = 8, columns: int = 2, figure: Any = None) -> Self:
        """Draw on a matplotlib figure, a new one if None.

        Args:
            most: how many prototypes are shown, the strongest.
            columns: in how many columns each is compared with the row, those in which they differ most.
        """
        shown = self.strongest(most)
        wide = bool(self.rank_effects)
        size = (9.5 if wide else 6.5, 1.5 + 0.42 * len(shown))
        self.figure_ = figure or pyplot().figure(figsize=size, layout="constrained")
        self.axes_ = np.atleast_1d(self.figure_.subplots(1, 2 if wide else 1, width_ratios=(1, 1) if wide else None))
        self.figure_.suptitle(f"Predicted: {self.predicted}, log odds {self.log_odds:.2f}")
        self._draw_prototypes(self.axes_[0], shown, columns)
        if wide:
            self._draw_ranks(self.axes_[1])
        for axis in self.axes_:
            axis.spines[["top", "right"]].set_visible(False)
        return self

    def _draw_prototypes(self, axis: Any, shown: NDArray[np.intp], columns: int) -> None:
        alike = self.likeness[shown] > 0
        for of_kind, color, label in ((alike, BLUE, "alike"), (~alike, ORANGE, "unlike")):
            places = np.flatnonzero(of_kind)
            if len(places):
                axis.barh(places, self.effects[shown[places]], color=color, label=label)
        axis.legend(frameon=False)
        axis.set_yticks(range(len(shown)), [self._describe(int(number), columns) for number in shown])
        axis.tick_params(axis="y", length=0, labelsize="small")
        axis.invert_yaxis()
        axis.axvline(0, color=GRAY, linewidth=0.8)
        axis.set(xlabel="effect on the log odds", title="Prototypes (in brackets: the row)")

    def _draw_ranks(self, axis: Any) -> None:
        for (name, values), color in zip(self.rank_effects.items(), (BLUE, ORANGE), strict=False):
            axis.plot(np.arange(1, len(values) + 1), values, "o-", markersize=3, color=color, label=name)
        axis.axhline(0, color=GRAY, linewidth=0.8)
        axis.set(xlabel="rank of the dimension, best agreement first", ylabel="effect on the log odds", title="Ranks")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.legend(frameon=False)

    def _describe(self, prototype: int, columns: int) -> str:
        spread, lines = _spread(self.prototypes), []
        for column in self.differences(prototype, columns):
            theirs, own = (_round(each[column], spread[column]) for each in (self.prototypes[prototype], self.row))
            lines.append(f"{_short(self.names[column])} {theirs} ({own})")
        return "\n".join(lines) or "nothing to compare"


class _Decision:
    """Decision of each member of a committee on one row, and its alternatives."""

    def __init__(self, committee: Committee, row: Tensor, chosen: int) -> None:
        self.members = [member for member in committee.members if isinstance(member, PrototypeNetwork)]
        self.row, self.chosen = row, chosen
        self.scores = [member.likeness(row).double() for member in self.members]
        # In double precision, as one of a thousand prototypes moves little.
        self.deciders = [deepcopy(nn.Sequential(member.norm, member.head)).double() for member in self.members]
        self.said = [self._log_probabilities(place, scores) for place, scores in enumerate(self.scores)]
        # Memories of rows have their say too, and no prototype changes it.
        memories = [member for member in committee.members if isinstance(member, RowMemory)]
        self.said += [member(row).double().log_softmax(-1) for member in memories]
        self.log_odds = float(self._log_odds(self.said))

    def likeness(self) -> NDArray[np.float64]:
        """To each prototype, in deviations from the mean over those of its member."""
        each = [(scores - scores.mean()) / scores.std(correction=0).clamp_min(1e-300) for scores in self.scores]
        return torch.cat(each, dim=1)[0].numpy()

    def effects_of_prototypes(self) -> NDArray[np.float64]:
        effects = []
        for place, scores in enumerate(self.scores):
            count = scores.shape[1]
            others = (scores.sum() - scores) / (count - 1) if count > 1 else scores
            for part in blocks(count, 4 * 8 * count):
                numbers = torch.arange(part.start, part.stop)
                changed = scores.repeat(len(numbers), 1)
                changed[torch.arange(len(numbers)), numbers] = others[0, numbers]
                effects.append(self._effect({place: self._log_probabilities(place, changed)}))
        return torch.cat(effects).numpy()

    def effects_of_ranks(self) -> dict[str, NDArray[np.float64]]:
        """By the names of the bases; empty if the similarity weighs no ranks."""
        first = self.members[0].similarity
        if not isinstance(first, AdaptiveSimilarity):
            return {}
        changed = {}
        for place, (member, scores) in enumerate(zip(self.members, self.scores, strict=True)):
            # What all prototypes have in common is lost behind the likeness anyway.
            changed[place] = self._log_probabilities(place, scores - _terms_by_rank(member, self.row))
        effects = self._effect(changed).view(-1, first.dimensions).numpy()
        names = [type(part.base).__name__.removesuffix("Similarity").lower() for part in first.footprints]
        return dict(zip(names, effects, strict=True))

    def _log_probabilities(self, place: int, scores: Tensor) -> Tensor:
        """Log probabilities of the classes, (r, c), if rows are so alike to the prototypes of one member, (r, n)."""
        logits: Tensor = self.deciders[place](scores)
        return logits.log_softmax(-1)

    def _effect(self, changed: dict[int, Tensor]) -> Tensor:
        """The log odds as they are, less those if some members said something else, (r,)."""
        count = len(next(iter(changed.values())))
        said = [changed.get(place, usual.expand(count, -1)) for place, usual in enumerate(self.said)]
        return self._log_odds(self.said) - self._log_odds(said)

    def _log_odds(self, said: list[Tensor]) -> Tensor:
        together = torch.stack(said).logsumexp(0)
        others = together.index_fill(1, torch.tensor(self.chosen), -torch.inf)
        return together[:, self.chosen] - others.logsumexp(-1)


def _terms_by_rank(member: PrototypeNetwork, row: Tensor) -> Tensor:
    """Terms of the similarity by rank of each base, (p, n)."""
    similarity: Any = member.similarity
    features = similarity.features(member.prototypes, member.embedded(row))[0]
    weighed: Tensor = (features * similarity.coefficients).mT
    return weighed.double()


def _one_row(classifier: PrototypeClassifier, X: Any) -> NDArray[np.float64]:
    rows = checked_rows(classifier, X, reset=False, sparse="csr")
    if rows.shape[0] != 1:
        raise ShapeError(
            f"`X` must be one row, of shape (1, {rows.shape[1]}); got shape {tuple(rows.shape)}. Pass `X[[3]]`, or "
            "`frame.iloc[[3]]`."
        )
    row: NDArray[np.float64] = np.asarray(rows.toarray() if issparse(rows) else rows, dtype=np.float64)[0]
    return row


def _names_after(steps: Pipeline) -> Sequence[str] | None:
    """Names of the columns after these steps; None if one of them does not name its own."""
    try:
        names: Sequence[str] = steps.get_feature_names_out()
    except (AttributeError, ValueError):
        return None
    return names


def _spread(prototypes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation of each column, of what was observed; one where there is none."""
    seen = ~np.isnan(prototypes)
    count = np.maximum(seen.sum(0), 1)
    values = np.where(seen, prototypes, 0.0)
    moved = np.where(seen, prototypes - values.sum(0) / count, 0.0)
    spread: NDArray[np.float64] = np.sqrt((moved**2).sum(0) / count)
    return np.where(spread > 0, spread, 1.0)


def _round(value: float, spread: float) -> str:
    """To a hundredth of the order of what values of this column differ by; more would be noise to the eye."""
    return f"{np.round(value, 2 - int(np.floor(np.log10(spread)))) + 0.0:.6g}"


def _short(name: str) -> str:
    return name if len(name) <= MOST_LETTERS else f"{name[: MOST_LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
