"""How far two models are apart is told seed by seed, with the interval that a textbook has."""

import pytest
from experiments.support.differences import interval, paired_differences
from experiments.support.harness import Row


def row(model: str, seed: int, auc: float, dataset: str = "Tiger") -> Row:
    return {"dataset": dataset, "model": model, "seed": seed, "auc": auc}


def test_the_interval_is_students() -> None:
    """Differences .1, .2, .3: mean .2, standard error .1 / sqrt(3), and t = 4.3027 with two degrees of freedom."""
    found = interval([0.1, 0.2, 0.3])
    assert found["difference"] == pytest.approx(0.2)
    assert found["low"] == pytest.approx(0.2 - 4.3027 * 0.1 / 3**0.5, abs=1e-5)
    assert found["high"] == pytest.approx(0.2 + 4.3027 * 0.1 / 3**0.5, abs=1e-5)
    assert found["seeds"] == 3


def test_what_seeds_share_does_not_widen_the_interval() -> None:
    hard = {0: 0.9, 1: 0.5, 2: 0.7}
    rows = [row("M-Hop", seed, level) for seed, level in hard.items()]
    rows += [row("A-Hop", seed, level + 0.01) for seed, level in reversed(hard.items())]
    [found] = paired_differences(rows, of="A-Hop", tasks=("dataset",), metrics=("auc",))
    assert found == {
        "dataset": "Tiger",
        "metric": "auc",
        "models": "A-Hop minus M-Hop",
        "difference": 0.01,
        "low": 0.01,
        "high": 0.01,
        "seeds": 3,
    }


def test_only_seeds_that_both_have_are_compared_and_tasks_are_kept_apart() -> None:
    rows = [row("A-Hop", seed, 0.8) for seed in range(3)] + [row("M-Hop", seed, 0.7) for seed in range(1, 9)]
    rows += [row("A-Hop", seed, 0.6, "Fox") for seed in range(2)] + [
        row("M-Hop", seed, 0.9, "Fox") for seed in range(2)
    ]
    found = paired_differences(rows, of="A-Hop", tasks=("dataset",), metrics=("auc",))
    assert [(each["dataset"], each["difference"], each["seeds"]) for each in found] == [
        ("Tiger", 0.1, 2),
        ("Fox", -0.3, 2),
    ]


def test_one_seed_tells_nothing() -> None:
    rows = [row("A-Hop", 0, 0.8), row("M-Hop", 0, 0.7)]
    assert paired_differences(rows, of="A-Hop", tasks=("dataset",), metrics=("auc",)) == []
