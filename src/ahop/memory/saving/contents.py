"""Contents of a file of a memory, as words and arrays. Torch is not needed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from ahop._core.checks import as_group_names
from ahop._core.columns import Columns, as_columns
from ahop._core.labels import in_lines
from ahop.errors import AhopError, FileFormatError, UnsupportedError
from ahop.memory.report import Report
from ahop.memory.saving.kept_report import kept_report
from ahop.memory.saving.parts import Part, model_of
from ahop.memory.saving.reading import FLOATS, no_floats, read_stored

# What a file that describes no model can raise.
FAILURES: Final = (AhopError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
# Numbers of the model alone; queries that are kept for `watch` may have gaps.
REFERENCE = "model.reference."


@final
@dataclass(frozen=True)
class Kept:
    """Queries (m, d) of the fit, and where each came from; None if nobody said."""

    queries: NDArray[Any]
    groups: tuple[str, ...] | None


@final
@dataclass(frozen=True)
class Contents:
    """Contents of a file.

    Attributes:
        where: its name, for errors.
        patterns: (n, d).
        dtype: of these, as the file has it.
        labels: (n,) of the patterns; None if they have none.
        columns: the names of the dimensions; None if they have none.
        report: what the fit found; None if there was none.
        reference: queries of the fit; None if none were kept.
        log_prior: (n,) how often each pattern is the origin; None if all are alike.
    """

    where: str
    patterns: NDArray[Any]
    dtype: str
    labels: NDArray[np.object_] | None
    columns: Columns | None
    report: Report | None
    reference: Kept | None
    log_prior: NDArray[Any] | None
    manifest: Mapping[str, Any]
    numbers: Mapping[str, NDArray[Any]]

    def model(self, group: str | None = None) -> Part:
        """The model, for queries of a group, or of none that is known."""
        return model_of(self.manifest, self.numbers, group)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Groups that it was fitted with."""
        return tuple(self.manifest.get("groups", {}))


def read_contents(path: str | os.PathLike[str]) -> Contents:
    """Read what `memory.save` wrote.

    Raises:
        FileFormatError: the file is damaged, was written by a newer release, or describes no memory.
    """
    where = f"`{path}`"
    manifest, stored = read_stored(Path(path))
    labels = stored.pop("labels", None)
    if not all(each.dtype in FLOATS for each in stored.values()):
        raise no_floats(where)
    with as_format_error(where):
        arrays = {name: each.array() for name, each in stored.items()}
        patterns = arrays["patterns"]
        if patterns.ndim != 2 or 0 in patterns.shape or np.isinf(patterns).any():
            raise FileFormatError(f"{where} holds no rows of finite numbers.")
        return Contents(
            where,
            patterns,
            stored["patterns"].dtype,
            None if labels is None else in_lines(bytes(labels.content), len(patterns)),
            as_columns(manifest, patterns.shape[1]),
            kept_report(manifest.get("report")),
            _reference(manifest, arrays),
            arrays.get("log_prior"),
            manifest,
            {name: each for name, each in arrays.items() if name.startswith("model.") and REFERENCE not in name},
        )


@contextmanager
def as_format_error(where: str) -> Iterator[None]:
    """Whatever a file that describes no memory raises, as one error that says so."""
    try:
        yield
    except UnsupportedError:
        raise
    except FAILURES as error:
        raise FileFormatError(f"{where} does not describe a memory that this release can build: {error}") from error


def _reference(manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Kept | None:
    told, queries = manifest["model"].get("reference"), arrays.get(f"{REFERENCE}queries")
    if told is None or queries is None:
        return None
    groups = told["arguments"].get("groups")
    return Kept(queries, None if groups is None else tuple(as_group_names(groups, len(queries))))
