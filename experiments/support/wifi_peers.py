"""What people use today to place a phone by its Wi-Fi scan. Every metric: patterns and queries -> scores (b, n)."""

from collections.abc import Callable
from math import e
from typing import TypeAlias

import numpy as np
import torch
from sklearn.metrics.pairwise import nan_euclidean_distances
from torch import Tensor
from torch.nn.functional import normalize

import ahop
from experiments.support.wifi_protocol import WifiDraw

Metric: TypeAlias = Callable[[Tensor, Tensor], Tensor]

# Below what any phone hears, in dBm.
FLOOR = -105.0
BLOCK = 16


def powed(rssi: Tensor) -> Tensor:
    """((rssi + 105) / 105)^e, and 0 where nothing was heard: strong stations count more."""
    return ((rssi.nan_to_num(FLOOR) - FLOOR) / -FLOOR).clamp(min=0) ** e


def sorensen(patterns: Tensor, queries: Tensor) -> Tensor:
    """-Σ |p - q| / Σ (p + q) of powed features."""
    stored, asked = powed(patterns), powed(queries)
    apart = torch.cat([(stored - block[:, None]).abs().sum(-1) for block in torch.split(asked, BLOCK)])
    return -apart / (asked.sum(-1)[:, None] + stored.sum(-1)).clamp(min=1e-12)


def cosine(patterns: Tensor, queries: Tensor) -> Tensor:
    """Of powed features."""
    return normalize(powed(queries), dim=-1) @ normalize(powed(patterns), dim=-1).T


def euclidean(patterns: Tensor, queries: Tensor) -> Tensor:
    """What was not heard is -105 dBm."""
    return -torch.cdist(queries.nan_to_num(FLOOR), patterns.nan_to_num(FLOOR))


def nan_euclidean(patterns: Tensor, queries: Tensor) -> Tensor:
    """That of scikit-learn: by the stations that both heard."""
    apart = nan_euclidean_distances(queries.numpy(), patterns.numpy())
    return torch.from_numpy(-np.nan_to_num(apart, nan=np.inf))


METRICS: dict[str, Metric] = {
    "euclidean": euclidean,
    "nan_euclidean": nan_euclidean,
    "cosine": cosine,
    "Sørensen": sorensen,
}


def offsets_off(draw: WifiDraw) -> tuple[ahop.Pairs, Tensor]:
    """Pairs and queries less the offset of their phone: the median of copy less pattern over all that both heard."""
    apart = draw.pairs.queries - draw.patterns[draw.pairs.origins]
    phones = torch.tensor(draw.pair_phones)
    offsets = {phone: float(apart[phones == phone].nanmedian().nan_to_num(0)) for phone in set(draw.pair_phones)}
    copies, queries = (
        rows - torch.tensor([offsets.get(phone, 0.0) for phone in held])[:, None]
        for rows, held in ((draw.pairs.queries, draw.pair_phones), (draw.test.queries, draw.test_phones))
    )
    return ahop.Pairs(draw.pairs.origins, copies), queries
