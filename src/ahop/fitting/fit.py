"""The `fit` function."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor
from tqdm.auto import tqdm

from ahop._core.checks import as_group_names, check_choice, check_count
from ahop._core.inputs import as_queries
from ahop._core.label_tensors import numbers_of_entries
from ahop._core.placeholders import warn_of_placeholder
from ahop._core.typing import Entries, RowsLike
from ahop.errors import InvalidTypeError, InvalidValueError
from ahop.fitting.adapt import adapt
from ahop.fitting.choosing.candidates import CANDIDATES, Candidate, suitable
from ahop.fitting.choosing.groups import alignment_helps, learn_groups, numbered
from ahop.fitting.choosing.posterior import behind
from ahop.fitting.choosing.selection import (
    TOLERATED,
    Choice,
    choose,
    describe_corruption,
    training_set_of,
    wanted_candidates,
)
from ahop.fitting.pairs import PairSource
from ahop.fitting.solvers.adam import AdamSolver
from ahop.fitting.solvers.kernel_separation import SeparationSolver
from ahop.fitting.solvers.newton import ConvexSolver
from ahop.fitting.solvers.shrinkage import ShrinkageSolver
from ahop.fitting.threads import few_threads
from ahop.fitting.unlabeled.donors import check, scaled, shifted
from ahop.fitting.unlabeled.learn import LEARNED_STD_ERRORS, PLAIN, TRIED, learn_unlabeled
from ahop.fitting.unlabeled.repeats import Repeats
from ahop.memory.memory import AssociativeMemory
from ahop.memory.model import Model
from ahop.memory.reference import Reference
from ahop.memory.report import LEAST_QUERIES, FitReport, RepeatsReport, Report, SolverReport, UnlabeledReport
from ahop.separations.softmax import Softmax
from ahop.similarities.base import LinearSimilarity, Similarity
from ahop.similarities.isolated import IsolatedSimilarity
from ahop.variants.base import Pairs, Variant

Solver: TypeAlias = ConvexSolver | AdamSolver | SeparationSolver | ShrinkageSolver

SOLVERS: dict[str, type[Solver]] = {
    "convex": ConvexSolver,
    "adam": AdamSolver,
    "separation": SeparationSolver,
    "shrinkage": ShrinkageSolver,
}
# From so many labels on, probabilities are calibrated on them; fewer were not tried.
LEAST_LABELS_TO_CALIBRATE = 20
# From so many on, they can tell whether probabilities of simulated copies are right, which are then more precise.
LEAST_LABELS_TO_CHECK = 48
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
    candidates: Sequence[Similarity | Callable[[Any, Any], Any]] = (),
    solver: Literal["convex", "adam", "separation", "shrinkage"] | Solver | None = None,
    groups: Sequence[object] | None = None,
    labels: Entries | None = None,
    samples: int = 1024,
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
            "cosine", "correlation", "sorensen" and others that the documentation lists.
        candidates: metrics of your own, to be tried and pooled beside ours: similarities, or functions of (patterns,
            queries) that answer scores (b, n), larger for closer. They need not be probabilities.
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
        samples: how many pairs to draw from a variant: once, or for each epoch of Adam.
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
        if bare and pairs is None and variant is None and _repeat(fitted):
            fitted = _learn_repeats(fitted, queries, wanted, "auto" in names, groups, seed, progress)
            assert fitted.report is not None
            report: Report = fitted.report
        elif queries is not None:
            if variant is not None:
                raise InvalidTypeError("`queries` are real, a `variant` draws others: leave one of the two out.")
            known = None if pairs is None else PairSource(fitted, pairs, None, samples, seed, may_be_empty=True).draw()
            report = _learn_unlabeled(fitted, queries, known, wanted, "auto" in names, groups, seed, progress)
        else:
            source = PairSource(fitted, pairs, variant, samples, seed, may_be_empty=True)
            report = _learn(fitted, source.draw(), wanted, "auto" in names, groups, seed, progress)
    elif queries is not None:
        raise InvalidTypeError("`queries` without origins need a similarity by name, such as `similarity='auto'`.")
    else:
        report = _solve(fitted, solver, pairs, variant, groups, samples, seed, progress)
    fitted.report = replace(report, seconds=time.perf_counter() - started)
    return fitted


def _learn(
    memory: AssociativeMemory,
    pairs: Pairs,
    wanted: list[Candidate],
    only_suitable: bool,
    groups: Sequence[object] | None,
    seed: int,
    progress: bool,
) -> FitReport:
    """Put the chosen similarity, its posterior, its groups and the detector of unknown queries into the memory."""
    names, numbers = ([], None) if groups is None else numbered(as_group_names(groups, len(pairs)))
    patterns = memory.modulation(memory.patterns)
    with few_threads(len(pairs) * patterns.shape[1]), tqdm(desc="fit", unit="fit", disable=not progress) as bar:
        bar.set_postfix_str("what happens to copies")
        training = training_set_of(patterns, pairs, numbers if len(names) > 1 else None, seed)
        if training.groups is not None and not alignment_helps(training, wanted[0]):
            training = training.unaligned()
        if only_suitable:
            wanted = suitable(wanted, training)
        choice = choose(training, patterns, pairs, wanted, seed, bar)
        found: dict[str, Similarity] = {}
        if training.groups is not None and choice.detector is not None:
            bar.set_postfix_str("groups")
            found = learn_groups(training, choice.candidates[0], choice.similarity, choice.learned_from, names)
    learned = choice.detector is not None
    report = FitReport(
        chosen=choice.name,
        pairs=len(pairs),
        loss=choice.log_loss,
        trials=choice.trials,
        corruption=describe_corruption(training, choice.trials, choice.knows_wrong_pairs) if learned else None,
        groups=len(found),
        accuracy=choice.accuracy if learned else None,
        floor=choice.separation.floor,
        members=choice.members,
        tie=choice.tie,
    )
    memory.model = memory.model.replaced(
        similarity=choice.similarity.to(patterns.device),
        separation=choice.separation,
        detector=choice.detector,
        groups=found,
        reference=Reference.of(pairs.queries, groups),
    )
    return report


def _repeat(memory: AssociativeMemory) -> bool:
    return memory.labels is not None and len(set(memory.labels.tolist())) < len(memory)


def _learn_repeats(
    memory: AssociativeMemory,
    queries: RowsLike | None,
    wanted: list[Candidate],
    only_suitable: bool,
    groups: Sequence[object] | None,
    seed: int,
    progress: bool,
) -> AssociativeMemory:
    """One pattern for each label; what happens to copies is learned, and checked, from rows that were left out."""
    assert memory.labels is not None
    rows = memory.patterns.cpu()
    asked = None if queries is None else as_queries(queries, memory.patterns, columns=memory.columns)
    named = None if groups is None else list(groups)
    later = None if named is None or asked is None or len(named) == len(rows) else named[len(rows) :]
    names, numbers = ([], torch.arange(len(rows))) if named is None else numbered(_of_rows(named, rows, later, asked))
    repeats = Repeats(rows, numbers_of_entries("labels", memory.labels, len(rows)), numbers)
    patterns, model, report = _taught(repeats, names, wanted, only_suitable, seed, progress)
    labels = list(dict.fromkeys(memory.labels.tolist()))
    fitted = AssociativeMemory(patterns.to(memory.patterns), model=model.to(memory.patterns.device), labels=labels)
    fitted.columns = memory.columns
    fitted.model = fitted.model.replaced(
        report=report, reference=Reference.of(memory.patterns, named and named[: len(rows)])
    )
    return fitted if asked is None else adapt(fitted, asked, groups=later, seed=seed, progress=progress)


def _of_rows(named: list[object], rows: Tensor, later: list[object] | None, asked: Tensor | None) -> list[str]:
    """The groups of the rows; those of queries may stand behind them."""
    count = len(rows) + (0 if later is None or asked is None else len(asked))
    return as_group_names(named, count)[: len(rows)]


def _taught(
    repeats: Repeats, names: list[str], wanted: list[Candidate], only_suitable: bool, seed: int, progress: bool
) -> tuple[Tensor, Model, FitReport]:
    """Patterns, model and report; offsets of groups are taken off if those who are left out are found better so."""
    if len(names) > 1 and repeats.offsets is None:
        aligned = _taught(repeats.with_offsets(), names, wanted, only_suitable, seed, progress)
        if aligned[1].groups:
            return aligned
    patterns, pairs = repeats.pairs(seed)
    memory = AssociativeMemory(patterns)
    report = _learn(memory, pairs, wanted, only_suitable, None, seed, progress)
    model, plain = memory.model, check(repeats, memory.model, seed, finds_offset=False)
    found, similarity = plain, model.similarity
    groups: dict[str, Similarity] = {}
    if repeats.offsets is not None:
        found = check(repeats, model, seed, finds_offset=True)
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


def _learn_unlabeled(
    memory: AssociativeMemory,
    queries: RowsLike,
    labeled: Pairs | None,
    wanted: list[Candidate],
    is_auto: bool,
    groups: Sequence[object] | None,
    seed: int,
    progress: bool,
) -> Report:
    """Learn from queries, and calibrate on simulated copies, or on the labels if there are enough.

    Labels also say whether what queries teach is better than what the labels teach alone.
    """
    asked = as_queries(queries, memory.patterns, columns=memory.columns)
    labels = 0 if labeled is None else len(labeled)
    names = None if groups is None else as_group_names(groups, labels + len(asked))[labels:]
    patterns = memory.modulation(memory.patterns)
    with few_threads(len(asked) * patterns.shape[1]), tqdm(desc="fit", unit="fit", disable=not progress) as bar:

        def told(text: str) -> None:
            bar.set_postfix_str(text)
            bar.update()

        tried = [each for each in wanted if each.name in TRIED or each.is_brought] if is_auto else wanted
        if is_auto and labels + len(asked) < LEAST_QUERIES:
            tried = [each for each in tried if each.name == PLAIN]
            warnings.warn(
                f"{len(asked)} queries are too few to learn from, {LEAST_QUERIES} are the least: the plain metric is "
                "kept. Give a longer log.",
                UserWarning,
                stacklevel=3,
            )
        found = learn_unlabeled(patterns, asked, labeled, tried, seed, told, is_auto)
        fixed = Candidate(f"{found.name}{OF_QUERIES}", lambda training: found.similarity, is_fixed=True)
        choice = _calibrated(patterns, found.calibrating, [fixed], seed, bar)
        by_labels = None
        if labeled is not None and labels >= LEAST_LABELS_TO_CALIBRATE:
            by_labels = _calibrated(patterns, labeled, [fixed, *wanted], seed, bar, is_auto)
        is_checked = by_labels is not None and by_labels.detector is not None  # else of too few origins
        if labeled is not None and by_labels is not None and is_checked:
            of_queries = next((trial.log_loss for trial in by_labels.trials if trial.name == fixed.name), -inf)
            is_ahead = by_labels.log_loss < of_queries - TOLERATED
            if not is_ahead:
                by_labels = _calibrated(patterns, labeled, [fixed], seed, bar)
            if is_ahead or labels < LEAST_LABELS_TO_CHECK or _is_better(by_labels, choice, patterns, labeled):
                choice = by_labels
    report = FitReport(
        chosen=found.name if choice.candidates == (fixed,) else choice.name,
        pairs=labels,
        loss=choice.log_loss,
        trials=choice.trials,
        corruption=describe_corruption(found.training, (), knows_wrong_pairs=False),
        accuracy=choice.accuracy,
        floor=choice.separation.floor,
        members=choice.members,
        unlabeled=UnlabeledReport(
            queries=found.queries,
            labels=labels,
            unknown=found.unknown,
            information=found.information,
            plain=found.plain,
            is_checked=is_checked,
        ),
    )
    memory.model = memory.model.replaced(
        similarity=choice.similarity.to(patterns.device),
        separation=choice.separation,
        detector=choice.detector,
        groups={},
        reference=Reference.of(asked),
    )
    if names is None:
        return report
    memory.report = report
    followed = adapt(memory, asked, groups=names, seed=seed, progress=progress)
    assert followed.report is not None
    memory.model = followed.model
    return followed.report


def _calibrated(
    patterns: Tensor, pairs: Pairs, wanted: list[Candidate], seed: int, bar: "tqdm[Any]", only_suitable: bool = False
) -> Choice:
    """A similarity that has been learned already, or one that these pairs find better, as a probability."""
    training = training_set_of(patterns, pairs, None, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few origins are no reason to warn: something was learned before
        return choose(training, patterns, pairs, suitable(wanted, training) if only_suitable else wanted, seed, bar)


@torch.no_grad()
def _is_better(choice: Choice, other: Choice, patterns: Tensor, pairs: Pairs) -> bool:
    """True if one choice makes the origins of pairs clearly likelier than another."""
    scores = choice.similarity(patterns, pairs.queries)
    mine, theirs = (
        -each.separation(scores).double().gather(-1, pairs.origins.unsqueeze(-1)).clamp_min(1e-12).log().squeeze(-1)
        for each in (choice, other)
    )
    mean, error = behind(theirs, mine, torch.ones_like(mine))
    return mean > LEARNED_STD_ERRORS * error


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
