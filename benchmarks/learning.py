"""Learning with a million stored patterns against ten thousand: it must not matter how many there are."""

from functools import partial

import torch

import ahop
from benchmarks.measuring import medians

FEW, MANY, DIMENSIONS, PAIRS = 10_000, 1_000_000, 64, 512


def measure(full: bool) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    many = 2 * torch.rand(MANY, DIMENSIONS, generator=generator) - 1
    few = many[:FEW]
    variant = ahop.MixedVariant(0.4, 0.4, 0.4)
    pairs = variant.sample(few, PAIRS)
    ahop.fit(few, pairs=pairs, similarity="mixture", progress=False)  # the first fit of a process also loads things
    seconds = medians(
        {
            "few": partial(ahop.fit, few, pairs=pairs, progress=False),
            "many": partial(ahop.fit, many, pairs=pairs, progress=False),
        },
        repeats=5 if full else 3,
    )
    return {
        "threads": torch.get_num_threads(),
        "pairs": PAIRS,
        "dimensions": DIMENSIONS,
        f"seconds_n{FEW}": round(seconds["few"], 2),
        f"seconds_n{MANY}": round(seconds["many"], 2),
        "ratio": round(seconds["many"] / seconds["few"], 3),
    }
