"""Which pairs are trusted, however much is missing: hardly a right one is not, and the wrong ones are found."""

from dataclasses import dataclass
from math import log

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import ahop
from ahop.fitting.corruption.gaps import Gaps
from ahop.fitting.corruption.mixture import MixtureFit, fit_mixture

PAIRS, DIMENSIONS = 300, 60
missing_shares = st.sampled_from([0.0, 0.2, 0.5, 0.8, 0.9, 0.95])


@dataclass(frozen=True)
class Case:
    """Pairs (m, d) of normal patterns with noise, and which of them are wrong."""

    originals: Tensor
    copies: Tensor
    wrong: Tensor
    std: float

    def fitted(self) -> MixtureFit:
        return fit_mixture(self.originals, self.copies)

    def oracle(self) -> Tensor:
        """The trust of one who knows the true numbers, and compares with all other origins."""
        variant = ahop.variants.MixtureVariant(DIMENSIONS)
        variant.std.fill_(self.std)
        variant.outlier_rate.fill_(1e-4)
        variant.outliers.ends.copy_(torch.tensor([-20.0, 20.0]))
        variant.outliers.log_density.fill_(-log(40))
        shares = (torch.arange(33) + 0.5) / 33
        variant.population.copy_(torch.nanquantile(self.originals, shares, dim=0).mT.nan_to_num(0))
        weights = (~self.wrong).double()
        Gaps(self.originals.double(), self.copies.double()).fit(variant.missingness, weights)
        evidence = variant.evidence(self.originals, self.copies).double()
        own, others = evidence.diagonal().clone(), evidence.fill_diagonal_(-torch.inf)
        odds = 4.0 if bool(self.wrong.any()) else 999.0
        return torch.sigmoid(own - others.logsumexp(-1) + log(PAIRS - 1) + log(odds))


def case(missing: float, wrong: float, std: float, own_gaps: bool) -> Case:
    """Gaps of the patterns are gaps of their copies too, or copies have others of their own."""
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randn(PAIRS, DIMENSIONS, generator=generator)
    hidden, more = (torch.rand(PAIRS, DIMENSIONS, generator=generator) < missing for _ in range(2))
    copies = patterns + std * torch.randn(PAIRS, DIMENSIONS, generator=generator)
    copies = copies.masked_fill(more if own_gaps else hidden, torch.nan)
    rows, count = torch.arange(PAIRS), round(wrong * PAIRS)
    rows[:count] = rows[:count].roll(1)
    return Case(patterns.masked_fill(hidden, torch.nan)[rows], copies, rows != torch.arange(PAIRS), std)


def share(of: Tensor) -> float:
    return float(of.double().mean())


@given(missing=missing_shares, own_gaps=st.booleans(), std=st.sampled_from([0.5, 4.0]))
def test_right_pairs_are_trusted(missing: float, own_gaps: bool, std: float) -> None:
    fitted = case(missing, 0.0, std, own_gaps).fitted()
    assert share(fitted.trust < 0.5) <= 0.02
    assert fitted.wrong < 0.05


@given(missing=missing_shares, own_gaps=st.booleans())
def test_wrong_pairs_are_found_wherever_they_can_be(missing: float, own_gaps: bool) -> None:
    given = case(missing, 0.2, 0.5, own_gaps)
    trust = given.fitted().trust
    assert share(trust[~given.wrong] < 0.5) <= 0.02
    can_be_found = given.wrong & (given.oracle() < 0.5)
    if share(can_be_found[given.wrong]) > 0.5:
        assert share(trust[can_be_found] < 0.5) >= 0.7


def test_copies_of_one_origin_side_by_side_do_not_hide_a_wrong_pair() -> None:
    generator = torch.Generator().manual_seed(0)
    patterns = torch.randn(10, 40, generator=generator)
    origins = torch.arange(10).repeat_interleave(20)
    copies = patterns[origins] + 0.5 * torch.randn(200, 40, generator=generator)
    wrong = torch.arange(200) % 20 == 3
    origins = torch.where(wrong, (origins + 1) % 10, origins)
    trust = fit_mixture(patterns[origins], copies).trust
    assert share(trust[wrong] < 0.5) > 0.9
    assert share(trust[~wrong] < 0.5) <= 0.02


def test_pairs_of_one_origin_have_no_rival_and_are_trusted() -> None:
    copies = 1 + 0.3 * torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    assert share(fit_mixture(torch.ones(50, 8), copies).trust < 0.5) == 0


def test_noise_that_dimensions_share_does_not_make_pairs_look_wrong() -> None:
    """Entries say less than their sum: neighbors would be likelier than the origin, by far and often."""
    generator = torch.Generator().manual_seed(0)
    centers = 3 * torch.randn(15, 60, generator=generator)
    patterns = centers.repeat_interleave(20, 0) + 0.3 * torch.randn(300, 60, generator=generator)
    common = torch.randn(300, 4, generator=generator) @ torch.randn(4, 60, generator=generator)
    copies = patterns + 0.5 * common + 0.2 * torch.randn(300, 60, generator=generator)
    assert share(fit_mixture(patterns, copies).trust < 0.5) <= 0.02
