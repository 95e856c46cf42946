"""Queries of other columns than patterns: another model's, or another instrument's."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.fitting.corruption.forward import ForwardChoice, choose_forward, fit_forward
from ahop.memory.report import SpacesReport
from ahop.scale.indexes.build import tune
from ahop.scale.indexes.engines.exact import ExactEngine
from ahop.scale.indexes.reranking import lifted
from ahop.scale.indexes.row_index import Index
from ahop.scale.liftings.lift import lift
from tests.catalogue import moved_forward
from tests.strategies import FEW

STORED, COLUMNS, ASKED = 300, 12, 9


def made(seed: int = 0, noise: float = 0.3) -> tuple[Tensor, Tensor]:
    """Stored rows, and what another space makes of each of them."""
    generator = torch.Generator().manual_seed(seed)
    stored = torch.randn(STORED, COLUMNS, generator=generator)
    turned = torch.randn(COLUMNS, ASKED, generator=generator)
    shared = torch.randn(2, ASKED, generator=generator)
    errors = torch.randn(STORED, 2, generator=generator) @ shared + torch.randn(STORED, ASKED, generator=generator)
    return stored, stored @ turned + 5 + noise * errors


STORED_ROWS, COPIES = made()
PAIRS = torch.arange(150), COPIES[:150]
MEMORY = ahop.fit(STORED_ROWS, pairs=PAIRS, progress=False)
REPORT = MEMORY.report


@settings(max_examples=FEW)
@given(seed=st.integers(0, 99), gap=st.integers(0, ASKED - 1))
def test_a_score_is_the_density_of_a_gaussian_of_what_was_observed(seed: int, gap: int) -> None:
    similarity = moved_forward(COLUMNS, ASKED).double()
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(7, COLUMNS, generator=generator).double()
    query = torch.randn(ASKED, generator=generator).double()
    kept = torch.ones(ASKED, dtype=torch.bool)
    kept[:gap] = False
    means = similarity.mean + (patterns - similarity.center) @ similarity.slopes.mT
    noise = torch.linalg.inv(similarity.precision)[kept][:, kept]
    expected = MultivariateNormal(means[:, kept], noise).log_prob(query[kept])  # type: ignore[no-untyped-call]
    found = similarity(patterns, query.masked_fill(~kept, torch.nan)[None])[0]
    assert_close(found - found[0], expected - expected[0])


def test_a_residual_left_out_in_closed_form_is_that_of_a_fit_without_the_pair() -> None:
    """With no pull, the noise is the mean square of residuals that are left out one by one."""
    originals, copies = STORED_ROWS[:40].double(), COPIES[:40].double()
    weights, chosen = torch.ones(40).double(), ForwardChoice(strength=1e-9, pull=1e-9)
    noise = torch.linalg.inv(fit_forward(originals, copies, weights, chosen).precision)
    left_out = torch.zeros_like(noise)
    for row in range(40):
        others = torch.arange(40) != row
        fitted = fit_forward(originals[others], copies[others], weights[others], chosen)
        residual = copies[row] - fitted.mean - (originals[row] - fitted.center) @ fitted.slopes.mT
        left_out += torch.outer(residual, residual) / 40
    assert_close(noise, left_out, rtol=1e-4, atol=1e-6)


def test_few_pairs_and_many_are_one_formula() -> None:
    """Twelve pairs are as many as columns: both Gram matrices give one map."""
    weights = torch.ones(12).double()
    chosen = ForwardChoice(strength=0.3)
    wide = fit_forward(STORED_ROWS[:12].double(), COPIES[:12].double(), weights, chosen)
    more = torch.cat([STORED_ROWS[:12], torch.zeros(12, 1)], dim=-1).double()
    dual = fit_forward(more, COPIES[:12].double(), weights, chosen)
    assert_close(dual.slopes[:, :COLUMNS], wide.slopes)
    assert_close(dual.precision, wide.precision)


def test_a_pair_that_weighs_twice_is_two_pairs() -> None:
    originals, copies, chosen = STORED_ROWS[:40].double(), COPIES[:40].double(), ForwardChoice(strength=0.1)
    weights = torch.ones(40).double()
    weights[:5] = 2
    weighed = fit_forward(originals, copies, weights, chosen)
    twice = torch.cat([torch.arange(40), torch.arange(5)])
    repeated = fit_forward(originals[twice], copies[twice], torch.ones(45).double(), chosen)
    assert_close(weighed.slopes, repeated.slopes)


def test_little_noise_asks_for_a_weak_ridge_and_no_signal_for_a_strong_one() -> None:
    origins = torch.arange(150)
    clear = choose_forward(STORED_ROWS, origins, COPIES[:150], torch.ones(150))
    drowned = choose_forward(STORED_ROWS, origins, made(noise=20.0)[1][:150], torch.ones(150))
    assert clear.strength < drowned.strength


def test_queries_of_another_space_find_their_origins() -> None:
    answers = MEMORY.recall(COPIES[150:])
    right = (answers.indices[:, 0] == torch.arange(150, STORED)).double().mean()
    assert right > 0.9
    assert abs(float(answers.posterior.mean()) - right) < 0.1
    assert answers.patterns.shape == (150, 1, COLUMNS)


def test_the_report_says_what_becomes_of_the_index() -> None:
    assert isinstance(REPORT, ahop.report.FitReport)
    assert REPORT.spaces is not None
    assert REPORT.is_checked
    assert REPORT.corruption is None
    assert REPORT.spaces.verdict in ("map", "map and rerank")
    assert REPORT.spaces.exact == REPORT.accuracy
    assert "Queries of 9 other columns" in str(REPORT)
    assert f"Verdict: {REPORT.spaces.verdict}" in str(REPORT)


@pytest.mark.parametrize(
    ("mapped", "reranked", "exact", "verdict"),
    [
        (0.8, 0.81, 0.81, "map"),
        (0.3, 0.8, 0.81, "map and rerank"),
        (0.1, 0.4, 0.45, "re-embed"),
    ],
)
def test_the_verdict_is_the_cheapest_that_costs_hardly_any_right_answer(
    mapped: float, reranked: float, exact: float, verdict: str
) -> None:
    found = SpacesReport(9, 100, 1000, mapped, reranked, exact, 100)
    assert found.verdict == verdict
    assert verdict in str(found)


def test_a_memory_of_two_spaces_comes_back_from_a_file(tmp_path: Path) -> None:
    MEMORY.save(tmp_path / "memory.safetensors")
    loaded = ahop.load(tmp_path / "memory.safetensors")
    assert torch.equal(loaded.scores(COPIES), MEMORY.scores(COPIES))
    assert loaded.report == REPORT


def index_of(memory: ahop.AssociativeMemory) -> Index:
    lifting = lift(memory.similarity, memory.patterns)
    assert lifting.size == COLUMNS + 1
    return Index(memory, lifting, ExactEngine(lifted(memory, lifting)), candidates=20)


def test_an_index_of_many_rows_needs_no_pairs() -> None:
    generator = Generator().manual_seed(4)
    stored = torch.randn(4000, 6, generator=generator)
    copies = stored @ torch.randn(6, 3, generator=generator) + 0.01 * torch.randn(4000, 3, generator=generator)
    memory = ahop.fit(stored, pairs=(torch.arange(100), copies[:100]), progress=False)
    found = ahop.index(memory).recall(copies[200:220], k=2)
    assert torch.equal(found.indices, memory.recall(copies[200:220], k=2).indices)


@pytest.mark.parametrize("most_bytes", [2**27, 0], ids=["patterns prepared", "nothing kept"])
def test_an_index_answers_as_the_memory_does(most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = MEMORY.recall(COPIES[150:], k=3)
    monkeypatch.setattr("ahop._core.prepared.MOST_BYTES", most_bytes)
    index = index_of(MEMORY)
    found = index.recall(COPIES[150:], k=3)
    assert torch.equal(found.indices, expected.indices)
    assert_close(found.posterior, expected.posterior, atol=1e-4, rtol=0)
    assert index.explain(COPIES[150]).answer == MEMORY.explain(COPIES[150]).answer
    assert torch.equal(ahop.index(MEMORY).recall(COPIES[150:], k=3).indices, expected.indices)


def test_an_engine_is_tuned_with_queries_of_the_other_space() -> None:
    index = tune(MEMORY, pairs=PAIRS, kinds=["scan"])
    assert torch.equal(index.recall(COPIES[150:]).indices, MEMORY.recall(COPIES[150:]).indices)


def test_gaps_of_a_query_are_integrated_out_and_an_index_refuses_them() -> None:
    queries = COPIES[150:].clone()
    queries[:, 0] = torch.nan
    right = (MEMORY.recall(queries).indices[:, 0] == torch.arange(150, STORED)).double().mean()
    assert right > 0.8
    with pytest.raises(UnsupportedError, match="Recall without an index"):
        index_of(MEMORY).recall(queries)


def test_an_explanation_adds_up_and_names_the_columns_of_the_patterns() -> None:
    frame = pd.DataFrame(STORED_ROWS.numpy(), columns=[f"c{place}" for place in range(COLUMNS)])
    memory = ahop.fit(frame, pairs=(PAIRS[0].numpy(), PAIRS[1].numpy()), progress=False)
    why = memory.explain(COPIES[200].numpy())
    assert {bar.name for bar in why.bars} >= set(frame.columns)
    assert all(bar.seen is None for bar in why.bars)
    assert why.log_odds == pytest.approx(sum(bar.log_odds for bar in why.bars))
    assert why.answer == 200


def test_repeated_queries_add_their_evidence() -> None:
    both = torch.cat([COPIES[150:160], made(noise=0.3)[1][150:160]])
    answers = MEMORY.recall(both, same=list(range(10)) * 2)
    assert torch.equal(answers.indices[:, 0], torch.arange(150, 160))


def test_tables_of_two_spaces_are_linked() -> None:
    links = ahop.link(MEMORY, COPIES[150:], progress=False)
    assert float(np.mean(links.left[links.right.argsort()] == np.arange(150, STORED))) > 0.9


def test_pairs_that_do_not_belong_together_are_refused() -> None:
    shuffled = torch.randperm(150, generator=torch.Generator().manual_seed(1))
    with pytest.raises(InvalidValueError, match=r"no better than a guess among 300.*belong together"):
        ahop.fit(STORED_ROWS, pairs=(shuffled, COPIES[:150]), progress=False)


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"at least 8 different origins.*got 7"):
        ahop.fit(STORED_ROWS, pairs=(torch.arange(7), COPIES[:7]), progress=False)


@pytest.mark.parametrize("similarity", ["mixture", ["euclidean", "cosine"]])
def test_what_compares_column_with_column_is_refused(similarity: str | list[str]) -> None:
    with pytest.raises(InvalidValueError, match="'auto' or 'forward'"):
        ahop.fit(STORED_ROWS, pairs=PAIRS, similarity=similarity, progress=False)


def test_groups_of_other_columns_are_refused() -> None:
    with pytest.raises(InvalidTypeError, match="`groups`"):
        ahop.fit(STORED_ROWS, pairs=PAIRS, groups=["a", "b"] * 75, progress=False)


def test_queries_must_have_the_columns_of_the_copies() -> None:
    with pytest.raises(ShapeError, match=r"\(b, 9\), as the copies that were learned from had d=9; got shape"):
        MEMORY.recall(STORED_ROWS)
    with pytest.raises(ShapeError, match=r"\(b, 9\)"):
        ahop.index(MEMORY).recall(STORED_ROWS)
    with pytest.raises(InvalidTypeError, match="to_numpy"):
        MEMORY.recall(pd.DataFrame(COPIES.numpy(), columns=list("abcdefghi")))


def test_what_would_compare_columns_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="`adapt` compares queries with stored patterns column by column"):
        ahop.adapt(MEMORY, COPIES, progress=False)
    with pytest.raises(UnsupportedError, match="`watch` compares"):
        ahop.watch(MEMORY, COPIES)
    with pytest.raises(UnsupportedError, match="A store compares"):
        ahop.create_store(tmp_path / "store", MEMORY)


def test_a_memory_of_its_own_similarity_takes_no_other_columns() -> None:
    with pytest.raises(ShapeError, match=r"`copies` must have shape \(b, 12\), as the stored patterns have d=12"):
        ahop.fit(ahop.AssociativeMemory(STORED_ROWS), pairs=PAIRS, progress=False)
