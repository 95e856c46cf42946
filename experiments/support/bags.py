"""Networks that tell bags of instances apart, and the one way in which all of them are trained and chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from ahop.nn import HopfieldPooling

Places: TypeAlias = NDArray[np.int64]

POOLINGS: dict[str, dict[str, Any]] = {
    "M-Hop": {},
    "S-Hop": {"separation": "sparsemax"},
    "A-Hop": {"similarity": "adaptive"},
}
FARTHEST = 5.0  # standard deviations; a few instances lie at sixty


@dataclass(frozen=True)
class Padded:
    """Bags side by side, the short ones filled up.

    Attributes:
        instances: (bags, most instances, features).
        present: (bags, most instances), True where there is an instance.
        labels: (bags,), zero or one.
    """

    instances: Tensor
    present: Tensor
    labels: Tensor

    @classmethod
    def of(cls, bags: Sequence[NDArray[np.float64]], labels: Places, train: Places) -> "Padded":
        """Columns rescaled by the instances of the bags in `train`; those that are constant there are left out."""
        known = np.concatenate([bags[place] for place in train])
        spread = known.std(axis=0)
        varied = spread > 1e-9 * np.abs(known).max(axis=0)
        center, spread = known[:, varied].mean(axis=0), spread[varied]
        instances = np.zeros((len(bags), max(map(len, bags)), int(varied.sum())), np.float32)
        present = np.zeros(instances.shape[:2], np.bool_)
        for place, bag in enumerate(bags):
            instances[place, : len(bag)] = ((bag[:, varied] - center) / spread).clip(-FARTHEST, FARTHEST)
            present[place, : len(bag)] = True
        return cls(torch.from_numpy(instances), torch.from_numpy(present), torch.from_numpy(labels).float())


@dataclass(frozen=True)
class Recipe:
    """How a network is built and trained.

    Attributes:
        scaling: of the scores before they are separated, in units of what each pooling has by itself.
    """

    epochs: int
    scaling: float = 1.0
    size: int = 64
    heads: int = 2
    dropout: float = 0.5
    rate: float = 1e-3
    decay: float = 0.01
    batch: int = 32


class GatedAttention(nn.Module):
    r"""$z = \sum_k a_k h_k$, $a = \mathrm{softmax}(w^\top(\tanh V h_k \odot \sigma(U h_k)))$: attention-based MIL.

    Ilse, Tomczak and Welling, "Attention-based deep multiple instance learning", ICML 2018.
    """

    def __init__(self, size: int, hidden: int, scaling: float) -> None:
        super().__init__()
        self.scaling = scaling
        self.seen, self.gate, self.score = nn.Linear(size, hidden), nn.Linear(size, hidden), nn.Linear(hidden, 1)

    def forward(self, instances: Tensor, present: Tensor) -> Tensor:
        scores = self.score(self.seen(instances).tanh() * self.gate(instances).sigmoid()).squeeze(-1)
        weights = (self.scaling * scores).masked_fill(~present, -torch.inf).softmax(dim=-1)
        pooled: Tensor = (weights.unsqueeze(-2) @ instances).squeeze(-2)
        return pooled


class BagClassifier(nn.Module):
    """Instances to vectors, vectors to one for the bag, and that to a logit. Models differ in the middle only."""

    def __init__(self, model: str, features: int, recipe: Recipe) -> None:
        super().__init__()
        size = recipe.size
        self.embed = nn.Sequential(nn.Linear(features, size), nn.LayerNorm(size), nn.ReLU(), nn.Dropout(recipe.dropout))
        self.pool: nn.Module
        if model in POOLINGS:
            scaling = recipe.scaling * (size / recipe.heads) ** -0.5
            self.pool = HopfieldPooling(size, num_heads=recipe.heads, scaling=scaling, **POOLINGS[model])
        else:
            self.pool = GatedAttention(size, size // 2, recipe.scaling)
        self.read = nn.Sequential(nn.ReLU(), nn.LayerNorm(size), nn.Dropout(recipe.dropout), nn.Linear(size, 1))

    def forward(self, instances: Tensor, present: Tensor) -> Tensor:
        logits: Tensor = self.read(self.pool(self.embed(instances), present=present)).squeeze(-1)
        return logits


def train(
    model: str, bags: Padded, places: Places, asked: Places, recipe: Recipe, stops: Sequence[int], seed: int
) -> list[Tensor]:
    """The logits of the bags `asked` after each of these numbers of epochs, of a network trained on those at `places`.

    The learning rate falls to zero over all epochs of the recipe, wherever the training stops.
    """
    torch.manual_seed(seed)
    network = BagClassifier(model, bags.instances.shape[-1], recipe)
    chosen, wanted = torch.from_numpy(places), torch.from_numpy(asked)
    optimizer = torch.optim.AdamW(network.parameters(), recipe.rate, weight_decay=recipe.decay, fused=True)
    steps = recipe.epochs * -(-len(places) // recipe.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    answers = []
    for epoch in range(1, max(stops) + 1):
        network.train()
        for batch in torch.split(chosen[torch.randperm(len(chosen))], recipe.batch):
            logits = network(bags.instances[batch], bags.present[batch])
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(logits, bags.labels[batch]).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        if epoch in stops:
            network.eval()
            with torch.no_grad():
                answers.append(network(bags.instances[wanted], bags.present[wanted]))
    return answers


def folds(labels: Places, count: int, seed: int) -> list[tuple[Places, Places]]:
    """Places to train on and places to judge by, each class in its share."""
    return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(labels, labels))


def auc(logits: Tensor, labels: Places) -> float:
    return float(roc_auc_score(labels, logits.numpy()))
