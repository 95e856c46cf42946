"""Classification by likeness to prototypes, and to the rows themselves."""

from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Generator, Tensor
from tqdm.auto import tqdm

from ahop._core.blocks import blocks
from ahop._core.checks import check_choice, check_count, check_kind, check_not_negative, check_positive
from ahop.errors import InvalidValueError, ShapeError
from ahop.estimators._columns import CutColumns, StandardColumns, cut_columns, standard_columns
from ahop.estimators._prototypes import SIMILARITIES, Committee, PrototypeNetwork
from ahop.estimators._row_memory import RowMemory, WeightedRows, distinct
from ahop.estimators._threads import threads
from ahop.estimators._training import losses, passes, usual_batch
from ahop.estimators._validation import SEEDS, by_name, checked_rows, dense

# Rows among which those that stand for the prototypes are looked for.
SHOWN = 10_000
# NaN is "not observed"; infinity is refused.
ROWS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": "allow-nan",
}


class PrototypeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Rows are compared with learned prototypes, and with the rows of the training; what they are alike to decides.

    NaN means "not observed" and needs no imputer. Numbers need no scaler; categories want a one-hot encoder before.

    Paper:
        Its classifier is `PrototypeClassifier(similarity="adaptive", init="kmeans", learn_prototypes=False,
        intervals=None, embedding=None, n_members=1, n_row_memories=0, loss="squared")`, which has the loss
        [eqn:class-loss] and none of what was added.

    Args:
        n_prototypes: how many each member has; fewer if there are fewer rows.
        similarity: how rows and prototypes are compared; "adaptive" learns which subspace sizes matter, "kernel" a
            matrix for an inner product.
        intervals: into how many each column is cut, where the classes change; None standardizes columns instead.
        embedding: how many coordinates to learn for the comparison; None compares the columns themselves.
        n_members: networks with prototypes. They learn alone, and their probabilities are averaged.
        n_row_memories: networks that keep all rows in place of prototypes, each of which votes for its class; they are
            members too. They cost more than the others, the more the more rows there are; zero for none.
        init: where the prototypes start: at rows of the data, or at centers of clusters.
        learn_prototypes: whether they move from there.
        hidden: units between the similarities to prototypes and the classes.
        loss: "squared" is the paper's.
        learning_rate: of AdamW at its highest; it rises for a tenth of the steps and falls along a cosine.
        weight_decay: pull of all weights towards zero.
        batch_size: rows of a step; None for a twentieth of them, within 16 and 256.
        max_epochs: passes over the data.
        n_jobs: how many threads torch may use; None leaves that as it is.
        random_state: of prototypes, weights and the order of rows.
        progress: show a bar.

    Attributes:
        classes_: the labels, in the order of `predict_proba`'s columns.
        prototypes_: (n_members * n_prototypes, n_features), in the units of the data. Where they live in learned
            coordinates, the rows of the data that are most alike to each.
        network_: the fitted torch module; it sees the coordinates of `columns_.apply(rows)`.
        n_iter_: passes over the data.

    Example:
        >>> X, y = sklearn.datasets.load_iris(return_X_y=True)
        >>> PrototypeClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
        True
    """

    def __init__(
        self,
        n_prototypes: int = 128,
        *,
        similarity: Literal["adaptive", "euclidean", "dot", "kernel"] = "euclidean",
        intervals: int | None = 16,
        embedding: int | None = 64,
        n_members: int = 2,
        n_row_memories: int = 2,
        init: Literal["sample", "kmeans"] = "sample",
        learn_prototypes: bool = True,
        hidden: int = 128,
        loss: Literal["log", "squared"] = "log",
        learning_rate: float = 3e-3,
        weight_decay: float = 0.1,
        batch_size: int | None = None,
        max_epochs: int = 10,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        progress: bool = False,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.similarity = similarity
        self.intervals = intervals
        self.embedding = embedding
        self.n_members = n_members
        self.n_row_memories = n_row_memories
        self.init = init
        self.learn_prototypes = learn_prototypes
        self.hidden = hidden
        self.loss = loss
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows (n, d), dense or sparse, and the class of each.

        Args:
            sample_weight: (n,), how much each row counts; three is as good as the row three times.
        """
        self._check_parameters()
        X, y = validate_data(self, X, y, **ROWS)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        given = self._weigh_rows(X, y, sample_weight)
        if len(np.unique(given.codes)) < 2:
            raise InvalidValueError(
                f"PrototypeClassifier needs rows of at least two classes; got {len(np.unique(given.codes))} class. "
                "Check `y`, and that `sample_weight` is not zero for all but one class."
            )
        with threads(self.n_jobs):
            self._start(given)
            self._train(given, self.max_epochs)
            self._look_up_prototypes(given.rows)
        self.n_iter_ = self.max_epochs
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass over more rows, at a learning rate that is held. Memories of rows keep them beside the earlier ones.

        Args:
            classes: all there will ever be; needed in the first call, which also decides on columns and prototypes.
        """
        self._check_parameters()
        is_first = self._check_classes(classes)
        X = X if is_first else by_name(self, X)
        X, y = validate_data(self, X, y, reset=is_first, **ROWS)
        check_classification_targets(y)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise InvalidValueError(
                f"`y` has classes that the first call did not name: {unknown.tolist()}. Pass all of them as `classes`."
            )
        given = self._weigh_rows(X, y, sample_weight)
        with threads(self.n_jobs):
            if is_first:
                self._start(given)
            self._train(given, epochs=1, falling=False)
            self._look_up_prototypes(given.rows)
        self.n_iter_ = 1 if is_first else self.n_iter_ + 1
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of `classes_`, (b, c)."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False, sparse="csr")
        with threads(self.n_jobs), torch.no_grad():
            parts = [self.network_(coordinates).exp() for coordinates in self._coordinates(X)]
        probabilities = torch.cat(parts).double().numpy()
        normalized: NDArray[Any] = probabilities / probabilities.sum(1, keepdims=True)
        return normalized

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row, (b,)."""
        best = self.predict_proba(X).argmax(1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        """Refuse parameters out of their range."""
        for name in ("n_prototypes", "n_members", "hidden", "max_epochs"):
            check_count(name, getattr(self, name))
        for name in ("intervals", "embedding", "batch_size"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.n_row_memories != 0:
            check_count("n_row_memories", self.n_row_memories)
        check_choice("similarity", self.similarity, tuple(SIMILARITIES))
        check_choice("init", self.init, ("kmeans", "sample"))
        check_choice("loss", self.loss, ("log", "squared"))
        check_positive("learning_rate", float(self.learning_rate))
        check_not_negative("weight_decay", float(self.weight_decay))
        for name in ("learn_prototypes", "progress"):
            check_kind(name, getattr(self, name), bool)

    def _check_classes(self, classes: Any) -> bool:
        """True at the first call of `partial_fit`, which must name all classes; later ones may repeat them."""
        if not hasattr(self, "classes_"):
            if classes is None:
                raise InvalidValueError("`classes` must be passed on the first call to `partial_fit`: all of them.")
            self.classes_ = unique_labels(classes)
            return True
        if classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise InvalidValueError(
                f"`classes` must be those of the first call, {self.classes_.tolist()}; got {list(classes)}."
            )
        return False

    def _weigh_rows(self, X: Any, y: NDArray[Any], sample_weight: Any) -> WeightedRows:
        weights = _weights(sample_weight, X.shape[0])
        present = weights > 0
        codes = np.searchsorted(self.classes_, y[present])
        given, _ = distinct(dense(X).astype(np.float64)[present], codes, weights[present])
        return given

    def _start(self, given: WeightedRows) -> None:
        """Columns, prototypes and networks before anything is learned."""
        rows, weights = given.rows, given.weights
        self.columns_: StandardColumns | CutColumns = (
            standard_columns(rows, weights)
            if self.intervals is None
            else cut_columns(rows, given.codes, weights, self.intervals)
        )
        random = check_random_state(self.random_state)
        coordinates = self.columns_.apply(rows).nan_to_num(0.0).numpy()
        classes, width = len(self.classes_), coordinates.shape[1]
        self._generator_state = Generator().manual_seed(int(random.randint(SEEDS))).get_state()
        self._kept = WeightedRows(rows[:0], given.codes[:0], weights[:0])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(random.randint(SEEDS)))
            starts = [self._first_prototypes(coordinates, weights, random) for _ in range(self.n_members)]
            with_prototypes = [
                PrototypeNetwork(start, self.similarity, self.embedding, self.hidden, classes, self.learn_prototypes)
                for start in starts
            ]
            with_rows = [RowMemory(width, self.embedding, classes) for _ in range(self.n_row_memories)]
            self.network_ = Committee([*with_prototypes, *with_rows])

    def _first_prototypes(
        self, coordinates: NDArray[np.float32], weights: NDArray[np.float64], random: np.random.RandomState
    ) -> Tensor:
        count = min(self.n_prototypes, len(coordinates))
        if self.init == "kmeans":
            start = KMeans(count, n_init=1, random_state=random).fit(coordinates, sample_weight=weights)
            return torch.from_numpy(start.cluster_centers_.astype(np.float32))
        chosen = random.choice(len(coordinates), count, replace=False, p=weights / weights.sum())
        return torch.from_numpy(coordinates[chosen])

    def _train(self, given: WeightedRows, epochs: int, falling: bool = True) -> None:
        coordinates, classes, weights = self._tensors(given)
        shares = weights / weights.mean()
        memories = [member for member in self.network_.members if isinstance(member, RowMemory)]
        if memories:
            self._kept, places = self._kept.joined(given)
            kept, numbers = self._tensors(self._kept), torch.from_numpy(places)
        generator = Generator()
        generator.set_state(self._generator_state)

        def said(member: Any, batch: Tensor) -> Tensor:
            if isinstance(member, RowMemory):
                return member.without_themselves(numbers[batch], *kept, generator)
            logits: Tensor = member(coordinates[batch])
            return logits

        bar = tqdm(total=epochs * len(self.network_.members), desc="fit", disable=not self.progress)
        with bar:
            for member in self.network_.members:

                def loss_of(batch: Tensor, member: Any = member) -> Tensor:
                    return (losses(self.loss, said(member, batch), classes[batch]) * shares[batch]).mean()

                for _ in passes(
                    member,
                    loss_of,
                    len(coordinates),
                    self.batch_size or usual_batch(len(coordinates)),
                    epochs,
                    self.learning_rate,
                    self.weight_decay,
                    generator,
                    falling,
                ):
                    bar.update()
        for memory in memories:
            memory.store(*kept)
        self._generator_state = generator.get_state()

    def _tensors(self, given: WeightedRows) -> tuple[Tensor, Tensor, Tensor]:
        """Coordinates, numbers of classes and weights, as the networks see them."""
        coordinates = self.columns_.apply(given.rows)
        return coordinates, torch.from_numpy(given.codes), torch.from_numpy(given.weights).float()

    def _look_up_prototypes(self, rows: NDArray[np.float64]) -> None:
        members = [member for member in self.network_.members if isinstance(member, PrototypeNetwork)]
        if self.embedding is None and isinstance(self.columns_, StandardColumns):
            standing = torch.cat([member.prototypes.detach() for member in members])
            self.prototypes_ = self.columns_.undo(standing)
            return
        shown = rows[:: -(-len(rows) // SHOWN)]
        coordinates = self.columns_.apply(shown)
        with torch.no_grad():
            nearest = [
                torch.cdist(member.prototypes, member.embedded(coordinates).nan_to_num(0.0)).argmin(1)
                for member in members
            ]
        self.prototypes_ = shown[torch.cat(nearest).numpy()]

    def _coordinates(self, X: Any) -> Iterator[Tensor]:
        """Blocks of rows as the networks see them."""
        bytes_each = 64 * (X.shape[1] + self.n_prototypes) + 16 * len(self._kept.rows)
        for part in blocks(X.shape[0], bytes_each):
            yield self.columns_.apply(dense(X[part]).astype(np.float64))


def _weights(given: Any, count: int) -> NDArray[np.float64]:
    """Weights of the rows: one, a number for all, or one for each."""
    if given is None or isinstance(given, Real):
        weights = np.full(count, 1.0 if given is None else given, dtype=np.float64)
    else:
        weights = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (count,):
        raise ShapeError(f"`sample_weight` must have shape ({count},), one for each row; got {weights.shape}.")
    if not bool((weights >= 0).all()):
        raise InvalidValueError("`sample_weight` must be zero or larger; got negative weights.")
    return weights
