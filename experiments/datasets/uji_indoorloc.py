"""UJIIndoorLoc: where in three buildings was a phone that heard these access points?"""

import re

import numpy as np
from numpy.typing import NDArray

from ahop.errors import FileFormatError
from experiments.datasets._finding import find
from experiments.datasets._folders import Folder
from experiments.datasets._sources import UJI_INDOORLOC
from experiments.datasets.fingerprints import Fingerprints, WifiSurvey

ACCESS_POINTS = tuple(f"WAP{number:03}" for number in range(1, 521))
COLUMNS = (
    *ACCESS_POINTS,
    "LONGITUDE",
    "LATITUDE",
    "FLOOR",
    "BUILDINGID",
    "SPACEID",
    "RELATIVEPOSITION",
    "USERID",
    "PHONEID",
    "TIMESTAMP",
)
NOT_HEARD = 100
NOTES = (
    "In `validation`, `space`, `relative_position` and `user` were not recorded and are 0.",
    "`validation` was recorded months after `train`, in part with phones that `train` does not have.",
    "76 rows of `train` heard no access point at all, and 637 are duplicates of others.",
)


def load_uji_indoorloc(folder: Folder | None = None, *, download: bool = False, progress: bool = True) -> WifiSurvey:
    """UCI UJIIndoorLoc: 19937 training and 1111 validation fingerprints of 520 access points.

    Args:
        folder: As for every dataset: see `experiments.datasets`.
    """
    found = find(UJI_INDOORLOC, folder, download, progress)
    train, validation = (parse_fingerprints(content, found.where(name)) for name, content in found.read().items())
    return WifiSurvey("uji_indoorloc", train, validation, ACCESS_POINTS, (*found.edition.notes, *NOTES))


def parse_fingerprints(content: bytes, where: str) -> Fingerprints:
    """Ten million cells, so numpy reads them; other tables are read cell by cell."""
    header, *lines = content.decode("ascii", errors="replace").splitlines() or [""]
    if tuple(header.split(",")) != COLUMNS:
        raise FileFormatError(f"`{where}`, line 1: the {len(COLUMNS)} official columns were expected.")
    for number, line in enumerate(lines, start=2):
        if line.count(",") != len(COLUMNS) - 1:
            raise FileFormatError(
                f"`{where}`, line {number}: {len(COLUMNS)} cells were expected; got {line.count(',') + 1}."
            )
    cells = _numbers(lines, where)
    with np.errstate(invalid="ignore", over="ignore"):  # what does not fit is found just below
        rssi, whole = cells[:, : len(ACCESS_POINTS)].astype(np.float32), cells[:, -7:].astype(np.int64)
    wrong = ~np.isfinite(cells).all(1) | (whole != cells[:, -7:]).any(1) | ((rssi > 0) & (rssi != NOT_HEARD)).any(1)
    if wrong.any():
        raise FileFormatError(
            f"`{where}`, line {int(wrong.argmax()) + 2}: strengths must be 0 or less, or {NOT_HEARD} for not heard; "
            "coordinates must be finite, and all else whole."
        )
    rssi[rssi == NOT_HEARD] = np.nan
    coordinates = cells[:, len(ACCESS_POINTS) : -7].copy()
    floor, building, space, position, user, phone, seconds = whole.T.copy()
    return Fingerprints(
        rssi, coordinates, floor, building, space, position, user, phone, seconds.astype("datetime64[s]")
    )


def _numbers(lines: list[str], where: str) -> NDArray[np.float64]:
    if not lines:
        raise FileFormatError(f"`{where}` holds no rows.")
    try:
        return np.loadtxt(lines, delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        row = re.search(r"at row (\d+)", str(error))
        line = f", line {int(row[1]) + 2}" if row else ""
        raise FileFormatError(f"`{where}`{line}: a cell is no number: {error}") from error
