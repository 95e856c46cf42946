"""From cells to a `Table`."""

from collections.abc import Collection, Sequence

import numpy as np

from ahop.errors import FileFormatError
from experiments.datasets._delimited import Rows, encode
from experiments.datasets._facts import Source
from experiments.datasets.table import Table


def as_table(
    source: Source,
    parts: Sequence[Rows],
    *,
    columns: Collection[str],
    words: Collection[str],
    target: str,
    missing: Collection[str] = (),
    notes: tuple[str, ...] = (),
) -> Table:
    """One table of all parts, of which the second, if there is one, is the official test.

    Args:
        columns: The features, in their order.
        words: Those of them whose cells are words and no numbers.
        missing: The cells that mean that nothing was observed.
    """
    for rows in parts:
        absent = [name for name in (*columns, target) if name not in rows.columns]
        if absent:
            raise FileFormatError(f"`{rows.where}` has no column {', '.join(f'`{name}`' for name in absent)}.")
    features = np.empty((sum(len(rows.lines) for rows in parts), len(columns)))
    categories = []
    for at, name in enumerate(columns):
        if name in words:
            features[:, at], known = encode([cell for rows in parts for cell in rows.columns[name]], missing)
        else:
            features[:, at], known = np.concatenate([rows.numbers(name, missing) for rows in parts]), ()
        categories.append(known)
    classes, class_names = encode([cell for rows in parts for cell in rows.columns[target]])
    return Table(
        name=source.name,
        features=features,
        target=classes.astype(np.int64),
        names=tuple(columns),
        categories=tuple(categories),
        target_name=target,
        class_names=class_names,
        is_test=np.repeat([False, True][: len(parts)], [len(rows.lines) for rows in parts]),
        notes=notes,
    )
