"""`open_memory`: recall from a saved memory without torch."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from ahop._core.checks import as_group_names, check_count
from ahop._core.frames import as_names
from ahop._core.kernels import compiled
from ahop._core.labels import in_lines
from ahop._core.rows import in_single_precision, read_queries
from ahop.errors import AhopError, FileFormatError, UnsupportedError
from ahop.memory.planning import Plan, plan_of
from ahop.memory.recall import Recall, labels_at
from ahop.memory.saving.kept_report import kept_report
from ahop.memory.saving.parts import model_of
from ahop.memory.saving.reading import FLOATS, no_floats, read_stored

# What a file that describes no model can raise.
FAILURES: Final = (AhopError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
WITH_TORCH = "`ahop.load` answers it, where torch is installed: `pip install torch`."
# Numbers of the model alone; queries that are kept for `watch` may have gaps.
REFERENCE = "model.reference."


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
    where = f"`{path}`"
    manifest, stored = read_stored(Path(path))
    labels = stored.pop("labels", None)
    if not all(each.dtype in FLOATS for each in stored.values()):
        raise no_floats(where)
    try:
        arrays = {name: each.array() for name, each in stored.items()}
        return Runtime(where, manifest, arrays, None if labels is None else bytes(labels.content), threads)
    except UnsupportedError:
        raise
    except FAILURES as error:
        raise FileFormatError(f"{where} does not describe a memory that this release can build: {error}") from error


@final
class Runtime:
    """Memory that recalls by its compiled plan alone, and does not change. `open_memory` makes it.

    Attributes:
        patterns: (n, d) what is stored.
        labels: (n,) of the patterns; None if they have none.
        columns: the names of the dimensions; None if they have none.
        is_checked: whether probabilities were compared with origins that somebody knew.
    """

    def __init__(
        self,
        where: str,
        manifest: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
        labels: bytes | None,
        threads: int | None,
    ) -> None:
        self.patterns = _in_single_precision(where, arrays["patterns"])
        self.labels = None if labels is None else in_lines(labels, len(self))
        self.columns = as_names(manifest.get("dimensions"), self.dimensions)
        report = kept_report(manifest.get("report"))
        self.is_checked = report is not None and report.is_checked
        self._where, self._manifest = where, manifest
        self._numbers = {
            name: each for name, each in arrays.items() if name.startswith("model.") and not name.startswith(REFERENCE)
        }
        self._log_prior = arrays.get("log_prior")
        self._threads = _threads() if threads is None else check_count("threads", threads)
        self._plans: dict[str | None, Plan] = {None: self._plan_of(None)}

    def __len__(self) -> int:
        return len(self.patterns)

    @property
    def dimensions(self) -> int:
        """The number of columns."""
        return int(self.patterns.shape[1])

    @property
    def group_names(self) -> tuple[str, ...]:
        """Groups that it was fitted with."""
        return tuple(self._manifest.get("groups", {}))

    def recall(
        self, queries: Any, k: int = 1, *, where: Any = None, groups: Sequence[object] | None = None, same: Any = None
    ) -> Recall[NDArray[Any]]:
        """Recall the k stored patterns that each query most likely came from, in arrays of numpy.

        Args:
            queries: (b, d), NaN where nothing was observed, as everywhere.
            groups: the origin of each query, such as its device, if the memory was fitted with groups.
            where: None; a memory that `ahop.load` read takes it.
            same: the same.
        """
        for name, given in (("where", where), ("same", same)):
            if given is not None:
                raise UnsupportedError(f"`{name}` is nothing that a memory can do without torch. {WITH_TORCH}")
        rows = read_queries(queries, self.dimensions, self.columns)
        k = min(check_count("k", k), len(self))
        ids, posterior = np.empty((len(rows), k), np.int64), np.empty((len(rows), k), np.float32)
        unknown: NDArray[np.float32] | None = None
        for group, asked in self._by_group(groups, len(rows)):
            found = self._plan(group).rank(rows[asked], k, self._threads)
            if found is None:
                raise UnsupportedError(
                    f"`queries` hold numbers that leave single precision beside what is stored. {WITH_TORCH}"
                )
            ids[asked], posterior[asked] = found.ids, found.posterior
            if found.unknown is not None:
                unknown = np.empty(len(rows), np.float32) if unknown is None else unknown
                unknown[asked] = found.unknown
        labels = labels_at(self.labels, ids)
        return Recall(ids, posterior, self.patterns[ids], unknown, labels, self.is_checked)

    def _by_group(self, groups: Sequence[object] | None, count: int) -> list[tuple[str | None, Any]]:
        """The groups that are known, and which queries are theirs; None for all others."""
        if groups is None:
            return [(None, slice(None))]
        known, rows = self.group_names, dict[str | None, list[int]]()
        for row, name in enumerate(as_group_names(groups, count)):
            rows.setdefault(name if name in known else None, []).append(row)
        return list(rows.items()) or [(None, slice(None))]

    def _plan(self, group: str | None) -> Plan:
        found = self._plans.get(group)
        if found is None:
            found = self._plans[group] = self._plan_of(group)
        return found

    def _plan_of(self, group: str | None) -> Plan:
        model = model_of(self._manifest, self._numbers, group)
        if not model.weighs_by_mass:
            raise UnsupportedError(f"{self._where} weighs by {model.separation.kind}. {WITH_TORCH}")
        if not hasattr(compiled.native, "Plan"):
            raise UnsupportedError("This installation of ahop was built without a compiler. " + WITH_TORCH)
        found = plan_of(model, self.patterns, self._log_prior)
        if found is None:
            raise UnsupportedError(
                f"{self._where} is compared by {model.similarity.kind}, of {self.patterns.dtype}, which the compiled "
                f"recall does not know. {WITH_TORCH}"
            )
        return found


def _in_single_precision(where: str, stored: NDArray[Any]) -> NDArray[np.float32]:
    if stored.ndim != 2 or 0 in stored.shape or np.isinf(stored).any():
        raise FileFormatError(f"{where} holds no rows of finite numbers.")
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
