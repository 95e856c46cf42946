"""The best rows of many scores, block by block, beside one sort of all of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ahop._core.best_rows import BestRows
from ahop._core.tensors import places_above
from ahop.memory.model import Model
from ahop.memory.scoring import nearest, rank
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.manhattan import ManhattanSimilarity


@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(1, 40), st.integers(1, 12), st.integers(1, 5))
def test_blocks_keep_what_one_stable_sort_keeps(seed: int, queries: int, rows: int, k: int, distinct: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(distinct, (queries, rows), generator=generator).float()  # with ties
    scores[torch.rand(queries, rows, generator=generator) < 0.1] = -torch.inf
    best, ids = BestRows(queries, k, scores), torch.arange(rows)
    for part in ids.tensor_split(sorted(torch.randint(rows, (4,), generator=generator).tolist())):
        if len(part):
            best.update(scores[:, part], scores[:, part].amax(-1), part)
    kept = best.padded()
    wanted = scores.sort(dim=-1, descending=True, stable=True).values[:, :k]
    torch.testing.assert_close(kept[1][:, : wanted.shape[1]], wanted)
    named = kept[0][:, : wanted.shape[1]]
    torch.testing.assert_close(scores.gather(-1, named), wanted)
    assert all(len(set(each)) == len(each) for each in named.tolist())
    assert (kept[0][:, wanted.shape[1] :] == -1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_places_above_are_those_of_torch_in_every_dtype(dtype: torch.dtype) -> None:
    values = torch.randn(5, 33, generator=torch.Generator().manual_seed(0)).to(dtype)
    values[2], values[3, 4] = -torch.inf, torch.nan
    least = values[:, :1].nan_to_num(0, neginf=0)
    row, column = places_above(values, least)
    expected = (values > least).nonzero(as_tuple=True)
    assert row.equal(expected[0])
    assert column.equal(expected[1])


@pytest.mark.parametrize("similarity", [EuclideanSimilarity(), ManhattanSimilarity()])
@pytest.mark.parametrize("gaps", [0.0, 0.02])
def test_nearest_are_the_rows_that_rank_finds(similarity: EuclideanSimilarity, gaps: float) -> None:
    generator = torch.Generator().manual_seed(1)
    patterns, queries = torch.randn(3000, 6, generator=generator), torch.randn(40, 6, generator=generator)
    queries[torch.rand(40, 6, generator=generator) < gaps] = torch.nan
    for k in (1, 7, 300):
        ranked = rank(Model(similarity), patterns, queries, k)
        assert (nearest(similarity, patterns, queries, k) == ranked.ids).double().mean() > 0.999  # all but rounding
    assert nearest(similarity, patterns, queries[:0], 3).shape == (0, 3)
    assert (nearest(similarity, patterns[:2], queries, 3)[:, 2] == -1).all()
