"""Classification by likeness to prototypes."""

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn
from tqdm.auto import tqdm

from ahop._blocks import blocks
from ahop.similarities.adaptive import AdaptiveSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity

SIMILARITIES = ("adaptive", "euclidean", "dot")


class PrototypeNetwork(nn.Module):
    r"""$\mathrm{MLP}(\mathrm{LayerNorm}(\mathrm{sim}(\Xi, x)))$, with prototypes and similarity learned like the rest.

    Paper:
        The memory-based classifier of [apd:tabular].
    """

    def __init__(self, prototypes: Tensor, similarity: Similarity, hidden: int, classes: int) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(prototypes)
        self.similarity = similarity
        self.norm = nn.LayerNorm(len(prototypes))
        self.head = nn.Sequential(nn.Linear(len(prototypes), hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.similarity(self.prototypes, rows)))
        return logits


class PrototypeClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Rows are compared with learned prototypes; how alike they are to each decides the class.

    NaN means "not observed" and needs no imputer. Columns are scaled inside; categories want a one-hot encoder before.

    Paper:
        With `loss="squared"`, the loss [eqn:class-loss].

    Args:
        n_prototypes: how many; fewer if there are fewer rows.
        similarity: how rows and prototypes are compared; "adaptive" learns which subspace sizes matter.
        init: where the prototypes start: centres of clusters, or rows of the data.
        hidden: units between the similarities and the classes.
        learning_rate: of Adam, falling to zero along a cosine.
        weight_decay: pull of all weights towards zero.
        batch_size: rows of a step.
        max_epochs: passes over the data.
        loss: "squared" is the paper's.
        random_state: of prototypes, weights and the order of rows.
        progress: show a bar.

    Attributes:
        classes_: the labels, in the order of `predict_proba`'s columns.
        prototypes_: (n_prototypes, n_features), in the units of the data.
        network_: the fitted torch module; it sees scaled rows.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_prototypes": [Interval(Integral, 1, None, closed="left")],
        "similarity": [StrOptions(set(SIMILARITIES))],
        "init": [StrOptions({"kmeans", "sample"})],
        "hidden": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "loss": [StrOptions({"log", "squared"})],
        "random_state": ["random_state"],
        "progress": ["boolean"],
    }

    def __init__(
        self,
        n_prototypes: int = 64,
        *,
        similarity: Literal["adaptive", "euclidean", "dot"] = "adaptive",
        init: Literal["kmeans", "sample"] = "kmeans",
        hidden: int = 64,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-4,
        batch_size: int = 256,
        max_epochs: int = 50,
        loss: Literal["log", "squared"] = "log",
        random_state: int | np.random.RandomState | None = None,
        progress: bool = False,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.similarity = similarity
        self.init = init
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.loss = loss
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "PrototypeClassifier":
        self._validate_params()
        X, y = validate_data(self, X, y, **ROWS)
        check_classification_targets(y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_, codes = np.unique(y, return_inverse=True)
        rows, codes, weights = _distinct(_dense(X), codes, weights)
        if len(np.unique(codes)) < 2:
            raise ValueError(
                f"PrototypeClassifier needs rows of at least two classes; got {len(np.unique(codes))} class. "
                "Check `y`, and that `sample_weight` is not zero for all but one class."
            )
        random = check_random_state(self.random_state)
        self._learn_scale(rows, weights)
        scaled = self._scaled(rows)
        generator = torch.Generator().manual_seed(int(random.randint(2**31 - 1)))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(random.randint(2**31 - 1)))
            self.network_ = self._new_network(scaled, weights, random)
        self.n_iter_ = self._train(scaled, torch.from_numpy(codes), torch.from_numpy(weights), generator)
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **ROWS)
        with torch.no_grad():
            probabilities: NDArray[Any] = torch.softmax(self._logits(X), dim=-1).double().numpy()
        normalised: NDArray[Any] = probabilities / probabilities.sum(1, keepdims=True)
        return normalised

    def predict(self, X: Any) -> NDArray[Any]:
        best = self.predict_proba(X).argmax(1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen

    @property
    def prototypes_(self) -> NDArray[Any]:
        check_is_fitted(self)
        scaled = self.network_.prototypes.detach().double().numpy()
        return np.asarray(scaled * self.scale_ + self.centre_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _learn_scale(self, rows: NDArray[Any], weights: NDArray[Any]) -> None:
        seen = ~np.isnan(rows)
        mass = np.maximum((seen * weights[:, None]).sum(0), 1e-300)
        filled = np.where(seen, rows, 0.0)
        self.centre_ = (filled * weights[:, None]).sum(0) / mass
        spread = np.where(seen, rows - self.centre_, 0.0)
        deviation = np.sqrt((spread**2 * weights[:, None]).sum(0) / mass)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)

    def _scaled(self, rows: NDArray[Any]) -> Tensor:
        # Beyond some hundred deviations a value says no more; and float32 could not square it.
        return torch.from_numpy(np.clip((rows - self.centre_) / self.scale_, -1e6, 1e6).astype(np.float32))

    def _new_network(self, rows: Tensor, weights: NDArray[Any], random: np.random.RandomState) -> PrototypeNetwork:
        count = min(self.n_prototypes, len(rows))
        complete = rows.nan_to_num(0.0).numpy()  # the mean, as rows are scaled
        if self.init == "kmeans":
            clusters = KMeans(count, n_init=1, random_state=random).fit(complete, sample_weight=weights)
            start = clusters.cluster_centers_
        else:
            start = complete[random.choice(len(rows), count, replace=False, p=weights / weights.sum())]
        dimensions = rows.shape[1]
        similarity: dict[str, Similarity] = {
            "adaptive": AdaptiveSimilarity(dimensions),
            "euclidean": EuclideanSimilarity(),
            "dot": DotSimilarity(),
        }
        prototypes = torch.as_tensor(np.asarray(start, dtype=np.float32))
        return PrototypeNetwork(prototypes, similarity[self.similarity], self.hidden, len(self.classes_))

    def _train(self, rows: Tensor, codes: Tensor, weights: Tensor, generator: torch.Generator) -> int:
        network = self.network_
        optimiser = torch.optim.Adam(network.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        steps = self.max_epochs * -(-len(rows) // self.batch_size)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        shares = (weights / weights.mean()).float()
        with torch.enable_grad(), tqdm(total=self.max_epochs, desc="fit", disable=not self.progress) as bar:
            for _ in range(self.max_epochs):
                for batch in _batches(len(rows), self.batch_size, generator):
                    optimiser.zero_grad()
                    losses = self._losses(network(rows[batch]), codes[batch])
                    torch.autograd.backward((losses * shares[batch]).mean())
                    optimiser.step()
                    schedule.step()
                bar.update()
        network.requires_grad_(False)
        return self.max_epochs

    def _losses(self, logits: Tensor, codes: Tensor) -> Tensor:
        if self.loss == "log":
            return nn.functional.cross_entropy(logits, codes, reduction="none")
        target = nn.functional.one_hot(codes, logits.shape[1]).to(logits)
        return (torch.softmax(logits, dim=-1) - target).square().sum(-1)

    def _logits(self, X: Any) -> Tensor:
        bytes_each = 16 * (X.shape[1] + len(self.network_.prototypes))
        parts = [self.network_(self._scaled(_dense(X[rows]))) for rows in blocks(X.shape[0], bytes_each)]
        return torch.cat(parts)


# NaN is "not observed"; infinity is refused.
ROWS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": "allow-nan",
}


def _dense(rows: Any) -> NDArray[Any]:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


def _distinct(
    rows: NDArray[Any], codes: NDArray[Any], weights: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Each row once with the weight of all its like, in an order of its own: three copies are a weight of three."""
    present = weights > 0
    rows, codes, weights = rows[present], codes[present], weights[present]
    joined = np.column_stack([rows, codes])
    _, first, places = np.unique(joined, axis=0, return_index=True, return_inverse=True)
    return rows[first], codes[first], np.bincount(places.ravel(), weights, minlength=len(first))


def _batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    order = torch.randperm(count, generator=generator)
    for start in range(0, count, size):
        yield order[start : start + size]
