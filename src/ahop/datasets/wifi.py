"""A slice of UJIIndoorLoc: real scans of phones on one floor of a university building.

J. Torres-Sospedra et al. UJIIndoorLoc: A new multi-building and multi-floor database for WLAN fingerprint-based indoor
localization problems. IPIN 2014. doi:10.24432/C5MS59. License: CC BY 4.0. Changes: floor 0 of building 2, access points
that the survey hears there, scans that hear any of them, coordinates from the corner of the floor.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final
from zipfile import ZipFile

import numpy as np
from numpy.lib.format import read_array
from numpy.typing import NDArray

from ahop._core.optional import pandas

FILE = "wifi.npz"
NOT_HEARD = 100  # as UJIIndoorLoc writes it; all heard strengths are 0 dBm or less


@final
@dataclass(frozen=True, eq=False, repr=False)
class WifiSample:
    """A survey of places by three phones, and scans of a fourth phone there.

    Attributes:
        values: (places, access points) mean strength in the survey, in dBm; NaN where nothing was heard.
        names: Of the places.
        points: Names of the access points.
        coordinates: (places, 2) easting and northing, in metres from the corner of the floor.
        visits: (visits, access points) all scans of the survey, NaN where nothing was heard.
        visit_places: Row in `values` of each visit.
        visit_phones: Phone of each visit.
        scans: (scans, access points) of the phone that the survey has not seen.
        scan_places: Row in `values` of each scan.
    """

    values: NDArray[np.float64]
    names: tuple[str, ...]
    points: tuple[str, ...]
    coordinates: NDArray[np.float64]
    visits: NDArray[np.float64]
    visit_places: NDArray[np.int64]
    visit_phones: NDArray[np.int64]
    scans: NDArray[np.float64]
    scan_places: NDArray[np.int64]

    def frame(self) -> Any:
        """Return the survey for pandas: a row for each place, a column for each access point."""
        return pandas().DataFrame(self.values, index=list(self.names), columns=list(self.points))

    def __repr__(self) -> str:
        return f"WifiSample({len(self.names)} places, {len(self.points)} access points, {len(self.scans)} scans)"


def load_wifi_sample() -> WifiSample:
    """Load real Wi-Fi scans, a slice of UJIIndoorLoc (CC BY 4.0).

    >>> import ahop
    >>> ahop.datasets.load_wifi_sample()
    WifiSample(65 places, 87 access points, 522 scans)
    """
    with ZipFile(Path(__file__).with_name(FILE)) as archive:
        found = {Path(name).stem: read_array(archive.open(name), allow_pickle=False) for name in archive.namelist()}
    visits, scans = (np.where(found[key] == NOT_HEARD, np.nan, found[key]) for key in ("visits", "scans"))
    places = found["visit_places"].astype(np.int64)
    members = places == np.arange(len(found["names"]))[:, None]
    heard = members.astype(float) @ ~np.isnan(visits)
    total = members.astype(float) @ np.nan_to_num(visits)
    return WifiSample(
        values=np.divide(total, heard, out=np.full(total.shape, np.nan), where=heard > 0),
        names=tuple(found["names"].tolist()),
        points=tuple(found["points"].tolist()),
        coordinates=found["coordinates"],
        visits=visits,
        visit_places=places,
        visit_phones=found["visit_phones"].astype(np.int64),
        scans=scans,
        scan_places=found["scan_places"].astype(np.int64),
    )
