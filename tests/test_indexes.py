"""Indexes answer as the memory does, keep what was measured, and say so where they are damaged."""

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core import optional
from ahop.errors import (
    FileFormatError,
    InvalidTypeError,
    InvalidValueError,
    MissingPackageError,
    ShapeError,
    UnsupportedError,
)
from ahop.memory.paired import paired_scores
from ahop.scale.indexes import Engine, ExactEngine, FaissEngine, Index, index, load_index, save_index, tune
from ahop.scale.indexes.build import by_products, candidate_lifting, drawn_pairs
from ahop.scale.indexes.engines.clustering import Centers
from ahop.scale.indexes.engines.faiss import KINDS
from ahop.scale.indexes.mips import GEOMETRIES
from ahop.scale.indexes.reranking import lifted
from ahop.scale.indexes.tail_mass import log_tail_mass
from ahop.scale.liftings.lift import lift
from ahop.similarities.base import Similarity
from tests.catalogue import KNOWS_COMPANY, SIMILARITIES, bounded_products, moved_aligned, moved_mixture
from tests.strategies import FEW, Problem, problem, problems, with_gaps

pytest.importorskip("faiss")
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def memory() -> ahop.AssociativeMemory:
    patterns = 2 * torch.rand(2000, 16, generator=torch.Generator().manual_seed(0)) - 1
    pairs = ahop.MixedVariant(0.2, 0.2, 0.2).sample(patterns, 128, seed=1)
    return ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)


@pytest.fixture(scope="module")
def pairs(memory: ahop.AssociativeMemory) -> ahop.Pairs:
    return ahop.MixedVariant(0.2, 0.2, 0.2).sample(memory.patterns, 100, seed=2)


def by_engine(
    memory: ahop.AssociativeMemory,
    pairs: ahop.Pairs | None = None,
    candidates: int = 100,
    metadata: dict[str, object] | None = None,
    candidate_similarity: Similarity | None = None,
) -> Index:
    """The index of `ahop.index` whose engine answers everything, whatever is faster here."""
    lifting = candidate_lifting(memory, drawn_pairs(memory, pairs, None, 0), 0.05, candidate_similarity)
    return by_products(memory, lifting, candidates, metadata)


@pytest.fixture
def exact(memory: ahop.AssociativeMemory) -> Index:
    return by_engine(memory)


def found_by(engine: Engine, vectors: Tensor, queries: Tensor, k: int = 5) -> float:
    """The share of the k best rows that the engine finds."""
    best = (queries @ vectors.mT).topk(k).indices
    found = engine.search(queries, k).indices
    return float((found.unsqueeze(-1) == best.unsqueeze(1)).any(-1).double().mean())


@settings(max_examples=FEW)
@given(case=problems, k=st.integers(1, 20), beta=st.sampled_from([None, 0.5, 30.0]))
def test_an_exact_index_is_a_product_and_its_best(case: Problem, k: int, beta: float | None) -> None:
    scores = case.queries @ case.patterns.mT
    found = ExactEngine(case.patterns).search(case.queries, k, beta=beta)
    best = scores.topk(min(k, len(case.patterns)))
    assert_close(found.scores, best.values)
    assert_close(scores.gather(-1, found.indices), best.values)
    if beta is not None:
        assert found.log_mass is not None
        assert_close(found.log_mass, torch.logsumexp(beta * scores, -1), atol=2e-3, rtol=1e-5)


@pytest.mark.parametrize("by_distance", [True, False])
@pytest.mark.parametrize("count", [1, 7, 60, 900])
def test_rows_go_to_the_nearest_center_that_few_groups_hold(count: int, by_distance: bool) -> None:
    rows = torch.tanh(torch.randn(3000, 4) @ torch.randn(4, 12))
    centers = Centers.of(rows, count)
    assert sum(centers.sizes) == len(centers)
    assert len(centers) == pytest.approx(count, abs=max(1, 0.05 * count))
    apart = torch.cdist(rows, centers.points).square() if by_distance else -(rows @ centers.points.mT)
    chosen = apart.gather(-1, centers.nearest(rows, by_distance).unsqueeze(-1)).squeeze(-1)
    assert float((chosen <= apart.amin(-1) + 1e-4).double().mean()) >= (1.0 if count <= 60 else 0.97)


def test_an_exact_index_walks_blocks_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    case = problem(count=3001, dimensions=6, batch=37)
    monkeypatch.setattr("ahop.scale.indexes.engines.exact.COLUMNS", 700)
    monkeypatch.setattr("ahop.scale.indexes.engines.exact.ROWS", 10)
    scores = case.queries @ case.patterns.mT
    found = ExactEngine(case.patterns).search(case.queries, 7, beta=1.0)
    assert torch.equal(found.indices, scores.topk(7).indices)
    assert found.log_mass is not None
    assert_close(found.log_mass, torch.logsumexp(scores, -1), atol=2e-3, rtol=1e-5)
    allowed = torch.rand(3001) < 0.01
    found = ExactEngine(case.patterns).search(case.queries, 7, allowed)
    assert torch.equal(found.indices, scores.masked_fill(~allowed, -torch.inf).topk(7).indices)


@every_kind
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_engines_find_what_a_product_finds(kind: str, geometry: str) -> None:
    generator = torch.Generator().manual_seed(0)
    places = torch.randn(1500, 15, generator=generator)
    lifting = lift(ahop.EuclideanSimilarity(), places)
    vectors, queries = lifting.lift_patterns(places), lifting.lift_queries(places[:50] + 0.1)
    is_coded = kind in ("scan", "ivf_pq")
    if (kind, geometry) == ("hnsw", "inner") or (is_coded and geometry != "distance"):
        # A graph for inner products is known to fail on distances: what calibration is for. So do codes where one
        # coordinate, the squared length, is much larger than the others. Vectors of one length suit both.
        vectors = torch.nn.functional.normalize(torch.randn(1500, 16, generator=generator), dim=-1)
        queries = vectors[:50] + 0.02
    engine = FaissEngine.build(vectors, kind, geometry, effort=1000)  # type: ignore[arg-type]
    assert found_by(engine, vectors, queries) >= (0.5 if is_coded else 0.99)
    found = engine.search(queries, 3)
    if not is_coded:
        assert_close(found.scores, (queries @ vectors.mT).gather(-1, found.indices), atol=1e-2, rtol=1e-3)


@every_kind
@pytest.mark.parametrize("count", [1, 2, 17])
def test_engines_take_few_rows(kind: str, count: int) -> None:
    vectors = torch.randn(count, 3)
    engine = FaissEngine.build(vectors, kind)  # type: ignore[arg-type]
    found = engine.search(vectors, 5)
    assert found.indices.shape == (count, min(5, count))
    assert engine.search(vectors[:0], 1).indices.shape == (0, 1)


@every_kind
def test_engines_answer_only_rows_that_are_allowed_and_take_more(kind: str) -> None:
    vectors = torch.randn(500, 8)
    engine = FaissEngine.build(vectors[:400], kind, effort=100)  # type: ignore[arg-type]
    engine.add(vectors[400:])
    allowed = torch.arange(500) % 3 == 0
    found = engine.search(vectors[:20], 5, allowed).indices
    assert bool(allowed[found[found >= 0]].all())
    assert len(engine) == 500


@pytest.mark.parametrize("name", SIMILARITIES)
def test_pairs_are_scored_as_all_against_all(name: str) -> None:
    for case in (problem(count=9), with_gaps(problem(count=9), 0.1)):
        if name in KNOWS_COMPANY and bool(case.patterns.isnan().any()):
            continue
        similarity = SIMILARITIES[name](*case.sizes)
        if name.startswith("likelihood") and "learned" not in name and bool(case.patterns.isnan().any()):
            continue
        rows = torch.stack([torch.randperm(9)[:4] for _ in case.queries])
        with torch.no_grad():
            whole = similarity(case.patterns, case.queries)
            assert_close(paired_scores(similarity, case.patterns, rows, case.queries), whole.gather(-1, rows))


def test_the_fast_form_of_a_mixture_is_its_slow_one() -> None:
    case = problem(count=40, dimensions=7, batch=5)
    gappy = with_gaps(case, 0.2)
    rows = torch.randint(40, (5, 19), generator=torch.Generator().manual_seed(0))
    for signs in (False, True):
        variant = moved_mixture(7, signs=signs, missing_is_informative=False)
        for patterns in (case.patterns, gappy.patterns, case.patterns.double()):
            queries = gappy.queries.to(patterns)
            with torch.no_grad():
                fast = variant.paired_evidence(patterns, rows, queries)
            slow = variant.evidence_per_dimension(patterns[rows], queries.unsqueeze(1)).sum(-1).squeeze(1)
            assert_close(fast, slow)
        assert variant.paired_evidence(case.patterns, rows[:0], case.queries[:0]).shape == (0, 19)


def test_a_filter_that_leaves_no_row_is_answered_by_none(memory: ahop.AssociativeMemory) -> None:
    lifting = lift(memory.similarity, memory.patterns)
    rows = lifted(memory, lifting)
    number = {"number": list(range(len(memory)))}
    knowing = ahop.fit(memory.patterns, pairs=(torch.arange(64), memory.patterns[:64]), progress=False)
    memory = memory.copy()
    memory.detector = knowing.detector
    assert memory.detector is not None
    for engine in (ExactEngine(rows), FaissEngine.build(rows, "ivf_flat")):
        answer = Index(memory, lifting, engine, metadata=number).recall(
            memory.patterns[:3], k=2, where={"number": [-5]}
        )
        assert answer.indices.tolist() == [[-1, -1]] * 3
        assert answer.posterior.tolist() == [[0, 0]] * 3
        assert answer.unknown is not None
        assert bool(((answer.unknown >= 0) & (answer.unknown <= 1)).all())


def test_rows_that_are_not_there_are_refused_by_the_kernel() -> None:
    case, variant = problem(count=4, dimensions=3, batch=1), moved_mixture(3, missing_is_informative=False)
    for row in (-1, 4):
        with pytest.raises((ValueError, IndexError)), torch.no_grad():
            variant.paired_evidence(case.patterns, torch.tensor([[row]]), case.queries)


def test_an_index_answers_as_the_memory(memory: ahop.AssociativeMemory, pairs: ahop.Pairs, exact: Index) -> None:
    expected, answer = memory.recall(pairs.queries, k=3), exact.recall(pairs.queries, k=3)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior, atol=0.02, rtol=0)
    assert_close(answer.patterns, expected.patterns)
    assert answer.unknown is not None
    assert_close(answer.unknown, expected.unknown, atol=0.1, rtol=0)
    as_numpy = exact.recall(pairs.queries.numpy(), k=3)
    assert isinstance(as_numpy.posterior, np.ndarray)
    assert exact.recall(pairs.queries[:0]).indices.shape == (0, 1)


@pytest.mark.parametrize("similarity", [ahop.EuclideanSimilarity(), ahop.DotSimilarity()], ids=repr)
def test_an_index_of_nothing_but_a_memory_answers_queries_with_gaps(similarity: Similarity) -> None:
    case = with_gaps(problem(count=50), 0.3)
    memory = ahop.AssociativeMemory(case.patterns.nan_to_num(0), similarity)
    expected, answer = memory.recall(case.queries, k=3), ahop.index(memory).recall(case.queries, k=3)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["scan", "ivf_pq", "ivf_flat"])
def test_probabilities_stay_what_they_were_after_candidates(
    kind: str, memory: ahop.AssociativeMemory, pairs: ahop.Pairs
) -> None:
    lifting = lift(memory.similarity, memory.patterns, pairs.queries)
    engine = FaissEngine.build(lifted(memory, lifting), kind, effort=100)  # type: ignore[arg-type]
    few = Index(memory, lifting, engine, candidates=20)
    expected, answer = memory.recall(pairs.queries), few.recall(pairs.queries)
    assert float((answer.indices == expected.indices).double().mean()) > 0.95
    assert float((answer.posterior - expected.posterior).abs().mean()) < 0.02


def test_the_mass_outside_is_exact_where_all_rows_were_drawn_and_close_elsewhere() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(20, 50_000, generator=generator).double()
    ordered = scores.sort(-1, descending=True).values
    truth = torch.logsumexp(ordered[:, 50:], -1)
    whole = log_tail_mass(ordered[:, 49], 50, ordered[:, 50:], 49_950)
    assert_close(whole, truth, atol=0.05, rtol=0)
    some = torch.randperm(49_950, generator=generator)[:1024] + 50
    estimate = log_tail_mass(ordered[:, 49], 50, ordered[:, some], 49_950)
    assert float((estimate - truth).abs().max()) < 0.5
    nothing = log_tail_mass(ordered[:, 49], 50, ordered[:, :0], 0)
    assert bool((nothing == -torch.inf).all())


def test_rows_are_added_removed_and_filtered(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> None:
    colors = np.array(["red", "green"])[np.arange(2000) % 2]
    built = by_engine(memory, metadata={"color": colors})
    answer = built.recall(pairs.queries, k=2, where={"color": "red"})
    assert bool((answer.indices % 2 == 0).all())
    assert bool((built.recall(pairs.queries, where=torch.arange(3)).indices < 3).all())
    gone = built.recall(pairs.queries[:1]).indices[0]
    built.remove(gone)
    assert len(built) == 1999
    assert int(built.recall(pairs.queries[:1]).indices) != int(gone)
    rows = built.add(pairs.queries[:2], metadata={"color": ["blue", "blue"]})
    assert rows.tolist() == [2000, 2001]
    only = built.recall(pairs.queries[:2], k=3, where={"color": {"blue", "none"}})
    assert only.indices[:, -1].tolist() == [-1, -1]
    assert sorted(only.indices[0, :2].tolist()) == [2000, 2001]
    assert_close(only.posterior.sum(-1), torch.ones(2))
    assert len(memory) == 2000  # the memory that was given is left as it was


def test_what_does_not_fit_is_said(memory: ahop.AssociativeMemory, exact: Index) -> None:
    with pytest.raises(ShapeError, match="one for each row"):
        index(memory, metadata={"color": [1, 2]})
    with pytest.raises(InvalidValueError, match="the columns are"):
        exact.recall(memory.patterns[:1], where={"size": 3})
    with pytest.raises(InvalidValueError, match="the columns"):
        exact.add(memory.patterns[:1], metadata={"size": [3]})
    with pytest.raises(ShapeError, match="a flag for each row"):
        exact.recall(memory.patterns[:1], where=torch.ones(3, dtype=torch.bool))
    with pytest.raises(InvalidValueError, match="every stored pattern"):
        exact.remove(torch.arange(2000))
    with pytest.raises(InvalidValueError, match="rows of the memory"):
        Index(memory, exact.lifting, ExactEngine(torch.zeros(3, 4)))
    with pytest.raises(InvalidValueError, match="belong together"):
        Index(memory, exact.lifting)


def test_a_prior_is_one_more_coordinate(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> None:
    prior = torch.randn(2000).log_softmax(0)
    prior[7] = -torch.inf
    with_prior = ahop.AssociativeMemory(memory.patterns, memory.similarity, memory.separation, log_prior=prior)
    expected, answer = with_prior.recall(pairs.queries, k=2), by_engine(with_prior).recall(pairs.queries, k=2)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior, atol=0.03, rtol=0)


def test_footprints_rerank_what_an_additive_similarity_brings(
    memory: ahop.AssociativeMemory, pairs: ahop.Pairs
) -> None:
    footprints = ahop.fit(ahop.zoo.a_hop(memory.patterns), pairs=pairs, progress=False)
    with pytest.raises(UnsupportedError, match="rerank them with this one"):
        tune(footprints, pairs)
    built = by_engine(footprints, candidate_similarity=memory.similarity)
    agree = built.recall(pairs.queries).indices == footprints.recall(pairs.queries).indices
    assert float(agree.double().mean()) > 0.95


def pool_with(memory: ahop.AssociativeMemory, *others: Similarity) -> ahop.AssociativeMemory:
    """A memory whose similarity is that of the other one and some more; it knows no unknown queries."""
    pool = ahop.similarities.PooledSimilarity([memory.similarity, *others])
    pool.weights.copy_(torch.tensor([0.7, *(2.0 for _ in others)]))
    return ahop.AssociativeMemory(memory.patterns, pool, memory.separation)


POOLS: dict[str, list[Similarity]] = {
    "all of it": [ahop.EuclideanSimilarity(), ahop.similarities.CosineSimilarity()],
    "aligned and transformed": [
        moved_aligned(ahop.similarities.CorrelationSimilarity(), 16),
        ahop.similarities.TransformedSimilarity(ahop.EuclideanSimilarity(), ahop.transforms.SNVTransform()),
    ],
    "some of it": [ahop.similarities.SorensenSimilarity(), ahop.similarities.CallableSimilarity(bounded_products)],
    "some of a pool in it": [
        ahop.similarities.PooledSimilarity(
            [ahop.similarities.SorensenSimilarity(), ahop.similarities.CosineSimilarity()]
        )
    ],
    "a footprint reranks": [ahop.AdaptiveSimilarity(16)],
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("with_pairs", [False, True])
def test_an_index_of_a_pool_answers_as_the_memory(
    name: str, with_pairs: bool, memory: ahop.AssociativeMemory, pairs: ahop.Pairs
) -> None:
    pooled = pool_with(memory, *POOLS[name])
    built = by_engine(pooled, pairs if with_pairs else None)
    assert built.lifting is not None
    assert built.lifting.is_whole == (name in ("all of it", "aligned and transformed"))
    expected, answer = pooled.recall(pairs.queries, k=3), built.recall(pairs.queries, k=3)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior, atol=0.02, rtol=0)


def test_an_index_of_an_aligned_pool_takes_the_members_that_can_be_lifted(
    memory: ahop.AssociativeMemory, pairs: ahop.Pairs
) -> None:
    similarity = ahop.similarities.AlignedSimilarity(
        pool_with(memory, ahop.similarities.SorensenSimilarity()).similarity, 16
    )
    similarity.offset.fill_(0.5)
    similarity.gain.fill_(2.0)
    aligned, queries = ahop.AssociativeMemory(memory.patterns, similarity), 2 * pairs.queries + 0.5
    expected, answer = aligned.recall(queries), by_engine(aligned).recall(queries)
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior, atol=0.02, rtol=0)


def test_an_index_of_a_pool_answers_queries_with_gaps(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> None:
    pooled = pool_with(memory, ahop.similarities.CosineSimilarity(), ahop.similarities.SorensenSimilarity())
    queries = with_gaps(Problem(memory.patterns[:1], pairs.queries), 0.2).queries
    expected, answer = pooled.recall(queries), by_engine(pooled).recall(queries)
    known = ~queries.isnan().all(-1)
    assert float((answer.indices == expected.indices)[known].double().mean()) > 0.97
    assert float((answer.posterior - expected.posterior)[known].abs().mean()) < 0.02


def test_a_pool_of_which_nothing_can_be_lifted_says_what_to_do(
    memory: ahop.AssociativeMemory, pairs: ahop.Pairs
) -> None:
    pool = ahop.similarities.PooledSimilarity([ahop.similarities.SorensenSimilarity(), ahop.AdaptiveSimilarity(16)])
    with pytest.raises(UnsupportedError, match=r"No member of .* can be lifted.*such as a fitted mixture"):
        tune(ahop.AssociativeMemory(memory.patterns, pool), pairs)


def test_an_index_of_a_pool_is_saved_and_calibrated(
    memory: ahop.AssociativeMemory, pairs: ahop.Pairs, tmp_path: Path
) -> None:
    snv = ahop.similarities.TransformedSimilarity(ahop.EuclideanSimilarity(), ahop.transforms.SNVTransform())
    pooled = pool_with(
        memory, ahop.similarities.SorensenSimilarity(), moved_aligned(ahop.similarities.CosineSimilarity(), 16), snv
    )
    built = tune(pooled, samples=64, kinds=["scan"], geometries=["inner"])
    save_index(built, tmp_path / "pool.index")
    again = load_index(tmp_path / "pool.index", pooled)
    assert again.lifting is not None
    assert not again.lifting.is_whole
    assert torch.equal(again.recall(pairs.queries).posterior, built.recall(pairs.queries).posterior)


def test_calibration_measures_picks_and_keeps(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> None:
    built = tune(memory, samples=64, kinds=["scan", "ivf_flat"])
    assert {each.geometry for each in built.curve} == {"augmented", "inner"}
    assert built.kind in ("scan", "ivf_flat")
    assert all(0 <= each.hit <= 1 and each.seconds > 0 and each.rows == 2000 for each in built.curve)
    right = built.recall(pairs.queries).indices[:, 0] == pairs.origins
    best = memory.recall(pairs.queries).indices[:, 0] == pairs.origins
    assert float(right.double().mean()) >= 0.97 * float(best.double().mean())


def test_calibration_refuses_what_misses_the_target(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> None:
    with pytest.raises(UnsupportedError, match="No setting finds"):
        tune(memory, pairs, kinds=["scan"], candidates=1, budget=1e-12)
    plain = ahop.AssociativeMemory(memory.patterns, ahop.EuclideanSimilarity())
    with pytest.raises(InvalidTypeError, match="give `pairs="):
        tune(plain)
    built = tune(plain, pairs, target=0.5, kinds=["ivf_flat"])
    assert {each.geometry for each in built.curve} == {"augmented", "inner", "distance"}


def test_engines_are_tried_on_a_part_and_built_on_all(
    memory: ahop.AssociativeMemory, pairs: ahop.Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ahop.scale.indexes.build.TRIED_ROWS", 300)
    monkeypatch.setattr("ahop.scale.indexes.build.EXACT_COUNT", 1000)
    built = tune(memory, pairs, kinds=["scan"], geometries=["augmented"])
    assert [each.rows == 2000 for each in built.curve] == [False, True]
    assert len(index(memory, pairs, candidates=10).curve) > 0


def test_engines_are_tuned_where_rows_are_many(
    memory: ahop.AssociativeMemory, pairs: ahop.Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ahop.scale.indexes.build.TUNED_COUNT", 1000)
    built = index(memory, pairs, candidates=10)
    assert built.curve
    right = built.recall(pairs.queries).indices[:, 0] == memory.recall(pairs.queries).indices[:, 0]
    assert float(right.double().mean()) > 0.95
    plain = ahop.AssociativeMemory(memory.patterns, ahop.EuclideanSimilarity())  # draws no queries
    assert index(plain, candidates=10).curve == ()
    footprints = ahop.AssociativeMemory(memory.patterns, ahop.AdaptiveSimilarity(16))  # nothing can be lifted
    assert index(footprints, pairs, candidates=10).kind == "exhaustive"


@pytest.mark.parametrize("kind", ["exact", "scan", "hnsw"])
def test_what_is_saved_is_loaded(kind: str, memory: ahop.AssociativeMemory, pairs: ahop.Pairs, tmp_path: Path) -> None:
    built = by_engine(memory) if kind == "exact" else tune(memory, pairs, kinds=[kind], target=0.1)  # type: ignore[list-item]
    built.remove(torch.tensor([3]))
    save_index(built, tmp_path / "index")
    again = load_index(tmp_path / "index", memory)
    assert again.curve == built.curve
    expected, answer = built.recall(pairs.queries, k=3), again.recall(pairs.queries, k=3)
    assert torch.equal(answer.indices, expected.indices)
    assert torch.equal(answer.posterior, expected.posterior)
    assert len(again) == 1999
    assert [each.name for each in tmp_path.iterdir()] == ["index"]


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    small = ahop.AssociativeMemory(torch.randn(20, 2), ahop.EuclideanSimilarity())
    built = Index(small, lift(small.similarity, small.patterns), FaissEngine.build(torch.randn(20, 3), "ivf_flat"))
    path = tmp_path / "index"
    save_index(built, path)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    places = {*range(120), *generator.choice(len(whole), 250).tolist()}
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        with pytest.raises((FileFormatError, InvalidValueError)):
            load_index(path, small)
    path.write_bytes(whole[:-5])
    with pytest.raises(FileFormatError):
        load_index(path, small)


def test_an_index_of_another_version_is_refused(memory: ahop.AssociativeMemory, exact: Index, tmp_path: Path) -> None:
    save_index(exact, tmp_path / "index")
    other = memory.copy()
    other.patterns = other.patterns.clone()
    other.patterns[5, 3] += 1e-3
    with pytest.raises(InvalidValueError, match="in the same version"):
        load_index(tmp_path / "index", other)
    memory.save(tmp_path / "memory")
    with pytest.raises(FileFormatError):
        load_index(tmp_path / "memory", memory)


def test_without_the_package_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(MissingPackageError, match=r"ahop\[index\]"):
        FaissEngine.build(torch.randn(9, 2))
    with pytest.raises(MissingPackageError):
        optional.faiss()


def test_a_measurement_reads_as_words(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> None:
    built = tune(memory, pairs, kinds=["scan"], geometries=["inner"])
    assert replace(built.curve[0], hit=0.5).as_words()["hit"] == 0.5


def test_a_row_whose_score_is_too_large_is_answered_all_the_same() -> None:
    stored = torch.tensor([[0.0, -3.4e38, 0.0, -3.4e38]])
    memory, query = ahop.AssociativeMemory(stored, ahop.DotSimilarity()), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    assert ahop.index(memory, candidates=1).recall(query).indices.tolist() == memory.recall(query).indices.tolist()


def test_a_query_of_which_nothing_was_observed_is_answered_as_the_memory_does() -> None:
    for count in (1, 3, 200):
        memory = ahop.AssociativeMemory(torch.randn(count, 2), model=ahop.Model(ahop.EuclideanSimilarity()))
        nothing = torch.full((1, 2), torch.nan)
        found = ahop.index(memory, candidates=2).recall(nothing).posterior
        assert float(found) == pytest.approx(float(memory.recall(nothing).posterior))


def test_patterns_that_cannot_be_lifted_are_refused_in_words() -> None:
    memory = ahop.AssociativeMemory(torch.tensor([[0.0], [-3.4e38]]), ahop.similarities.ManhattanSimilarity())
    with pytest.raises(UnsupportedError, match="too large"):
        by_engine(memory)
    assert index(memory).recall(memory.patterns).indices.tolist() == [[0], [1]]


@pytest.mark.parametrize("scanned", [None, 0, 7])
def test_every_way_answers_as_the_memory(scanned: int | None, memory: ahop.AssociativeMemory, tmp_path: Path) -> None:
    colors = np.array(["red", "green"])[np.arange(2000) % 2]
    built = by_engine(memory, metadata={"color": colors})
    built.scanned = scanned
    ways = [built, Index(memory, metadata={"color": colors})]
    for each in ways:
        save_index(each, tmp_path / "index")
        again = load_index(tmp_path / "index", memory, {"color": colors})
        assert (again.scanned, again.kind) == (each.scanned, each.kind)
        queries = 0.9 * memory.patterns[5:20]
        for asked in (queries, queries[:3], queries[:0]):
            expected, found = memory.recall(asked, k=3), again.recall(asked, k=3)
            assert torch.equal(found.indices, expected.indices)
            assert_close(found.posterior, expected.posterior, atol=0.02, rtol=0)
        again.remove(torch.arange(5, 9))
        among = torch.arange(2000) % 2 == 0
        among[5:9] = False
        few = memory.recall(queries, k=3, where=among)
        for where in ({"color": "red"}, torch.arange(2000) % 2 == 0):
            found = again.recall(queries, k=3, where=where)
            assert torch.equal(found.indices, few.indices)
            assert_close(found.posterior, few.posterior, atol=0.02, rtol=0)
        assert torch.equal(again.search(queries, 3, where={"color": "red"}).ids, few.indices)
        assert again.explain(queries[0]).answer not in range(5, 9)
        with pytest.raises(InvalidValueError, match="was removed"):
            again.explain(queries[0], against=5)
        rows = again.add(queries[:2], metadata={"color": ["blue", "blue"]})
        assert again.recall(queries[:2], where={"color": "blue"}).indices[:, 0].tolist() == rows.tolist()


@pytest.mark.parametrize("similarity", [ahop.similarities.SorensenSimilarity(), ahop.EuclideanSimilarity()])
def test_an_index_is_no_slower_than_its_memory(similarity: Similarity) -> None:
    memory = ahop.AssociativeMemory(torch.rand(20_000, 64), similarity)
    built = index(memory)
    for asked in (torch.rand(1, 64), torch.rand(64, 64)):
        seconds: dict[object, float] = {}
        for recaller in (memory, built) * 12:  # in turns, by the processor's time: a busy machine slows both
            started = time.process_time()
            recaller.recall(asked)
            seconds[recaller] = min(seconds.get(recaller, math.inf), time.process_time() - started)
        assert seconds[built] < 1.5 * seconds[memory]
