"""UJIIndoorLoc as a retrieval task: which point of the radio map is a phone at that heard these access points?

A point is a building, a floor and coordinates rounded to 0.1 m. Its pattern is the mean of what its visits heard, NaN
for access points that fewer than 30 % of them heard. Scans of fewer than three access points are left out.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import ahop
from experiments.datasets import Fingerprints, load_uji_indoorloc

LEAST_HEARD, LEAST_SHARE, LEAST_SCANS = 3, 0.3, 120
PAIRS, QUERIES, TAPS = 30, 150, 15


@dataclass(frozen=True)
class Places:
    """Where rows were measured.

    Attributes:
        coordinates: in metres, (n, 2).
        floor: (n,).
        building: (n,).
    """

    coordinates: Tensor
    floor: Tensor
    building: Tensor

    def __getitem__(self, rows: Tensor) -> "Places":
        return Places(self.coordinates[rows], self.floor[rows], self.building[rows])


@dataclass(frozen=True)
class WifiDraw:
    """Pairs to learn from, queries to be tested on.

    Attributes:
        patterns: the radio map, (n, 520).
        pairs: origins, and scans of the same places.
        test: the same, at other places. In the official split, origins are the nearest point of the building's floor.
        places: of the patterns.
        truth: of the test queries.
        pair_phones: which phone each pair was measured with.
        test_phones: the same for the test queries.
    """

    patterns: Tensor
    pairs: ahop.Pairs
    test: ahop.Pairs
    places: Places
    truth: Places
    pair_phones: list[int]
    test_phones: list[int]


@dataclass(frozen=True)
class Scans:
    """Usable scans of a campaign, each with the number of its point."""

    rssi: NDArray[np.float32]
    phone: NDArray[np.int64]
    point: NDArray[np.int64]
    places: Places


def phones() -> list[int]:
    """Those with at least 120 usable scans at points that other phones visited too."""
    train = _train()
    return [phone for phone in np.unique(train.phone).tolist() if len(_shared(phone)) >= LEAST_SCANS]


def leave_out_phone(phone: int, seed: int, pairs: int = PAIRS, queries: int = QUERIES) -> WifiDraw:
    """The map is made by the other phones. Half of the points are for pairs, the others for test queries."""
    train, generator = _train(), np.random.default_rng([seed, phone])
    patterns, points = radio_map(train, train.phone != phone)
    scans = _shared(phone)
    visited = generator.permutation(np.unique(train.point[scans]))
    first = np.isin(train.point[scans], visited[: len(visited) // 2])
    learned, tested = generator.permutation(scans[first])[:pairs], generator.permutation(scans[~first])[:queries]
    firsts = torch.tensor([int(np.flatnonzero(train.point == point)[0]) for point in points])
    return WifiDraw(
        patterns,
        _pairs(train, learned, np.searchsorted(points, train.point[learned])),
        _pairs(train, tested, np.searchsorted(points, train.point[tested])),
        train.places[firsts],
        train.places[torch.from_numpy(tested)],
        [phone] * len(learned),
        [phone] * len(tested),
    )


def scans_of_others(phone: int) -> tuple[Tensor, list[int], list[int]]:
    """Every raw scan that the map is made of: its rows, the row of the map it was made at, and its phone.

    The map is that of `leave_out_phone`, so that labels repeat and phones are groups: nobody has labeled the one that
    is left out.
    """
    train = _train()
    others = train.phone != phone
    rows = np.unique(train.point[others], return_inverse=True)[1]
    return torch.from_numpy(train.rssi[others]), rows.tolist(), train.phone[others].tolist()


def scans_at_points(phone: int) -> tuple[dict[int, NDArray[np.float32]], dict[int, NDArray[np.float32]]]:
    """The scans of this phone, and those of all others, by the number of their point."""
    train = _train()
    return _by_point(train, train.phone == phone), _by_point(train, train.phone != phone)


def _by_point(scans: Scans, used: NDArray[np.bool_]) -> dict[int, NDArray[np.float32]]:
    rows, points = scans.rssi[used], scans.point[used]
    return {int(point): rows[points == point] for point in np.unique(points)}


def official_split(seed: int, taps: int = TAPS) -> WifiDraw:
    """The map is made of the whole training campaign, the scans are of the validation campaign, months later.

    Of each phone, `taps` scans are pairs, as if its owner had tapped on the map where he was; the rest is tested.
    """
    train, later, generator = _train(), _validation(), np.random.default_rng(seed)
    patterns, points = radio_map(train, np.ones(len(train.rssi), dtype=bool))
    firsts = torch.tensor([int(np.flatnonzero(train.point == point)[0]) for point in points])
    places = train.places[firsts]
    nearest = nearest_points(places, later.places).numpy()
    order = generator.permutation(len(later.rssi))
    rank = {phone: order[later.phone[order] == phone] for phone in np.unique(later.phone).tolist()}
    learned = np.concatenate([rows[:taps] for rows in rank.values()])
    tested = np.concatenate([rows[taps:] for rows in rank.values()])
    return WifiDraw(
        patterns,
        _pairs(later, learned, nearest[learned]),
        _pairs(later, tested, nearest[tested]),
        places,
        later.places[torch.from_numpy(tested)],
        later.phone[learned].tolist(),
        later.phone[tested].tolist(),
    )


def radio_map(scans: Scans, used: NDArray[np.bool_]) -> tuple[Tensor, NDArray[np.int64]]:
    """The pattern of every point that the used scans visited, and the points' numbers in ascending order."""
    points, place, visits = np.unique(scans.point[used], return_inverse=True, return_counts=True)
    heard = ~np.isnan(scans.rssi[used])
    sums, counts = np.zeros((2, len(points), scans.rssi.shape[1]))
    np.add.at(sums, place, np.nan_to_num(scans.rssi[used]))
    np.add.at(counts, place, heard)
    often = counts >= np.maximum(1, LEAST_SHARE * visits[:, None])
    means = np.where(often, sums / np.maximum(1, counts), np.nan)
    return torch.from_numpy(means.astype(np.float32)), points


def nearest_points(places: Places, asked: Places) -> Tensor:
    """For each place asked, the nearest of `places` on the same floor of the same building."""
    apart = torch.cdist(asked.coordinates, places.coordinates)
    return apart.masked_fill(~same_floor(places, asked), torch.inf).argmin(1)


def same_floor(places: Places, asked: Places) -> Tensor:
    """(asked, places): are they on the same floor of the same building?"""
    same = asked.floor[:, None] == places.floor
    return same & (asked.building[:, None] == places.building)


def metres(found: Places, truth: Places) -> Tensor:
    """How far apart they are on the map, whatever their floors."""
    apart: Tensor = torch.linalg.vector_norm(found.coordinates - truth.coordinates, dim=-1)
    return apart


def _shared(phone: int) -> NDArray[np.int64]:
    """The scans of this phone at points that others visited."""
    train = _train()
    others = np.unique(train.point[train.phone != phone])
    return np.flatnonzero((train.phone == phone) & np.isin(train.point, others))


def _pairs(scans: Scans, rows: NDArray[np.int64], origins: NDArray[np.int64]) -> ahop.Pairs:
    return ahop.Pairs(torch.from_numpy(origins), torch.from_numpy(scans.rssi[rows]))


def _train() -> Scans:
    return _campaigns()[0]


def _validation() -> Scans:
    return _campaigns()[1]


@cache
def _campaigns() -> tuple[Scans, Scans]:
    survey = load_uji_indoorloc()
    return _usable(survey.train), _usable(survey.validation)


def _usable(scans: Fingerprints) -> Scans:
    usable = (~np.isnan(scans.rssi)).sum(1) >= LEAST_HEARD
    coordinates = np.round(scans.coordinates[usable], 1)
    floor, building = scans.floor[usable], scans.building[usable]
    keys = np.column_stack([building, floor, coordinates])
    point = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    places = Places(torch.from_numpy(coordinates), torch.from_numpy(floor), torch.from_numpy(building))
    return Scans(scans.rssi[usable], scans.phone[usable], point, places)
