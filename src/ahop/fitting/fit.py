"""The one verb: fit."""

import time
from dataclasses import replace
from typing import Literal, TypeAlias

from ahop._checks import check_choice, check_count
from ahop._typing import Array
from ahop.errors import KindError
from ahop.fitting.convex import ConvexSolver
from ahop.fitting.gradient import AdamSolver
from ahop.fitting.pairs import PairSource
from ahop.fitting.spreading import SeparationSolver
from ahop.memory import AssociativeMemory
from ahop.similarities.base import LinearSimilarity
from ahop.variants.base import Pairs, Variant

Solver: TypeAlias = ConvexSolver | AdamSolver | SeparationSolver

SOLVERS: dict[str, type[Solver]] = {"convex": ConvexSolver, "adam": AdamSolver, "separation": SeparationSolver}


def fit(
    memory: AssociativeMemory | Array,
    *,
    pairs: Pairs | tuple[Array, Array] | None = None,
    variant: Variant | None = None,
    solver: Literal["convex", "adam", "separation"] | Solver | None = None,
    samples: int = 1024,
    seed: int = 0,
    progress: bool = True,
) -> AssociativeMemory:
    """A memory that has learned how its queries get corrupted. The memory given is left as it was.

    Args:
        memory: a memory, or bare patterns (n, d) for the paper's A-Hop.
        pairs: (origins, copies): row of the stored pattern, and what became of it.
        variant: draw pairs from this distribution instead.
        solver: by name or with settings. Default: "convex" where the similarity is linear in its coefficients, as
            footprints are, else "adam", the paper's recipe. "separation" is K-Hop's own and needs no pairs.
        samples: how many pairs to draw from a variant: once, or for each epoch of Adam.
        seed: of the pairs drawn.
        progress: show a bar.

    Returns:
        A fitted copy that shares the stored patterns; its `report` says how the fit went.

    Paper:
        Minimises the discrepancy loss of Section 3.3; Figure 2 (b) [fig:main].
    """
    fitted = memory.copy() if isinstance(memory, AssociativeMemory) else AssociativeMemory(memory)
    check_count("samples", samples)
    chosen = _chosen(solver, fitted)
    started = time.perf_counter()
    if isinstance(chosen, SeparationSolver):
        if pairs is not None or variant is not None:
            raise KindError(
                "The separation solver looks at the stored patterns alone; give it no pairs and no variant."
            )
        report = chosen.solve(fitted, progress)
    else:
        report = chosen.solve(fitted, PairSource(fitted, pairs, variant, samples, seed), progress)
    fitted.report = replace(report, seconds=time.perf_counter() - started)
    return fitted


def _chosen(solver: str | Solver | None, memory: AssociativeMemory) -> Solver:
    if solver is None:
        return ConvexSolver() if isinstance(memory.similarity, LinearSimilarity) else AdamSolver()
    if isinstance(solver, str):
        return SOLVERS[check_choice("solver", solver, tuple(SOLVERS))]()
    if not isinstance(solver, tuple(SOLVERS.values())):
        raise KindError(f"`solver` must be {', '.join(map(repr, SOLVERS))} or one of their classes; got {solver!r}.")
    return solver
