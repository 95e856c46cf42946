"""What if some pairs are wrong: a copy beside the origin of another?"""

import torch
from torch import Generator

import ahop
from experiments.support.harness import Experiment, Row
from experiments.support.learning import learn, report_of
from experiments.support.measures import outcome_of
from experiments.support.settings import Setting

FULL, QUICK = (0.0, 0.1, 0.2, 0.3), (0.0, 0.3)
SETTING = Setting("synthetic", 0.4)


def cells(seeds: int, quick: bool) -> list[Row]:
    return [{"share": share, "seed": seed} for seed in range(seeds) for share in (QUICK if quick else FULL)]


def run(cell: Row, quick: bool) -> list[Row]:
    seed = cell["seed"]
    world = SETTING.drawn(seed, quick)
    pairs = _spoiled(world.pairs, len(world.patterns), cell["share"], seed)
    memory = learn(world.patterns, pairs, "auto", seed)
    report = report_of(memory)
    return [
        {
            **cell,
            "model": "auto",
            **outcome_of(memory, world.test),
            **world.limit,
            "suspected": None if report.corruption is None else report.corruption.wrong_pairs / len(pairs),
            "chosen": report.chosen,
        }
    ]


def _spoiled(pairs: ahop.Pairs, patterns: int, share: float, seed: int) -> ahop.Pairs:
    """That share of the pairs gets another origin, any but its own; the test queries stay as they are."""
    generator = Generator().manual_seed(seed)
    wrong = torch.randperm(len(pairs), generator=generator)[: round(share * len(pairs))]
    origins = pairs.origins.clone()
    origins[wrong] = (origins[wrong] + torch.randint(1, patterns, (len(wrong),), generator=generator)) % patterns
    return ahop.Pairs(origins, pairs.queries)


EXPERIMENT = Experiment(
    name="wrong_pairs",
    title="Pairs with the wrong origin; synthetic 0.4, constant bias signs, N = 2048, d = 64, 512 pairs",
    seeds=3,
    cells=cells,
    run=run,
    keys=("share", "model"),
    metrics=("top1", "bayes", "accuracy", "bayes_blend", "suspected"),
    words=("chosen",),
    notes="1000 test queries a seed. *suspected* is the share of the pairs that the report says look wrong.",
)
