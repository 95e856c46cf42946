"""`open_memory`: recall from a saved memory without torch."""

import os
from collections.abc import Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from ahop._core.checks import as_group_names, check_count
from ahop._core.kernels import compiled
from ahop._core.labels import rows_by_label
from ahop._core.rows import (
    as_matrix_of_one,
    as_real,
    check_single,
    in_single_precision,
    read_queries,
    row_flags,
    row_numbers,
)
from ahop.errors import UnsupportedError
from ahop.memory.contributing import contributions
from ahop.memory.explanation import Explanation
from ahop.memory.planning import Answered, Plan, plan_of
from ahop.memory.reasons import Reasons, is_unknown, names_of_columns, no_detector, no_rival
from ahop.memory.recall import Recall, labels_at
from ahop.memory.saving.contents import Contents, as_format_error, read_contents
from ahop.memory.saving.parts import Part

WITH_TORCH: Final = "`ahop.load` answers it, with PyTorch: `pip install 'ahop[fit]'`."


def open_memory(path: str | os.PathLike[str], threads: int | None = None) -> "Runtime":
    """The memory in a file that `memory.save` wrote, to recall from without torch.

    It knows mixtures, additive models, plain metrics, what is done to rows before these, and pools of them, in single
    precision. `ahop.load` knows all that a file can hold.

    Args:
        threads: that a recall may use; default all that the process has, or as `OMP_NUM_THREADS` says.

    Raises:
        FileFormatError: the file is damaged, was written by a newer release, or describes no memory.
        UnsupportedError: the memory needs torch.
    """
    contents = read_contents(path)
    with as_format_error(contents.where):
        return Runtime(contents, threads)


@final
class Runtime:
    """Memory that recalls by its compiled plan alone, and does not change. `open_memory` makes it.

    Attributes:
        patterns: (n, d) what is stored.
        labels: (n,) of the patterns; None if they have none.
        columns: the names of the dimensions; None if they have none.
        is_checked: whether probabilities were compared with origins that somebody knew.
        report: what the fit found; None if there was none.
        detector: of queries that come from no stored pattern; None if it was not fitted to tell.
        reference: queries of the fit, for `ahop.watch`; None if none were kept.
    """

    def __init__(self, contents: Contents, threads: int | None = None) -> None:
        self.patterns = _in_single_precision(contents.where, contents.patterns)
        self.labels, self.columns, self.report = contents.labels, contents.columns, contents.report
        self.is_checked = self.report is not None and self.report.is_checked
        self.reference = contents.reference
        self._contents = contents
        self._threads = _threads() if threads is None else check_count("threads", threads)
        self._answering: dict[str | None, tuple[Part, Plan]] = {}
        self.detector = self._for(None)[0].detector

    def __len__(self) -> int:
        return len(self.patterns)

    @property
    def dimensions(self) -> int:
        """The number of columns."""
        return int(self.patterns.shape[1])

    @property
    def group_names(self) -> tuple[str, ...]:
        """Groups that it was fitted with."""
        return self._contents.group_names

    def recall(
        self, queries: Any, k: int = 1, *, where: Any = None, groups: Sequence[object] | None = None, same: Any = None
    ) -> Recall[NDArray[Any]]:
        """Recall the k stored patterns that each query most likely came from, in arrays of numpy.

        Args:
            queries: (b, d), NaN where nothing was observed, as everywhere.
            groups: the origin of each query, such as its device, if the memory was fitted with groups.
            where: the patterns that may be answered, as flags (n,) or numbers of rows.
            same: None; a memory that `ahop.load` read takes it.
        """
        if same is not None:
            raise UnsupportedError(f"`same` is nothing that a memory can do without torch. {WITH_TORCH}")
        allowed = None if where is None else row_flags("where", as_real("where", where), len(self))
        rows = read_queries(queries, self.dimensions, self.columns)
        k = min(check_count("k", k), len(self))
        ids, posterior = np.empty((len(rows), k), np.int64), np.empty((len(rows), k), np.float32)
        unknown: NDArray[np.float32] | None = None
        for group, asked in self._by_group(groups, len(rows)):
            found = self._ranked(self._for(group)[1], rows[asked], k, allowed)
            ids[asked], posterior[asked] = found.ids, found.posterior
            if found.unknown is not None:
                unknown = np.empty(len(rows), np.float32) if unknown is None else unknown
                unknown[asked] = found.unknown
        patterns = self.patterns[np.maximum(ids, 0)]
        patterns[ids < 0] = np.nan
        return Recall(ids, posterior, patterns, unknown, labels_at(self.labels, ids), self.is_checked)

    def explain(self, query: Any, *, against: object = None, group: object = None) -> Explanation:
        """Why this query is answered as it is: what each dimension says for the answer, and against its rival.

        Args:
            query: one row, (d,) or (1, d).
            against: label of the rival, or its row if there are no labels; or "unknown", if no label is that, for what
                tells the answer from a query of no stored pattern. Default: the second answer.
            group: where the query comes from, if the memory was fitted with groups.
        """
        asked = read_queries(as_matrix_of_one(query), self.dimensions, self.columns, "query")
        check_single(len(asked))
        model, plan = self._for(str(group) if str(group) in self.group_names else None)
        # A floor is shared by all that are known, so the odds of a rival need every posterior.
        found = self._ranked(plan, asked, len(self) if _has_floor(model) else min(2, len(self)))
        rows = self._compared(found, against)
        said = contributions(model.similarity, self.patterns[rows], asked[0], self.patterns)
        called = rows.tolist() if self.labels is None else self.labels[rows].tolist()
        columns, kept = names_of_columns(self.columns, self.dimensions), said.is_kept
        reasons = Reasons(
            called,
            columns,
            asked[0],
            self.patterns[rows],
            said.dimensions,
            said.wholes,
            None if kept is None else kept[0],
            float(found.posterior[0, 0]),
        )
        if len(rows) == 1:
            detector = model.detector
            if detector is None or found.log_odds is None:
                raise no_detector()
            worth = float((detector.slopes / detector.scale)[:2].sum(dtype=np.float64))
            return reasons.against_unknown(worth, float(found.log_odds[0]), detector.log_prior_odds)
        prior = None if self._contents.log_prior is None else self._contents.log_prior[rows].astype(np.float64)
        lead = None if prior is None else float(prior[0] - prior[1])
        return reasons.against_rival(model.beta, lead, _log_odds(model, found, rows, said.total, prior))

    def _compared(self, found: Answered, against: object) -> NDArray[np.int64]:
        """The rows of the answer and of its rival; of the answer alone if that is none."""
        first = found.ids[0, :1]
        if is_unknown(against, self.labels):
            return first
        if against is None:
            if len(self) == 1:
                raise no_rival()
            return found.ids[0, :2]
        if self.labels is None:
            named = row_numbers("against", as_real("against", [against]), len(self))
        else:
            named = np.array(rows_by_label(self.labels, [against], "against"), np.int64)
        return np.concatenate([first, named])

    def _by_group(self, groups: Sequence[object] | None, count: int) -> list[tuple[str | None, Any]]:
        """The groups that are known, and which queries are theirs; None for all others."""
        if groups is None:
            return [(None, slice(None))]
        known, rows = self.group_names, dict[str | None, list[int]]()
        for row, name in enumerate(as_group_names(groups, count)):
            rows.setdefault(name if name in known else None, []).append(row)
        return list(rows.items()) or [(None, slice(None))]

    def _ranked(
        self, plan: Plan, rows: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> Answered:
        found = plan.rank(rows, k, self._threads, allowed)
        if found is None:
            raise UnsupportedError(
                f"`queries` hold numbers that leave single precision beside what is stored. {WITH_TORCH}"
            )
        return found

    def _for(self, group: str | None) -> tuple[Part, Plan]:
        """Model and plan for queries of a group."""
        found = self._answering.get(group)
        if found is None:
            model = self._contents.model(group)
            found = self._answering[group] = model, self._plan_of(model)
        return found

    def _plan_of(self, model: Part) -> Plan:
        if not model.weighs_by_mass:
            raise UnsupportedError(f"{self._contents.where} weighs by {model.separation.kind}. {WITH_TORCH}")
        if not hasattr(compiled.native, "Plan"):
            raise UnsupportedError("This installation of ahop was built without a compiler. " + WITH_TORCH)
        found = plan_of(model, self.patterns, self._contents.log_prior)
        if found is None:
            raise UnsupportedError(
                f"{self._contents.where} is compared by {model.similarity.kind}, which the compiled recall does not "
                f"know. {WITH_TORCH}"
            )
        return found


def _log_odds(
    model: Part,
    found: Answered,
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    prior: NDArray[np.float64] | None,
) -> float:
    """Log odds of the first against the second of two rows, whose scores alone say them unless there is a floor."""
    if _has_floor(model):
        posterior = found.posterior[0].astype(np.float64)
        shares = posterior[np.argsort(found.ids[0])[rows]]
        shares = np.where(shares > 0, shares, model.separation.floor / max(1, np.count_nonzero(posterior)))
        return float(np.log(shares[0] / shares[1]))
    lead = model.beta * (scores[0] - scores[1])
    return float(lead if prior is None else lead + prior[0] - prior[1])


def _has_floor(model: Part) -> bool:
    return model.separation.kind == "Softmax" and bool(model.separation.floor > 0)


def _in_single_precision(where: str, stored: NDArray[Any]) -> NDArray[np.float32]:
    found = in_single_precision(stored)
    if found is None:
        raise UnsupportedError(
            f"{where} holds numbers that differ from each other by little more than single precision tells. "
            f"Subtract what they have in common before you store them. {WITH_TORCH}"
        )
    return found


def _threads() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "")
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(asked) if asked.isdigit() and int(asked) > 0 else free
