"""Retrieval of real patches whose sensor is broken: some dimensions of a query lie, and nobody says which.

This is where the paper's argument for an adaptive similarity applies: a pattern should be judged by the dimensions that
agree best. The task is ours: patches of CIFAR-10, and in every query the damage of the third protocol of `tab_images`.
"""

import numpy as np
import torch
from torch import Generator, Tensor

import ahop
from experiments.datasets import load_cifar10
from experiments.support.broken_channels import break_patches
from experiments.support.damages import DamagedVariant
from experiments.support.differences import paired_differences
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of, trials_of
from experiments.support.measures import outcome_of
from experiments.support.models import with_beta
from experiments.support.settings import seed_of_test

COUNT, PAIRS, QUERIES, SIDE = 2048, 2048, 1000, 8
QUICK_COUNT, QUICK_PAIRS, QUICK_QUERIES = 512, 256, 300
# What the pixels of each channel vary by, as a standard deviation in units of the range, in a patch that is not flat.
LEAST_CONTRAST = 0.05


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"seed": seed} for seed in range(seeds)]


def run(cell: Row, quick: bool) -> list[Row]:
    seed = cell["seed"]
    patterns = cifar_patches(QUICK_COUNT if quick else COUNT, seed)
    variant = DamagedVariant("broken channels", _broken)
    pairs = variant.sample(patterns, QUICK_PAIRS if quick else PAIRS, seed)
    test = variant.sample(patterns, QUICK_QUERIES if quick else QUERIES, seed_of_test(seed))
    m_hop, euclid = ahop.zoo.m_hop(patterns), ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity())
    convex = ahop.fitting.ConvexSolver(tolerance=5e-4)
    learned = learn(patterns, pairs, "auto", seed)
    models = {
        "M-Hop": m_hop,
        "M-Hop, fitted beta": with_beta(m_hop, pairs),
        "Euclid, fitted beta": with_beta(euclid, pairs),
        "U-Hop": ahop.zoo.u_hop(patterns),
        "A-Hop": ahop.fit(ahop.zoo.a_hop(patterns), pairs=pairs, solver=convex, progress=False),
        "auto": learned,
    }
    rows = [{**cell, "model": name, **outcome_of(memory, test), "chosen": None} for name, memory in models.items()]
    rows[-1] |= {"chosen": report_of(learned).chosen, "trials": trials_of(learned)}
    return rows


def cifar_patches(count: int, seed: int) -> Tensor:
    """Patches of training pictures, one of each at most, distinct and not flat, scaled to [-1, 1], (count, 192)."""
    pictures = load_cifar10().train
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(len(pictures))[: 4 * count]
    places = generator.integers(0, pictures.shape[-1] - SIDE + 1, (len(chosen), 2))
    cut = [pictures[each, :, y : y + SIDE, x : x + SIDE] for each, (y, x) in zip(chosen, places, strict=True)]
    patches = np.unique(np.stack(cut), axis=0)
    varied = patches[(patches / 255).std(axis=(2, 3)).min(axis=1) > LEAST_CONTRAST]
    kept = generator.permutation(varied)[:count]
    assert len(kept) == count
    return torch.from_numpy(kept.reshape(count, -1).astype(np.float32) / 127.5 - 1)


def _broken(values: Tensor, generator: Generator) -> Tensor:
    patches = (values.view(-1, 3, SIDE, SIDE) + 1) / 2
    return 2 * break_patches(patches, generator).view(values.shape) - 1


def differences(rows: list[Row]) -> list[Row]:
    return paired_differences(rows, of="A-Hop", tasks=(), metrics=("accuracy", "top1"))


EXPERIMENT = Experiment(
    name="broken_patches",
    title="Retrieval of patches that broken sensors saw; N = 2048 patches of CIFAR-10, d = 192",
    seeds=5,
    cells=cells,
    run=run,
    keys=("model",),
    metrics=("accuracy", "top1", "error"),
    words=("chosen",),
    differences=differences,
    notes=(
        "Stored are patches of 8 x 8 pixels and three colors, at most one of a training picture, each channel with a "
        "standard deviation above 0.05 of the range, scaled to [-1, 1]. Every query is a stored patch as a broken "
        "sensor saw it: a rectangle of one color, its sides 2 to 5 pixels, is in front; one channel is shifted by 0.2 "
        "of the range up or down, or in 30 % of the queries stuck at its highest value; there is noise of 0.05 of the "
        "range; and a quarter of the pixels of another channel are dead. *accuracy* counts as the paper does, the "
        "pattern nearest to the blended answer, *top1* the first answer; the likelihood of such damage is not known, "
        "hence no ceiling. A-Hop (convex optimum), both fitted betas and `auto`, the package's own choice, learn from "
        "the same 2048 pairs; 1000 other queries a seed. M-Hop compares by dot product, which is largest with bright "
        "and dark patches whatever is asked: the distance (`Euclid, fitted beta`) and U-Hop are the fixed rivals to "
        "look at. A fitted beta makes the origins likeliest, not the blend; where the similarity tells little, that "
        "is a wide blend, and *accuracy* falls for it. Seeds draw the patches and the damage."
    ),
)
