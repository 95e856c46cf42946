"""Presets: metrics of one kind of data, tried where the data look so and wherever somebody names them."""

from typing import Any

import pytest
import torch

import ahop
from ahop.errors import InvalidValueError
from ahop.fitting.choosing.candidates import CANDIDATES, PRESETS, wanted_candidates

PATTERNS = torch.rand(40, 12, generator=torch.Generator().manual_seed(0))
PAIRS = ahop.NoisyVariant(0.2).sample(PATTERNS, 60, seed=1)


def tried(**given: Any) -> set[str]:
    report = ahop.fit(PATTERNS, progress=False, **given).report
    assert isinstance(report, ahop.FitReport)
    return {trial.name for trial in report.trials}


def names_of(preset: str) -> set[str]:
    return {each.name for each in PRESETS[preset]}


def test_candidates_have_one_name_each() -> None:
    names = [each.name for each in CANDIDATES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_tried_whatever_the_data_look_like(preset: str) -> None:
    assert tried(pairs=PAIRS, similarity=[], candidates=preset) == names_of(preset)
    assert tried(pairs=PAIRS, similarity="euclidean", candidates=[preset]) == {"euclidean", *names_of(preset)}


def test_a_preset_goes_with_metrics_of_ones_own() -> None:
    found = tried(pairs=PAIRS, similarity=[], candidates=["radio", ahop.DotSimilarity()])
    assert found == {"DotSimilarity", *names_of("radio")}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_keeps_the_order_of_preference(preset: str) -> None:
    assert [each.name for each in wanted_candidates(None, preset)] == [each.name for each in CANDIDATES]


def test_a_preset_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="`candidates` must be one of 'radio', 'spectra'; got 'audio'"):
        tried(pairs=PAIRS, candidates="audio")


def test_the_radio_preset_judges_a_log_without_gaps_beside_metrics_of_strengths() -> None:
    plain = ahop.fit(PATTERNS, queries=PAIRS.queries, progress=False).report
    radio = ahop.fit(PATTERNS, queries=PAIRS.queries, candidates="radio", progress=False).report
    assert isinstance(plain, ahop.FitReport)
    assert isinstance(radio, ahop.FitReport)
    assert plain.unlabeled is not None
    assert radio.unlabeled is not None
    assert plain.unlabeled.plain != radio.unlabeled.plain  # two metrics of strengths have taken the place of Euclid's
