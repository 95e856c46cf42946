"""The convex fit against the paper's Adam recipe: difficulty .4, N = 2048, d = 64, the same 512 pairs for both."""

import torch

import ahop
from benchmarks.measuring import medians


def measure(full: bool) -> dict[str, object]:
    patterns = 2 * torch.rand(2048, 64, generator=torch.Generator().manual_seed(0)) - 1
    variant = ahop.MixedVariant(0.4, 0.4, 0.4, signs="per_query")
    pairs = variant.sample(patterns, 512, seed=1)
    memory = ahop.zoo.a_hop(patterns)
    fitted: dict[str, ahop.AssociativeMemory] = {}

    def by(name: str, solver: ahop.fitting.ConvexSolver | ahop.fitting.AdamSolver) -> None:
        fitted[name] = ahop.fit(memory, pairs=pairs, solver=solver, progress=False)

    seconds = medians(
        {
            # Without its smoothness pull, so that both minimize the same loss.
            "convex": lambda: by("convex", ahop.fitting.ConvexSolver(smoothness=0.0, tolerance=1e-5)),
            "adam": lambda: by("adam", ahop.fitting.AdamSolver()),
        },
        repeats=3 if full else 1,
    )
    losses = {name: _report(each).loss for name, each in fitted.items()}
    return {
        "threads": torch.get_num_threads(),
        "convex_seconds": round(seconds["convex"], 2),
        "adam_seconds": round(seconds["adam"], 2),
        "time_ratio": round(seconds["convex"] / seconds["adam"], 4),
        "convex_loss": round(losses["convex"], 5),
        "adam_loss": round(losses["adam"], 5),
    }


def _report(memory: ahop.AssociativeMemory) -> ahop.report.SolverReport:
    assert isinstance(memory.report, ahop.report.SolverReport)
    return memory.report
