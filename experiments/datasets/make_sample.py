"""`python -m experiments.datasets.make_sample`: cut the Wi-Fi sample of the package out of UJIIndoorLoc."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.files import Folder
from experiments.datasets.uji_indoorloc import NOT_HEARD, load_uji_indoorloc

TARGET = Path(__file__).parents[2] / "src" / "ahop" / "datasets" / "wifi.npz"
# The one floor where, of every phone, all places were visited by other phones too.
BUILDING, FLOOR = 2, 0
ASKING = 22  # the phone whose scans are the queries: of the four here, one that no survey has seen


def make_sample(folder: Folder | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of the sample by their names."""
    uji = load_uji_indoorloc(folder)
    train = uji.train
    there = (train.building == BUILDING) & (train.floor == FLOOR)
    heard = ~np.isnan(train.rssi[there & (train.phone != ASKING)]).all(0)  # a survey knows no other access points
    here = there & ~np.isnan(train.rssi[:, heard]).all(1)
    asking = train.phone[here] == ASKING
    strengths = np.nan_to_num(train.rssi[here][:, heard], nan=NOT_HEARD).astype(np.int8)
    spots = np.column_stack([train.space, train.relative_position])[here]
    places, rows = np.unique(spots, axis=0, return_inverse=True)
    rows = rows.ravel()
    metres = train.coordinates[here] - train.coordinates[here].min(0)
    names = [f"room {space}{'' if position == 1 else ', door'}" for space, position in places.tolist()]
    return {
        "names": np.array(names),
        "points": np.array(uji.access_points)[heard],
        "coordinates": np.array([metres[rows == place].mean(0).round(2) for place in range(len(places))]),
        "visits": strengths[~asking],
        "visit_places": rows[~asking].astype(np.uint8),
        "visit_phones": train.phone[here][~asking].astype(np.uint8),
        "scans": strengths[asking],
        "scan_places": rows[asking].astype(np.uint8),
    }


if __name__ == "__main__":
    np.savez_compressed(TARGET, **make_sample())  # type: ignore[arg-type]
