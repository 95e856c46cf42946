"""UJIIndoorLoc: strengths of access points as phones heard them in three buildings, and where."""

import io
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typing_extensions import override

from experiments.datasets.files import Folder, read
from experiments.datasets.sources import SOURCES

POINTS = 520
COORDINATES = ("LONGITUDE", "LATITUDE")  # read as text and then by Python: pandas rounds the last digit
NOT_HEARD = 100  # as the files write it; all heard strengths are 0 dBm or less


@final
@dataclass(frozen=True, eq=False, repr=False)
class Fingerprints:
    """One campaign of measurements, a row for each.

    Attributes:
        rssi: Received signal strength of each access point in dBm; NaN where it was not heard.
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
    """

    name: str
    train: Fingerprints
    validation: Fingerprints
    access_points: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        train, validation = len(self.train.rssi), len(self.validation.rssi)
        return f"WifiSurvey({self.name}: {train} + {validation} of {len(self.access_points)} access points)"


def load_uji_indoorloc(folder: Folder | None = None, *, download: bool = False) -> WifiSurvey:
    """Load 19937 training and 1111 validation fingerprints of 520 access points."""
    frames = [
        pd.read_csv(io.BytesIO(read(file, folder, download)), dtype=dict.fromkeys(COORDINATES, str))
        for file in SOURCES["uji_indoorloc"].files
    ]
    train, validation = (_fingerprints(frame) for frame in frames)
    return WifiSurvey("uji_indoorloc", train, validation, tuple(frames[0].columns[:POINTS]))


def _fingerprints(frame: Any) -> Fingerprints:
    rssi = np.array(frame.iloc[:, :POINTS], dtype=np.float32, order="C")
    rssi[rssi == NOT_HEARD] = np.nan
    coordinates = np.array(frame[list(COORDINATES)], dtype=np.float64, order="C")
    floor, building, space, position, user, phone, seconds = frame.iloc[:, -7:].to_numpy(dtype=np.int64).T.copy()
    return Fingerprints(
        rssi, coordinates, floor, building, space, position, user, phone, seconds.astype("datetime64[s]")
    )
