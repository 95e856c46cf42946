"""Choose imputation settings by hiding observed values and imputing them."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from ahop._core.missing import filled
from ahop.estimators._imputation import Columns, Settings, answer, recall_rows
from ahop.estimators._neighborhood import FAR_OUT, Neighbors

NEIGHBORS = (64, 256)
RIDGES = (0.03, 0.3, 3.0)
# Standard deviations that differ by less than this factor are the same unit: there is nothing to choose.
SAME_UNIT = 1.5
# More than this many columns make large neighborhoods expensive.
FEW_COLUMNS, FEW_NEIGHBORS = 128, 64
# Entries to hide, in at most so many rows; and rows to fill them from.
HIDDEN, LEAST_ROWS, MOST_ROWS = 4000, 64, 512
OTHER_ENTRIES, LEAST_OTHERS, MOST_OTHERS = 65536, 512, 2048
# The share of what is hidden is that of the gaps, within bounds; this, if there are none to learn it from.
LEAST_SHARE, MOST_SHARE, USUAL_SHARE = 0.1, 0.5, 0.25


@dataclass(frozen=True)
class Choice:
    """The best settings and their errors.

    Attributes:
        errors: (d,), mean squared errors of hidden entries, standardized.
        first_errors: (d,), those of the first recall.
        loss: `Trial.loss`; one, which is the error of the mean, if nothing was tried.
    """

    settings: Settings
    columns: Columns
    errors: Tensor
    first_errors: Tensor
    loss: float = 1.0


@dataclass(frozen=True)
class Trial:
    """Rows (q, d) of which something was hidden, all of them, what was hidden, and other rows to fill them from."""

    queries: Tensor
    truth: Tensor
    hidden: Tensor
    others: Tensor

    def loss(self, answers: Tensor) -> float:
        """The mean squared error of what was hidden; an entry that is far out counts as being just that."""
        error = (answers.clamp(-FAR_OUT, FAR_OUT) - self.truth.clamp(-FAR_OUT, FAR_OUT)).square()
        return float((error * self.hidden).sum() / self.hidden.sum())

    def errors(self, answers: Tensor) -> Tensor:
        """Errors of the columns, shrunk towards one, which is the error of the mean, as by one entry more."""
        error = (answers - self.truth).square() * self.hidden
        return (error.sum(0) + 1) / (self.hidden.sum(0) + 1)


def choose(table: Tensor, spread: Tensor, neighbors: int | None, generator: Generator) -> Choice:
    """The settings that fill best what is hidden of some rows from the others.

    Args:
        table: (n, d), standardized.
        spread: (d,), the standard deviations that the columns had.
        neighbors: how many to ask, if that is known.
    """
    trial = _hide(table, generator)
    plain = Columns(torch.ones_like(spread), *_range(table))
    if trial is None:
        settings = Settings(neighbors or Settings.neighbors)
        return Choice(settings, plain, torch.ones_like(spread), torch.ones_like(spread))
    first_count, *other_counts = _counts(table.shape[1], neighbors)
    memories = [_Memory(trial, replace(plain, scale=scale)) for scale in _scales(spread)]
    tried = ((memory, memory.best(first_count)) for memory in memories)
    memory, first = min(tried, key=lambda each: each[1].loss)
    return min([first, *map(memory.best, other_counts)], key=lambda choice: choice.loss)


class _Memory:
    """The other rows of a trial, and how well they fill what was hidden."""

    def __init__(self, trial: Trial, columns: Columns) -> None:
        self.trial = trial
        self.first_errors = trial.errors(answer(trial.others, trial.queries, columns))
        self.rows = recall_rows(trial.others, columns, self.first_errors)

    def best(self, count: int) -> Choice:
        """Choice for this number of neighbors."""
        neighbors = self.rows.neighbors(self.trial.queries, count)  # the expensive part, and the same for every ridge
        tried = (self._try_settings(Settings(count, ridge), neighbors) for ridge in RIDGES)
        return min(tried, key=lambda choice: choice.loss)

    def _try_settings(self, settings: Settings, neighbors: Neighbors) -> Choice:
        answers = self.rows.fill_from(neighbors, self.trial.queries, settings.ridge)
        errors, loss = self.trial.errors(answers), self.trial.loss(answers)
        return Choice(settings, self.rows.columns, errors, self.first_errors, loss)


def _hide(table: Tensor, generator: Generator) -> Trial | None:
    """None if there are too few rows to hide something in some and fill it from others."""
    count, width = table.shape
    missing = float(table.isnan().float().mean())
    share = min(max(missing, LEAST_SHARE), MOST_SHARE) if missing else USUAL_SHARE
    wanted = min(max(round(HIDDEN / (width * share * (1 - missing))), LEAST_ROWS), MOST_ROWS)
    asked = min(wanted, count // 3)
    others = min(max(OTHER_ENTRIES // width, LEAST_OTHERS), MOST_OTHERS)
    order = torch.randperm(count, generator=generator)
    truth = table[order[:asked]]
    hidden = (torch.rand(truth.shape, generator=generator) < share) & ~truth.isnan()
    if not bool(hidden.any()):
        return None
    return Trial(truth.masked_fill(hidden, torch.nan), filled(truth), hidden.float(), table[order[asked:][:others]])


def _counts(width: int, neighbors: int | None) -> tuple[int, ...]:
    if neighbors is not None:
        return (neighbors,)
    return tuple(count for count in NEIGHBORS if width <= FEW_COLUMNS or count <= FEW_NEIGHBORS)


def _scales(spread: Tensor) -> list[Tensor]:
    """Units to compare columns in: standard deviations, and their own units where these are others."""
    in_deviations = torch.ones_like(spread)
    varied = spread[spread > 0]
    if len(varied) == 0 or float(varied.max() / varied.min()) < SAME_UNIT:
        return [in_deviations]
    return [in_deviations, spread / spread.square().mean().sqrt().clamp_min(1e-12)]


def _range(table: Tensor) -> tuple[Tensor, Tensor]:
    """Least and largest value of each column that were observed; zero, the mean, where nothing was."""
    low = table.nan_to_num(torch.inf).amin(0)
    high = table.nan_to_num(-torch.inf).amax(0)
    return low.nan_to_num(0, 0, 0), high.nan_to_num(0, 0, 0)
