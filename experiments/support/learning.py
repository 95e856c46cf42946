"""The one way in which all experiments of ours learn, and what they say about it afterwards."""

from torch import Tensor

import ahop
from experiments.support.harness import Row


def learn(patterns: Tensor, pairs: ahop.Pairs, similarity: str, seed: int) -> ahop.AssociativeMemory:
    """With nothing but the pairs: "auto", or a similarity by name."""
    return ahop.fit(patterns, pairs=pairs, similarity=similarity, seed=seed, progress=False)


def report_of(memory: ahop.AssociativeMemory) -> ahop.FitReport:
    assert isinstance(memory.report, ahop.FitReport)
    return memory.report


def trials_of(memory: ahop.AssociativeMemory) -> list[Row]:
    """How each candidate did on held-out pairs, best first: to tell a bad choice from a bad candidate."""
    return [
        {"name": trial.name, "log_loss": round(trial.log_loss, 4), "accuracy": round(trial.accuracy, 4)}
        for trial in report_of(memory).trials
    ]
