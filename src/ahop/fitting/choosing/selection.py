"""Model selection: candidates are compared on held-out origins, and the best are pooled."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor
from tqdm.auto import tqdm

from ahop._core.tensors import distinct
from ahop._core.typing import Patterns
from ahop.errors import InvalidValueError
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.candidates import CANDIDATES
from ahop.fitting.choosing.general import debiased
from ahop.fitting.choosing.heteroscedastic import for_errors
from ahop.fitting.choosing.negatives import hard_negatives, pairs_to_scan
from ahop.fitting.choosing.pool import LEAST_POOL_WEIGHT, cross_fitted, fit_pool, fit_pooled, promises
from ahop.fitting.choosing.posterior import Rivals, behind, calibrated, closest_rivals
from ahop.fitting.choosing.tables import parts_of_pools
from ahop.fitting.choosing.unknown import detector_of, fit_detector
from ahop.fitting.corruption.categories import Categories
from ahop.fitting.corruption.heteroscedastic import ErrorColumns
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.settings import Settings
from ahop.memory.report import Corruption, Member, SpacesReport, Trial
from ahop.memory.unknown import UnknownDetector
from ahop.separations.softmax import Softmax
from ahop.similarities.base import Similarity
from ahop.similarities.pooled import PooledSimilarity, worst_for_unknown
from ahop.variants.base import Pairs

# To tell candidates apart, so many entries of so many pairs are enough to learn from; the chosen ones see all.
MOST_ENTRIES, LEAST_TAUGHT = 1 << 18, 256
# Fewer origins cannot be split into some to learn from and some to judge by.
LEAST_ORIGINS = 4
# One fold of fewer pairs tells nothing about who is behind.
LEAST_HELD_OUT = 20
# A mixture describes the copies if its log-loss is within this of the best: said in the report, and used nowhere.
DESCRIBED = 0.1
# Trust less than one by no more changes no loss.
ALL_TRUSTED = 0.01
# Pairs that judge, and stored patterns that they are told apart from: neither grows with the memory.
HELD_OUT_PAIRS, MOST_RIVALS, LEAST_RIVALS, SELECTION_WORK = 1024, 2048, 256, 1 << 28


@dataclass(frozen=True)
class Choice:
    """The similarity that was chosen, fitted to all pairs, and everything that was learned on the way.

    Attributes:
        candidates: the chosen one, or the members of the pool.
        weights: of the members, by which their scores are multiplied.
        spaces: what becomes of an index, where copies have other columns than patterns.
        knows_wrong_pairs: the mixture describes the copies well enough to tell pairs that are none.
        tie: what was as good within chance, and passed over; None if nothing was.
    """

    similarity: Similarity
    separation: Softmax
    detector: UnknownDetector | None
    trials: tuple[Trial, ...]
    members: tuple[Member, ...]
    candidates: tuple[Candidate, ...]
    weights: tuple[float, ...]
    log_loss: float
    accuracy: float
    knows_wrong_pairs: bool = False
    spaces: SpacesReport | None = None
    tie: str | None = None

    @property
    def name(self) -> str:
        return " + ".join(each.name for each in self.candidates)

    def learned_from(self, training: TrainingSet) -> Similarity:
        """Refit this choice to other pairs."""
        return _together([each.learn(training) for each in self.candidates], self.candidates, self.weights)


def describe_corruption(
    training: TrainingSet, trials: Sequence[Trial], knows_wrong_pairs: bool, columns: Sequence[str] | None
) -> Corruption:
    """Describe the pairs by the mixture, and tell whether another model explains them much better."""
    variant, weights = training.mixture.variant, training.trusted
    kept = weights.sum() * (1 - variant.outlier_rate)
    error = variant.std / kept.clamp_min(1).sqrt()
    losses = {trial.name: trial.log_loss for trial in trials}
    best = min(losses.values(), default=0.0)
    explained = losses.get("mixture", best) <= best + DESCRIBED
    present = ~torch.isnan(training.originals)
    # Where all copies and originals are one number, a copy that was kept and an outlier look the same.
    values = torch.cat([training.originals, training.copies]).T
    varies = torch.tensor([len(each[~torch.isnan(each)].unique()) > 1 for each in values], device=values.device)
    outliers = variant.outlier_rate * varies
    # A gain turns about zero, where no value may lie: an offset is that of an original of the mean size.
    shifts = (
        variant.bias
        if variant.signs
        else variant.bias + (variant.gain - 1) * training.originals.nanmean(0).nan_to_num()
    )
    return Corruption(
        shifts=tuple(shifts.tolist()),
        shifted=int((shifts.abs() > 3 * error).sum()),
        signs=variant.signs,
        gain=float(variant.gain.median()),
        noise=float(variant.std.median()),
        outlier_rate=float(outliers.mean()),
        missing_rate=float((torch.isnan(training.copies) & present).sum() / present.sum().clamp_min(1)),
        missing_is_informative=variant.missingness.is_evidence,
        wrong_pairs=int((training.mixture.trust < 0.5).sum()) if knows_wrong_pairs else 0,
        fits=explained,
        noises=tuple(variant.std.tolist()),
        columns=() if columns is None else tuple(columns),
    )


def choose(
    training: TrainingSet, patterns: Patterns, pairs: Pairs, wanted: Sequence[Candidate], seed: int, bar: "tqdm[Any]"
) -> Choice:
    """The candidate with the least held-out log-loss, or a pool of several that does better, refitted to all pairs.

    Of those that are as good within chance, the first in the order of `CANDIDATES`.
    """
    folds = folds_of(training, seed)
    if folds is None:
        return _fall_back(training, wanted)
    settings, held_out = training.settings, _held_out(len(training), seed)
    parts = [_Part(training, held_out, folds, fold) for fold in range(int(folds.max()) + 1)]
    bar.total = len(wanted) * len(parts)
    outcomes, left_out = _evaluate(wanted, parts, training, held_out, training.weights[held_out].double(), bar)
    knows_wrong_pairs = _is_near_the_best("mixture", outcomes, settings.pool.within_nats)
    trust = (training.trusted if knows_wrong_pairs else training.weights)[held_out].double()
    if knows_wrong_pairs and bool((training.mixture.trust < 1 - ALL_TRUSTED).any()):
        origins = training.origins[held_out]
        outcomes = [_outcome(each.candidate, each.learned, each.scores, origins, trust, settings) for each in outcomes]
    best, tie = _preferred(outcomes, trust, settings)
    rivals = _told_apart(outcomes, training.origins[held_out])
    brought = [place for place, each in enumerate(outcomes) if each.candidate.is_brought]
    pool = fit_pool(rivals, trust, best, [each.trial.log_loss for each in outcomes], brought, settings)
    members = [outcomes[place] for place in pool.members]
    bar.set_postfix_str("fit to all pairs")
    chosen = tuple(each.candidate for each in members)
    weights = tuple(
        max(float(weight), LEAST_POOL_WEIGHT) * each.trial.beta
        for weight, each in zip(pool.posterior.weights, members, strict=True)
    )
    scores = _pooled([each.scores for each in members], chosen, weights)
    if len(patterns) > len(training.patterns) and not training.has_other_columns:
        by_fold = [[each.learned[fold] for each in members] for fold in range(len(parts))]
        of_folds = [_together(learned, chosen, weights) for learned in by_fold]
        separation, detector = _among_all(of_folds, parts, patterns, pairs.origins, training, held_out, trust, seed)
    else:
        pooled = cross_fitted(rivals.only(pool.members), trust, folds[held_out], pool.posterior, settings)
        beta, posterior = calibrated(pooled, trust, settings.posterior)
        beta = beta * (weights[0] if _is_single(chosen) else 1.0)
        separation = Softmax(beta, posterior.floor)
        detector = fit_detector(scores, training.origins[held_out], trust, settings.posterior)
    learned = _together([each.learn(training) for each in chosen], chosen, weights)
    total = trust.sum().clamp_min(1e-12)
    hits = (scores.argmax(-1) == training.origins[held_out]).double()
    return Choice(
        learned,
        separation,
        detector,
        tuple(sorted([*(each.trial for each in outcomes), *left_out], key=lambda each: each.log_loss)),
        tuple(
            Member(each.trial.name, float(weight), worth)
            for each, weight, worth in zip(members, pool.posterior.weights, pool.worth, strict=True)
        ),
        chosen,
        weights,
        float((pool.posterior.losses * trust).sum() / total),
        float((hits * trust).sum() / total),
        knows_wrong_pairs,
        tie=tie,
    )


class _Part:
    """One fold: the training set, and the pairs that are held out of it."""

    def __init__(self, training: TrainingSet, held_out: Tensor, folds: Tensor, fold: int) -> None:
        rows = (folds != fold).nonzero().squeeze(-1)
        most = max(LEAST_TAUGHT, MOST_ENTRIES // training.patterns.shape[1])
        most = len(training) if training.has_other_columns else most  # a map of rows costs little, and needs them
        self.training = training.part(rows[:: max(1, -(-len(rows) // most))])
        self.places = (folds[held_out] == fold).nonzero().squeeze(-1)
        asked = held_out[self.places]
        groups = None if training.groups is None else training.groups[asked]
        self.copies = self.training.aligned(training.recorded[asked], groups)


@dataclass(frozen=True)
class _Outcome:
    """A trial with what was learned in each fold, and scores (m, p) and losses (m,) of the held-out pairs."""

    candidate: Candidate
    learned: list[Similarity]
    trial: Trial
    scores: Tensor
    losses: Tensor
    rivals: Rivals


def _evaluate(
    wanted: Sequence[Candidate],
    parts: list[_Part],
    training: TrainingSet,
    held_out: Tensor,
    trust: Tensor,
    bar: "tqdm[Any]",
) -> tuple[list[_Outcome], list[Trial]]:
    """Every candidate on every fold; those that are hopeless after the first are left out of the others."""
    left_out: list[Trial] = []
    scores: dict[str, Tensor] = {}
    learned: dict[str, list[Similarity]] = {}
    origins, left = training.origins[held_out], list(wanted)
    for number, part in enumerate(parts):
        for candidate in list(left):
            bar.set_postfix_str(f"{candidate.name}, fold {number + 1} of {len(parts)}")
            of_fold = _scores_of(candidate, part, training, may_fail=len(left) > 1 and not candidate.is_brought)
            bar.update()
            if of_fold is None:
                left.remove(candidate)
                bar.update(len(parts) - number - 1)
                continue
            if number == 0:
                scores[candidate.name] = training.patterns.new_empty(len(held_out), len(training.patterns))
            learned.setdefault(candidate.name, []).append(of_fold[0])
            scores[candidate.name][part.places] = of_fold[1]
        if number == 0 and len(part.places) >= LEAST_HELD_OUT:
            asked = origins[part.places], part.places, trust[part.places]
            left, left_out = _hopeful(left, scores, *asked, training.settings)
            bar.update(len(left_out) * (len(parts) - 1))
    return [
        _outcome(each, learned[each.name], scores[each.name], origins, trust, training.settings) for each in left
    ], left_out


def _scores_of(
    candidate: Candidate, part: _Part, training: TrainingSet, may_fail: bool
) -> tuple[Similarity, Tensor] | None:
    """None for what these pairs cannot teach, where there is something else to choose; what was brought must work."""
    try:
        with torch.no_grad():
            similarity = candidate.learn(part.training)
            scores = similarity(training.patterns, part.copies).to(training.patterns.dtype)
    except InvalidValueError:
        if not may_fail:
            raise
        return None
    if not bool(torch.isfinite(scores).all()):
        if candidate.is_brought:
            raise InvalidValueError(
                f"The candidate {candidate.name!r} must give finite scores; got NaN or infinity. Give pairs that share "
                "nothing `torch.finfo(queries.dtype).min`."
            )
        if may_fail:
            return None
    return similarity, scores


def _hopeful(
    candidates: list[Candidate],
    scores: dict[str, Tensor],
    origins: Tensor,
    places: Tensor,
    trust: Tensor,
    settings: Settings,
) -> tuple[list[Candidate], list[Trial]]:
    """Those that are as good as the best within chance, or promise to better it; and how the others did."""
    if len(candidates) < 2:
        return candidates, []
    outcomes = [_outcome(each, [], scores[each.name][places], origins, trust, settings) for each in candidates]
    best = min(range(len(outcomes)), key=lambda place: outcomes[place].trial.log_loss)
    rivals = _told_apart(outcomes, origins)
    alone, asked = fit_pooled(rivals.only([best]), trust, settings), settings.selection
    promised = promises(rivals, trust, [best], alone, settings.pool.weight_nats)
    kept, others = [], []
    for place, each in enumerate(outcomes):
        mean, error = behind(each.losses, outcomes[best].losses, trust)
        is_hopeful = mean <= max(asked.hopeless_nats, asked.hopeless_std_errors * error)
        if is_hopeful or promised.get(place, 0.0) > asked.promising_nats or each.candidate.is_brought:
            kept.append(each.candidate)
        else:
            others.append(replace(each.trial, is_left_out=True))
    return kept, others


def _outcome(
    candidate: Candidate,
    learned: list[Similarity],
    scores: Tensor,
    origins: Tensor,
    trust: Tensor,
    settings: Settings,
) -> _Outcome:
    rivals = closest_rivals([scores], origins)
    beta, posterior = calibrated(rivals, trust, settings.posterior)
    hits, total = (scores.argmax(-1) == origins).double(), trust.sum().clamp_min(1e-12)
    loss, accuracy = (float((values * trust).sum() / total) for values in (posterior.losses, hits))
    trial = Trial(candidate.name, loss, accuracy, beta, posterior.floor)
    return _Outcome(candidate, learned, trial, scores, posterior.losses, rivals)


def _is_near_the_best(name: str, outcomes: list[_Outcome], within: float) -> bool:
    """True if a candidate's log-loss is near the best: one far behind says little about which pairs are wrong."""
    losses = {each.trial.name: each.trial.log_loss for each in outcomes}
    return name in losses and losses[name] <= min(losses.values()) + within


def _preferred(outcomes: list[_Outcome], trust: Tensor, settings: Settings) -> tuple[int, str | None]:
    """The first, in the order of the candidates, that is not worse than the best by more than chance would explain."""
    best, asked = min(outcomes, key=lambda each: each.trial.log_loss), settings.selection
    for place, each in enumerate(outcomes):
        mean, error = behind(each.losses, best.losses, trust)
        if mean <= max(asked.tie_nats, asked.tie_std_errors * error):
            if each is best:
                return place, None
            return place, (
                f"{each.trial.name} was preferred to {best.trial.name}, whose log-loss is less by {mean:.2f}: no more "
                f"than chance explains ({error:.2f})"
            )
    return outcomes.index(best), None


def _told_apart(outcomes: list[_Outcome], origins: Tensor) -> Rivals:
    """Calibrated scores of all, beside the rivals that are close for any of them."""
    betas = torch.tensor([each.trial.beta for each in outcomes], dtype=torch.float64)
    rivals = outcomes[0].rivals
    if len(outcomes) > 1:
        scores = [worst_for_unknown(each.scores)[0] for each in outcomes]
        near = torch.zeros_like(scores[0])
        for each, beta in zip(scores, betas.tolist(), strict=True):
            near += torch.softmax(beta * (each - each.amax(-1, keepdim=True)), -1)
        rivals = closest_rivals(scores, origins, near)
    return rivals.scaled(betas)


def _is_single(candidates: Sequence[Candidate]) -> bool:
    """True if nothing is pooled: a score that is no log-likelihood is brought to that scale by a pool of one."""
    return len(candidates) == 1 and candidates[0].is_evidence


def _pooled(scores: list[Tensor], candidates: Sequence[Candidate], weights: Sequence[float]) -> Tensor:
    if _is_single(candidates):
        return scores[0]
    parts = [weight * worst_for_unknown(each)[0] for weight, each in zip(weights, scores, strict=True)]
    return torch.stack(parts).sum(0)


def _together(learned: list[Similarity], candidates: Sequence[Candidate], weights: Sequence[float]) -> Similarity:
    if _is_single(candidates):
        return learned[0]
    names = [each.name for each in candidates]
    parts = parts_of_pools(list(zip(names, weights, learned, strict=True)))
    pool = PooledSimilarity([member for _, _, member in parts], [name for name, _, _ in parts])
    pool.weights.copy_(torch.tensor([weight for _, weight, _ in parts], dtype=torch.float64))
    return pool


def _among_all(
    of_folds: list[Similarity],
    parts: list[_Part],
    patterns: Patterns,
    origins: Tensor,
    training: TrainingSet,
    held_out: Tensor,
    trust: Tensor,
    seed: int,
) -> tuple[Softmax, UnknownDetector]:
    """Temperature and detector for all patterns: among the drawn ones nearly every copy finds its origin."""
    count = min(len(held_out), pairs_to_scan(patterns))
    some = torch.linspace(0, len(held_out) - 1, count).long()
    fold = torch.empty(len(held_out), dtype=torch.long)
    copies = training.copies[held_out].clone()
    for number, part in enumerate(parts):
        fold[part.places] = number
        copies[part.places] = part.copies
    asked = held_out[some]
    chosen = [of_folds[number] for number in fold[some].tolist()]
    near = debiased(training) if training.numbers is training else chosen[0]
    negatives = hard_negatives(patterns, origins[asked], copies[some], near, chosen, seed)
    scores, trust = negatives.scores.double(), trust[some]
    rivals = Rivals((scores - scores.amax(-1, keepdim=True)).unsqueeze(0), negatives.log_counts, len(patterns))
    settings, known, unknown = training.settings.posterior, negatives.features(True), negatives.features(False)
    beta, posterior = calibrated(rivals, trust, settings)
    detector = detector_of(known, unknown, trust, settings)
    return Softmax(beta, posterior.floor), detector


def training_set_of(
    patterns: Patterns,
    pairs: Pairs,
    groups: Tensor | None,
    seed: int,
    settings: Settings,
    categories: Categories | None = None,
    errors: ErrorColumns | None = None,
) -> TrainingSet:
    """The pairs, beside as many stored patterns as the work allows: all origins, and others drawn at random."""
    origins, places = distinct(pairs.origins)
    held_out = max(1, min(len(pairs), HELD_OUT_PAIRS))
    room = min(max(SELECTION_WORK // (held_out * patterns.shape[1]), LEAST_RIVALS), MOST_RIVALS)
    generator = Generator().manual_seed(seed)
    if len(patterns) <= room:
        drawn = torch.arange(len(patterns))
    else:
        drawn = torch.randint(len(patterns), (max(0, room - len(origins)),), generator=generator)
    rows = distinct(torch.cat([origins.cpu(), drawn]))[0]
    place = torch.searchsorted(rows, origins.cpu())[places.cpu()]
    stored = patterns[rows.to(patterns.device)].detach()
    weights = torch.ones(len(pairs)).to(stored)
    return TrainingSet(
        stored,
        place.to(stored.device),
        pairs.queries.detach(),
        weights,
        groups,
        settings=settings,
        categories=categories,
        errors=errors,
    )


def folds_of(training: TrainingSet, seed: int) -> Tensor | None:
    """The fold of each pair: copies of one origin stay together. None if there are too few origins."""
    different, places = distinct(training.origins)
    if len(different) < LEAST_ORIGINS:
        return None
    asked = training.settings.selection
    count = min(asked.folds if len(training) < asked.many_pairs else asked.folds_of_many, len(different))
    order = torch.randperm(len(different), generator=Generator().manual_seed(seed))
    return (order % count)[places]


def _held_out(count: int, seed: int) -> Tensor:
    order = torch.randperm(count, generator=Generator().manual_seed(seed))
    return order[:HELD_OUT_PAIRS].sort().values


def _fall_back(training: TrainingSet, wanted: Sequence[Candidate]) -> Choice:
    """Too little to learn from: the fixed similarity that does best on the pairs there are; of those wanted, if any."""
    fixed = [each for each in wanted if each.is_fixed]
    if not fixed:
        known = CANDIDATES if training.errors is None else for_errors(CANDIDATES, training.errors)
        fixed = [each for each in known if each.is_fixed and each.suits(training)]
    different = len(distinct(training.origins)[0])
    if len(training):
        trust = training.weights.double()
        scores = [each.learn(training)(training.patterns, training.copies) for each in fixed]
        trials = [
            _outcome(each, [], of_each, training.origins, trust, training.settings).trial
            for each, of_each in zip(fixed, scores, strict=True)
        ]
    else:
        trials = [Trial(each.name, float("nan"), float("nan"), 1.0, 0.0) for each in fixed]
    best = min(range(len(fixed)), key=lambda number: trials[number].log_loss) if different > 1 else 0
    warnings.warn(
        f"{len(training)} pairs of {different} different origins are too few to learn a corruption from; at least "
        f"{LEAST_ORIGINS} origins are needed. Using the fixed similarity {fixed[best].name!r}, with no probability "
        "of unknown queries.",
        UserWarning,
        stacklevel=5,
    )
    return Choice(
        fixed[best].learn(training),
        Softmax(),
        None,
        tuple(sorted(trials, key=lambda each: each.log_loss)),
        (Member(fixed[best].name, 1.0, 0.0),),
        (fixed[best],),
        (1.0,),
        trials[best].log_loss,
        trials[best].accuracy,
    )
