"""How far two models are apart where they shared the draw: the same folds, the same pictures, the same damage."""

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

from scipy import stats

from experiments.support.harness import Row

CONFIDENCE = 0.95


def paired_differences(rows: list[Row], of: str, tasks: Sequence[str], metrics: Sequence[str]) -> list[Row]:
    """`of` minus each other model, seed by seed, and the interval of the mean over seeds.

    A model that shares fewer than two seeds with `of` is left out.

    Args:
        rows: of every seed, not yet averaged.
        tasks: the keys that tell one task from another.
        metrics: what is subtracted; each has lines of its own.
    """
    found = []
    for task in dict.fromkeys(tuple(row[key] for key in tasks) for row in rows):
        of_task = [row for row in rows if tuple(row[key] for key in tasks) == task]
        for metric in metrics:
            reached: dict[str, dict[int, float]] = {}
            for row in of_task:
                reached.setdefault(row["model"], {})[row["seed"]] = row[metric]
            ours = reached.pop(of, {})
            for model, theirs in reached.items():
                apart = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
                if len(apart) > 1:
                    named = {**dict(zip(tasks, task, strict=True)), "metric": metric, "models": f"{of} minus {model}"}
                    found.append({**named, **interval(apart)})
    return found


def interval(values: Sequence[float]) -> Row:
    r"""$\bar\delta \pm t_{n-1} \, s / \sqrt n$: the mean, and where it lies with 95 % confidence."""
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stdev(values) / sqrt(len(values))
    center = mean(values)
    return {
        "difference": round(center, 5),
        "low": round(float(center - half), 5),
        "high": round(float(center + half), 5),
        "seeds": len(values),
    }
