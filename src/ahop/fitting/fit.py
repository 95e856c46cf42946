"""The `fit` function."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ahop._core.checks import as_group_names, check_choice, check_count, check_kind
from ahop._core.columns import Columns, words_of
from ahop._core.inputs import as_queries
from ahop._core.label_tensors import numbers_of_entries
from ahop._core.placeholders import warn_of_placeholder
from ahop._core.typing import Entries, RowsLike
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.adapt import adapt
from ahop.fitting.choosing.candidate import Candidate
from ahop.fitting.choosing.candidates import CANDIDATES, for_other_columns, suitable, wanted_candidates
from ahop.fitting.choosing.groups import alignment_helps, learn_groups, numbered
from ahop.fitting.choosing.heteroscedastic import check_errors_alone, for_errors
from ahop.fitting.choosing.posterior import behind
from ahop.fitting.choosing.selection import (
    Choice,
    choose,
    describe_corruption,
    training_set_of,
)
from ahop.fitting.choosing.spaces import among_all_stored, check_enough
from ahop.fitting.choosing.tables import AGREEMENT, CATEGORICAL, GOWER, check_no_groups, for_categories, same_numbers
from ahop.fitting.corruption.categories import Categories, categorical_places
from ahop.fitting.corruption.heteroscedastic import ErrorColumns, error_columns
from ahop.fitting.corruption.training_set import TrainingSet
from ahop.fitting.pairs import PairSource
from ahop.fitting.settings import DEFAULT, Settings
from ahop.fitting.solvers.adam import AdamSolver
from ahop.fitting.solvers.kernel_separation import SeparationSolver
from ahop.fitting.solvers.newton import ConvexSolver
from ahop.fitting.solvers.shrinkage import ShrinkageSolver
from ahop.fitting.threads import few_threads
from ahop.fitting.unlabeled.categories import learn_categories
from ahop.fitting.unlabeled.donors import check, scaled, shifted
from ahop.fitting.unlabeled.learn import MIXTURE, PLAIN, TRIED, learn_unlabeled
from ahop.fitting.unlabeled.repeats import Repeats
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.memory.reference import Reference
from ahop.memory.report import (
    LEAST_QUERIES,
    CategoriesReport,
    Corruption,
    ErrorsReport,
    FitReport,
    RepeatsReport,
    Report,
    SolverReport,
    UnlabeledReport,
)
from ahop.separations.softmax import Softmax
from ahop.similarities.base import LinearSimilarity, Similarity
from ahop.similarities.isolated import IsolatedSimilarity
from ahop.variants.base import Pairs, Variant
from ahop.variants.heteroscedastic import HeteroscedasticVariant

Solver: TypeAlias = ConvexSolver | AdamSolver | SeparationSolver | ShrinkageSolver

SOLVERS: dict[str, type[Solver]] = {
    "convex": ConvexSolver,
    "adam": AdamSolver,
    "separation": SeparationSolver,
    "shrinkage": ShrinkageSolver,
}
# Behind the name of what queries have taught, beside what the labels teach.
OF_QUERIES = ", from the queries"
SIMILARITIES = ("auto", *(candidate.name for candidate in CANDIDATES))


def fit(
    patterns: AssociativeMemory | RowsLike,
    *,
    pairs: Pairs | tuple[Entries, RowsLike] | None = None,
    queries: RowsLike | None = None,
    variant: Variant | None = None,
    similarity: str | Sequence[str] | None = None,
    candidates: str | Sequence[str | Similarity | Callable[[Any, Any], Any]] = (),
    solver: Literal["convex", "adam", "separation", "shrinkage"] | Solver | None = None,
    groups: Sequence[object] | None = None,
    labels: Entries | None = None,
    categorical: bool | Sequence[str | int] = (),
    errors: bool | str | Mapping[str, str] | Mapping[int, int] | None = None,
    samples: int = 1024,
    settings: Settings | None = None,
    seed: int = 0,
    progress: bool = True,
) -> AssociativeMemory:
    """Learn how queries get corrupted, and return a memory that knows it. A memory that is given is left as it was.

    Args:
        patterns: (n, d), NaN where nothing was observed; or a memory of them, whose own similarity is fitted.
        pairs: (origins, copies): row of the stored pattern, and what became of it. If the patterns have labels, origins
            are labels, also where labels are whole numbers; `ahop.Pairs(rows, copies)` are rows always.
        queries: (b, d) such as a log has them, whose origins nobody knows: what happens to copies is learned from these
            as well, or from these alone. Where their halves tell no more about each other than under the plain metric,
            that is kept.
        variant: draw pairs from this distribution instead.
        similarity: "auto", the default for bare patterns, compares what can be learned, and the metrics that
            practitioners use, on pairs whose origins were held out; takes the best, or a pool of several that does
            better, and calibrates it. Or the name of one of them, or several names to choose among: "mixture",
            "additive", "additive_per_dimension", "nuisance", "footprint", "debiased", "euclidean", "manhattan", "dot",
            "cosine", "correlation", "sorensen" and others that the documentation lists; for rows of categories
            "agreement", "categorical" and "gower".
        candidates: metrics of your own, to be tried and pooled beside ours: similarities, or functions of (patterns,
            queries) that answer scores (b, n), larger for closer. They need not be probabilities. Or the name of a
            preset, "radio" or "spectra", whose own metrics are then tried whatever the data look like.
        solver: for a memory's own similarity, by name or with settings. Default: "convex" where the similarity is
            linear in its coefficients, as footprints are, "shrinkage" where patterns have weights of their own, else
            "adam", the paper's recipe. "separation" is K-Hop's own and needs no pairs.
        groups: where each copy comes from, such as its device. The offset and the gain of each group are taken off
            if that predicts held-out copies better, and a group is fitted by itself where that is better still; pass
            the same names to `recall`. With `queries`, one name for each of these, behind those of the pairs; a group
            that has enough of them is followed by itself, as `adapt` does. With labels that repeat, one name for each
            row: its device, visit or day, which its damage is shared with.
        labels: (n,) what each pattern is called. Where labels repeat and there are no pairs, rows of one label are
            copies of each other: the memory keeps one pattern for each label, their mean, and learns from rows that
            were left out of it, a group at a time. A new group is then answered as well as known ones were: give
            `adapt` its queries, or pass them here, their groups behind those of the rows.
        categorical: names or places of columns whose numbers stand for categories; True for all columns. Words of a
            frame, and what it declares to be categories, need no mention. How often a category becomes another is
            learned, and to agree on a rare one counts more.
        errors: columns that hold the standard deviations of others, of stored rows and of copies, right up to a factor:
            `{"mass": "mass_std"}`, or `"_std"` for names that end so, or True for the second half of the columns, as
            `ahop.with_errors` lays them. NaN stands for an infinite one. Each entry then counts by its own precision;
            with `pairs` only. None means those that a memory was fitted with.
        samples: how many pairs to draw from a variant: once, or for each epoch of Adam.
        settings: statistical choices that are not learned, such as `ahop.fitting.Settings(pool=PoolSettings(...))`;
            they are saved with the memory, and `report.settings` tells them.
        seed: of everything that is drawn.
        progress: show a bar.

    Returns:
        A fitted copy that shares the stored patterns; its `report` says in words what was found.

    Paper:
        Minimizes the discrepancy loss of Section 3.3; Figure 2 (b) [fig:main].
    """
    bare = not isinstance(patterns, AssociativeMemory)
    if isinstance(patterns, AssociativeMemory) and labels is not None:
        raise InvalidTypeError("`labels` are for bare patterns: a memory has its own. Build it with `labels=`.")
    fitted = patterns.copy() if isinstance(patterns, AssociativeMemory) else AssociativeMemory(patterns, labels=labels)
    warn_of_placeholder("patterns", fitted.patterns)
    check_count("samples", samples)
    started = time.perf_counter()
    if similarity is not None or candidates or (bare and solver is None):
        if solver is not None:
            raise InvalidTypeError(
                "`similarity` and `candidates` bring their own fit; leave `solver` out, or give a memory with a "
                "similarity."
            )
        if callable(candidates):
            raise InvalidTypeError("`candidates` must be a list: write `candidates=[metric]`, also for one.")
        given = ["auto"] if similarity is None else [similarity] if isinstance(similarity, str) else list(similarity)
        names = [check_choice("similarity", name, SIMILARITIES) for name in given]
        wanted = wanted_candidates(None if "auto" in names else names, candidates)
        if not wanted:
            raise InvalidValueError("`similarity` must name at least one; got none. Leave it out to try all that suit.")
        places = categorical_places(categorical, fitted.dimensions, fitted.columns)
        beside = _errors_of(fitted) if errors is None else error_columns(errors, fitted.dimensions, fitted.columns)
        if beside is not None:
            check_errors_alone(
                categorical=bool(places),
                queries=queries is not None,
                variant=variant is not None,
                groups=groups is not None,
            )
            beside.check("patterns", fitted.patterns)
        if fitted.columns is not None:
            fitted.columns = Columns(fitted.columns, words_of(fitted.columns), {} if beside is None else beside.pairs)
        asked = _Asked(wanted, "auto" in names, groups, _settings(settings), seed, progress, places, errors=beside)
        report: Report
        if bare and pairs is None and variant is None and _repeat(fitted):
            fitted, learned = _learn_repeats(fitted, queries, asked)
        elif queries is not None:
            if variant is not None:
                raise InvalidTypeError("`queries` are real, a `variant` draws others: leave one of the two out.")
            known = None if pairs is None else PairSource(fitted, pairs, None, samples, seed, may_be_empty=True).draw()
            learned = _learn_unlabeled(fitted, queries, known, asked)
        else:
            source = PairSource(fitted, pairs, variant, samples, seed, may_be_empty=True, other_columns=True)
            learned = _learn(fitted, source.draw(), asked)
        report = replace(learned, settings=asdict(asked.settings))
    elif categorical or errors:
        name = "categorical" if categorical else "errors"
        raise InvalidTypeError(f"`{name}` needs a similarity by name, such as `similarity='auto'`.")
    elif queries is not None:
        raise InvalidTypeError("`queries` without origins need a similarity by name, such as `similarity='auto'`.")
    elif settings is not None:
        raise InvalidTypeError(
            "`settings` are those of a similarity that is learned by name, such as `similarity='auto'`. A solver has "
            "its own: give `solver=ahop.fitting.ConvexSolver(...)`."
        )
    else:
        report = _solve(fitted, solver, pairs, variant, groups, samples, seed, progress)
    fitted.report = replace(report, seconds=time.perf_counter() - started)
    return fitted


@dataclass(frozen=True)
class _Asked:
    """Options of a fit.

    Attributes:
        wanted: candidates to choose among.
        is_auto: of which only those are tried that suit the data.
        groups: as they were given.
        categorical: places of the columns that hold categories.
        categories: of these, once rows and copies are known.
        errors: columns that hold standard deviations of others; None if there are none.
    """

    wanted: list[Candidate]
    is_auto: bool
    groups: Sequence[object] | None
    settings: Settings
    seed: int
    progress: bool
    categorical: tuple[int, ...] = ()
    categories: Categories | None = None
    errors: ErrorColumns | None = None


def _settings(given: Settings | None) -> Settings:
    return DEFAULT if given is None else check_kind("settings", given, Settings)


def _learn(memory: AssociativeMemory, pairs: Pairs, asked: _Asked) -> FitReport:
    """Put the chosen similarity, its posterior, its groups and the detector of unknown queries into the memory."""
    groups, wanted = asked.groups, asked.wanted
    names, numbers = ([], None) if groups is None else numbered(as_group_names(groups, len(pairs)))
    patterns = memory.modulation(memory.patterns)
    with few_threads(len(pairs) * patterns.shape[1]), _bar(asked) as bar:
        bar.set_postfix_str("what happens to copies")
        several = numbers if len(names) > 1 else None
        asked = _with_categories(asked, memory, pairs.queries)
        asked = _with_errors(asked, memory, pairs.queries)
        columns = asked.categories, asked.errors
        training = training_set_of(patterns, pairs, several, asked.seed, asked.settings, *columns)
        if training.numbers is not training:
            wanted = asked.wanted
        elif training.has_other_columns:
            wanted = for_other_columns(wanted)
            check_enough(training, groups)
        elif training.groups is not None and not alignment_helps(training, wanted[0]):
            training = training.unaligned()
        if asked.is_auto:
            wanted = suitable(wanted, training)
        choice = choose(training, patterns, pairs, wanted, asked.seed, bar)
        if training.has_other_columns:
            bar.set_postfix_str("probabilities")
            choice = among_all_stored(choice, training, patterns, pairs.origins, asked.seed)
        found: dict[str, Similarity] = {}
        if training.groups is not None and choice.detector is not None:
            bar.set_postfix_str("groups")
            found = learn_groups(training, choice.candidates[0], choice.similarity, choice.learned_from, names)
    learned = choice.detector is not None
    of_errors = _said_of_errors(asked, choice.similarity)
    has_corruption = learned and choice.spaces is None and (of_errors is None or of_errors.factor is None)
    report = FitReport(
        chosen=choice.name,
        pairs=len(pairs),
        loss=choice.log_loss,
        trials=choice.trials,
        corruption=_corruption(training, choice, memory.columns) if has_corruption else None,
        categories=_said_of(training) if learned else None,
        errors=of_errors,
        groups=len(found),
        accuracy=choice.accuracy if learned else None,
        floor=choice.separation.floor,
        members=choice.members,
        tie=choice.tie,
        spaces=choice.spaces,
    )
    memory.model = memory.model.replaced(
        similarity=choice.similarity.to(patterns.device),
        separation=choice.separation,
        detector=choice.detector,
        groups=found,
        reference=Reference.of(pairs.queries, groups),
    )
    return report


def _with_categories(asked: _Asked, memory: AssociativeMemory, copies: Tensor) -> _Asked:
    """With the categories of the columns that hold any, as all stored rows have them, and candidates for these."""
    if not asked.categorical:
        return asked
    check_no_groups(asked.groups)
    if copies.shape[1] != memory.dimensions:
        raise InvalidTypeError("`categorical` needs copies of the columns that the stored patterns have.")
    categories = Categories.of(memory.patterns, copies, asked.categorical, memory.columns)
    return replace(asked, categories=categories, wanted=for_categories(asked.wanted, categories))


def _with_errors(asked: _Asked, memory: AssociativeMemory, copies: Tensor) -> _Asked:
    """With candidates that know the standard deviations, and others for the values alone."""
    if asked.errors is None:
        return asked
    if copies.shape[1] != memory.dimensions:
        raise InvalidTypeError("`errors` need copies of the columns that the stored patterns have.")
    asked.errors.check("copies", copies)
    return replace(asked, wanted=for_errors(asked.wanted, asked.errors))


def _corruption(training: TrainingSet, choice: Choice, columns: Sequence[str] | None) -> Corruption | None:
    """Corruption of the columns of numbers, if there are any."""
    if training.numbers is training:
        return describe_corruption(training, choice.trials, choice.knows_wrong_pairs, columns)
    places = training.numeric
    if not places:
        return None
    named = None if columns is None else [columns[place] for place in places]
    return describe_corruption(training.numbers, choice.trials, choice.knows_wrong_pairs, named)


def _said_of(training: TrainingSet, same_numbers: float | None = None) -> CategoriesReport | None:
    if training.categories is None:
        return None
    tables = training.tables
    return CategoriesReport(len(training.categories.places), tables.agreement, tables.error, same_numbers)


def _errors_of(memory: AssociativeMemory) -> ErrorColumns | None:
    """Columns of standard deviations that a memory was fitted with."""
    told = memory.report.errors if isinstance(memory.report, FitReport) else None
    return None if told is None else ErrorColumns(told.values, told.errors)


def _said_of_errors(asked: _Asked, similarity: Similarity) -> ErrorsReport | None:
    if asked.errors is None:
        return None
    places = asked.errors.values, asked.errors.errors
    for each in similarity.modules():
        if isinstance(each, HeteroscedasticVariant):
            return ErrorsReport(*places, float(each.factor), float(each.base.std.median()))
    return ErrorsReport(*places)


def _bar(asked: _Asked) -> "tqdm[Any]":
    return tqdm(desc="fit", unit="fit", disable=not asked.progress)


def _repeat(memory: AssociativeMemory) -> bool:
    return memory.labels is not None and len(set(memory.labels.tolist())) < len(memory)


def _learn_repeats(
    memory: AssociativeMemory, queries: RowsLike | None, asked: _Asked
) -> tuple[AssociativeMemory, FitReport]:
    """One pattern for each label; what happens to copies is learned, and checked, from rows that were left out."""
    assert memory.labels is not None
    if asked.errors is not None:
        check_errors_alone(labels=True)
    if asked.categorical:
        raise InvalidTypeError(
            "`labels` that repeat make one pattern of the rows of a label, their mean, and categories have none. Give "
            "`pairs=(labels, copies)` beside rows with labels that differ, or `queries=`."
        )
    rows = memory.patterns.cpu()
    log = None if queries is None else as_queries(queries, memory.patterns, columns=memory.columns)
    named = None if asked.groups is None else list(asked.groups)
    later = None if named is None or log is None or len(named) == len(rows) else named[len(rows) :]
    names, numbers = ([], torch.arange(len(rows))) if named is None else numbered(_of_rows(named, rows, later, log))
    repeats = Repeats(rows, numbers_of_entries("labels", memory.labels, len(rows)), numbers)
    patterns, model, report = _taught(repeats, names, memory.columns, asked)
    labels = list(dict.fromkeys(memory.labels.tolist()))
    fitted = AssociativeMemory(patterns.to(memory.patterns), model=model.to(memory.patterns.device), labels=labels)
    fitted.columns = memory.columns
    fitted.model = fitted.model.replaced(
        report=report, reference=Reference.of(memory.patterns, named and named[: len(rows)])
    )
    return (fitted, report) if log is None else _adapted(fitted, log, later, asked)


def _adapted(
    memory: AssociativeMemory, log: Tensor, groups: Sequence[object] | None, asked: _Asked
) -> tuple[AssociativeMemory, FitReport]:
    followed = adapt(memory, log, groups=groups, settings=asked.settings, seed=asked.seed, progress=asked.progress)
    assert isinstance(followed.report, FitReport)
    return followed, followed.report


def _of_rows(named: list[object], rows: Tensor, later: list[object] | None, asked: Tensor | None) -> list[str]:
    """The groups of the rows; those of queries may stand behind them."""
    count = len(rows) + (0 if later is None or asked is None else len(asked))
    return as_group_names(named, count)[: len(rows)]


def _taught(
    repeats: Repeats, names: list[str], columns: tuple[str, ...] | None, asked: _Asked
) -> tuple[Tensor, Model, FitReport]:
    """Patterns, model and report; offsets of groups are taken off if those who are left out are found better so."""
    if len(names) > 1 and repeats.offsets is None:
        aligned = _taught(repeats.with_offsets(), names, columns, asked)
        if aligned[1].groups:
            return aligned
    patterns, pairs = repeats.pairs(asked.seed)
    memory = AssociativeMemory(patterns)
    memory.columns = columns
    report = _learn(memory, pairs, replace(asked, groups=None))
    model, known = memory.model, (asked.seed, asked.settings.posterior)
    plain = check(repeats, model, *known, finds_offset=False)
    found, similarity = plain, model.similarity
    groups: dict[str, Similarity] = {}
    if repeats.offsets is not None:
        found = check(repeats, model, *known, finds_offset=True)
        if found.loss < plain.loss:
            similarity = scaled(similarity, plain.beta / found.beta)  # for those whose offset nobody knows
            dimensions, dtype = repeats.rows.shape[1], repeats.rows.dtype
            shifts = zip(names, repeats.offsets.tolist(), strict=True)
            groups = {name: shifted(model.similarity, offset, dimensions, dtype) for name, offset in shifts}
    said = RepeatsReport(
        rows=len(repeats.rows),
        labels=len(patterns),
        groups=len(names),
        checked=found.rows,
        right=found.right,
        said=found.said,
        spread=found.spread,
    )
    separation = Softmax(found.beta, floor=found.floor)
    model = model.replaced(similarity=similarity, separation=separation, groups=groups)
    every = torch.ones(len(repeats.rows), dtype=torch.bool)
    return repeats.patterns(every), model, replace(report, loss=found.loss, groups=len(groups), repeats=said)


def _learn_unlabeled(memory: AssociativeMemory, queries: RowsLike, labeled: Pairs | None, asked: _Asked) -> FitReport:
    """Learn from queries, and calibrate on simulated copies, or on the labels if there are enough."""
    log = as_queries(queries, memory.patterns, columns=memory.columns)
    labels = 0 if labeled is None else len(labeled)
    names = None if asked.groups is None else as_group_names(asked.groups, labels + len(log))[labels:]
    patterns = memory.modulation(memory.patterns)
    with few_threads(len(log) * patterns.shape[1]), _bar(asked) as bar:

        def told(text: str) -> None:
            bar.set_postfix_str(text)
            bar.update()

        asked = _with_categories(asked, memory, log)
        tried = _worth_a_log(asked, labels, len(log))
        if asked.categories is None:
            found = learn_unlabeled(patterns, log, labeled, tried, asked.seed, asked.settings, told, asked.is_auto)
        else:
            found = learn_categories(patterns, log, labeled, asked.categories, tried, asked.seed, asked.settings, told)
        fixed = Candidate(f"{found.name}{OF_QUERIES}", lambda training: found.similarity, is_fixed=True)
        choice = _calibrated(patterns, found.calibrating, [fixed], asked, bar)
        checked = None if labeled is None else _checked(patterns, labeled, fixed, choice, asked, bar)
    choice = checked or choice
    by_agreement = found.name == AGREEMENT.name and asked.categories is not None
    same = same_numbers(found.training) if by_agreement else None
    report = FitReport(
        chosen=found.name if choice.candidates == (fixed,) else choice.name,
        pairs=labels,
        loss=choice.log_loss,
        trials=choice.trials,
        corruption=None if same is not None else _corruption(found.training, choice, memory.columns),
        categories=_said_of(found.training, same),
        accuracy=choice.accuracy,
        floor=choice.separation.floor,
        members=choice.members,
        unlabeled=UnlabeledReport(
            queries=found.queries,
            labels=labels,
            unknown=found.unknown,
            information=found.information,
            plain=found.plain,
            is_checked=checked is not None,
        ),
    )
    memory.model = memory.model.replaced(
        similarity=choice.similarity.to(patterns.device),
        separation=choice.separation,
        detector=choice.detector,
        groups={},
        reference=Reference.of(log),
    )
    if names is None:
        return report
    memory.report = report
    followed, report = _adapted(memory, log, names, asked)
    memory.model = followed.model
    return report


def _worth_a_log(asked: _Asked, labels: int, queries: int) -> list[Candidate]:
    """Candidates that queries can teach; of few queries none but the plain metric."""
    if not asked.is_auto:
        return asked.wanted
    tried: tuple[str, ...] = TRIED
    plain = PLAIN
    if asked.categories is not None:
        of_numbers = (MIXTURE, AGREEMENT.name) if asked.categories.numeric else (CATEGORICAL.name,)
        tried, plain = (*of_numbers, GOWER.name), GOWER.name
    if labels + queries >= LEAST_QUERIES:
        return [each for each in asked.wanted if each.name in tried or each.is_brought or each.is_asked]
    warnings.warn(
        f"{queries} queries are too few to learn from, {LEAST_QUERIES} are the least: the plain metric is kept. Give a "
        "longer log.",
        UserWarning,
        stacklevel=4,
    )
    return [each for each in asked.wanted if each.name == plain]


def _checked(
    patterns: Tensor, labeled: Pairs, fixed: Candidate, choice: Choice, asked: _Asked, bar: "tqdm[Any]"
) -> Choice | None:
    """The choice that labels make, or leave as simulated copies made it; None where they are too few to say.

    Args:
        fixed: what queries have taught; labels also say whether it is better than what they teach alone.
        choice: the same with the probabilities of simulated copies.
    """
    enough = asked.settings.unlabeled
    if len(labeled) < enough.calibrating_pairs:
        return None
    found = _calibrated(patterns, labeled, [fixed, *asked.wanted], asked, bar, asked.is_auto)
    if found.detector is None:  # of too few origins
        return None
    of_queries = next((trial.log_loss for trial in found.trials if trial.name == fixed.name), -inf)
    if found.log_loss < of_queries - enough.ahead_nats:
        return found
    found = _calibrated(patterns, labeled, [fixed], asked, bar)
    is_taken = len(labeled) < enough.checking_pairs or _is_better(found, choice, patterns, labeled, asked.settings)
    return found if is_taken else choice


def _calibrated(
    patterns: Tensor,
    pairs: Pairs,
    wanted: list[Candidate],
    asked: _Asked,
    bar: "tqdm[Any]",
    only_suitable: bool = False,
) -> Choice:
    """A similarity that has been learned already, or one that these pairs find better, as a probability."""
    training = training_set_of(patterns, pairs, None, asked.seed, asked.settings, asked.categories)
    wanted = suitable(wanted, training) if only_suitable else wanted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few origins are no reason to warn: something was learned before
        return choose(training, patterns, pairs, wanted, asked.seed, bar)


@torch.no_grad()
def _is_better(choice: Choice, other: Choice, patterns: Tensor, pairs: Pairs, settings: Settings) -> bool:
    """True if one choice makes the origins of pairs clearly likelier than another."""
    scores = choice.similarity(patterns, pairs.queries)
    mine, theirs = (
        -each.separation(scores).double().gather(-1, pairs.origins.unsqueeze(-1)).clamp_min(1e-12).log().squeeze(-1)
        for each in (choice, other)
    )
    mean, error = behind(theirs, mine, torch.ones_like(mine))
    return mean > settings.unlabeled.clear_std_errors * error


def _solve(
    memory: AssociativeMemory,
    solver: str | Solver | None,
    pairs: Pairs | tuple[Entries, RowsLike] | None,
    variant: Variant | None,
    groups: Sequence[object] | None,
    samples: int,
    seed: int,
    progress: bool,
) -> SolverReport:
    if groups is not None:
        raise InvalidTypeError("`groups` need a similarity that is learned by name, such as `similarity='auto'`.")
    chosen = _chosen(solver, memory)
    # What was learned about the scores of another similarity does not hold for this one's.
    memory.model = memory.model.replaced(detector=None, groups=None)
    if not isinstance(chosen, SeparationSolver):
        source = PairSource(memory, pairs, variant, samples, seed)
        report = chosen.solve(memory, source, progress)
        memory.model = memory.model.replaced(reference=Reference.of(source.draw().queries))
        return report
    if pairs is not None or variant is not None:
        raise InvalidTypeError(
            "The separation solver looks at the stored patterns alone; give it no pairs and no variant."
        )
    return chosen.solve(memory, seed, progress)


def _chosen(solver: str | Solver | None, memory: AssociativeMemory) -> Solver:
    if solver is None:
        if isinstance(memory.similarity, LinearSimilarity):
            return ConvexSolver()
        is_isolated = isinstance(memory.similarity, IsolatedSimilarity) and isinstance(memory.separation, Softmax)
        return ShrinkageSolver() if is_isolated else AdamSolver()
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, tuple(SOLVERS))]()
    if not isinstance(solver, tuple(SOLVERS.values())):
        raise InvalidTypeError(
            f"`solver` must be {', '.join(map(repr, SOLVERS))} or one of their classes; got {solver!r}."
        )
    return solver
