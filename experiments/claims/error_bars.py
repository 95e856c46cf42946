"""Do known standard deviations help? Means of few and of many readings, and the paper's noise of known size."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import ahop
from experiments.support.data import uniform_patterns
from experiments.support.harness import Experiment, Row
from experiments.support.learning import report_of
from experiments.support.measures import calibration_error, hit_rate, reliability
from experiments.support.wifi_protocol import phones, scans_at_points

# Readings of one mean: few are common.
MOST_READINGS = 10
PAIRS, QUERIES = 150, 400
# Means that are drawn at each point; points of pairs are not points of tests.
REPEATS = 3
QUICK = ("generator",)
COUNT, DIMENSIONS = 1024, 32


@dataclass(frozen=True)
class Task:
    """Rows and, behind them, their standard deviations; half of the pairs are for tests."""

    stored: Tensor
    pairs: ahop.Pairs
    test: ahop.Pairs


def cells(seeds: int, quick: bool) -> list[Row]:
    names = QUICK if quick else tuple(TASKS)
    return [{"task": name, "seed": seed} for seed in range(seeds) for name in names]


def run(cell: Row, quick: bool) -> list[Row]:
    task = TASKS[cell["task"]](cell["seed"], quick)
    half = task.stored.shape[1] // 2
    rows = []
    for model in ("auto",) if quick else ("auto", "mixture"):
        for known in (True, False):
            name = "heteroscedastic" if known and model == "mixture" else model
            stored, *both = (
                rows if known else rows[:, :half] for rows in (task.stored, task.pairs.queries, task.test.queries)
            )
            memory = ahop.fit(
                stored,
                pairs=ahop.Pairs(task.pairs.origins, both[0]),
                similarity=name,
                errors=known,
                seed=cell["seed"],
                progress=False,
            )
            outcome = _outcome(_posterior(memory, both[1]), task.test.origins)
            with_errors = "yes" if known else "no"
            rows.append({**cell, "model": model, "errors": with_errors, **outcome, "chosen": report_of(memory).chosen})
    return [*rows, {**cell, "model": "chi-square distance", "errors": "yes", **_chi_square(task)}]


def _posterior(memory: ahop.AssociativeMemory, queries: Tensor) -> Tensor:
    """Of all stored rows, (b, n)."""
    answer = memory.recall(queries, k=len(memory))
    return torch.zeros_like(answer.posterior).scatter_(1, answer.indices, answer.posterior)


def _outcome(posterior: Tensor, origins: Tensor) -> Row:
    first = posterior.max(-1)
    own = posterior.gather(1, origins.unsqueeze(-1)).clamp_min(1e-300)
    bins = reliability(first.values, first.indices == origins)
    return {
        "log_loss": float(-own.double().log().mean()),
        "top1": hit_rate(first.indices, origins),
        "ece": calibration_error(*bins),
    }


def _chi_square(task: Task) -> Row:
    """The distance in standard deviations that people compute by hand; its temperature is fitted to the pairs."""
    half = task.stored.shape[1] // 2
    weakest = task.stored[:, :half].nan_to_num(torch.inf).min()

    def heard(rows: Tensor) -> tuple[Tensor, Tensor]:
        """With the weakest value, as of one reading, in every gap."""
        return rows[:, :half].nan_to_num(float(weakest)), rows[:, half:].nan_to_num(1.0)

    def scores(queries: Tensor) -> Tensor:
        (stored, of_stored), (asked, of_asked) = heard(task.stored), heard(queries)
        variance = of_asked[:, None].square() + of_stored.square()
        return -0.5 * ((asked[:, None] - stored).square() / variance + variance.log()).sum(-1).double()

    known = scores(task.pairs.queries)
    losses = {
        beta: float(-(beta * known).log_softmax(-1).gather(1, task.pairs.origins[:, None]).mean())
        for beta in np.geomspace(1e-3, 100, 80).tolist()
    }
    beta = min(losses, key=losses.__getitem__)
    return {**_outcome((beta * scores(task.test.queries)).softmax(-1), task.test.origins), "chosen": ""}


def generator(seed: int, quick: bool) -> Task:
    """The paper's uniform patterns and masks; noise of each entry has a size of its own, which is known."""
    rng = np.random.default_rng([11, seed])
    patterns = uniform_patterns(COUNT, DIMENSIONS, seed).numpy()

    def drawn(count: int) -> ahop.Pairs:
        origins = rng.integers(len(patterns), size=count)
        errors = rng.lognormal(-0.5, 1.0, (count, DIMENSIONS))
        copies = patterns[origins] + errors * rng.normal(size=errors.shape) + 0.2
        is_masked = rng.random(errors.shape) < 0.2
        copies[is_masked] = rng.uniform(-1, 1, is_masked.sum())
        rows = ahop.with_errors(copies.astype(np.float32), errors)
        return ahop.Pairs(torch.from_numpy(origins), torch.from_numpy(rows))

    stored = ahop.with_errors(patterns, np.zeros_like(patterns))
    return Task(torch.from_numpy(stored), drawn(PAIRS), drawn(100 if quick else QUERIES))


def wifi(seed: int, quick: bool) -> Task:
    """Means of one to ten scans of a phone at a point, among means of one to ten scans of the others there."""
    rng = np.random.default_rng([12, seed])
    known = phones()
    asked, others = scans_at_points(known[seed % len(known)])
    place = {point: row for row, point in enumerate(sorted(others))}
    points = rng.permutation(sorted(asked.keys() & others.keys()))
    half = len(points) // 2
    pairs = []
    for some, most in ((points[:half], PAIRS), (points[half:], QUERIES)):
        repeated = rng.permutation(np.repeat(some, REPEATS))[:most].tolist()
        means, heard = (np.array(each) for each in zip(*(_mean(asked[point], rng) for point in repeated), strict=True))
        rows = torch.from_numpy(ahop.with_errors(means, counts=heard))
        pairs.append(ahop.Pairs(torch.tensor([place[point] for point in repeated]), rows))
    stored = [_mean(others[point], rng) for point in sorted(others)]
    values, counts = (np.array(each) for each in zip(*stored, strict=True))
    return Task(torch.from_numpy(ahop.with_errors(values, counts=counts)), *pairs)


def _mean(scans: NDArray[np.float32], rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean strength of some scans, and in how many of them each access point was heard."""
    count = min(len(scans), int(rng.integers(1, MOST_READINGS + 1)))
    drawn = rng.permutation(scans)[:count]
    heard = (~np.isnan(drawn)).sum(0)
    total = np.nansum(drawn, axis=0)
    return np.where(heard > 0, total / np.maximum(heard, 1), np.nan), heard.astype(np.float32)


TASKS: dict[str, Callable[[int, bool], Task]] = {"generator": generator, "Wi-Fi": wifi}


EXPERIMENT = Experiment(
    name="error_bars",
    title="Known standard deviations of the entries, and none",
    seeds=10,
    cells=cells,
    run=run,
    keys=("task", "model", "errors"),
    metrics=("log_loss", "top1", "ece"),
    words=("chosen",),
    notes=(
        "*Wi-Fi*: a phone that the map has not seen, another for each seed; rows of the map and queries are means of "
        "one to ten scans, and all that is known is in how many scans an access point was heard. *generator*: the "
        "paper's uniform patterns, a fifth of the entries redrawn, and noise whose size differs from entry to entry "
        "and is known. 150 pairs to learn from, or half of those there are. *log_loss* in nats for each query; the "
        "chi-square distance divides by the standard deviations that are given, its temperature is fitted. The quick "
        "form has the generator and `auto` alone."
    ),
)
