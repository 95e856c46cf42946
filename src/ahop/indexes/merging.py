"""Answers from what was found: by one index, or by several that hold parts of the patterns."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ahop.indexes.engines.base import Background, Found
from ahop.memory import AssociativeMemory
from ahop.separations.softmax import Softmax
from ahop.unknown import features_of


def merged(parts: Sequence[Found], k: int) -> Found:
    """The k best of all parts, whose rows have numbers that do not repeat; and what all of them weigh together."""
    scores = torch.cat([part.scores for part in parts], dim=-1)
    indices = torch.cat([part.indices for part in parts], dim=-1)
    masses = [part.log_mass for part in parts if part.log_mass is not None]
    behind = [part.background for part in parts if part.background is not None]
    return best_of(
        Found(
            indices,
            scores,
            torch.stack(masses).logsumexp(0) if len(masses) == len(parts) else None,
            _together(behind) if len(behind) == len(parts) else None,
            sum(part.count for part in parts),
        ),
        k,
    )


def best_of(found: Found, k: int) -> Found:
    """The k best, best first; those that are not there have number -1."""
    scores, order = found.scores.topk(min(k, found.scores.shape[1]), dim=-1)
    indices = found.indices.gather(-1, order).masked_fill(torch.isneginf(scores), -1)
    background = found.background
    if background is not None:
        others = found.scores.scatter(-1, order, -torch.inf).logsumexp(-1)
        background = replace(background, log_rest=torch.logaddexp(background.log_rest, others))
    return replace(found, indices=indices, scores=scores, background=background)


def posterior_of(found: Found, memory: AssociativeMemory, k: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows and posterior (b, k), and how likely the origin is unknown (b,), if the memory can tell."""
    best = best_of(found, k)
    if weighs_by_mass(memory):
        assert found.log_mass is not None
        posterior = (sharpness(memory) * best.scores - found.log_mass.unsqueeze(-1)).exp()
        posterior = floored(memory, posterior, found.count).masked_fill(best.indices < 0, 0)
    else:
        posterior = memory.separation(found.scores).sort(-1, descending=True).values[:, : best.scores.shape[1]]
    short = k - best.indices.shape[1]
    indices, posterior = pad(best.indices, (0, short), value=-1), pad(posterior.nan_to_num(0), (0, short))
    if memory.detector is None or found.background is None:
        return indices, posterior, None
    behind = found.background
    features = features_of(found.scores, behind.log_rest, behind.mean, behind.spread, behind.count)
    return indices, posterior, memory.detector.of_features(features).to(found.scores)


def weighs_by_mass(memory: AssociativeMemory) -> bool:
    """Whether a weight needs no more of the others than their mass. Other distributions weigh scores by one another."""
    return isinstance(memory.separation, Softmax) or not memory.separation.is_distribution


def sharpness(memory: AssociativeMemory) -> float:
    """What scores are multiplied by before they are weighed; no separation but softmax has such a number."""
    return memory.separation.beta if isinstance(memory.separation, Softmax) else 1.0


def floored(memory: AssociativeMemory, shares: Tensor, count: int) -> Tensor:
    """The posterior, from shares of a plain softmax over `count` patterns."""
    return memory.separation.floored(shares, count) if isinstance(memory.separation, Softmax) else shares


def _together(parts: list[Background]) -> Background:
    count = max(1, sum(part.count for part in parts))
    mean = sum((part.mean * (part.count / count) for part in parts), torch.zeros(()))
    square = sum(
        ((part.spread.square() + part.mean.square()) * (part.count / count) for part in parts), torch.zeros(())
    )
    spread = (square - mean.square()).clamp_min(0).sqrt()
    return Background(torch.stack([part.log_rest for part in parts]).logsumexp(0), mean, spread, count)
