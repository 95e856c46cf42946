"""Fits that start from another fit to much the same pairs end where they would have ended without it."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import ahop
from ahop.fitting.corruption.mixture import Form, fit_mixture
from ahop.fitting.corruption.nuisance import choose_nuisance, fit_nuisance
from ahop.fitting.pairs import GivenPairs
from ahop.fitting.solvers.newton import ConvexSolver

PATTERNS = 2 * torch.rand(300, 16, generator=torch.Generator().manual_seed(0)) - 1
PAIRS = ahop.MixedVariant(0.2, 0.2, 0.2).sample(PATTERNS, 300)
ORIGINALS, PART = PATTERNS[PAIRS.origins], torch.arange(300) % 5 > 0


@pytest.mark.parametrize("signs", [False, True])
def test_a_mixture_of_a_part_is_found_from_that_of_all(signs: bool) -> None:
    every = fit_mixture(ORIGINALS, PAIRS.queries, form=Form(signs))
    cold = fit_mixture(ORIGINALS[PART], PAIRS.queries[PART], form=Form(signs))
    start = replace(every, trust=every.trust[PART])
    warm = fit_mixture(ORIGINALS[PART], PAIRS.queries[PART], start=start)
    assert warm.form == every.form
    assert warm.log_likelihood == pytest.approx(cold.log_likelihood, abs=0.01)
    assert_close(warm.variant.std, cold.variant.std, rtol=0, atol=0.05)
    assert_close(warm.variant.shift, cold.variant.shift, rtol=0, atol=0.1)


def test_a_nuisance_that_was_chosen_before_is_the_one_that_would_be_chosen() -> None:
    chosen = choose_nuisance(ORIGINALS, PAIRS.queries)
    given, asked = (fit_nuisance(ORIGINALS, PAIRS.queries, chosen=each) for each in (chosen, None))
    for name, value in asked.state_dict().items():
        assert_close(given.state_dict()[name], value)


def test_footprints_end_in_the_same_place_from_wherever_they_start() -> None:
    def learned(solver: ConvexSolver, similarity: ahop.AdaptiveSimilarity) -> tuple[torch.Tensor, int]:
        memory = ahop.AssociativeMemory(PATTERNS, similarity)
        steps = solver.solve(memory, GivenPairs(PAIRS), progress=False).steps
        assert steps is not None
        return similarity.coefficients.detach().clone(), steps

    similarity = ahop.AdaptiveSimilarity(16)
    cold, _ = learned(ConvexSolver(), similarity)
    warm, steps = learned(ConvexSolver(from_given=True), similarity)
    assert_close(warm, cold, rtol=1e-2, atol=1e-2)
    assert steps <= 2
