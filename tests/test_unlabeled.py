"""Learning from queries whose origins nobody knows."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import ahop
from ahop.errors import InvalidTypeError, ShapeError
from ahop.fitting.unlabeled import origins
from ahop.fitting.unlabeled.contrast import contrast, drawn_origins
from ahop.fitting.unlabeled.origins import infer_origins
from ahop.fitting.unlabeled.silence import silence_tells
from ahop.memory.report import FitReport, UnlabeledReport
from ahop.similarities import CallableSimilarity, DebiasedSimilarity
from tests.paper.worlds import uniform_patterns as uniform


def damaged(count: int = 256, dimensions: int = 32, queries: int = 128, seed: int = 0) -> tuple[Tensor, ahop.Pairs]:
    patterns = uniform(count, dimensions, seed=seed)
    return patterns, ahop.MixedVariant(0.3, 0.3, 0.4, seed=seed).sample(patterns, queries, seed + 1)


def hits(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> float:
    return float((memory.recall(pairs.queries).indices[:, 0] == pairs.origins).double().mean())


def unlabeled_report(memory: ahop.AssociativeMemory) -> UnlabeledReport:
    assert isinstance(memory.report, FitReport)
    assert memory.report.unlabeled is not None
    return memory.report.unlabeled


def test_queries_without_origins_teach_as_much_as_pairs() -> None:
    patterns, pairs = damaged()
    test = ahop.MixedVariant(0.3, 0.3, 0.4, seed=0).sample(patterns, 500, 77)
    plain = hits(ahop.AssociativeMemory(patterns, ahop.EuclideanSimilarity()), test)
    labeled = hits(ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False), test)
    memory = ahop.fit(patterns, queries=pairs.queries, progress=False)
    assert hits(memory, test) > plain + 0.1
    assert hits(memory, test) > 0.97 * labeled
    report = unlabeled_report(memory)
    assert report.queries == 128
    assert report.labels == 0
    assert report.plain is not None
    assert report.information > report.plain
    assert "unlabeled queries" in str(memory.report)


def test_labels_count_beside_queries_without() -> None:
    patterns, pairs = damaged()
    some = ahop.Pairs(pairs.origins[:8], pairs.queries[:8])
    found = infer_origins(patterns, pairs.queries[8:], some)
    ours = found.pairs.queries >= 120
    torch.testing.assert_close(found.pairs.origins[ours], some.origins)
    assert bool((found.pairs.weights[ours] == 1).all())


def curves(count: int, width: float, seed: int) -> Tensor:
    place = torch.arange(40.0)
    kernel = torch.exp(-0.5 * ((place.unsqueeze(-1) - place) / width).square())
    return torch.randn(count, 40, generator=torch.Generator().manual_seed(seed)) @ kernel / kernel.sum(0)


def test_labels_that_teach_more_than_the_queries_are_followed() -> None:
    """Baselines move all dimensions together: halves of a query then tell about each other what is not the origin."""
    patterns = curves(300, 1.0, 0)

    def copied(count: int, seed: int) -> ahop.Pairs:
        origins = torch.randint(300, (count,), generator=torch.Generator().manual_seed(seed))
        return ahop.Pairs(origins, patterns[origins] + 7.5 * curves(count, 12.0, seed + 1))

    log, labeled, test = copied(200, 10), copied(64, 20), copied(500, 30)
    without = ahop.fit(patterns, queries=log.queries, progress=False)
    both = ahop.fit(patterns, queries=log.queries, pairs=labeled, progress=False)
    assert hits(without, test) < 0.5
    assert hits(both, test) > 0.95
    assert isinstance(both.report, FitReport)
    assert both.report.chosen == "nuisance"
    assert unlabeled_report(both).labels == 64


def test_labels_of_too_few_origins_do_not_overrule_the_queries() -> None:
    patterns, pairs = damaged()
    origins = torch.arange(2).repeat(30)
    copies = ahop.MixedVariant(0.3, 0.3, 0.4, seed=0).corrupt(patterns[origins], torch.Generator().manual_seed(5))
    memory = ahop.fit(patterns, queries=pairs.queries, pairs=(origins, copies), progress=False)
    assert isinstance(memory.report, FitReport)
    assert memory.report.chosen == "mixture"
    assert memory.model.detector is not None
    assert not unlabeled_report(memory).is_checked


def test_the_plain_metric_is_kept_where_nothing_is_damaged() -> None:
    patterns = uniform(256, 32)
    queries = ahop.NoisyVariant(0.01).sample(patterns, 64, 1).queries
    memory = ahop.fit(patterns, queries=queries, progress=False)
    assert isinstance(memory.report, FitReport)
    assert memory.report.chosen == "euclidean"


def test_queries_of_no_stored_pattern_are_counted() -> None:
    patterns, pairs = damaged(queries=140)
    _, strangers = damaged(queries=60, seed=5)
    found = infer_origins(patterns, torch.cat([pairs.queries, strangers.queries]))
    assert 0.2 < found.unknown < 0.4


def test_what_was_learned_without_labels_is_kept_in_a_file(tmp_path: Path) -> None:
    patterns, pairs = damaged(count=64, queries=40)
    some = ahop.Pairs(pairs.origins[:4], pairs.queries[:4])
    memory = ahop.fit(patterns, pairs=some, queries=pairs.queries[4:], progress=False)
    assert unlabeled_report(memory).labels == 4
    assert "unlabeled queries and 4 labeled pairs" in str(memory.report)
    memory.save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    assert str(loaded.report) == str(memory.report)
    torch.testing.assert_close(loaded.recall(pairs.queries).posterior, memory.recall(pairs.queries).posterior)


@pytest.mark.parametrize("count", [1, 3])
def test_few_queries_and_patterns_are_no_error(count: int) -> None:
    patterns, pairs = damaged(count=max(2, count), dimensions=4, queries=count)
    with pytest.warns(UserWarning, match="too few to learn from"):
        memory = ahop.fit(patterns, queries=pairs.queries, progress=False)
    assert memory.recall(pairs.queries).indices.shape == (count, 1)


def test_queries_are_honored_or_refused() -> None:
    patterns, pairs = damaged(count=16, queries=4)
    with pytest.raises(InvalidTypeError, match="`queries`"):
        ahop.fit(patterns, queries=pairs.queries, variant=ahop.NoisyVariant(0.1), progress=False)
    with pytest.raises(InvalidTypeError, match="`queries`"):
        ahop.fit(ahop.AssociativeMemory(patterns), queries=pairs.queries, pairs=pairs, progress=False)


def test_halves_tell_nothing_by_chance_nor_by_what_is_close_to_everything() -> None:
    patterns, queries = uniform(300, 8), uniform(300, 8, seed=1)
    generator = torch.Generator().manual_seed(0)
    noise = CallableSimilarity(lambda patterns, queries: torch.randn(len(queries), len(patterns), generator=generator))
    found = contrast(noise, patterns, queries).information
    assert float(found.mean()) < 0.05
    hub = CallableSimilarity(lambda patterns, queries: torch.eye(1, len(patterns)).expand(len(queries), -1))
    assert float(contrast(hub, patterns, queries).information.abs().max()) < 1e-9


@pytest.mark.parametrize("count", [500, 5000])
def test_halves_tell_more_the_more_is_found(count: int) -> None:
    patterns, pairs = damaged(count=count, queries=200)
    found = []
    for off in (0.0, 0.5, 1.0):
        moved = DebiasedSimilarity(ahop.EuclideanSimilarity(), 32).double()
        moved.bias.copy_(off * (pairs.queries - patterns[pairs.origins]).median(0).values)
        hit = float((moved(patterns, pairs.queries).argmax(-1) == pairs.origins).double().mean())
        found.append((hit, float(contrast(moved, patterns, pairs.queries).information.mean())))
    assert found == sorted(found)
    assert found[-1][1] > found[0][1] + 0.05


@pytest.mark.parametrize("noise", [0.02, 0.6, 0.9])
def test_halves_tell_how_sure_a_distance_may_be(noise: float) -> None:
    patterns = uniform(512, 32)
    pairs = ahop.NoisyVariant(noise).sample(patterns, 256, 1)
    test = ahop.NoisyVariant(noise).sample(patterns, 1000, 2)
    distance = ahop.EuclideanSimilarity()
    posterior = contrast(distance, patterns, pairs.queries).posterior
    said, best = posterior(distance(patterns, test.queries).double()).max(-1)
    assert float(said.mean()) == pytest.approx(float((best == test.origins).double().mean()), abs=0.05)
    drawn = drawn_origins(distance, posterior, patterns, test.queries, seed=0)
    right = float((drawn == test.origins).double().mean())
    assert right == pytest.approx(float((best == drawn).double().mean()), abs=0.15)


def test_groups_of_queries_are_followed_by_themselves() -> None:
    patterns, pairs = damaged(queries=240)
    offset = torch.linspace(-1.5, 1.5, 32)
    names = ["one"] * 120 + ["two"] * 120
    queries = torch.cat([pairs.queries[:120], pairs.queries[120:] + offset])
    memory = ahop.fit(patterns, queries=queries, groups=names, progress=False)
    found = memory.recall(queries, groups=names).indices[:, 0] == pairs.origins
    alone = ahop.fit(patterns, queries=queries, progress=False).recall(queries).indices[:, 0] == pairs.origins
    assert found.double().mean() > alone.double().mean() + 0.05


def test_groups_stand_behind_those_of_pairs() -> None:
    patterns, pairs = damaged(count=64, queries=40)
    some = ahop.Pairs(pairs.origins[:4], pairs.queries[:4])
    with pytest.raises(ShapeError, match="40"):
        ahop.fit(patterns, pairs=some, queries=pairs.queries[4:], groups=["one"] * 36, progress=False)


def test_a_metric_that_somebody_brings_is_judged_by_what_halves_tell() -> None:
    patterns, pairs = damaged()
    offset = (pairs.queries - patterns[pairs.origins]).median(0).values

    def moved(patterns: Tensor, queries: Tensor) -> Tensor:
        return (
            -(queries - offset)
            .nan_to_num(0)
            .unsqueeze(1)
            .sub(patterns)
            .abs()
            .clamp_max(0.5)
            .mul((~queries.isnan()).unsqueeze(1))
            .sum(-1)
        )

    memory = ahop.fit(patterns, queries=pairs.queries, similarity="euclidean", candidates=[moved], progress=False)
    assert isinstance(memory.report, FitReport)
    assert memory.report.chosen == "moved"


def test_of_a_long_log_some_are_enough() -> None:
    patterns, pairs = damaged(count=32, dimensions=8, queries=3000)
    assert unlabeled_report(ahop.fit(patterns, queries=pairs.queries, progress=False)).queries == 2048


def test_gaps_say_something_if_queries_have_them_where_patterns_do() -> None:
    generator = torch.Generator().manual_seed(0)
    patterns = uniform(200, 40)
    heard = torch.rand(patterns.shape, generator=generator) < 0.3
    patterns = patterns.masked_fill(~heard, torch.nan)
    queries = patterns[:60] + 0.1 * torch.randn(60, 40, generator=generator)
    by_chance = queries.nan_to_num(0).masked_fill(torch.rand(60, 40, generator=generator) < 0.7, torch.nan)
    assert silence_tells(patterns, queries)
    assert not silence_tells(patterns, by_chance)
    assert not silence_tells(patterns.nan_to_num(0), queries)
    assert not silence_tells(patterns, queries[:1])


@pytest.mark.parametrize("count", [2, 8, 60])
def test_gaps_by_chance_say_nothing_however_they_are_spread(count: int) -> None:
    """Some dimensions have more of them than others, and so have some rows."""
    generator = torch.Generator().manual_seed(0)

    def gappy(rows: int) -> torch.Tensor:
        rates = torch.rand(rows, 1, generator=generator) * torch.rand(40, generator=generator)
        return torch.zeros(rows, 40).masked_fill(torch.rand(rows, 40, generator=generator) < rates, torch.nan)

    assert not any(silence_tells(gappy(200), gappy(count)) for _ in range(50))


@pytest.mark.slow
def test_of_many_patterns_those_that_are_near_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns, pairs = damaged(count=4200, queries=128)
    test = ahop.MixedVariant(0.3, 0.3, 0.4, seed=0).sample(patterns, 500, 77)
    near = ahop.fit(patterns, queries=pairs.queries, similarity="mixture", progress=False)
    monkeypatch.setattr(origins, "SEARCHED_PATTERNS", 4200)
    exhaustive = ahop.fit(patterns, queries=pairs.queries, similarity="mixture", progress=False)
    assert hits(near, test) >= hits(exhaustive, test) - 0.01
