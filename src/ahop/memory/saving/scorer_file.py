"""Write a memory for `ahop.scorer`: all that is known of its patterns beforehand, in one file that numpy reads."""

import json
import os
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ahop._core.files import replacing
from ahop._core.missing import filled, observed
from ahop._core.missingness import Missingness
from ahop._core.typing import Patterns
from ahop.errors import UnsupportedError
from ahop.memory.likelihood import EvidenceSimilarity, LikelihoodSimilarity
from ahop.memory.model import Model
from ahop.memory.unknown import UnknownDetector
from ahop.runtime.scorer import VERSION, Part
from ahop.separations.softmax import Softmax
from ahop.similarities.additive import AdditiveSimilarity
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.cosine import CosineSimilarity
from ahop.similarities.debiased import DebiasedSimilarity
from ahop.similarities.dot import DotSimilarity
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.similarities.sorensen import SorensenSimilarity
from ahop.similarities.transformed import TransformedSimilarity
from ahop.transforms.base import Transform
from ahop.transforms.difference import DifferenceTransform
from ahop.transforms.power import PowerTransform
from ahop.transforms.snv import SNVTransform
from ahop.variants.mixture import MixtureVariant

METRICS: dict[type[Similarity], str] = {
    CosineSimilarity: "cosine",
    DotSimilarity: "dot",
    EuclideanSimilarity: "euclidean",
    ManhattanSimilarity: "manhattan",
    SorensenSimilarity: "sorensen",
}
TRANSFORMS: dict[type[Transform], str] = {
    DifferenceTransform: "difference",
    PowerTransform: "power",
    SNVTransform: "snv",
}
# Of a value that a pattern has not got, in standard deviations: it matches nothing.
FAR = 1e18


@torch.no_grad()
def export(
    path: str | os.PathLike[str],
    model: Model,
    patterns: Patterns,
    log_prior: Tensor | None,
    labels: list[Any] | None,
    names: list[str] | None,
) -> None:
    """Write beside the target, then move into place. No pickle.

    Args:
        patterns: modulated.
        names: of the dimensions.
    """
    if not isinstance(model.separation, Softmax):
        raise UnsupportedError(
            f"{model.separation!r} cannot be exported: the scorer weighs by a softmax. Serve the memory itself."
        )
    stored = patterns.detach().cpu()
    arrays: dict[str, NDArray[Any]] = {}

    def apart(value: object) -> dict[str, str]:
        arrays[f"array {len(arrays)}"] = value.cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        return {"array": f"array {len(arrays) - 1}"}

    written = {
        "version": VERSION,
        "count": len(stored),
        "dimensions": stored.shape[1],
        "names": names,
        "labels": labels,
        "beta": model.beta,
        "floor": model.separation.floor,
        "log_prior": None if log_prior is None else log_prior.double(),
        "detector": None if model.detector is None else _detector(model.detector),
        "similarity": part_of(model.similarity, stored),
        "groups": {name: part_of(each, stored) for name, each in model.groups.items()},
    }
    words = json.dumps(written, default=apart)
    with replacing(Path(path)) as beside, beside.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, model=np.array(words), **arrays)


def _detector(detector: UnknownDetector) -> Part:
    numbers = {name: getattr(detector, name).double() for name in ("center", "scale", "slopes", "offset")}
    return {**numbers, "prior": detector.log_prior_odds}


@singledispatch
def part_of(similarity: Similarity, patterns: Patterns) -> Part:
    """Describe a similarity and its patterns to the scorer. `part_of.register(MySimilarity)` adds a kind it has."""
    kind = METRICS.get(type(similarity))
    if kind is None:
        raise UnsupportedError(
            f"{similarity!r} cannot be exported. The scorer knows mixture, additive, debiased, the Sørensen and cosine "
            "metrics, euclidean, manhattan, dot, and pools of them: choose among these, "
            "`ahop.fit(patterns, pairs=..., similarity=['mixture', 'additive', 'euclidean'])`; or serve the memory "
            "itself, `ahop serve`."
        )
    values, here = filled(patterns), observed(patterns)
    addends = values.abs() if kind in ("manhattan", "sorensen") else values.square()
    return {
        "kind": "metric",
        "name": kind,
        "dimensions": patterns.shape[1],
        "stored": values.mT.contiguous(),
        "here": here.mT.bool().contiguous(),
        "total": addends.double().sum(-1),
        "shared": here.double().sum(-1),
    }


@part_of.register
def _(similarity: PooledSimilarity, patterns: Patterns) -> Part:
    parts = [part_of(each, patterns) for each in similarity.parts()]
    return {"kind": "pool", "weights": similarity.weights.double(), "parts": parts}


@part_of.register
def _(similarity: AlignedSimilarity, patterns: Patterns) -> Part:
    offset, gain = similarity.offset.double(), similarity.gain.double()
    return {"kind": "moved", "offset": offset, "gain": gain, "part": part_of(similarity.base, patterns)}


@part_of.register
def _(similarity: DebiasedSimilarity, patterns: Patterns) -> Part:
    return {
        "kind": "moved",
        "offset": similarity.bias.double(),
        "gain": 1.0,
        "part": part_of(similarity.base, patterns),
    }


@part_of.register
def _(similarity: TransformedSimilarity, patterns: Patterns) -> Part:
    transform = similarity.transform
    kind = TRANSFORMS.get(type(transform))
    if kind is None:
        raise UnsupportedError(
            f"{transform!r} cannot be exported: the scorer knows the power, SNV and difference transforms. Transform "
            "patterns and queries yourself, and fit what comes out; or serve the memory itself, `ahop serve`."
        )
    return {"kind": kind, **transform.configuration(), "part": part_of(similarity.base, transform(patterns))}


@part_of.register
def _(similarity: AdditiveSimilarity, patterns: Patterns) -> Part:
    knots, values = similarity.pattern_places.double(), patterns.double().mT.contiguous()
    inside = torch.clamp(values.nan_to_num(), knots[:, :1], knots[:, -1:])
    below = torch.searchsorted(knots.contiguous(), inside).clamp(1, knots.shape[1] - 1) - 1
    low, high = knots.gather(1, below), knots.gather(1, below + 1)
    up = ((inside - low) / (high - low).where(high > low, 1)).where(high > low, 0)
    is_gap = values.isnan()
    tables = torch.einsum("dr,rqp->dqp", similarity.mixing.double(), similarity.tables.double())
    return {
        "kind": "tables",
        "places": similarity.query_places.double(),
        # Behind the last knot are two of zeros, for patterns that have no value.
        "tables": torch.nn.functional.pad(tables, (0, 2)),
        "below": below.masked_fill(is_gap, knots.shape[1]).to(torch.int16),
        "up": up.masked_fill(is_gap, 0).to(patterns.dtype),
        **_of_gaps(similarity.missingness, patterns, similarity.gap_weight.double()),
    }


@part_of.register(EvidenceSimilarity)
@part_of.register(LikelihoodSimilarity)
def _(similarity: EvidenceSimilarity | LikelihoodSimilarity, patterns: Patterns) -> Part:
    variant = similarity.variant
    if not isinstance(variant, MixtureVariant):
        raise UnsupportedError(
            f"{similarity!r} cannot be exported: of likelihoods the scorer knows the mixture. Fit one, "
            "`ahop.fit(patterns, pairs=..., similarity='mixture')`, or `'snv_mixture'` for spectra; or serve the "
            "memory itself, `ahop serve`."
        )
    gain, bias, std = variant.gain.double(), variant.bias.double(), variant.std.double()
    places = gain.unsqueeze(-1) * variant.population.double()
    reach = torch.nn.functional.pad(places, (1, 1), mode="replicate")
    low, high = variant.outliers.ends.tolist()
    stored = (gain * patterns.double() / std).nan_to_num(nan=FAR)
    return {
        "kind": "mixture",
        "bias": torch.stack([bias, -bias] if variant.signs else [bias]),
        "std": std,
        "rate": variant.outlier_rate.double(),
        "center": variant.center.double(),
        "scale": variant.scale.double(),
        "low": low,
        "high": high,
        "steps": variant.outliers.log_density.double(),
        "population": places,
        "wide": torch.hypot(std.unsqueeze(-1), (reach[:, 2:] - reach[:, :-2]) / 2),
        "stored": stored.mT.to(patterns.dtype).contiguous(),
        "here": observed(patterns).mT.bool().contiguous(),
        **_of_gaps(variant.missingness, patterns, torch.ones((), dtype=torch.float64)),
    }


def _of_gaps(missingness: Missingness, patterns: Patterns, weight: Tensor) -> Part:
    """Evidence of observing nothing, (n,), and what each dimension adds by being there, (d, n)."""
    if not missingness.is_evidence:
        return {"silence": None, "presence": None}
    gap, value = missingness.evidence_terms(patterns.double())
    presence = weight * (value - gap)
    return {"silence": weight * gap.sum(-1), "presence": presence.mT.to(patterns.dtype).contiguous()}
