"""Metrics of one's own are calibrated, judged and pooled beside ours, and the report says what each is worth."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.fitting.choosing.candidates import CANDIDATES, own_candidates, suitable
from ahop.fitting.choosing.pool import fit_pool
from ahop.fitting.choosing.posterior import Rivals, calibrated, closest_rivals, fit_posterior
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.similarities.base import Similarity
from tests.strategies import FEW, seeds

HALF = 6
Metric = Callable[[Tensor, Tensor], Tensor]


def normal(count: int, dimensions: int, seed: int = 0) -> Tensor:
    return torch.randn(count, dimensions, generator=torch.Generator().manual_seed(seed))


def stored() -> Tensor:
    return normal(60, 2 * HALF)


def pairs(count: int = 120, seed: int = 1, variance: float = 1.0) -> ahop.Pairs:
    return ahop.NoisyVariant(variance).sample(stored(), count, seed)


def left(patterns: Tensor, queries: Tensor) -> Tensor:
    """The distance in the first half of the dimensions, in a unit that is no probability's."""
    return -1000 * torch.cdist(queries[:, :HALF], patterns[:, :HALF]).square()


def right(patterns: Tensor, queries: Tensor) -> Tensor:
    return -0.001 * torch.cdist(queries[:, HALF:], patterns[:, HALF:]).square()


def euclidean(patterns: Tensor, queries: Tensor) -> Tensor:
    return -torch.cdist(queries, patterns)


def report_of(memory: ahop.AssociativeMemory) -> ahop.FitReport:
    assert isinstance(memory.report, ahop.FitReport)
    return memory.report


def learn(
    candidates: Sequence[Similarity | Metric] = (),
    similarity: str | Sequence[str] | None = (),
    given_pairs: ahop.Pairs | None = None,
) -> ahop.AssociativeMemory:
    """Nothing of ours is tried unless it is named."""
    known = pairs() if given_pairs is None else given_pairs
    return ahop.fit(stored(), pairs=known, similarity=similarity, candidates=candidates, progress=False)


def assert_means_what_it_says(memory: ahop.AssociativeMemory, tolerance: float = 0.07) -> None:
    fresh = pairs(600, seed=2)
    answer = memory.recall(fresh.queries)
    hits = (answer.indices[:, 0] == fresh.origins).double().mean()
    assert abs(float(answer.posterior[:, 0].mean()) - float(hits)) < tolerance


@pytest.fixture(scope="module")
def halves() -> ahop.AssociativeMemory:
    return learn([left, right])


@pytest.fixture(scope="module")
def ours() -> ahop.AssociativeMemory:
    """A pool of similarities that can be saved: each knows half of what tells the origins apart."""
    transforms = [
        ahop.similarities.TransformedSimilarity(ahop.EuclideanSimilarity(), ahop.transforms.SNVTransform()),
        ahop.EuclideanSimilarity(),
    ]
    generator = torch.Generator().manual_seed(3)
    sample = pairs(150, variance=0.3)
    loud = torch.exp(0.5 * torch.randn(150, 1, generator=generator))
    return learn(transforms, given_pairs=ahop.Pairs(sample.origins, sample.queries * loud))


# One candidate.


@pytest.mark.parametrize(
    "candidate",
    [euclidean, left, ahop.EuclideanSimilarity(), ahop.similarities.CosineSimilarity()],
    ids=["a function", "another", "a distance", "a cosine"],
)
def test_a_metric_of_any_unit_is_calibrated(candidate: Similarity | Metric) -> None:
    fitted = learn([candidate])
    assert_means_what_it_says(fitted)
    assert fitted.detector is not None


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_unit_of_a_metric_does_not_change_what_is_answered(factor: float) -> None:
    def scaled(patterns: Tensor, queries: Tensor) -> Tensor:
        return factor * euclidean(patterns, queries)

    queries = pairs(50, 2).queries
    answer, expected = (learn([each], (), pairs(24)).recall(queries, k=3) for each in (scaled, euclidean))
    assert torch.equal(answer.indices, expected.indices)
    assert_close(answer.posterior, expected.posterior, atol=1e-3, rtol=1e-3)


def test_a_metric_that_says_nothing_is_not_believed() -> None:
    def constant(patterns: Tensor, queries: Tensor) -> Tensor:
        return queries.new_zeros(len(queries), len(patterns))

    answer = learn([constant]).recall(pairs(20, 2).queries)
    assert_close(answer.posterior, torch.full_like(answer.posterior, 1 / 60), atol=1e-3, rtol=0)


@pytest.mark.parametrize("similarity", ["euclidean", "dot", "debiased", "additive"])
def test_patterns_that_nothing_tells_apart_are_equally_likely(similarity: str) -> None:
    origins = torch.arange(24) % 6
    fitted = ahop.fit(torch.ones(6, 4), pairs=(origins, normal(24, 4)), similarity=similarity, progress=False)
    answer = fitted.recall(normal(5, 4, seed=2), k=6)
    assert_close(answer.posterior, torch.full((5, 6), 1 / 6), atol=1e-3, rtol=0)


def test_a_metric_that_is_often_silent_leaves_a_floor() -> None:
    """It answers at random for a third of the copies, however sure it looks: no posterior may be near one."""

    def distracted(patterns: Tensor, queries: Tensor) -> Tensor:
        scores = -50 * torch.cdist(queries, patterns)
        return torch.where(queries[:, :1] > 0.4, scores.roll(7, dims=-1), scores)

    fitted = learn([distracted], given_pairs=pairs(200, variance=0.1))
    assert 0.2 < report_of(fitted).floor < 0.5
    fresh = pairs(400, 2, variance=0.1)
    answer = fitted.recall(fresh.queries)
    hits = float((answer.indices[:, 0] == fresh.origins).double().mean())
    assert float(answer.posterior[:, 0].mean()) == pytest.approx(hits, abs=0.07)
    assert bool((fitted.recall(fresh.queries, k=60).posterior > 0).all())


def test_a_metric_beside_ours_is_judged_to_the_end_and_named() -> None:
    report = report_of(learn([left], "euclidean"))
    assert {trial.name for trial in report.trials} == {"left", "euclidean"}
    assert not any(trial.is_left_out for trial in report.trials)
    assert "left" in str(report)


def test_a_metric_is_tried_beside_all_of_ours_by_default() -> None:
    names = {trial.name for trial in report_of(learn([left], None, pairs(24))).trials}
    assert {"left", "mixture", "additive", "euclidean", "nuisance"} <= names


# Several.


def test_metrics_that_know_different_things_are_pooled(halves: ahop.AssociativeMemory) -> None:
    assert isinstance(halves.similarity, ahop.similarities.PooledSimilarity)
    report = report_of(halves)
    assert sorted(halves.similarity.names) == ["left", "right"]
    assert report.chosen in ("left + right", "right + left")
    assert all(member.worth > 0.3 and member.weight > 0.3 for member in report.members)
    assert all(report.loss < trial.log_loss for trial in report.trials)
    assert_means_what_it_says(halves)


def test_a_pool_finds_as_much_as_what_knows_all(halves: ahop.AssociativeMemory) -> None:
    fresh = pairs(500, 2)
    whole, pooled, half = (
        float((memory.recall(fresh.queries).indices[:, 0] == fresh.origins).double().mean())
        for memory in (learn([euclidean]), halves, learn([left]))
    )
    assert pooled > half + 0.1
    assert pooled == pytest.approx(whole, abs=0.03)


def test_weights_in_a_pool_are_those_of_the_units(halves: ahop.AssociativeMemory) -> None:
    assert isinstance(halves.similarity, ahop.similarities.PooledSimilarity)
    weights = dict(zip(halves.similarity.names, halves.similarity.weights.tolist(), strict=True))
    assert weights["right"] / weights["left"] == pytest.approx(1e6, rel=0.5)


def test_the_same_metric_twice_is_one_member() -> None:
    fitted = learn([euclidean, euclidean])
    assert len(report_of(fitted).members) == 1
    assert {trial.name for trial in report_of(fitted).trials} == {"euclidean 1", "euclidean 2"}


def test_a_metric_that_knows_nothing_is_not_in_the_pool() -> None:
    def noise(patterns: Tensor, queries: Tensor) -> Tensor:
        return torch.sin(1e4 * (queries[:, :1] + patterns[:, :1].mT))

    assert [member.name for member in report_of(learn([noise, left, right])).members if member.name == "noise"] == []


def test_the_report_begins_with_the_accuracy_and_says_what_each_is_worth(halves: ahop.AssociativeMemory) -> None:
    report = report_of(halves)
    assert report.accuracy is not None
    words = str(report)
    assert words.startswith(f"Top-1 accuracy on held-out pairs: {100 * report.accuracy:.0f} %.\n")
    for member in report.members:
        assert f"{member.name} is worth {member.worth:.2f}" in words
    assert f"Model: {report.chosen}, pooled (" in words
    assert f"of log-loss) (held-out log-loss {report.loss:.2f}; others: " in words
    worths = [member.worth for member in report.members]
    assert worths == sorted(worths, reverse=True)


def test_one_that_is_chosen_alone_is_worth_no_word() -> None:
    report = report_of(learn([euclidean]))
    assert "is worth" not in str(report)
    assert "others:" not in str(report)
    assert [member.name for member in report.members] == [report.chosen] == ["euclidean 1"]


def test_a_tie_is_told() -> None:
    """Two that differ by next to nothing: the first is taken, and the report says so where the second is better."""

    def nearly(patterns: Tensor, queries: Tensor) -> Tensor:
        return euclidean(patterns, queries) + 0.01 * torch.sin(50 * patterns[:, 0])

    reports = [report_of(learn(order)) for order in ([euclidean, nearly], [nearly, euclidean])]
    assert [report.chosen for report in reports] == ["euclidean 1", "nearly"]
    told = [report for report in reports if report.tie is not None]
    assert len(told) == 1
    assert told[0].tie is not None
    assert "was preferred to" in told[0].tie
    assert "no more than chance explains" in str(told[0])


# Names.


def test_names_that_are_taken_get_a_number() -> None:
    found = own_candidates([euclidean, left, left, ahop.DotSimilarity(), ahop.DotSimilarity(), lambda p, q: p])
    names = [each.name for each in found]
    assert names == ["euclidean 1", "left", "left 3", "DotSimilarity", "DotSimilarity 5", "<lambda>"]


@settings(max_examples=FEW)
@given(places=st.lists(st.integers(0, 3), max_size=8))
def test_no_two_candidates_have_the_same_name(places: list[int]) -> None:
    brought = [[euclidean, left, right, ahop.DotSimilarity()][place] for place in places]
    names = [each.name for each in (*CANDIDATES, *own_candidates(brought))]
    assert len(set(names)) == len(names)


def test_an_object_that_can_be_called_is_named_by_its_class() -> None:
    class Network:
        def __call__(self, patterns: Tensor, queries: Tensor) -> Tensor:
            return euclidean(patterns, queries)

    assert report_of(learn([Network()])).chosen == "Network"


def test_names_choose_among_those_named_only() -> None:
    report = report_of(learn(similarity=["mixture", "nuisance"], given_pairs=pairs(24)))
    assert {trial.name for trial in report.trials} == {"mixture", "nuisance"}


def test_one_name_in_a_list_is_that_name() -> None:
    queries = pairs(20, 2).queries
    listed, named = (learn((), name, pairs(24)).recall(queries) for name in (["debiased"], "debiased"))
    assert torch.equal(listed.posterior, named.posterior)


# What is refused.


@pytest.mark.parametrize("wrong", [3.0, None])
def test_what_is_neither_is_refused_with_the_mend(wrong: Any, unchecked: None) -> None:
    with pytest.raises(
        InvalidTypeError, match=r"`candidates` must be similarities, or functions.*name them by `similarity`"
    ):
        learn([left, wrong])


def test_a_name_that_is_no_preset_is_refused_with_those_that_are(unchecked: None) -> None:
    wrong: Any = "euclidean"
    with pytest.raises(InvalidValueError, match="`candidates` must be one of 'radio', 'spectra'; got 'euclidean'"):
        learn([left, wrong])


@pytest.mark.parametrize("names", ["mixed", ["mixture", "mixed"]])
def test_a_name_that_nobody_knows_is_refused_with_those_that_are(names: Any, unchecked: None) -> None:
    with pytest.raises(InvalidValueError, match=r"`similarity` must be one of 'auto'.*'mixture'.*got 'mixed'"):
        learn(similarity=names)


def test_nothing_to_choose_among_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="`similarity`"):
        learn(similarity=[])


@pytest.mark.parametrize("bare", [True, False])
def test_candidates_beside_a_solver_are_refused(bare: bool) -> None:
    memory = stored() if bare else ahop.AssociativeMemory(stored())
    with pytest.raises(InvalidTypeError, match="leave `solver` out"):
        ahop.fit(memory, pairs=pairs(), candidates=[left], solver="adam", progress=False)


@pytest.mark.parametrize("similarity", [(), "euclidean"])
def test_a_metric_that_gives_no_scores_is_told_so(similarity: str | Sequence[str]) -> None:
    def broken(patterns: Tensor, queries: Tensor) -> Tensor:
        return torch.full((len(queries), len(patterns)), torch.nan)

    def turned(patterns: Tensor, queries: Tensor) -> Tensor:
        return euclidean(queries, patterns)

    with pytest.raises(InvalidValueError, match="'broken' must give finite scores"):
        learn([broken], similarity)
    with pytest.raises(ShapeError, match=r"'turned' must give scores of shape .* Turn them by `.T`"):
        learn([turned], similarity)


def test_a_similarity_that_gives_no_numbers_is_told_so() -> None:
    class Broken(Similarity):
        def configuration(self) -> dict[str, object]:
            return {}

        def forward(self, patterns: Tensor, queries: Tensor) -> Tensor:
            return torch.full((len(queries), len(patterns)), torch.nan)

    with pytest.raises(InvalidValueError, match="The candidate 'Broken' must give finite scores"):
        learn([Broken()], "euclidean")


# Files, and memories that grow.


def test_a_pool_with_a_function_in_it_cannot_be_saved(halves: ahop.AssociativeMemory, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"(left|right)', cannot be saved.*build it anew"):
        halves.save(tmp_path / "memory.ahop")
    assert not list(tmp_path.iterdir())


def test_a_pool_of_ours_comes_back_from_its_file_bit_for_bit(ours: ahop.AssociativeMemory, tmp_path: Path) -> None:
    assert isinstance(ours.similarity, ahop.similarities.PooledSimilarity)
    ours.save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    queries = pairs(50, 2).queries
    expected, answer = ours.recall(queries, k=4), loaded.recall(queries, k=4)
    assert torch.equal(answer.posterior, expected.posterior)
    assert torch.equal(answer.indices, expected.indices)
    assert expected.unknown is not None
    assert answer.unknown is not None
    assert torch.equal(answer.unknown, expected.unknown)
    assert isinstance(loaded.separation, ahop.Softmax)
    assert isinstance(ours.separation, ahop.Softmax)
    assert loaded.separation.floor == ours.separation.floor > 0


def test_a_memory_with_a_pool_may_grow_and_shrink(halves: ahop.AssociativeMemory) -> None:
    grown = halves.copy()
    more = 5 + normal(3, 2 * HALF, seed=7)
    assert grown.add(more).tolist() == [60, 61, 62]
    assert grown.recall(more).indices.squeeze(-1).tolist() == [60, 61, 62]
    assert_close(grown.recall(more, k=63).posterior.sum(-1), torch.ones(3))
    grown.remove([60, 61, 62])
    queries = pairs(30, 2).queries
    assert torch.equal(grown.recall(queries).posterior, halves.recall(queries).posterior)
    grown.remove([0])
    assert len(grown) == 59
    assert_close(grown.recall(queries, k=59).posterior.sum(-1), torch.ones(30))


# What is worth trying.


def training(patterns: Tensor, copies: Tensor, origins: Tensor) -> TrainingSet:
    return TrainingSet(patterns, origins, copies, torch.ones(len(copies)))


def names_for(rows: Tensor, gaps: float = 0.0) -> list[str]:
    generator = torch.Generator().manual_seed(1)
    copies = rows + 0.01 * torch.randn(rows.shape, generator=generator)
    copies = copies.masked_fill(torch.rand(rows.shape, generator=generator) < gaps, torch.nan)
    return [each.name for each in suitable(CANDIDATES, training(rows, copies, torch.arange(len(rows))))]


def smooth(count: int = 40, dimensions: int = 60, seed: int = 0) -> Tensor:
    """Bumps of spectra."""
    generator = torch.Generator().manual_seed(seed)
    places, centers = torch.linspace(0, 1, dimensions), torch.rand(count, 3, 1, generator=generator)
    heights = torch.rand(count, 3, 1, generator=generator)
    return (heights * torch.exp(-((places - centers) ** 2) / 0.02)).sum(1)


def begins(names: list[str], *beginnings: str) -> bool:
    return any(name.startswith(beginnings) for name in names)


def test_curves_are_tried_behind_what_practitioners_do_to_them() -> None:
    names = names_for(smooth())
    assert {"snv_nuisance", "snv_mixture", "difference_nuisance", "difference_mixture"} <= set(names)
    assert names[0] == "nuisance"
    assert "sorensen" not in names
    assert not begins(names, "heard_", "powed_")


def test_rows_that_are_no_curves_are_not() -> None:
    names = names_for(normal(40, 60))
    assert not begins(names, "snv_", "difference_", "heard_", "powed_")
    assert names[0] == "mixture"
    assert "sorensen" in names


def test_what_was_shuffled_is_no_curve_any_more() -> None:
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    assert not begins(names_for(smooth()[:, order]), "snv_", "difference_")


@pytest.mark.parametrize("rows", [smooth(), normal(40, 60)], ids=["curves", "no curves"])
def test_gaps_bring_the_strengths_of_what_was_heard(rows: Tensor) -> None:
    names = names_for(rows, gaps=0.2)
    assert {"heard_sorensen", "powed_sorensen", "heard_cosine", "powed_cosine"} <= set(names)
    assert not begins(names, "snv_", "difference_")


def test_where_most_is_missing_nothing_is_said_of_how_dimensions_move_together() -> None:
    assert "nuisance" in names_for(normal(40, 60), gaps=0.4)
    assert "nuisance" not in names_for(normal(40, 60), gaps=0.7)


@pytest.mark.slow
def test_what_is_tried_is_in_the_report() -> None:
    rows = smooth(16, 32)
    generator = torch.Generator().manual_seed(1)
    copies = rows + 0.2 * torch.randn(16, 1, generator=generator) + 0.01 * torch.randn(16, 32, generator=generator)
    fitted = ahop.fit(rows, pairs=(torch.arange(16), copies), progress=False)
    names = [trial.name for trial in report_of(fitted).trials]
    assert begins(names, "snv_")
    assert begins(names, "difference_")


# The posterior, and the pool by itself.


@settings(max_examples=FEW)
@given(seed=seeds, count=st.integers(2, 150), rows=st.integers(1, 20))
def test_rivals_stand_for_all_patterns(seed: int, count: int, rows: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, count, generator=generator)
    origins = torch.randint(count, (rows,), generator=generator)
    rivals = closest_rivals([scores], origins)
    assert_close(rivals.log_counts.exp().sum(-1), torch.full((rows,), float(count), dtype=torch.float64))
    own = scores.gather(-1, origins.unsqueeze(-1)) - scores.amax(-1, keepdim=True)
    assert_close(rivals.scores[0, :, :1], own.double())


@settings(max_examples=FEW)
@given(seed=seeds, members=st.integers(1, 4))
def test_no_weight_is_negative_and_no_origin_is_impossible(seed: int, members: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = [torch.randn(15, 12, generator=generator) for _ in range(members)]
    rivals = closest_rivals(scores, torch.randint(12, (15,), generator=generator))
    found = fit_posterior(rivals, torch.ones(15), 1.0)
    assert bool((found.weights >= 0).all())
    assert 0 < found.floor <= 0.5
    assert bool(found.losses.isfinite().all())
    assert float(found.losses.max()) <= -torch.tensor(found.floor / 12).log() + 1e-9


def test_the_sharpness_of_a_likelihood_is_one() -> None:
    generator = torch.Generator().manual_seed(0)
    patterns, origins = normal(80, 4), torch.randint(80, (2000,), generator=generator)
    copies = patterns[origins] + 0.5 * torch.randn(2000, 4, generator=generator)
    scores = -torch.cdist(copies, patterns).square() / (2 * 0.5**2)
    beta, posterior = calibrated(closest_rivals([scores], origins), torch.ones(2000).double())
    assert beta == pytest.approx(1, abs=0.08)
    assert posterior.floor < 0.01


def test_a_pool_is_only_made_where_it_pays() -> None:
    generator = torch.Generator().manual_seed(0)
    patterns, origins = normal(50, 8), torch.randint(50, (150,), generator=generator)
    copies = patterns[origins] + torch.randn(150, 8, generator=generator)
    first, second = (-torch.cdist(copies[:, part], patterns[:, part]).square() / 2 for part in (slice(4), slice(4, 8)))
    trust = torch.ones(150).double()
    together = fit_pool(closest_rivals([first, second], origins, first + second), trust, 0, [1.0, 1.0])
    assert sorted(together.members) == [0, 1]
    assert together.posterior.weights.tolist() == pytest.approx([1, 1], abs=0.25)
    alone = fit_pool(closest_rivals([first, first], origins), trust, 0, [1.0, 1.0])
    assert alone.members in ([0], [1])
    assert isinstance(closest_rivals([first], origins), Rivals)
