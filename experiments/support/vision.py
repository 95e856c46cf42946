"""Networks that tell pictures apart with an association inside, and how they are trained."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from ahop import AdaptiveSimilarity
from ahop.fitting import separation_loss
from ahop.modulations import KernelModulation
from ahop.nn import Hopfield, HopfieldEncoderLayer, HopfieldPooling
from experiments.datasets import Images
from experiments.support.broken_channels import break_pictures
from experiments.support.settings import seed_of_test

PARTS: dict[str, dict[str, Any]] = {
    "M-Hop": {},
    "K-Hop": {"modulation": "kernel"},
    "A-Hop": {"similarity": "adaptive"},
}
# What the separation loss of a kernel counts beside the loss of the classes, and how many patterns of a batch it sees.
SPREADING, SPREAD = 0.1, 64


@dataclass(frozen=True)
class Recipe:
    """How a network is built and trained.

    Attributes:
        scaling: of the scores, in units of the default, one over the square root of a head's size.
        blocks: none for a single look at the patches, as the released protocol has it.
        rank_rate: the rate of the rank weights of A-Hop, in units of that of all others.
        flips: whether pictures are mirrored at random.
        broken: the share of patches that broken sensors saw, of all pictures, also of those to be tested on.
        pictures: at most so many to learn from.
        tests: at most so many to be tested on.
    """

    patch: int
    size: int
    heads: int
    blocks: int
    epochs: int
    rate: float
    batch: int = 128
    scaling: float = 1.0
    rank_rate: float = 1.0
    decay: float = 0.0
    flips: bool = False
    broken: float = 0.0
    pictures: int = 1_000_000
    tests: int = 1_000_000


@dataclass(frozen=True)
class Data:
    """Pictures (n, 3, side, side), each color with mean zero and standard deviation one over those to learn from."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    classes: int

    @classmethod
    def of(cls, images: Images, recipe: Recipe, seed: int, held_out: bool = False) -> "Data":
        """Args:
        held_out: test on training pictures that are not learned from, to choose by.
        """
        order = np.random.default_rng(seed).permutation(len(images.train))
        if held_out:
            known, asked = order[: -recipe.tests][: recipe.pictures], order[-recipe.tests :]
            test, test_labels = images.train[asked], images.train_labels[asked]
        else:
            known = order[: recipe.pictures]
            test, test_labels = images.test[: recipe.tests], images.test_labels[: recipe.tests]
        train = _seen(images.train[known], recipe, seed)
        seen = _seen(test, recipe, seed_of_test(seed))
        center, spread = train.mean(dim=(0, 2, 3), keepdim=True), train.std(dim=(0, 2, 3), keepdim=True)
        labels = torch.from_numpy(images.train_labels[known])
        train, seen = train.sub_(center).div_(spread), seen.sub_(center).div_(spread)
        return cls(train, labels, seen, torch.from_numpy(test_labels), len(images.class_names))


def _seen(pictures: NDArray[np.uint8], recipe: Recipe, seed: int) -> Tensor:
    """Values in [0, 1], as the sensors of the recipe see them."""
    values = torch.from_numpy(pictures).float() / 255
    if not recipe.broken:
        return values
    generator = Generator().manual_seed(seed)
    parts = torch.split(values, 5000)  # all at once would take gigabytes
    return torch.cat([break_pictures(part, recipe.patch, recipe.broken, generator) for part in parts])


class PictureClassifier(nn.Module):
    """Patches to tokens, blocks that associate these among themselves, one look at all of them, and a class."""

    def __init__(self, model: str, side: int, classes: int, recipe: Recipe) -> None:
        super().__init__()
        size, self.patch = recipe.size, recipe.patch
        self.patterns = (side // recipe.patch) ** 2
        self.embed = nn.Linear(3 * recipe.patch**2, size)
        # The released protocol does not tell patches apart by where they are.
        self.positions = nn.Parameter(torch.zeros(self.patterns, size)) if recipe.blocks else None
        self.blocks = nn.ModuleList(
            HopfieldEncoderLayer(Hopfield(size, **_options(model, recipe)), 2 * size, activation="gelu")
            for _ in range(recipe.blocks)
        )
        self.look = HopfieldPooling(size, **_options(model, recipe))
        self.read = nn.Sequential(nn.ReLU(), nn.LayerNorm(size), nn.Linear(size, classes))

    def forward(self, pictures: Tensor) -> Tensor:
        patches = pictures.unfold(2, self.patch, self.patch).unfold(3, self.patch, self.patch)
        tokens = self.embed(patches.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2))
        if self.positions is not None:
            tokens = tokens + self.positions
        for block in self.blocks:
            tokens = block(tokens)
        logits: Tensor = self.read(self.look(tokens))
        return logits


def _options(model: str, recipe: Recipe) -> dict[str, Any]:
    head_size = -(-recipe.size // recipe.heads)
    return {"num_heads": recipe.heads, "scaling": recipe.scaling * head_size**-0.5, "dropout": 0.1, **PARTS[model]}


class Spreading:
    """The separation loss of all kernels in a network, in the mean, of patterns that they were just given.

    Patterns are taken as they are, so that kernels alone learn from it.
    """

    def __init__(self, network: nn.Module) -> None:
        self.losses: list[Tensor] = []
        for part in network.modules():
            if isinstance(part, KernelModulation):
                part.register_forward_hook(self._note)

    def _note(self, kernel: KernelModulation, given: tuple[Tensor, ...], _: Tensor) -> None:
        if kernel.training:
            patterns = given[0].detach().flatten(0, -2)[:SPREAD]
            self.losses.append(separation_loss(patterns @ kernel.kernel.mT))

    def loss(self) -> Tensor:
        """Since it was asked last; zero without kernels."""
        losses, self.losses = self.losses, []
        return torch.stack(losses).mean() if losses else torch.zeros(())


def train(model: str, data: Data, recipe: Recipe, seed: int) -> PictureClassifier:
    torch.manual_seed(seed)
    # Patterns that a softmax all but rules out have gradients so small that processors are slow with them.
    torch.set_flush_denormal(True)
    network = PictureClassifier(model, data.train.shape[-1], data.classes, recipe)
    spreading = Spreading(network)
    optimizer = torch.optim.AdamW(_groups(network, recipe), recipe.rate, weight_decay=recipe.decay, fused=True)
    steps = recipe.epochs * -(-len(data.train) // recipe.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    network.train()
    for _ in range(recipe.epochs):
        for batch in torch.split(torch.randperm(len(data.train)), recipe.batch):
            pictures = data.train[batch]
            if recipe.flips:
                mirrored = torch.rand(len(batch), 1, 1, 1) < 0.5
                pictures = torch.where(mirrored, pictures.flip(-1), pictures)
            optimizer.zero_grad()
            loss = cross_entropy(network(pictures), data.train_labels[batch]) + SPREADING * spreading.loss()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return network.eval()


def _groups(network: PictureClassifier, recipe: Recipe) -> list[dict[str, Any]]:
    """Rank weights have a rate of their own, and do not decay: at zero all patterns would count the same."""
    ranked = [
        weight for part in network.modules() if isinstance(part, AdaptiveSimilarity) for weight in part.parameters()
    ]
    places = {id(weight) for weight in ranked}
    others = [weight for weight in network.parameters() if id(weight) not in places]
    return [{"params": others}, {"params": ranked, "lr": recipe.rank_rate * recipe.rate, "weight_decay": 0.0}]


def classes_of(network: PictureClassifier, pictures: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([network(some).argmax(dim=1) for some in torch.split(pictures, 500)])


def without_similarity(network: PictureClassifier) -> PictureClassifier:
    """The same network, but that every pattern looks the same to every query, so that all count alike."""
    blind = copy.deepcopy(network)
    with torch.no_grad():
        for part in blind.modules():
            if isinstance(part, Hopfield):
                for parameter in part.pattern_projection.parameters():
                    parameter.zero_()
    return blind
