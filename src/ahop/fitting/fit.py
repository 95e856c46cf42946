"""The one verb: fit."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from torch import nn

from ahop._checks import as_group_names, check_choice, check_count
from ahop._typing import Entries, RowsLike
from ahop.errors import KindError
from ahop.fitting.auto import choose, describe_corruption
from ahop.fitting.candidates import CANDIDATES
from ahop.fitting.convex import ConvexSolver
from ahop.fitting.gradient import AdamSolver
from ahop.fitting.groups import learn_groups
from ahop.fitting.pairs import PairSource
from ahop.fitting.report import FitReport
from ahop.fitting.spreading import SeparationSolver
from ahop.memory import AssociativeMemory
from ahop.separations.softmax import Softmax
from ahop.similarities.base import LinearSimilarity
from ahop.variants.base import Pairs, Variant

Solver: TypeAlias = ConvexSolver | AdamSolver | SeparationSolver

SOLVERS: dict[str, type[Solver]] = {"convex": ConvexSolver, "adam": AdamSolver, "separation": SeparationSolver}
SIMILARITIES = ("auto", *(candidate.name for candidate in CANDIDATES))


def fit(
    memory: AssociativeMemory | RowsLike,
    *,
    pairs: Pairs | tuple[Entries, RowsLike] | None = None,
    variant: Variant | None = None,
    similarity: str | None = None,
    solver: Literal["convex", "adam", "separation"] | Solver | None = None,
    groups: Sequence[object] | None = None,
    labels: Entries | None = None,
    samples: int = 1024,
    seed: int = 0,
    progress: bool = True,
) -> AssociativeMemory:
    """A memory that has learned how its queries get corrupted. The memory given is left as it was.

    Args:
        memory: bare patterns (n, d), NaN where nothing was observed; or a memory, whose own similarity is fitted.
        pairs: (origins, copies): row of the stored pattern, and what became of it. If the patterns have labels, origins
            are labels, also where labels are whole numbers; `ahop.Pairs(rows, copies)` are rows always.
        variant: draw pairs from this distribution instead.
        similarity: "auto", the default for bare patterns, compares what can be learned (and the fixed metrics) on
            pairs whose origins were held out, takes the best and calibrates it. Or the name of one of them:
            "euclidean", "manhattan", "dot", "debiased", "mixture", "additive", "additive by dimension", "nuisance",
            "footprint".
        solver: for a memory's own similarity, by name or with settings. Default: "convex" where the similarity is
            linear in its coefficients, as footprints are, else "adam", the paper's recipe. "separation" is K-Hop's own
            and needs no pairs.
        groups: where each copy comes from, such as its device. Each group gets a corruption of its own if that
            predicts held-out copies better; pass the same names to `recall`.
        labels: what each of the bare patterns is called; default the index of a pandas frame, if it does not just
            count the rows.
        samples: how many pairs to draw from a variant: once, or for each epoch of Adam.
        seed: of everything that is drawn.
        progress: show a bar.

    Returns:
        A fitted copy that shares the stored patterns; its `report` says in words what was found.

    Paper:
        Minimises the discrepancy loss of Section 3.3; Figure 2 (b) [fig:main].
    """
    bare = not isinstance(memory, AssociativeMemory)
    if isinstance(memory, AssociativeMemory) and labels is not None:
        raise KindError("`labels` are for bare patterns: a memory has its own. Build it with `labels=`.")
    fitted = memory.copy() if isinstance(memory, AssociativeMemory) else AssociativeMemory(memory, labels=labels)
    check_count("samples", samples)
    started = time.perf_counter()
    if similarity is not None or (bare and solver is None):
        name = check_choice("similarity", similarity or "auto", SIMILARITIES)
        if solver is not None:
            raise KindError("`similarity` brings its own fit; leave `solver` out, or give a memory with a similarity.")
        source = PairSource(fitted, pairs, variant, samples, seed, may_be_empty=True)
        report = _learn(fitted, source.draw(), name, groups, seed, progress)
    else:
        report = _solve(fitted, solver, pairs, variant, groups, samples, seed, progress)
    fitted.report = replace(report, seconds=time.perf_counter() - started)
    return fitted


def _learn(
    memory: AssociativeMemory, pairs: Pairs, name: str, groups: Sequence[object] | None, seed: int, progress: bool
) -> FitReport:
    """Put the chosen similarity, its sharpness, its groups and the detector of unknown queries into the memory."""
    names = None if groups is None else as_group_names(groups, len(pairs))
    patterns = memory.modulation(memory.patterns)
    choice = choose(patterns, pairs, None if name == "auto" else [name], seed, progress)
    memory.similarity, memory.detector = choice.similarity.to(patterns.device), choice.detector
    memory.separation = Softmax(choice.beta)
    memory.group_names, memory.by_group = [], nn.ModuleList()
    if names is not None and choice.detector is not None:
        found = learn_groups(choice.lesson, choice.candidate, choice.beta, names, progress)
        memory.group_names = list(found)
        memory.by_group.extend(found.values())
    learned = choice.detector is not None
    best = next(trial for trial in choice.trials if trial.name == choice.candidate.name)
    plain = max(trial.log_loss for trial in choice.trials)
    return FitReport(
        solver="auto",
        pairs=len(pairs),
        steps=len(choice.trials),
        loss_before=plain,
        loss=best.log_loss,
        chosen=choice.candidate.name,
        trials=choice.trials,
        corruption=describe_corruption(choice.lesson, choice.trials) if learned else None,
        groups=len(memory.group_names),
    )


def _solve(
    memory: AssociativeMemory,
    solver: str | Solver | None,
    pairs: Pairs | tuple[Entries, RowsLike] | None,
    variant: Variant | None,
    groups: Sequence[object] | None,
    samples: int,
    seed: int,
    progress: bool,
) -> FitReport:
    if groups is not None:
        raise KindError("`groups` need a similarity that is learned by name, such as `similarity='auto'`.")
    chosen = _chosen(solver, memory)
    # What was learned about the scores of another similarity does not hold for this one's.
    memory.detector, memory.group_names, memory.by_group = None, [], nn.ModuleList()
    if not isinstance(chosen, SeparationSolver):
        return chosen.solve(memory, PairSource(memory, pairs, variant, samples, seed), progress)
    if pairs is not None or variant is not None:
        raise KindError("The separation solver looks at the stored patterns alone; give it no pairs and no variant.")
    return chosen.solve(memory, progress)


def _chosen(solver: str | Solver | None, memory: AssociativeMemory) -> Solver:
    if solver is None:
        return ConvexSolver() if isinstance(memory.similarity, LinearSimilarity) else AdamSolver()
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, tuple(SOLVERS))]()
    if not isinstance(solver, tuple(SOLVERS.values())):
        raise KindError(f"`solver` must be {', '.join(map(repr, SOLVERS))} or one of their classes; got {solver!r}.")
    return solver
