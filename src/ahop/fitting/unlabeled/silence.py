"""Do gaps say something? Of radio stations, what is missing was not heard; of broken sensors, it was lost by chance."""

import torch
from torch import Generator, Tensor

from ahop.fitting.choosing.posterior import behind
from ahop.fitting.settings import DEFAULT, UnlabeledSettings

# Queries that are asked, and how often chance is drawn: more take longer.
QUERIES_FOR_GAPS, DRAWS = 256, 8


@torch.no_grad()
def silence_tells(
    patterns: Tensor, queries: Tensor, settings: UnlabeledSettings = DEFAULT.unlabeled, seed: int = 0
) -> bool:
    r"""True if queries have gaps where stored patterns have theirs.

    Each query is compared with the pattern that was observed in the most similar dimensions, by
    $|A \cap B| / |A \cup B|$; and so are others that have as many gaps in each dimension, but by chance. Where gaps say
    nothing, both are as similar.
    """
    stored, asked = (~patterns.isnan()).float(), (~queries[:QUERIES_FOR_GAPS].isnan()).float()
    if len(asked) < 2 or bool(stored.all()) or bool(asked.all()):
        return False
    orders = torch.rand(DRAWS, *asked.shape, generator=Generator().manual_seed(seed)).argsort(1).to(asked.device)
    found = _overlap(stored, asked)
    by_chance = torch.stack([_overlap(stored, asked.gather(0, order)) for order in orders]).mean(0)
    mean, error = behind(found, by_chance, torch.ones_like(found))
    return mean > settings.gap_std_errors * error


def _overlap(stored: Tensor, asked: Tensor) -> Tensor:
    """Overlap of each query with the pattern that it shares most with, (b,)."""
    both = asked @ stored.mT
    either = asked.sum(-1, keepdim=True) + stored.sum(-1) - both
    return (both / either.clamp_min(1)).amax(-1).double()
