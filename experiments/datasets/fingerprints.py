"""What a phone hears of the access points around it, and where it was."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override


@final
@dataclass(frozen=True, eq=False, repr=False)
class Fingerprints:
    """One campaign of measurements, a row for each.

    Attributes:
        rssi: How strongly each access point was heard, in dBm; NaN where it was not heard.
        coordinates: Easting and northing in metres, shape (n, 2).
        space: The number of the room or corridor; 0 where it was not recorded.
        relative_position: 1 inside that room, 2 outside its door; 0 where it was not recorded.
        user: 0 where it was not recorded.
        timestamp: Universal time as `datetime64`, to the second.
    """

    rssi: NDArray[np.float32]
    coordinates: NDArray[np.float64]
    floor: NDArray[np.int64]
    building: NDArray[np.int64]
    space: NDArray[np.int64]
    relative_position: NDArray[np.int64]
    user: NDArray[np.int64]
    phone: NDArray[np.int64]
    timestamp: NDArray[Any]

    @override
    def __repr__(self) -> str:
        return f"Fingerprints({self.rssi.shape[0]} of {self.rssi.shape[1]} access points)"


@final
@dataclass(frozen=True, eq=False, repr=False)
class WifiSurvey:
    """Two campaigns in the same buildings, months apart.

    Attributes:
        access_points: The names of the columns of `rssi`, the same in both.
        notes: What differs from the official data, and what a careful user should know.
    """

    name: str
    train: Fingerprints
    validation: Fingerprints
    access_points: tuple[str, ...]
    notes: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        train, validation = len(self.train.rssi), len(self.validation.rssi)
        return f"WifiSurvey({self.name}: {train} + {validation} of {len(self.access_points)} access points)"
