"""The `adapt` function: a memory follows what happens to its queries now, where nobody has labeled them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ahop._core.checks import as_group_names, check_kind
from ahop._core.inputs import as_queries
from ahop._core.typing import RowsLike
from ahop.errors import InvalidValueError, UnsupportedError
from ahop.fitting.choosing.candidates import CANDIDATES
from ahop.fitting.choosing.unknown import detector_of
from ahop.fitting.corruption.mixture import Form, MixtureFit, fit_mixture
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.settings import DEFAULT, Settings
from ahop.fitting.threads import few_threads
from ahop.fitting.unlabeled.contrast import Halves
from ahop.fitting.unlabeled.donors import offset_of, repetitions, shifted
from ahop.fitting.unlabeled.learn import errors_ahead, halves_of
from ahop.fitting.unlabeled.origins import BEST, OriginProblem
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.memory.ranking import Ranked, posterior_of
from ahop.memory.reference import Reference
from ahop.memory.report import AdaptReport, FitReport, Report
from ahop.memory.scoring import rank
from ahop.memory.unknown import UnknownDetector
from ahop.similarities.aligned import AlignedSimilarity
from ahop.similarities.base import Similarity
from ahop.similarities.pooled import PooledSimilarity
from ahop.variants.mixture import MixtureVariant

Learn: TypeAlias = Callable[[TrainingSet], Similarity]

# Fewer queries teach nothing that could be told from chance.
LEAST_QUERIES = 8
# Of all answers to a query, the best counts at least so much: a fit needs something.
LEAST_MEMBER_WEIGHT = 1e-6
ALIGNED, LEARNED_ANEW = "aligned", "learned anew"


@torch.no_grad()
def adapt(
    memory: AssociativeMemory,
    queries: RowsLike,
    *,
    groups: Sequence[object] | None = None,
    settings: Settings | None = None,
    seed: int = 0,
    progress: bool = True,
) -> AssociativeMemory:
    """Adapt a memory to the corruption of its present queries, without labels.

    Its present answers, each as sure as it is, are pairs to learn from, and what is learned makes better answers, in
    turn. Either each dimension is brought back to where it was, and what was learned before stays; or the similarity
    is learned anew: that under which halves of held-out queries tell more about each other. Where they tell not
    clearly more than before, and are not clearly likelier either, nothing is changed.

    Args:
        memory: one that was fitted; it is left as it was.
        queries: (b, d) such as a log has them.
        groups: where each query comes from, such as its device: each group is followed by itself, also those that the
            memory does not know yet.
        settings: statistical choices that are not learned; default those that the memory was fitted with.
        seed: of what is drawn.
        progress: show a bar.

    Returns:
        A copy that shares the stored patterns. `report.adapted` says what was found, and whether it was kept.
    """
    check_kind("memory", memory, AssociativeMemory).model.check_same_columns("`adapt`")
    report, reference = memory.report, memory.model.reference
    if report is None or reference is None:
        raise UnsupportedError("`adapt` needs a memory that was fitted. Call `ahop.fit` first, with pairs or queries.")
    if isinstance(report, FitReport) and report.categories is not None:
        raise UnsupportedError(
            "`adapt` brings numbers back to where they were, which categories have not. Fit again to the new queries: "
            "`ahop.fit(patterns, queries=...)`."
        )
    if isinstance(report, FitReport) and report.errors is not None:
        raise UnsupportedError(
            "`adapt` knows nothing of standard deviations. Fit again to pairs of the new queries: "
            "`ahop.fit(memory, pairs=..., similarity='auto')`."
        )
    asked = as_queries(queries, memory.patterns, columns=memory.columns)
    if len(asked) < LEAST_QUERIES:
        raise InvalidValueError(f"`queries` must be at least {LEAST_QUERIES}; got {len(asked)}. Give a longer log.")
    adapted, patterns, settings = memory.copy(), memory.modulation(memory.patterns), _settings(settings, report)
    if isinstance(report, FitReport):
        report = replace(report, settings=asdict(settings))
    names = None if groups is None else as_group_names(groups, len(asked))
    if isinstance(report, FitReport) and report.repeats is not None and memory.model.groups:
        told, adapted.model = _among_known(memory.model, patterns, asked, names)
        adapted.report = replace(report, adapted=told)
        return adapted
    with few_threads(asked.numel()), tqdm(desc="adapt", unit="fit", disable=not progress) as bar:
        if names is None:
            told, model = _Log(memory.model, patterns, asked, reference.queries, report, settings, seed, bar).followed()
            if model is not None:
                adapted.model = model.replaced(reference=Reference.of(asked))
        else:
            told, adapted.model = _by_group(
                memory.model, patterns, asked, names, reference, report, settings, seed, bar
            )
    adapted.report = replace(report, adapted=told)
    return adapted


def _among_known(model: Model, patterns: Tensor, queries: Tensor, names: list[str] | None) -> tuple[AdaptReport, Model]:
    """A new group, for which those that a fit knows speak: its offset is found, the rest is as it was with them."""
    known = next(iter(model.groups.values()))
    base = known.base if isinstance(known, AlignedSimilarity) else known
    bare = model.replaced(similarity=base, groups={})

    def found(rows: Tensor) -> float:
        return offset_of(bare, patterns, rows)

    def seen(offset: float) -> Similarity:
        return shifted(base, offset, patterns.shape[1], patterns.dtype).to(patterns.device)

    if names is None:
        offset = found(queries)
        followed = model.replaced(similarity=seen(offset), reference=Reference.of(queries))
        way, repeated = f"their offset is {offset:.3g}", repetitions(model.reference, queries)
        return AdaptReport(len(queries), True, way, offset=offset, repeated=repeated), followed
    logs = {
        name: queries[[row for row, each in enumerate(names) if each == name]]
        for name in sorted(set(names))
        if names.count(name) >= LEAST_QUERIES
    }
    offsets = {name: found(rows) for name, rows in logs.items()}
    if not offsets:
        raise InvalidValueError(f"`groups` must have one of at least {LEAST_QUERIES} queries. Give a longer log.")
    words = ", ".join(f"that of {name} is {offset:.3g}" for name, offset in offsets.items())
    groups = {**model.groups, **{name: seen(offset) for name, offset in offsets.items()}}
    mean = sum(offsets.values()) / len(offsets)
    before = None if model.report is None else model.report.adapted  # a group that is stuck stays among the others
    repeated = sum(repetitions(model.reference, rows) for rows in logs.values()) + (before.repeated if before else 0)
    told = AdaptReport(len(queries), True, f"of their offsets {words}", offset=mean, repeated=repeated)
    return told, model.replaced(groups=groups, reference=Reference.of(queries, names))


def _by_group(
    model: Model,
    patterns: Tensor,
    queries: Tensor,
    names: list[str],
    reference: Reference,
    report: Report,
    settings: Settings,
    seed: int,
    bar: "tqdm[Any]",
) -> tuple[AdaptReport, Model]:
    """Each group that has enough queries, by itself. What tells unknown queries is common to all, and stays."""
    found, told = dict(model.groups), dict[str, AdaptReport]()
    for name in sorted(set(names)):
        rows = torch.tensor([row for row, each in enumerate(names) if each == name])
        if len(rows) < LEAST_QUERIES:
            continue
        own = [row for row, each in enumerate(reference.groups or []) if each == name]
        then = reference.queries[own] if own else reference.queries
        log = _Log(model.for_group(name), patterns, queries[rows], then, report, settings, seed, bar)
        told[name], followed = log.followed()
        if followed is not None:
            found[name] = followed.similarity
    if not told:
        raise InvalidValueError(f"`groups` must have one of at least {LEAST_QUERIES} queries. Give a longer log.")
    kept = tuple(name for name, each in told.items() if each.is_kept)
    numbers = {
        part: sum(each.queries * getattr(each, part) for each in told.values())
        / sum(each.queries for each in told.values())
        for part in ("information", "before", "rise")
    }
    ways = ", ".join(f"{name} {told[name].way}" for name in kept)
    whole = AdaptReport(len(queries), bool(kept), ways, **numbers)
    if not kept:
        return whole, model
    return whole, model.replaced(groups=found, reference=Reference.of(queries, names))


@dataclass(frozen=True)
class _Judged:
    """Value of one way to adapt, on held-out queries.

    Attributes:
        information: that halves of each have, (b,),
        before: and as it was.
        rise: of the log-likelihood of each, (b,).
    """

    information: Tensor
    before: Tensor
    rise: Tensor


class _Log:
    """Queries of now, and of then, beside the patterns of a model."""

    def __init__(
        self,
        model: Model,
        patterns: Tensor,
        queries: Tensor,
        then: Tensor,
        report: Report,
        settings: Settings,
        seed: int,
        bar: "tqdm[Any]",
    ) -> None:
        self.model, self.patterns, self.queries, self.seed, self.bar = model, patterns, queries, seed, bar
        self.settings, self.asked = settings, settings.adapt
        self.halves = halves_of(queries, seed)
        self.then = self._training(model.similarity, then.to(patterns), None).mixture
        self.ways: dict[str, Learn] = {ALIGNED: self._aligned}
        kind = _kind(model.similarity, report)
        if kind is not None:
            self.ways[LEARNED_ANEW] = kind

    def followed(self) -> tuple[AdaptReport, Model | None]:
        """Find the model that follows these queries, and report it; None where that is no better than chance."""
        judged = {name: self._judged(name) for name in self.ways}
        way = max(judged, key=lambda name: _mean([each.information for each in judged[name]]))
        parts = judged[way]
        ahead = _ahead([each.information - each.before for each in parts])
        is_likelier = _ahead([each.rise for each in parts]) > self.asked.clear_std_errors
        is_kept = ahead > self.asked.clear_std_errors or (is_likelier and ahead > -self.asked.worse_std_errors)
        information, before, rise = (
            _mean([getattr(each, name) for each in parts]) for name in ("information", "before", "rise")
        )
        told = AdaptReport(len(self.queries), is_kept, way, information, before, rise)
        if not is_kept:
            return told, None
        similarity, mixture = self._learned(way, self.queries)
        detector = self._detector(similarity, mixture.variant)
        return told, self.model.replaced(similarity=similarity, detector=detector)

    def _judged(self, way: str) -> list[_Judged]:
        found = []
        for known, asked in self.halves:
            similarity, mixture = self._learned(way, known)
            halves = Halves(self.patterns, asked)
            now, before = (halves.contrast(each).information for each in (similarity, self.model.similarity))
            rise = self._log_evidence(asked, mixture) - self._log_evidence(asked, self.then)
            found.append(_Judged(now, before, rise))
        return found

    def _learned(self, way: str, queries: Tensor) -> tuple[Similarity, MixtureFit]:
        """The similarity that these queries teach, and the corruption that they show."""
        similarity = self.model.similarity
        for round_number in range(self.asked.rounds):
            self.bar.set_postfix_str(f"{way}, round {round_number + 1} of {self.asked.rounds}")
            self.bar.update()
            training = self._training(similarity, queries, self.then.form)
            similarity = self.ways[way](training)
        return similarity, training.mixture

    def _training(self, similarity: Similarity, queries: Tensor, form: Form | None) -> TrainingSet:
        """The answers under this similarity as pairs, each as sure as it is."""
        ranked, shares = self._answers(similarity, queries)
        kept = shares > self.settings.unlabeled.least_responsible_share
        kept[:, 0] = True  # of a query that says little, the best says most
        asked, column = kept.nonzero(as_tuple=True)
        origins, copies = ranked.ids[asked, column], queries[asked]
        weights = shares[asked, column].clamp_min(LEAST_MEMBER_WEIGHT)
        rows, known = (self.patterns[origins], copies, weights), self.settings
        mixture = fit_mixture(*rows, form=form, is_trusted=True, settings=known.mixture)
        pairs = self.patterns, origins, copies, weights.to(self.patterns)
        return TrainingSet(*pairs, is_trusted=True, fitted=mixture, settings=known)

    def _answers(self, similarity: Similarity, queries: Tensor) -> tuple[Ranked, Tensor]:
        """The best few patterns of each query, and how sure each of them is, (b, k)."""
        model, k = self.model.replaced(similarity=similarity), min(BEST, len(self.patterns))
        ranked = rank(model, self.patterns, queries, k)
        posterior, unknown = posterior_of(ranked, model, k)
        known = 1.0 if unknown is None else (1 - unknown.double()).unsqueeze(-1)
        return ranked, posterior.double() * known

    def _aligned(self, training: TrainingSet) -> Similarity:
        return _aligned(self.model.similarity, self.then.variant, training.mixture.variant)

    def _detector(self, similarity: Similarity, variant: MixtureVariant) -> UnknownDetector | None:
        """Learned by forgetting, as a fit does, from copies that are simulated: those that find their origin count."""
        if self.model.detector is None or len(self.patterns) < 3:
            return self.model.detector
        copies = variant.sample(self.patterns, self.asked.simulated_pairs, self.seed)
        ranked, _ = self._answers(similarity, copies.queries)
        assert ranked.evidence is not None
        others = ranked.evidence.without_best(ranked.scores[:, 1], ranked.scores[:, 2])
        is_found = (ranked.ids[:, 0] == copies.origins).double()
        features = ranked.evidence.features(), others.features()
        detector = detector_of(*features, is_found, self.settings.posterior, self.model.detector.rate)
        return detector.to(self.patterns.device)

    def _log_evidence(self, queries: Tensor, mixture: MixtureFit) -> Tensor:
        """Log-likelihood of each query under all patterns together, (b,)."""
        problem = OriginProblem(self.patterns, queries, None, self.settings)
        return problem.log_odds(problem.shortlist(mixture)) + mixture.variant.log_background(queries).double()


def _aligned(similarity: Similarity, then: MixtureVariant, now: MixtureVariant) -> Similarity:
    """The present similarity, for queries that are brought back, dimension by dimension, to where they were."""
    gain = now.gain / then.gain
    offset = now.shift - gain * then.shift
    base = similarity
    if isinstance(similarity, AlignedSimilarity):  # both at once
        base, offset, gain = similarity.base, offset + gain * similarity.offset, gain * similarity.gain
    aligned = AlignedSimilarity(base, then.dimensions).to(now.gain)
    aligned.offset.copy_(offset)
    aligned.gain.copy_(gain)
    return aligned


def _kind(similarity: Similarity, report: Report) -> Learn | None:
    """Name of the fit for this kind of similarity; None for one that is not learned by name."""
    known = {each.name: each for each in CANDIDATES if not each.is_fixed}
    while isinstance(similarity, AlignedSimilarity):
        similarity = similarity.base
    if not isinstance(similarity, PooledSimilarity):
        return known[_chosen(report)].learn if _chosen(report) in known else None
    pool = similarity

    def learn(training: TrainingSet) -> Similarity:
        named = zip(pool.names, pool.parts(), strict=True)
        return pool.with_members([known[name].learn(training) if name in known else each for name, each in named])

    return learn if any(name in known for name in pool.names) else None


def _settings(given: Settings | None, report: Report) -> Settings:
    if given is not None:
        return check_kind("settings", given, Settings)
    return Settings.told(report.settings) if isinstance(report, FitReport) else DEFAULT


def _chosen(report: Report) -> str:
    return report.chosen if isinstance(report, FitReport) else ""


def _mean(parts: Sequence[Tensor]) -> float:
    return float(torch.cat(list(parts)).mean())


def _ahead(parts: Sequence[Tensor]) -> float:
    """By how many standard errors the mean is above zero."""
    values = torch.cat(list(parts))
    return errors_ahead(values, torch.zeros_like(values))
