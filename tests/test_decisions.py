"""Acting on answers: what is promised holds, and what cannot be promised is refused."""

import itertools
from functools import cache
from typing import Any

import matplotlib.pyplot
import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, UnsupportedError
from ahop.memory.decisions import Policy, q_values, upper_bound
from ahop.plots import ThresholdDisplay
from ahop.plots.threshold import TITLES
from tests.paper.worlds import uniform_patterns

matplotlib.use("Agg")
VARIANT = ahop.MixedVariant(0.3, 0.3, 0.3)


@cache
def memory() -> ahop.AssociativeMemory:
    return ahop.fit(uniform_patterns(300, 24), variant=VARIANT, samples=400, similarity="mixture", progress=False)


def pairs(count: int, seed: int) -> ahop.Pairs:
    return VARIANT.sample(memory().patterns, count, seed)


def strangers(count: int, seed: int) -> Tensor:
    return VARIANT.sample(uniform_patterns(300, 24, seed=99), count, seed).queries


@pytest.mark.parametrize(("errors", "count"), [(0, 1), (0, 100), (3, 100), (50, 100), (99, 100), (7, 7), (20, 5000)])
def test_a_bound_is_that_of_clopper_and_pearson(errors: int, count: int) -> None:
    expected = scipy.stats.beta.ppf(0.95, errors + 1, count - errors) if errors < count else 1.0
    assert upper_bound(errors, count, 0.95) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("precision", [0.9, 0.97])
def test_accepted_answers_are_as_often_right_as_promised(precision: float) -> None:
    mixed = strangers(200, 3)
    policy = ahop.policy(memory(), pairs(1000, 2), precision=precision, strangers=mixed)
    test, others = pairs(2000, 4), strangers(400, 5)
    answer = memory().recall(torch.cat([test.queries, others]), k=1)
    right = torch.cat([answer.indices[:2000, 0] == test.origins, torch.zeros(400, dtype=torch.bool)]).numpy()
    accepted = answer.decide(policy).actions == "accept"
    assert accepted.sum() > 200
    assert right[accepted].mean() > precision - 0.015
    assert policy.accepted is not None
    assert policy.accepted.low < policy.accepted.value < policy.accepted.high
    assert "are right" in str(policy)


def test_answers_that_are_as_sure_are_accepted_or_asked_together() -> None:
    patterns = 10 * torch.eye(400)
    certain = ahop.AssociativeMemory(patterns, separation=ahop.Softmax(1.0))
    origins = torch.arange(400)
    queries = patterns[torch.cat([origins[:300], origins[:100]])]  # the last hundred are wrong, and look as sure
    with pytest.raises(InvalidValueError, match="of the 400 surest answers 100 were wrong"):
        ahop.policy(certain, (origins, queries), precision=0.9)


def test_strangers_are_let_in_as_seldom_as_promised() -> None:
    policy = ahop.policy(memory(), pairs(500, 2), false_accept=0.02, strangers=strangers(1000, 3))
    answer = memory().recall(strangers(2000, 5), k=1)
    assert (answer.confidence.numpy() >= policy.accept_from).mean() < 0.03
    with pytest.raises(InvalidTypeError, match="strangers="):
        ahop.policy(memory(), pairs(500, 2), false_accept=0.02)


@pytest.mark.parametrize("asked", [{"precision": 0.3}, {"costs": {"wrong": 10, "ask": 9}}, {"false_accept": 0.5}])
def test_what_is_called_unknown_is_not_counted_as_accepted(asked: dict[str, Any]) -> None:
    """Loose thresholds lie where queries are likelier unknown than not, and these are never accepted."""
    held_out = pairs(1000, 2)
    policy = ahop.policy(memory(), held_out, strangers=strangers(300, 3), **asked)
    actions = memory().recall(held_out.queries, k=1).decide(policy).actions
    assert policy.accepted is not None
    assert policy.accepted.value == pytest.approx((actions == "accept").mean())
    assert (actions == "unknown").any()


def test_sets_hold_the_origin_as_often_as_promised() -> None:
    policy = ahop.policy(memory(), pairs(1000, 2), coverage=0.95)
    test = pairs(2000, 4)
    sets = memory().recall(test.queries, k=64).decide(policy).sets
    assert sets is not None
    held = np.mean([origin in answers for origin, answers in zip(test.origins.tolist(), sets, strict=True)])
    assert 0.93 < held < 0.975
    assert "belongs to the set" in str(policy)
    assert np.mean([len(answers) for answers in sets]) < 32


def test_costs_are_weighed() -> None:
    policy = ahop.policy(memory(), pairs(50, 2), costs={"wrong": 20, "ask": 1})
    assert policy.accept_from == pytest.approx(0.95)
    with pytest.raises(InvalidValueError, match="less for asking"):
        ahop.policy(memory(), pairs(50, 2), costs={"wrong": 1, "ask": 20})


def test_what_so_few_pairs_cannot_promise_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="at least 299 are needed"):
        ahop.policy(memory(), pairs(100, 2), precision=0.99)
    with pytest.raises(InvalidValueError, match="cannot be promised"):
        ahop.policy(ahop.AssociativeMemory(memory().patterns), pairs(600, 2), precision=0.99)
    with pytest.raises(InvalidValueError, match="at least 19 are needed"):
        ahop.policy(memory(), pairs(10, 2), coverage=0.95)
    with pytest.raises(InvalidTypeError, match="Give one of"):
        ahop.policy(memory(), pairs(10, 2), coverage=0.95, precision=0.9)


def test_labels_are_origins_too() -> None:
    stored = memory()
    named = ahop.AssociativeMemory(stored.patterns, model=stored.model, labels=[f"item {row}" for row in range(300)])
    some = pairs(400, 2)
    labels = [f"item {row}" for row in some.origins.tolist()]
    by_labels = ahop.policy(named, (labels, some.queries), precision=0.9)
    assert by_labels == ahop.policy(stored, some, precision=0.9)


def test_queries_of_no_stored_pattern_are_called_so() -> None:
    actions = memory().recall(strangers(200, 5)).decide(Policy(accept_from=0.9)).actions
    assert (actions == "unknown").mean() > 0.5


def test_q_values_are_the_expected_share_of_wrong_ones() -> None:
    found = q_values(np.array([0.9, 0.5, 1.0]))
    assert found.tolist() == pytest.approx([0.05, 0.2, 0.0])
    test = pairs(1000, 4)
    answer = memory().recall(test.queries)
    kept = answer.q_values() <= 0.05
    assert float((answer.indices[kept, 0] == test.origins[kept]).double().mean()) > 0.93


@pytest.mark.parametrize(
    ("rule", "asked"), [("precision", 0.9), ("false_accept", 0.1), ("costs", {"wrong": 20, "ask": 1})]
)
def test_a_picture_shows_what_each_threshold_would_do(rule: str, asked: Any) -> None:
    some, others = pairs(400, 2), strangers(100, 3)
    policy = ahop.policy(memory(), some, strangers=others, **{rule: asked})
    display = ThresholdDisplay.from_pairs(memory(), some, policy, strangers=others, steps=20)
    place = display.thresholds.index(policy.accept_from)
    measured = display.measured[place]
    assert measured.low <= measured.value <= measured.high
    if rule == "precision":  # the bound keeps the promise at the threshold, and as far as was looked from there on
        assert measured.low >= 0.9
    if rule == "false_accept":
        assert measured.high <= 0.1
    if (
        rule == "costs"
    ):  # no threshold that is shown is much cheaper than the one that takes probabilities at their word
        assert measured.value <= min(each.value for each in display.measured) + 0.1
    assert all(one.value <= two.value for one, two in itertools.pairwise(display.accepted))
    figure = display.plot()
    assert figure.axes[0].get_title(loc="left") == TITLES[rule]
    matplotlib.pyplot.close(figure)


def test_a_picture_needs_a_threshold_that_was_chosen() -> None:
    with pytest.raises(UnsupportedError, match="'no rule'"):
        ThresholdDisplay.from_pairs(memory(), pairs(50, 2), Policy(0.9))
    coverage = ahop.policy(memory(), pairs(50, 2), coverage=0.9)
    with pytest.raises(UnsupportedError, match="'coverage'"):
        ThresholdDisplay.from_pairs(memory(), pairs(50, 2), coverage)
