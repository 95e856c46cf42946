"""The sample of Wi-Fi scans that ships with the package."""

from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.datasets.make_sample import TARGET, make_sample

import ahop
from ahop.datasets import load_wifi_sample

LARGEST = 150_000  # bytes that the sample may add to the wheel


def test_the_sample_is_small_and_has_its_license_beside_it() -> None:
    assert TARGET.stat().st_size <= LARGEST
    assert "CC BY 4.0" in TARGET.with_name("wifi.LICENSE.txt").read_text("utf-8")


def test_the_sample_is_cut_out_of_the_published_data(data_folder: Path) -> None:
    made = make_sample(data_folder)
    with np.load(TARGET) as shipped:
        assert set(shipped) == set(made)
        for name, array in made.items():
            np.testing.assert_array_equal(shipped[name], array)


def test_every_scan_is_of_a_place_in_the_survey() -> None:
    sample = load_wifi_sample()
    assert len(set(sample.names)) == len(sample.values) == len(sample.coordinates)
    assert set(sample.visit_places) == set(range(len(sample.names)))
    assert sample.scans.shape == (len(sample.scan_places), len(sample.points))
    assert len(np.unique(sample.visit_phones)) == 3
    assert np.nanmax(sample.values) < 0
    assert not np.isnan(sample.values).all(0).any()
    assert not np.isnan(sample.visits).all(1).any()
    assert not np.isnan(sample.scans).all(1).any()
    place = sample.visits[sample.visit_places == 7]
    heard = ~np.isnan(place).all(0)
    np.testing.assert_allclose(sample.values[7][heard], np.nanmean(place[:, heard], 0))
    assert np.isnan(sample.values[7][~heard]).all()


def test_the_frame_has_the_names_of_places_and_access_points() -> None:
    pytest.importorskip("pandas")
    sample = load_wifi_sample()
    frame = sample.frame()
    assert [list(frame.index), list(frame.columns)] == [list(sample.names), list(sample.points)]


@pytest.mark.slow
def test_pairs_of_the_survey_help_a_phone_that_it_has_not_seen() -> None:
    sample = load_wifi_sample()
    plain = ahop.AssociativeMemory(sample.values, ahop.EuclideanSimilarity())
    pairs = ahop.Pairs(torch.from_numpy(sample.visit_places), torch.from_numpy(sample.visits))
    fitted = ahop.fit(sample.values, pairs=pairs, progress=False)
    right = [
        float(np.mean(np.asarray(memory.recall(sample.scans).indices)[:, 0] == sample.scan_places))
        for memory in (plain, fitted)
    ]
    assert right[1] > right[0] > 1 / len(sample.names)
