"""Places and scans of a Wi-Fi survey: 520 access points, most of which are not heard."""

import numpy as np
import torch
from experiments.datasets import load_uji_indoorloc
from numpy.typing import NDArray

import ahop

# Heard in fewer of the visits to a place, an access point is no part of its pattern.
LEAST_HEARD = 0.3
# Rows that are drawn at a time.
AT_ONCE = 20_000


def places_and_scans(count: int) -> tuple[torch.Tensor, ahop.Pairs]:
    """The mean of each place without one phone, and scans of that phone there; raises where there is no such data."""
    survey = load_uji_indoorloc().train
    phones, scans = np.unique(survey.phone, return_counts=True)
    left_out = survey.phone == phones[np.argsort(scans)[-2]]
    spot = np.column_stack([survey.building, survey.floor, np.round(survey.coordinates, 1)])
    place = np.unique(spot, axis=0, return_inverse=True)[1].ravel()
    rows, patterns = np.full(place.max() + 1, -1), list[NDArray[np.float32]]()
    for number in range(len(rows)):
        visits = survey.rssi[~left_out & (place == number)]
        heard = (~np.isnan(visits)).sum(0)
        often = heard >= max(1.0, LEAST_HEARD * len(visits))
        if often.any():
            rows[number] = len(patterns)
            patterns.append(np.where(often, np.nansum(visits, 0) / np.maximum(heard, 1), np.nan))
    usable = np.flatnonzero(left_out & (rows[place] >= 0) & ~np.isnan(survey.rssi).all(1))
    chosen = np.random.default_rng(0).permutation(usable)[:count]
    origins = torch.from_numpy(rows[place[chosen]])
    return torch.from_numpy(np.array(patterns, dtype=np.float32)), ahop.Pairs(
        origins, torch.from_numpy(survey.rssi[chosen])
    )


def grown(places: torch.Tensor, count: int) -> torch.Tensor:
    """As many places as a city has, each like one of the survey with other strengths."""
    rows = torch.arange(count) % len(places)
    generator = torch.Generator().manual_seed(0)
    city = places[rows]
    for start in range(0, count, AT_ONCE):  # noise of all at once would fill the memory
        part = city[start : start + AT_ONCE]
        part.add_(torch.randn(part.shape, generator=generator), alpha=3)
    return city
