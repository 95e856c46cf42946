"""What chemometricians use to compare spectra of two instruments. Each answers with rows of the library."""

from collections.abc import Callable
from itertools import product
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from experiments.support.nir_protocol import NirDraw, snv

Features: TypeAlias = Callable[[Tensor], Tensor]

WINDOWS = (0, 1, 2, 5, 10)  # channels on either side
RIDGES = (1e-6, 1e-4, 1e-2, 1.0)
FOLDS = 5


def derivative(spectra: Tensor) -> Tensor:
    return spectra.diff(dim=-1)


def correlation(patterns: Tensor, queries: Tensor) -> Tensor:
    return snv(queries) @ snv(patterns).T


def closeness(patterns: Tensor, queries: Tensor) -> Tensor:
    return -torch.cdist(queries, patterns)


def _as_is(spectra: Tensor) -> Tensor:
    return spectra


# What is computed from spectra, and how that is compared. De-biasing is between the two.
WAYS: dict[str, tuple[Features, Callable[[Tensor, Tensor], Tensor]]] = {
    "correlation": (_as_is, correlation),
    "SNV": (snv, closeness),
    "derivative": (derivative, correlation),
}


def simple(draw: NirDraw) -> dict[str, Tensor]:
    """Each way as it is, and with the mean difference of the pairs taken off the queries."""
    found = {}
    for name, (features, compare) in WAYS.items():
        stored, asked = features(draw.patterns), features(draw.test.queries)
        shift = (features(draw.pairs.queries) - stored[draw.pairs.origins]).mean(0)
        found[name] = compare(stored, asked).argmax(1)
        found[f"{name}, debiased"] = compare(stored, asked - shift).argmax(1)
    return found


def piecewise(draw: NirDraw) -> Tensor:
    """PDS, piecewise direct standardization: every channel of the library from a window of the query's channels.

    Raw or SNV, window and ridge are those that rank left-out pairs best, by their mean reciprocal rank.
    """
    settings = list(product((_as_is, snv), WINDOWS, RIDGES))
    ranked = [_rank(draw, *setting) for setting in settings]
    features, window, ridge = settings[max(range(len(settings)), key=lambda at: ranked[at])]
    stored, pairs = features(draw.patterns), draw.pairs
    moved = standardized(
        stored[pairs.origins], features(pairs.queries), features(draw.test.queries), window=window, ridge=ridge
    )
    return closeness(stored, moved).argmax(1)


def _rank(draw: NirDraw, features: Features, window: int, ridge: float) -> float:
    stored, copies, origins = features(draw.patterns), features(draw.pairs.queries), draw.pairs.origins
    total = 0.0
    for part in range(min(FOLDS, len(origins))):
        out = torch.arange(len(origins)) % FOLDS == part
        moved = standardized(stored[origins[~out]], copies[~out], copies[out], window=window, ridge=ridge)
        scores = closeness(stored, moved)
        right = scores.gather(1, origins[out][:, None])
        total += float((1 / (scores >= right).sum(1)).sum())
    return total / len(origins)


def standardized(targets: Tensor, copies: Tensor, queries: Tensor, *, window: int, ridge: float) -> Tensor:
    """Queries as the library's instrument would have seen them, learned from copies (m, d) and their targets."""
    middle, shift = copies.double().mean(0), targets.double().mean(0)
    seen = _windows(copies.double() - middle, window).transpose(0, 1)  # (d, m, w)
    wanted = (targets.double() - shift).T[:, :, None]
    gram = seen.transpose(1, 2) @ seen
    scale = gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None].clamp(min=1e-12)
    penalty = ridge * scale * torch.eye(gram.shape[-1], dtype=gram.dtype)
    weights = torch.linalg.solve(gram + penalty, seen.transpose(1, 2) @ wanted)
    asked = _windows(queries.double() - middle, window).transpose(0, 1)
    moved: Tensor = (asked @ weights).squeeze(-1).T + shift
    return moved.float()


def _windows(spectra: Tensor, window: int) -> Tensor:
    """(m, d) -> (m, d, 2 window + 1), zero beyond the ends."""
    return pad(spectra, (window, window)).unfold(-1, 2 * window + 1, 1)


def baselines(draw: NirDraw) -> dict[str, Tensor]:
    return {**simple(draw), "PDS, tuned": piecewise(draw)}
