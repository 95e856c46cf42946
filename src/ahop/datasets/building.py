"""A building that was never anywhere, for examples: it needs no file, and `ahop demo` shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ahop._core.optional import pandas

ROOMS, POINTS = 60, 16
# What the phone does to a reading: an offset, noise, readings of something else, and readings that it does not hear.
OFFSET, NOISE, OUTLIERS, GAPS = -7.0, 3.0, 0.15, 0.25
WEAKEST, STRONGEST = -95.0, -35.0
# What has happened to one access point in the scans of later.
MOVED, LOSS = 4, 15.0


@dataclass(frozen=True)
class Scans:
    """Scans of a phone, NaN where it hears nothing; and the rooms, by number and by name, that they were made in."""

    rooms: NDArray[np.int64]
    values: NDArray[np.float64]
    names: tuple[str, ...]


class Building:
    """Rooms in which a survey has measured how strong each access point is, in dBm. Made up, and the same every time.

    Attributes:
        values: (rooms, access points) what the survey has measured.
        names: of the rooms.
        points: names of the access points.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        strengths = self._random.normal(-65, 9, (ROOMS, POINTS)).clip(WEAKEST, STRONGEST)
        self.values = strengths.round(1)
        self.points = tuple(f"ap{place + 1:02d}" for place in range(POINTS))
        self.names = tuple(f"room {100 + place}" for place in range(ROOMS))

    def frame(self) -> Any:
        """The survey for pandas: a row for each room, a column for each access point."""
        return pandas().DataFrame(self.values, index=list(self.names), columns=list(self.points))

    def scans(self, count: int, loss: float = 0.0) -> Scans:
        """Scans of a phone in random rooms.

        Args:
            loss: by how much one access point has become weaker.
        """
        random = self._random
        rooms = random.integers(ROOMS, size=count)
        heard = self.values[rooms] + OFFSET + random.normal(0, NOISE, (count, POINTS))
        heard[:, MOVED] -= loss
        is_other = random.random(heard.shape) < OUTLIERS
        heard = np.where(is_other, random.uniform(WEAKEST, STRONGEST, heard.shape), heard).round(1)
        heard[random.random(heard.shape) < GAPS] = np.nan
        return Scans(rooms, heard, tuple(self.names[room] for room in rooms))


def demo_tables(seed: int = 0) -> dict[str, dict[str, Sequence[Any]]]:
    """Tables by the name of their file."""
    building = Building(seed)

    def of(scans: Scans, first: str, entries: Sequence[str]) -> dict[str, Sequence[Any]]:
        return {first: entries, **dict(zip(building.points, scans.values.T.tolist(), strict=True))}

    known, held_out, log = building.scans(200), building.scans(300), building.scans(400)
    asked, later = building.scans(100), building.scans(300, LOSS)
    rooms = {"room": building.names, "floor": [f"floor {place // 20}" for place in range(ROOMS)]}
    return {
        "rooms.csv": {**rooms, **dict(zip(building.points, building.values.T.tolist(), strict=True))},
        "pairs.csv": of(known, "origin", known.names),
        "held_out.csv": of(held_out, "origin", held_out.names),
        "log.csv": of(log, "scan", [f"log {place}" for place in range(len(log.rooms))]),
        "scans.csv": of(asked, "scan", [f"scan {place}" for place in range(len(asked.rooms))]),
        "later.csv": of(later, "scan", [f"later {place}" for place in range(len(later.rooms))]),
    }
