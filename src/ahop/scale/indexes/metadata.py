"""Metadata columns and filters."""

from collections.abc import Mapping
from typing import Any, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from ahop._core.inputs import flags_of
from ahop._core.typing import Array
from ahop.errors import InvalidValueError, ShapeError

# Columns and the values that they may have; or which rows, as flags or as numbers.
Where: TypeAlias = Mapping[str, object] | Array


@final
class Metadata:
    """Named columns, one entry for each row."""

    def __init__(self, columns: Mapping[str, Any] | None, count: int) -> None:
        self.columns = {name: np.asarray(values) for name, values in (columns or {}).items()}
        for name, values in self.columns.items():
            if values.shape != (count,):
                raise ShapeError(
                    f"`metadata[{name!r}]` must have shape ({count},), one for each row; got {values.shape}."
                )

    def add(self, columns: Mapping[str, Any] | None, count: int) -> None:
        more = Metadata(columns, count)
        if set(more.columns) != set(self.columns):
            raise InvalidValueError(
                f"`metadata` must have the columns {sorted(self.columns)}, as the rows before; "
                f"got {sorted(more.columns)}."
            )
        self.columns = {name: np.concatenate([old, more.columns[name]]) for name, old in self.columns.items()}

    def allowed(self, where: Where, count: int) -> Tensor:
        """Flags (n,) of the rows that `where` lets through. A set, list or tuple of values stands for any of them."""
        if isinstance(where, Mapping):
            mask = np.ones(count, dtype=bool)
            for name, wanted in where.items():
                if name not in self.columns:
                    raise InvalidValueError(f"`where` names {name!r}; the columns are {sorted(self.columns)}.")
                several = list(wanted) if isinstance(wanted, set | frozenset | list | tuple) else [wanted]
                mask &= np.isin(self.columns[name], np.asarray(several))
            return torch.from_numpy(mask)
        return flags_of("where", where, count)
