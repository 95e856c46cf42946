"""Networks that tell pictures apart with an association inside, and how they are trained."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ahop import AdaptiveSimilarity, DotSimilarity
from ahop.datasets import Images
from ahop.nn import Hopfield, HopfieldEncoderLayer, HopfieldPooling

PARTS: dict[str, dict[str, Any]] = {
    "M-Hop": {},
    "K-Hop": {"modulation": "kernel"},
    "A-Hop": {"similarity": "adaptive"},
    "distance": {"similarity": "euclidean"},
}
DOT_ONLY = "A-Hop, dot only"


@dataclass(frozen=True)
class Recipe:
    """How a network is built and trained.

    Attributes:
        scaling: of the scores, in units of the default, one over the square root of a head's size.
        blocks: none for a single look at the patches, as the released protocol has it.
        flips: whether pictures are mirrored at random.
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
    decay: float = 0.0
    flips: bool = False
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
        order = torch.randperm(len(images.train), generator=torch.Generator().manual_seed(seed))
        train, labels = torch.from_numpy(images.train)[order], torch.from_numpy(images.train_labels)[order]
        test, test_labels = torch.from_numpy(images.test), torch.from_numpy(images.test_labels)
        if held_out:
            test, test_labels = train[-recipe.tests :], labels[-recipe.tests :]
            train, labels = train[: -recipe.tests], labels[: -recipe.tests]
        train, labels = train[: recipe.pictures].float(), labels[: recipe.pictures]
        test, test_labels = test[: recipe.tests].float(), test_labels[: recipe.tests]
        center, spread = train.mean(dim=(0, 2, 3), keepdim=True), train.std(dim=(0, 2, 3), keepdim=True)
        scaled = ((train - center) / spread, labels, (test - center) / spread, test_labels)
        return cls(*scaled, len(images.class_names))


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
    chosen = PARTS.get(model)
    if chosen is None:
        chosen = {"similarity": [AdaptiveSimilarity(head_size, bases=[DotSimilarity()]) for _ in range(recipe.heads)]}
    return {"num_heads": recipe.heads, "scaling": recipe.scaling * head_size**-0.5, "dropout": 0.1, **chosen}


def train(model: str, data: Data, recipe: Recipe, seed: int) -> PictureClassifier:
    torch.manual_seed(seed)
    network = PictureClassifier(model, data.train.shape[-1], data.classes, recipe)
    optimizer = torch.optim.AdamW(network.parameters(), recipe.rate, weight_decay=recipe.decay, fused=True)
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
            cross_entropy(network(pictures), data.train_labels[batch]).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return network.eval()


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
