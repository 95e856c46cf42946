"""Recall with numpy alone: `Scorer` reads what `memory.export` wrote. This file can be copied beside that one."""

import json
import os
from collections.abc import Mapping
from math import log, pi
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Part: TypeAlias = dict[str, Any]
VERSION = 1
NOTHING = float(np.finfo(float).min)  # the score of a pattern that shares nothing with the query


class Answer(NamedTuple):
    """Rows of the patterns, best first (b, k); how sure each is; how likely none is the origin, (b,); their labels."""

    indices: Array
    posterior: Array
    unknown: Array | None
    labels: Array | None


class Scorer:
    """Learned model and its patterns, read from a file.

    Args:
        path: of the file that `memory.export` wrote.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        self.model = json.loads(
            str(arrays["model"]), object_hook=lambda part: arrays[part["array"]] if "array" in part else part
        )
        if self.model["version"] != VERSION:
            raise ValueError(f"`{path}` has version {self.model['version']}, not {VERSION}. Export the memory again.")
        self.labels = None if self.model["labels"] is None else np.array(self.model["labels"], dtype=object)

    def recall(self, queries: Any, k: int = 1, group: object = None) -> Answer:
        """The k patterns that each query most likely came from.

        Args:
            queries: rows (b, d), or mappings by the names of the dimensions. What is NaN or left out was not observed.
            group: where they come from, such as their device. One that is not known is answered as none is.
        """
        similarity = self.model["groups"].get(str(group), self.model["similarity"])
        k = min(k, self.model["count"])
        with np.errstate(all="ignore"):
            found = [self._answer(scores_of(similarity, row), k) for row in self._rows(queries)]
        indices = np.array([each[0] for each in found], dtype=int).reshape(len(found), k)
        posterior = np.array([each[1] for each in found]).reshape(indices.shape)
        unknown = None if self.model["detector"] is None else np.array([each[2] for each in found])
        return Answer(indices, posterior, unknown, None if self.labels is None else self.labels[indices])

    def _rows(self, queries: Any) -> Array:
        if not isinstance(queries, np.ndarray) and len(queries) and isinstance(queries[0], Mapping):
            queries = [[each.get(name, np.nan) for name in self.model["names"] or ()] for each in queries]
        rows = np.asarray(queries, dtype=float)
        if rows.ndim != 2 or rows.shape[1] != self.model["dimensions"]:
            raise ValueError(f"`queries` must be rows of {self.model['dimensions']} values; got shape {rows.shape}.")
        return rows

    def _answer(self, scores: Array, k: int) -> tuple[Array, Array, float]:
        beta, floor, prior, detector = (self.model[name] for name in ("beta", "floor", "log_prior", "detector"))
        unknown = detector and unknown_of(scores if prior is None else scores[prior > -np.inf], detector)
        if prior is not None:
            scores = np.where((scores == NOTHING).all(), 0, scores) + prior / beta
        best = np.argpartition(-scores, k - 1)[:k]
        best = best[np.lexsort((best, -scores[best]))]
        shares = np.exp(beta * (scores - scores[best[0]]))
        posterior = shares[best] / shares.sum()
        if floor:
            known = scores > NOTHING / 2
            posterior = (1 - floor) * posterior + floor / (known.sum() or len(known))
            posterior = np.where(known[best] | ~known.any(), posterior, 0)
        return best, posterior, unknown or 0.0


def unknown_of(scores: Array, detector: Part) -> float:
    """Probability that a query comes from no pattern, by its scores."""
    known, best = scores[scores > NOTHING / 2], scores.max()
    others = np.delete(scores, scores.argmax()) if len(scores) > 1 else scores
    lead = best - others.max() - np.log(np.exp(others - others.max()).mean())
    together = best + np.log(np.exp(scores - best).mean())
    shape = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
    features = np.clip(np.nan_to_num([together, lead, *shape], nan=1e4), -1e4, 1e4)
    odds = detector["prior"] - (features - detector["center"]) / detector["scale"] @ detector["slopes"]
    return float(1 / (1 + np.exp(detector["offset"] - odds)))


def scores_of(part: Part, x: Array) -> Array:
    """The scores (n,) of all patterns for a query (d,)."""
    return KINDS[part["kind"]](part, x)


def pool(part: Part, x: Array) -> Array:
    """A sum of others. Where one knows nothing of a pattern, it counts its worst score of another."""
    total, known = np.zeros(()), False
    for weight, each in zip(part["weights"], part["parts"], strict=True):
        own = scores_of(each, x)
        knows = own > NOTHING
        total = total + weight * np.where(knows, own, own[knows].min() if knows.any() else 0)
        known = known or bool(knows.any() and weight > 0)
    return total if known else np.full_like(total, NOTHING)


def moved(part: Part, x: Array) -> Array:
    return scores_of(part["part"], (x - part["offset"]) / part["gain"])


def power(part: Part, x: Array) -> Array:
    share = np.maximum((x - part["low"]) / (part["high"] - part["low"]), 0)
    filling = np.nan if part["missing"] is None else part["missing"]
    return scores_of(part["part"], np.where(np.isnan(x), filling, share ** part["exponent"]))


def snv(part: Part, x: Array) -> Array:
    seen = x[~np.isnan(x)]
    return scores_of(part["part"], (x - seen.mean()) / seen.std() if len(set(seen)) > 1 else x * 0)


def difference(part: Part, x: Array) -> Array:
    return scores_of(part["part"], np.diff(x) if len(x) > 1 else x * 0)


def metric(part: Part, x: Array) -> Array:
    """Sums over what both have. Most of a Wi-Fi scan is zero, where a pattern adds what it adds to the total."""
    seen, stored, here, is_absolute = (
        ~np.isnan(x),
        part["stored"],
        part["here"],
        part["name"] in ("manhattan", "sorensen"),
    )
    total, shared = part["total"], part["shared"]
    if not seen.all():
        total = (np.abs(stored[seen]) if is_absolute else stored[seen] ** 2).sum(0)
        shared = here[seen].sum(0)
    heard = np.flatnonzero(seen & (x != 0))
    x, stored, here = x[heard], stored[heard], here[heard]
    scale = part["dimensions"] / np.maximum(shared, 1)
    if is_absolute:
        found = total + np.where(here, np.abs(x[:, None] - stored) - np.abs(stored), 0).sum(0)
        whole = np.abs(x) @ here + total
        found = -found * scale if part["name"] == "manhattan" else -np.clip(found / np.where(whole > 0, whole, 1), 0, 1)
    else:
        product, square = x @ stored, x**2 @ here
        lengths = np.sqrt(np.where(square * total > 0, square * total, np.inf))
        ways = {"dot": product * scale, "cosine": np.clip(product / lengths, -1, 1)}
        found = ways.get(part["name"], -np.maximum(square - 2 * product + total, 0) * scale)
    return np.where(shared > 0, found, NOTHING)


def tables(part: Part, x: Array) -> Array:
    """Tables of how much a value between two knots speaks for a stored one between two others."""
    i = np.flatnonzero(~np.isnan(x))
    places = part["places"][i]
    inside = np.clip(x[i], places[:, 0], places[:, -1])
    low = np.clip((places < inside[:, None]).sum(1) - 1, 0, places.shape[1] - 2)
    left, right = places[np.arange(len(i)), low], places[np.arange(len(i)), low + 1]
    up = np.where(right > left, (inside - left) / np.where(right > left, right - left, 1), 0)[:, None]
    profile = (1 - up) * part["tables"][i, low] + up * part["tables"][i, low + 1]
    below, above = (np.take_along_axis(profile, part["below"][i] + step, 1) for step in (0, 1))
    values = below + part["up"][i] * (above - below)
    return np.asarray(values.sum(0) + of_gaps(part, i))


def mixture(part: Part, x: Array) -> Array:
    """Each value was kept, with gain, bias and noise, or is an outlier."""
    i = np.flatnonzero(~np.isnan(x))
    x, bias, std, rate, steps = x[i], part["bias"][:, i], part["std"][i], part["rate"][i], part["steps"]
    width = max((part["high"] - part["low"]) / len(steps), 1e-30)
    value = (x - part["center"][i]) / part["scale"][i]
    step = np.clip((value - part["low"]) / width, 0, len(steps) - 1).astype(int)
    beyond = np.maximum(np.maximum(part["low"] - value, value - part["high"]), 0) / width
    outlier = steps[step] - beyond - np.log(part["scale"][i]) + np.log(rate)
    kept = np.log1p(-rate) - log(len(bias)) - 0.5 * log(2 * pi)
    wide, bumps = part["wide"][i], (x - bias)[..., None] - part["population"][i]
    bumps = np.logaddexp.reduce(-0.5 * (bumps / wide) ** 2 - np.log(wide), (0, 2)) - log(wide.shape[1])
    worth = (kept - np.log(std) - outlier).astype(part["stored"].dtype)[:, None]
    deviations = ((x - bias) / std).astype(worth.dtype)[..., None] - part["stored"][i]
    match = worth - 0.5 * deviations[0] ** 2
    if len(bias) > 1:
        match = worth + np.logaddexp(*(-0.5 * deviations**2))
    said = np.maximum(match, 0) + np.log(1 + np.exp(-np.abs(match)))
    alone = outlier - np.logaddexp(kept + bumps, outlier)
    return np.asarray(said.sum(0) + alone @ part["here"][i] + of_gaps(part, i))


def of_gaps(part: Part, seen: Array) -> Array | float:
    """Log-likelihood ratio of having observed these dimensions and not the others."""
    return 0.0 if part["silence"] is None else part["silence"] + part["presence"][seen].sum(0)


KINDS = {each.__name__: each for each in (pool, moved, power, snv, difference, metric, tables, mixture)}
