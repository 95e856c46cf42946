"""Queries of another model, brought into the space of what is stored: the usual adapters, and hubs taken off.

Each learns from pairs a map of queries to where their originals are stored; images are compared as they are, or about
the mean of what is stored, or so and with CSLS. A quarter of the pairs is held out for temperature, floor and ridge.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Rows: TypeAlias = NDArray[np.float32]
Map: TypeAlias = Callable[[Rows], Rows]
# A map from copies (m, q) and their originals (m, d).
Learn: TypeAlias = Callable[[Rows, Rows], Map]

# One pair in so many is held out, and so many of these are looked at.
HELD_OUT, CALIBRATING = 4, 200
# Ridges, in mean eigenvalues of what is inverted.
RIDGES = tuple(10.0**power for power in range(-3, 3))
# Of a low-rank map; queries that CSLS takes the mean similarity of a stored row to.
RANK, NEIGHBORS = 64, 10
# Of the residual network: hidden units, steps, rows a step, rate, decay.
HIDDEN, STEPS, BATCH, RATE, DECAY = 256, 400, 256, 2e-3, 1e-2


@dataclass(frozen=True)
class Spaces:
    """Stored rows of one model, and what is asked in another.

    Attributes:
        stored: (n, d) of unit length.
        origins: (m,) of the pairs.
        copies: (m, q) of the other model.
        asked: (b, q) queries to be answered.
        bank: (c, q) queries of a log without labels.
    """

    stored: Rows
    origins: NDArray[np.int64]
    copies: Rows
    asked: Rows
    bank: Rows


@dataclass(frozen=True)
class Scored:
    """Scores of held-out pairs and of queries, of all stored rows."""

    rows: NDArray[np.int64]
    held_out: Rows
    asked: Rows


def unit(rows: NDArray[Any]) -> Rows:
    found: Rows = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32)
    return found


def adapters(spaces: Spaces, seed: int) -> Iterator[tuple[str, Scored]]:
    """All of them, by name; the network, which takes longest, in the first draw alone."""
    is_held_out = np.zeros(len(spaces.origins), bool)
    is_held_out[::HELD_OUT] = True
    rows, originals = np.flatnonzero(is_held_out)[:CALIBRATING], spaces.stored[spaces.origins]
    seen = spaces.copies[~is_held_out], originals[~is_held_out]
    best = min(RIDGES, key=lambda each: np.square(ridge(each)(*seen)(spaces.copies[rows]) - originals[rows]).mean())
    learned: dict[str, Learn] = {"Procrustes": procrustes, "ridge": ridge(best), "low-rank affine": ridge(best, RANK)}
    if seed == 0:
        learned["residual MLP"] = residual(seed)
    center = spaces.stored.mean(0)
    about = unit(spaces.stored - center)
    for name, learn in learned.items():
        held_out, mapped = learn(*seen)(spaces.copies[rows]), learn(spaces.copies, originals)
        asked, bank = mapped(spaces.asked), mapped(spaces.bank)
        yield name, Scored(rows, unit(held_out) @ spaces.stored.T, unit(asked) @ spaces.stored.T)
        centered = Scored(rows, unit(held_out - center) @ about.T, unit(asked - center) @ about.T)
        yield f"{name}, centred", centered
        near = np.partition(unit(bank - center) @ about.T, -NEIGHBORS, axis=0)[-NEIGHBORS:].mean(0)
        yield f"{name}, centred, CSLS", Scored(rows, 2 * centered.held_out - near, 2 * centered.asked - near)


def procrustes(copies: Rows, originals: Rows) -> Map:
    """The orthogonal map of one mean to the other, and of what is about it."""
    before, after = copies.mean(0), originals.mean(0)
    left, _, right = np.linalg.svd((copies - before).T.astype(np.float64) @ (originals - after), full_matrices=False)
    turned = (left @ right).astype(np.float32)
    return lambda rows: (rows - before) @ turned + after


def ridge(strength: float, rank: int | None = None) -> Learn:
    def learn(copies: Rows, originals: Rows) -> Map:
        before, after = copies.mean(0), originals.mean(0)
        ours, theirs = (copies - before).astype(np.float64), (originals - after).astype(np.float64)
        if len(ours) < ours.shape[1]:  # the same by as many equations as there are pairs
            gram = ours @ ours.T
            matrix = ours.T @ np.linalg.solve(gram + strength * np.trace(gram) / len(gram) * np.eye(len(gram)), theirs)
        else:
            gram = ours.T @ ours
            matrix = np.linalg.solve(gram + strength * np.trace(gram) / len(gram) * np.eye(len(gram)), ours.T @ theirs)
        if rank is not None:
            leading = np.linalg.svd(ours @ matrix, full_matrices=False)[2][:rank]
            matrix = matrix @ leading.T @ leading
        narrow = matrix.astype(np.float32)
        return lambda rows: (rows - before) @ narrow + after

    return learn


def residual(seed: int) -> Learn:
    """An affine map and a network of one layer beside it, by squared error of unit vectors, as Drift-Adapter has it."""

    def learn(copies: Rows, originals: Rows) -> Map:
        torch.manual_seed(seed)
        ours, theirs = torch.from_numpy(copies), torch.from_numpy(originals)
        affine = nn.Linear(ours.shape[1], theirs.shape[1])
        beside = nn.Sequential(
            nn.Linear(ours.shape[1], HIDDEN), nn.GELU(), nn.Dropout(0.1), nn.Linear(HIDDEN, theirs.shape[1])
        )
        nn.init.zeros_(beside[-1].weight)  # type: ignore[arg-type]
        optimizer = torch.optim.AdamW([*affine.parameters(), *beside.parameters()], RATE, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        for _ in range(STEPS):
            some = torch.randint(0, len(ours), (min(BATCH, len(ours)),))
            loss = (affine(ours[some]) + beside(ours[some]) - theirs[some]).square().sum(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        beside.eval()

        def mapped(rows: Rows) -> Rows:
            with torch.no_grad():
                asked = torch.from_numpy(rows)
                found: Rows = (affine(asked) + beside(asked)).numpy()
            return found

        return mapped

    return learn


def posterior(scores: Rows, temperature: float, floor: float) -> Rows:
    """Probabilities of all stored rows."""
    raised = temperature * (scores - scores.max(1, keepdims=True))
    shares = np.exp(raised)
    found: Rows = (1 - floor) * shares / shares.sum(1, keepdims=True) + floor / scores.shape[1]
    return found


def calibrated(scores: Rows, origins: NDArray[np.int64]) -> tuple[float, float]:
    """Temperature and floor of the least log-loss of held-out pairs."""
    unit_of_scores = max(float((scores.max(1) - scores.mean(1)).mean()), 1e-9)
    rows, best = np.arange(len(origins)), (np.inf, 1.0, 0.01)
    for temperature in 2.0 ** np.arange(0, 7.1, 0.5) / unit_of_scores:
        shares = posterior(scores, temperature, 0.0)[rows, origins]
        for floor in (1e-3, 1e-2, 0.03, 0.1, 0.2, 0.35, 0.5):
            loss = float(-np.log((1 - floor) * shares + floor / scores.shape[1]).mean())
            best = min(best, (loss, float(temperature), floor))
    return best[1:]
