"""The building of the examples is the same every time."""

import numpy as np
import pytest

from ahop.datasets import Building


def test_the_building_and_its_scans_are_the_same_every_time() -> None:
    one, other = Building(), Building()
    assert (one.values == other.values).all()
    first, second = one.scans(5), other.scans(5)
    np.testing.assert_array_equal(first.values, second.values)
    assert first.names == tuple(one.names[room] for room in second.rooms)
    assert np.isnan(first.values).any()


def test_the_frame_has_the_names_of_rooms_and_access_points() -> None:
    pytest.importorskip("pandas")
    building = Building(seed=1)
    frame = building.frame()
    assert list(frame.index) == list(building.names)
    assert list(frame.columns) == list(building.points)
    np.testing.assert_array_equal(frame.to_numpy(), building.values)
