"""Fit what an instrument does to spectra: offset, gain, shared directions, noise."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ahop._core.checks import check_count
from ahop._core.tensors import principal_directions
from ahop._core.typing import Patterns, PerPattern, Queries, Vector
from ahop.errors import InvalidValueError, ShapeError
from ahop.fitting.settings import DEFAULT, CandidatesSettings
from ahop.variants.nuisance import NuisanceVariant

# Of EM. More would fit few pairs too well.
NUISANCE_EM_STEPS, MOST_STEPS, PAIRS_PER_STEP = 10, 30, 5
# Of the variance of the residuals: noise that is believed in, by one pair's worth, when directions explain it all.
NOISE_SHARE = 1e-3
# What is tried on pairs held out: factors of the noise, and temperatures, as dimensions are not as independent as said.
INFLATIONS = (1.0, 3.0, 10.0)
NUISANCE_TEMPERATURES = (1.0, 2.0, 4.0, 10.0, 20.0, 40.0, 100.0)
NUISANCE_FOLDS, FOLD_PAIRS, MOST_HELD_OUT, MOST_CANDIDATES = 5, 256, 64, 128
# Where the amounts of a pair stand, after those of offset and slope.
GAIN, FREE = 2, slice(3, None)


@dataclass(frozen=True)
class NuisanceChoice:
    """Settings chosen on held-out pairs: whether there is a gain, and a factor for the variance of the noise."""

    gain: bool
    inflation: float


def choose_nuisance(
    originals: Patterns,
    copies: Queries,
    rank: int = 8,
    weights: PerPattern | None = None,
    settings: CandidatesSettings = DEFAULT.candidates,
) -> NuisanceChoice:
    """Choose the settings of `fit_nuisance`, so that parts of the pairs can be fitted without choosing again."""
    check_count("rank", rank)
    return _chosen(_checked(originals, copies, weights, settings), rank)


def fit_nuisance(
    originals: Patterns,
    copies: Queries,
    rank: int = 8,
    weights: PerPattern | None = None,
    chosen: NuisanceChoice | None = None,
    settings: CandidatesSettings = DEFAULT.candidates,
) -> NuisanceVariant:
    r"""Variational EM for $x = \xi + b + z_1 + z_2\,\mathrm{slope} + z_3 (\xi - c) + B f + \text{noise}$.

    The amounts $z, f$ are Gaussian and belong to one pair; $b$, $B$ and the variances are shared. Everything shared is
    held back as few pairs demand: $b$ towards its mean over the dimensions by as much as these differ, columns of $B$
    towards zero by a variance of their own, the noise of each dimension towards that of all. What is still uncertain
    about $b$ and $B$ is added to the noise.

    Whether there is a gain, and by how much the noise is larger than the residuals say, is chosen on pairs held out, by
    how well these find their originals among the others: noise of real instruments is not independent.

    Args:
        originals: what was stored, (m, d). NaN is not observed.
        copies: what became of each, (m, d). NaN is not observed.
        rank: number of directions beside offset and slope; those that pairs do not ask for come out as zero.
        weights: of the pairs, as if they had occurred so often.
        chosen: what `choose_nuisance` has found already; else it is asked.
    """
    data = _checked(originals, copies, weights, settings)
    check_count("rank", rank)
    chosen = chosen or _chosen(data, rank)
    steps = max(NUISANCE_EM_STEPS, min(MOST_STEPS, len(data) // PAIRS_PER_STEP))
    return _as_variant(data, _estimate(data, rank, chosen.gain, steps), rank, chosen, data.unit)


@dataclass(frozen=True)
class _Data:
    """Pairs in units of `unit`.

    Attributes:
        originals: (m, d), with NaN.
        copies: (m, d), with NaN.
        weights: (m,), all positive.
        unit: what 1 stands for.
        rounding: std that noise has at least.
    """

    originals: Tensor
    copies: Tensor
    weights: Tensor
    unit: float
    rounding: float
    settings: CandidatesSettings

    def __len__(self) -> int:
        return len(self.originals)

    def rows(self, rows: Tensor) -> "_Data":
        return replace(self, originals=self.originals[rows], copies=self.copies[rows], weights=self.weights[rows])

    def center(self) -> Vector:
        known = (~self.originals.isnan()).to(self.originals) * self.weights.unsqueeze(-1)
        counts = known.sum(0)
        center = (known * self.originals.nan_to_num()).sum(0) / counts.clamp_min(1e-300)
        return torch.where(counts > 0, center, (center * counts).sum() / counts.sum().clamp_min(1e-300))

    def spread(self) -> Vector:
        """Std of the originals, held towards that of all dimensions."""
        known = (~self.originals.isnan()).to(self.originals) * self.weights.unsqueeze(-1)
        counts, center = known.sum(0), self.center()
        squares = (known * (self.originals - center).nan_to_num().square()).sum(0)
        pooled = squares.sum() / counts.sum().clamp_min(1e-300)
        if not bool(pooled > 0):  # a single original: how much its dimensions differ is all there is
            pooled = center.var(correction=0)
        pseudo = self.settings.nuisance_pseudo_pairs
        return ((squares + pseudo * pooled) / (counts + pseudo)).sqrt()


@dataclass(frozen=True)
class _Estimate:
    """Parameters that all pairs share.

    Attributes:
        bias: (d,).
        noise: variance, (d,).
        variances: of offset, slope and gain, (3,).
        free: the free directions, (d, r).
        doubt: covariance of each row of `free`, and of the bias beside it, (d, r + 1, r + 1).
    """

    bias: Vector
    noise: Vector
    variances: Tensor
    free: Tensor
    doubt: Tensor

    def rescaled(self, moments: Tensor) -> "_Estimate":
        """Rescale the free amounts to second moment 1 instead of `moments`, which EM alone reaches slowly."""
        rank = len(moments)
        if rank == 0:
            return self
        wide = torch.eye(rank + 1, dtype=moments.dtype, device=moments.device)
        wide[:rank, :rank] = torch.linalg.cholesky(moments)
        return replace(self, free=self.free @ wide[:rank, :rank], doubt=wide.mT @ self.doubt @ wide)


@dataclass(frozen=True)
class _Amounts:
    """By how much each pair was moved along the offset, the slope, the gain and the free directions.

    Attributes:
        means: (m, 3 + r).
        covariance: (m, 3 + r, 3 + r).
    """

    means: Tensor
    covariance: Tensor

    @property
    def moments(self) -> Tensor:
        return self.covariance + self.means.unsqueeze(-1) * self.means.unsqueeze(-2)


def _checked(originals: Patterns, copies: Queries, weights: PerPattern | None, settings: CandidatesSettings) -> _Data:
    if originals.ndim != 2 or originals.shape != copies.shape or 0 in originals.shape:
        raise ShapeError(
            "`originals` and `copies` must have the same shape (m, d), a row for each pair; "
            f"got {tuple(originals.shape)} and {tuple(copies.shape)}."
        )
    epsilon = max(torch.finfo(originals.dtype).eps, torch.finfo(copies.dtype).eps, 1e-12)
    originals, copies = (
        torch.where(given.isinf(), torch.nan, given).detach().double() for given in (originals, copies)
    )
    if weights is None:
        weights = torch.ones_like(originals[:, 0])
    weights = weights.detach().to(originals)
    if weights.shape != originals.shape[:1] or not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        raise InvalidValueError("`weights` must be zero or larger, one for each pair.")
    kept = weights > 0
    if not bool(kept.any()):
        raise InvalidValueError("`weights` must be positive for at least one pair.")
    residuals = (copies - originals)[kept].nan_to_num()
    unit = float(residuals.abs().max()) or float(originals.nan_to_num().abs().max()) or 1.0
    largest = max(float(given.nan_to_num().abs().max()) for given in (originals, copies)) / unit
    return _Data(
        originals[kept] / unit, copies[kept] / unit, weights[kept], unit, epsilon * max(largest, 1.0), settings
    )


def _estimate(data: _Data, rank: int, gain: bool, steps: int = NUISANCE_EM_STEPS) -> _Estimate:
    """EM, from the principal directions of the residuals on."""
    residuals = data.copies - data.originals
    observed = (~residuals.isnan()).to(residuals)
    residuals = residuals.nan_to_num()
    shifts = (data.originals - data.center()).nan_to_num() * observed * float(gain)
    pseudo_pairs = data.settings.nuisance_pseudo_pairs
    given = _Given(residuals, observed, shifts, data.weights, data.rounding**2, pseudo_pairs)
    estimate = given.start(max(0, min(rank, len(data) - 2, residuals.shape[1])))
    for _ in range(steps):
        estimate = given.step(estimate)
    return estimate


def _shapes(dimensions: int, like: Tensor) -> Tensor:
    """Offset and slope, (d, 2)."""
    slope = torch.linspace(-1, 1, dimensions, dtype=like.dtype, device=like.device)
    return torch.stack([torch.ones_like(slope), slope if dimensions > 1 else torch.zeros_like(slope)], dim=-1)


def _loadings(free: Tensor) -> Tensor:
    """Loadings of each amount on each dimension, (d, 3 + r); the gain's differ for each pair, and are zero here."""
    shapes = _shapes(len(free), free)
    return torch.cat([shapes, torch.zeros_like(shapes[:, :1]), free], dim=-1)


def _squares(loadings: Tensor) -> Tensor:
    return loadings.unsqueeze(-1) * loadings.unsqueeze(-2)


@dataclass(frozen=True)
class _Given:
    """Data of the EM steps.

    Attributes:
        residuals: copies less originals, (m, d); zero where not observed.
        observed: 1 where it is, (m, d).
        shifts: originals less their mean: where a gain leads, (m, d).
        weights: (m,).
        least_noise: variance.
        pseudo_pairs: as `nuisance_pseudo_pairs` of the settings.
    """

    residuals: Tensor
    observed: Tensor
    shifts: Tensor
    weights: Tensor
    least_noise: float
    pseudo_pairs: float

    @cached_property
    def complete(self) -> bool:
        return bool(self.observed.all())

    @cached_property
    def present(self) -> Tensor:
        """Number of observations of each dimension of each pair, (m, d)."""
        return self.observed * self.weights.unsqueeze(-1)

    def over_dimensions(self, table: Tensor) -> Tensor:
        """Sums of the rows of a table (d, p) over the dimensions that each pair has, (m, p)."""
        return table.sum(0).expand(len(self.observed), -1) if self.complete else self.observed @ table

    def over_pairs(self, table: Tensor) -> Tensor:
        """Weighted sums of the rows of a table (m, p) over the pairs that have each dimension, (d, p)."""
        return (self.weights @ table).expand(self.observed.shape[1], -1) if self.complete else self.present.mT @ table

    def start(self, rank: int) -> _Estimate:
        counts = self.present.sum(0)
        bias = (self.present * self.residuals).sum(0) / counts.clamp_min(1e-300)
        common = (counts * bias).sum() / counts.sum().clamp_min(1e-300)
        # From one pair, what differs between dimensions may as well be noise.
        bias = torch.where(counts > 0, bias, common) if len(self.residuals) > 1 else common.expand(len(bias))
        centered = (self.residuals - bias) * self.observed * self.weights.sqrt().unsqueeze(-1)
        total = self.weights.sum()
        # In units of each dimension: one that is only noisy is no direction.
        scale = centered.square().mean(0).sqrt()
        scale = torch.where(scale > 0, scale, 1.0)
        free = principal_directions(centered / scale, rank) * scale.unsqueeze(-1) / total.sqrt()
        variance = self._variance(bias)
        left = (centered.square().sum(0) / total - free.square().sum(-1)).clamp_min(0)
        noise = (total * left + self.pseudo_pairs * left.mean()) / (total + self.pseudo_pairs)
        noise = noise.clamp_min(max(1e-4 * variance, self.least_noise))
        reach = float(self.shifts.square().mean())
        variances = 0.1 * noise.new_tensor([variance, variance, variance / reach if reach > 0 else 1e-30])
        doubt = free.new_zeros(len(bias), rank + 1, rank + 1)
        return _Estimate(bias, noise, variances, free, doubt)

    def _variance(self, bias: Vector) -> float:
        if len(self.residuals) == 1:  # it says nothing about what others would have been
            bias = torch.zeros_like(bias)
        squares = self.present * (self.residuals - bias).square()
        return max(float(squares.sum() / self.present.sum().clamp_min(1e-300)), self.least_noise)

    def step(self, at: _Estimate) -> _Estimate:
        return self.shared(at, self.amounts(at))

    def amounts(self, at: _Estimate) -> _Amounts:
        """The expectation: what each pair was moved by."""
        rank, loadings = at.free.shape[1], _loadings(at.free)
        squares = _squares(loadings)
        squares[:, FREE, FREE] += at.doubt[:, :rank, :rank]
        squares = squares / at.noise.view(-1, 1, 1)
        prior = torch.diag(torch.cat([1 / at.variances, torch.ones_like(at.free[0])]))
        precision = self.over_dimensions(squares.flatten(1)).view(-1, *prior.shape) + prior
        sharp = self.observed / at.noise
        along = (sharp * self.shifts) @ loadings
        along[:, GAIN] = prior[GAIN, GAIN] + (sharp * self.shifts.square()).sum(-1)
        precision[:, GAIN], precision[:, :, GAIN] = along, along
        weighted = sharp * (self.residuals - at.bias)
        pull = weighted @ loadings
        pull[:, GAIN] = (weighted * self.shifts).sum(-1)
        pull[:, FREE] -= self.over_dimensions(at.doubt[:, :rank, rank] / at.noise.unsqueeze(-1))
        covariance = _inverse(precision)
        return _Amounts((covariance @ pull.unsqueeze(-1)).squeeze(-1), covariance)

    def shared(self, at: _Estimate, amounts: _Amounts) -> _Estimate:
        """The maximization: each dimension is a ridge regression of what is left on the free amounts and a constant."""
        (dimensions, rank), present, counts = at.free.shape, self.present, self.present.sum(0)
        means, moments = amounts.means, amounts.moments
        inputs = torch.cat([means[:, FREE], torch.ones_like(means[:, :1])], dim=-1)
        products = torch.cat([moments[:, FREE, FREE], means[:, FREE].unsqueeze(1)], dim=1)
        products = torch.cat([products, inputs.unsqueeze(-1)], dim=-1)
        fixed = torch.cat([moments[:, FREE, :3], means[:, :3].unsqueeze(1)], dim=1)
        gram = self.over_pairs(products.flatten(1)).view(-1, rank + 1, rank + 1)
        target = (present * self.residuals).mT @ inputs - (present * self.shifts).mT @ fixed[..., GAIN]
        for shape, size in zip(_shapes(dimensions, means).unbind(-1), fixed[..., :GAIN].unbind(-1), strict=True):
            target = target - shape.unsqueeze(-1) * self.over_pairs(size)
        lengths = at.free.square().sum(0) + at.doubt.diagonal(dim1=1, dim2=2)[:, :rank].sum(0)
        lengths = lengths.clamp_min(dimensions * 1e-3 * self.least_noise)
        common, between = self._prior_of_bias(at, counts)
        ridge = torch.cat([dimensions / lengths, 1 / between.view(1)])
        doubt = _inverse(gram / at.noise.view(-1, 1, 1) + torch.diag(ridge))
        target = target / at.noise.unsqueeze(-1)
        target[:, rank] += common / between
        rows = (doubt @ target.unsqueeze(-1)).squeeze(-1)
        free, bias = rows[:, :rank], rows[:, rank]

        left = self._left(bias, free, amounts) + (doubt * gram).sum((1, 2))
        pooled = (left.sum() + dimensions * NOISE_SHARE * self._variance(bias)) / (counts.sum() + dimensions)
        noise = (left + self.pseudo_pairs * pooled) / (counts + self.pseudo_pairs)

        # One pair's worth of trust that offset, slope and gain are what noise alone would make them.
        total = self.weights.sum()
        reach = (present * self.shifts.square()).sum() / total
        alone = torch.where(reach > 0, pooled / reach, at.variances[GAIN])
        alone = torch.stack([pooled / dimensions, pooled / dimensions, alone])
        moments = (self.weights.view(-1, 1, 1) * moments).sum(0)
        own = moments.diagonal()[:3].clone()
        # What offset and slope have in common with the free amounts is theirs; EM alone would take long to see it.
        common = torch.linalg.solve(moments[FREE, FREE], moments[FREE, :GAIN])
        own[:GAIN] -= (common * moments[FREE, :GAIN]).sum(0)
        free = free + _shapes(dimensions, means) @ common.mT
        variances = (own.clamp_min(0) + alone) / (total + 1)
        moved = _Estimate(bias, noise.clamp_min(self.least_noise), variances, free, doubt)
        return moved.rescaled(moments[FREE, FREE] / total)

    def _left(self, bias: Vector, free: Tensor, amounts: _Amounts) -> Vector:
        """Expected squares of what no amount explains, summed over the pairs."""
        loadings, covariance = _loadings(free), amounts.covariance
        left = self.residuals - bias - amounts.means @ loadings.mT - amounts.means[:, GAIN, None] * self.shifts
        unsure = 2 * self.shifts * (covariance[:, GAIN] @ loadings.mT)
        unsure = unsure + self.shifts.square() * covariance[:, GAIN, GAIN, None]
        shared = (self.over_pairs(covariance.flatten(1)) * _squares(loadings).flatten(1)).sum(-1)
        return (self.present * (left.square() + unsure)).sum(0) + shared

    def _prior_of_bias(self, at: _Estimate, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over the dimensions, and how much they differ beyond what noise explains."""
        share = counts / counts.sum().clamp_min(1e-300)
        common = (share * at.bias).sum()
        chance = (share * at.noise / counts.clamp_min(1e-300)).sum().clamp_min(1e-6 * self.least_noise)
        if len(self.residuals) == 1:
            return common, 1e-9 * chance
        between = (share * (at.bias - common).square()).sum() - chance
        return common, torch.maximum(between, 1e-3 * chance)


def _inverse(matrices: Tensor) -> Tensor:
    """Invert symmetric positive matrices whose diagonals may differ by any factor."""
    scale = matrices.diagonal(dim1=-2, dim2=-1).rsqrt()
    scale = scale.unsqueeze(-1) * scale.unsqueeze(-2)
    inverse: Tensor = torch.linalg.inv(matrices * scale) * scale
    return 0.5 * (inverse + inverse.mT)


def _chosen(data: _Data, rank: int) -> NuisanceChoice:
    """With a gain or without, and a factor for the noise: what finds the originals of pairs held out best."""
    label = torch.unique(data.originals.nan_to_num(), dim=0, return_inverse=True)[1]
    distinct = int(label.max()) + 1
    if distinct < 3:
        return NuisanceChoice(gain=False, inflation=1.0)
    label = torch.randperm(distinct, generator=torch.Generator().manual_seed(0)).to(label)[label]
    row = torch.empty_like(label[:distinct]).scatter_(0, label, torch.arange(len(label), device=label.device))
    folds, likelihood_share = min(NUISANCE_FOLDS, distinct), data.settings.nuisance_likelihood_share
    losses: dict[NuisanceChoice, list[Tensor]] = {}
    for fold in range(max(1, min(folds, FOLD_PAIRS // len(data)))):
        training = data.rows((label % folds != fold).nonzero().squeeze(-1))
        held_out = row[fold::folds][:MOST_HELD_OUT]
        others = row[torch.arange(distinct, device=row.device) % folds != fold]
        candidates = data.originals[torch.cat([held_out, others])[:MOST_CANDIDATES]]
        for gain in (True, False):
            estimate = _estimate(training, rank, gain)
            for inflation in INFLATIONS:
                choice = NuisanceChoice(gain, inflation)
                variant = _as_variant(training, estimate, rank, choice)
                scores = variant.log_likelihood(candidates, data.copies[held_out])
                own = scores.diagonal().unsqueeze(-1)
                doubts = [((scores - own) / temperature).logsumexp(-1) for temperature in NUISANCE_TEMPERATURES]
                loss = torch.stack(doubts, dim=-1) - likelihood_share * own / data.originals.shape[1]
                losses.setdefault(choice, []).append(loss)
    return min(losses, key=lambda option: float(torch.cat(losses[option]).mean(0).min()))


def _as_variant(
    data: _Data, estimate: _Estimate, rank: int, chosen: NuisanceChoice, unit: float = 1.0
) -> NuisanceVariant:
    variant = NuisanceVariant(len(estimate.bias), rank).to(estimate.bias.device)
    noise = estimate.noise + estimate.doubt.diagonal(dim1=1, dim2=2).sum(-1)
    used = estimate.free.shape[1]
    variant.bias.copy_(unit * estimate.bias)
    variant.std.copy_(unit * (chosen.inflation * noise).sqrt())
    variant.directions[:, :2] = unit * _shapes(len(estimate.bias), estimate.bias) * estimate.variances[:2].sqrt()
    variant.directions[:, 2 : 2 + used] = unit * estimate.free
    variant.gain_std.copy_(estimate.variances[GAIN].sqrt() * float(chosen.gain))
    variant.center.copy_(unit * data.center())
    variant.spread.copy_(unit * data.spread())
    return variant
