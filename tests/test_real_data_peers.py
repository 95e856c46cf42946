"""The metrics of practitioners that experiments on real data stand beside, held to their references."""

import numpy as np
import pytest
import torch
from experiments.support.massbank_peers import entropy_similarity, root_cosine
from experiments.support.massbank_protocol import MOST_PEAKS, cleaned
from experiments.support.nir_peers import standardized
from experiments.support.wifi_peers import offsets_off, powed, sorensen
from experiments.support.wifi_protocol import Places, WifiDraw, nearest_points
from ms_entropy import calculate_entropy_similarity
from scipy.spatial.distance import braycurtis
from torch import Tensor

import ahop


def spectra(count: int, seed: int) -> Tensor:
    """Peaks at few places, each a little off, so that many are in common."""
    generator = np.random.default_rng(seed)
    rows = np.full((count, 2 * MOST_PEAKS), np.nan)
    for row in rows:
        places = generator.choice(np.arange(100, 130), generator.integers(1, 20), replace=False)
        mz, share = cleaned(np.sort(places + generator.normal(0, 0.001, len(places))), generator.random(len(places)))
        row[: len(mz)], row[MOST_PEAKS : MOST_PEAKS + len(mz)] = mz, share
    return torch.from_numpy(rows)


def peaks(row: Tensor) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return row.view(2, MOST_PEAKS)[:, ~row[:MOST_PEAKS].isnan()].T.numpy().astype(np.float32)


def test_entropy_similarity_is_that_of_ms_entropy() -> None:
    stored, asked = spectra(15, 0), spectra(10, 1)
    scores = entropy_similarity(stored, asked)
    for at, query in enumerate(asked):
        expected = [calculate_entropy_similarity(peaks(row), peaks(query), ms2_tolerance_in_da=0.005) for row in stored]
        assert scores[at].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_spectrum_is_wholly_like_itself() -> None:
    rows = spectra(12, 2)
    for metric in (entropy_similarity, root_cosine):
        scores = metric(rows, rows)
        assert torch.allclose(scores.diagonal(), torch.ones(12, dtype=scores.dtype))
        assert (scores <= 1 + 1e-9).all()


def test_peaks_that_are_too_close_become_one_and_small_ones_none() -> None:
    mz, share = cleaned(np.array([100.0, 100.004, 150.0, 200.0]), np.array([30.0, 10.0, 60.0, 0.5]))
    assert mz.tolist() == pytest.approx([100.001, 150.0])
    assert share.tolist() == pytest.approx([0.4, 0.6])


def test_sorensen_is_the_distance_of_bray_and_curtis_on_powed_features() -> None:
    patterns = -100 * torch.rand(7, 9, generator=torch.Generator().manual_seed(0))
    queries = -100 * torch.rand(20, 9, generator=torch.Generator().manual_seed(1))
    queries[:, 3] = torch.nan
    scores = sorensen(patterns, queries)
    expected = [[-braycurtis(powed(q).numpy(), powed(p).numpy()) for p in patterns] for q in queries]
    assert torch.allclose(scores, torch.tensor(expected, dtype=scores.dtype), atol=1e-5)


def test_the_offset_of_each_phone_is_taken_off_pairs_and_queries() -> None:
    patterns = torch.tensor([[-50.0, -60.0, torch.nan], [-70.0, -80.0, -90.0]])
    shifts = torch.tensor([[5.0], [-3.0]])
    nowhere = Places(torch.zeros(2, 2), torch.zeros(2), torch.zeros(2))
    pairs = ahop.Pairs(torch.tensor([0, 1]), patterns + shifts)
    draw = WifiDraw(patterns, pairs, pairs, nowhere, nowhere, [7, 8], [7, 8])
    learned, queries = offsets_off(draw)
    assert torch.equal(queries.nan_to_num(), patterns.nan_to_num())
    assert torch.equal(learned.queries.nan_to_num(), patterns.nan_to_num())


def test_the_nearest_point_is_on_the_same_floor() -> None:
    places = Places(torch.tensor([[0.0, 0.0], [5.0, 0.0]]), torch.tensor([1, 2]), torch.tensor([0, 0]))
    asked = Places(torch.tensor([[1.0, 0.0]]), torch.tensor([2]), torch.tensor([0]))
    assert nearest_points(places, asked).tolist() == [1]


def test_piecewise_standardization_undoes_a_gain_an_offset_and_a_shift_of_channels() -> None:
    spectra = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)).cumsum(-1)
    copies = 2 * spectra.roll(1, dims=-1) + 3
    moved = standardized(spectra[:30], copies[:30], copies[30:], window=1, ridge=1e-9)
    assert torch.allclose(moved[:, :-1], spectra[30:, :-1], atol=1e-3)
