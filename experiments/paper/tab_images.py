"""Pictures told apart by networks with an association inside: as released, where it can matter, and where it should.

The released protocol cuts CIFAR's pictures of 32 x 32 into patches of 32 x 32. So there is one pattern, its weight is
one whatever a similarity says, and no similarity can change an answer or get a gradient. `swayed` shows it: the share
of test pictures whose class changes if every pattern is made to count the same. The second protocol is a small
transformer over patches of 8 x 8. The third is the same transformer on pictures half of whose patches a broken sensor
saw: some dimensions of a pattern lie, which is what the weights of an adaptive similarity are for.

Paper:
    [apd:image]: the left half of the table that `tab_mil` is the right half of, without CIFAR-100.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product

from experiments.datasets import Images, load_cifar10, load_tiny_imagenet
from experiments.support.differences import paired_differences
from experiments.support.harness import Experiment, Row
from experiments.support.vision import Data, Recipe, classes_of, train, without_similarity

LOADERS: dict[str, Callable[..., Images]] = {"CIFAR-10": load_cifar10, "Tiny ImageNet": load_tiny_imagenet}
MODELS = ("M-Hop", "K-Hop", "A-Hop")
RELEASED, TRANSFORMER, BROKEN = "released, patch 32", "transformer, patch 8", "transformer, patch 8, broken channels"
LOOK = Recipe(patch=32, size=512, heads=1, blocks=0, epochs=25, rate=1e-3)
BLOCKS = Recipe(patch=8, size=64, heads=4, blocks=2, epochs=8, rate=2e-3, decay=0.05, flips=True)
RECIPES = {
    (RELEASED, "CIFAR-10"): LOOK,
    (RELEASED, "Tiny ImageNet"): LOOK,
    (TRANSFORMER, "CIFAR-10"): BLOCKS,
    (BROKEN, "CIFAR-10"): replace(BLOCKS, broken=0.5),
}
SCALINGS, RANK_RATES = (0.1, 0.3, 1.0), (1.0, 10.0)
CHOOSING = {"pictures": 5000, "tests": 3000, "epochs": 4}
QUICK = {"epochs": 2, "size": 32, "heads": 2, "pictures": 500, "tests": 300}
PAPER = {
    "CIFAR-10": {"M-Hop": 0.5123, "K-Hop": 0.5489, "A-Hop": 0.5637},
    "Tiny ImageNet": {"M-Hop": 0.1095, "K-Hop": 0.1164, "A-Hop": 0.1213},
}


def cells(seeds: int, quick: bool) -> list[Row]:
    return [
        {"protocol": protocol, "dataset": dataset, "epochs": recipe.epochs, "model": model, "seed": seed}
        for seed in range(seeds)
        for (protocol, dataset), recipe in _recipes(quick).items()
        for model in MODELS
    ]


def run(cell: Row, quick: bool) -> list[Row]:
    protocol, dataset, model, seed = (cell[key] for key in ("protocol", "dataset", "model", "seed"))
    recipe = _recipes(quick)[protocol, dataset]
    if recipe.blocks and not quick:
        recipe = replace(recipe, **_chosen(protocol, dataset, model, seed))  # type: ignore[arg-type]
    data = Data.of(images(dataset), recipe, seed)
    network = train(model, data, recipe, seed)
    answers = classes_of(network, data.test)
    blind = classes_of(without_similarity(network), data.test)
    of_paper = PAPER[dataset] if protocol == RELEASED else {}
    return [
        {
            **cell,
            "patterns": network.patterns,
            "pictures": len(data.train),
            "accuracy": float((answers == data.test_labels).double().mean()),
            "swayed": float((answers != blind).double().mean()),
            "paper": of_paper.get(model),
            "scaling": f"{recipe.scaling:g}",
            "rank_rate": f"{recipe.rank_rate:g}" if model == "A-Hop" else None,
        }
    ]


def _recipes(quick: bool) -> dict[tuple[str, str], Recipe]:
    if not quick:
        return RECIPES
    return {task: replace(recipe, **QUICK) for task, recipe in RECIPES.items()}  # type: ignore[arg-type]


def _chosen(protocol: str, dataset: str, model: str, seed: int) -> dict[str, float]:
    """What does best on training pictures that were held out."""
    recipe = replace(RECIPES[protocol, dataset], **CHOOSING)  # type: ignore[arg-type]
    data = Data.of(images(dataset), recipe, seed, held_out=True)

    def hits(choice: dict[str, float]) -> int:
        network = train(model, data, replace(recipe, **choice), seed)  # type: ignore[arg-type]
        return int((classes_of(network, data.test) == data.test_labels).sum())

    rates = RANK_RATES if model == "A-Hop" else (1.0,)
    return max(({"scaling": scaling, "rank_rate": rate} for scaling, rate in product(SCALINGS, rates)), key=hits)


@cache
def images(dataset: str) -> Images:
    return LOADERS[dataset]()


def differences(rows: list[Row]) -> list[Row]:
    return paired_differences(rows, of="A-Hop", tasks=("protocol", "dataset"), metrics=("accuracy",))


EXPERIMENT = Experiment(
    name="tab_images",
    title="Classes of pictures: accuracy with different associations inside one network",
    seeds=3,
    cells=cells,
    run=run,
    keys=("protocol", "dataset", "epochs", "patterns", "model", "paper"),
    metrics=("accuracy", "swayed"),
    words=("scaling", "rank_rate"),
    differences=differences,
    notes=(
        "Released: one look of a learned query at the patches, size 512, one head, Adam 1e-3 with a cosine schedule, "
        "25 epochs, no augmentation and no positions, as published; on all 50000 training pictures of CIFAR-10, but "
        "on 5000 of the 100000 of Tiny ImageNet, 25 for each of its 200 classes. With one pattern (`patterns`) "
        "nothing that a similarity says reaches the answer: `swayed` is the share of answers that change if all "
        "patterns count the same, and is zero there. Transformer: two blocks and the look, size 64, four heads, "
        "learned positions, AdamW 2e-3 with decay 0.05 and a cosine schedule, pictures mirrored at random, 8 epochs "
        "on all training pictures of CIFAR-10. Broken channels: the same, but that in the mean half of the patches of "
        "every picture, those to be tested on included, were seen by a broken sensor: a rectangle of one color, its "
        "sides 2 to 5 of the 8 pixels, is in front; one channel is shifted by 0.2 of the range up or down, or in 30 % "
        "of these patches stuck at its highest value; there is noise of 0.05; and a quarter of the pixels of another "
        "channel are dead. A seed draws this damage once, for all models. The scores of both transformers are scaled "
        "by 0.1, 0.3 or 1 times the default, and the rank weights of A-Hop, which do not decay, learn at 1 or 10 "
        "times the rate of the others (`rank_rate`), whichever does best, for each model, seed and protocol, after 4 "
        "epochs on 5000 training pictures of CIFAR-10, damaged where the protocol says so, judged by 3000 others of "
        "them. The kernels of K-Hop learn from the loss of the classes plus 0.1 times their separation loss "
        "(temperature 2) of 64 patterns of each batch, which only kernels get a gradient of. Gradients are clipped at "
        "1. Seeds draw the order of the pictures, the first weights and the damage; a difference is taken between "
        "networks of one seed."
    ),
)
