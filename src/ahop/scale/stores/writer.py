"""Commit new versions of a table: durable before they are acknowledged, and safe with other writers."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ahop._core import optional
from ahop.errors import ConflictError
from ahop.scale.stores.durability import Flusher
from ahop.scale.stores.integrity import verify_version
from ahop.scale.stores.location import Location
from ahop.scale.stores.locking import locked
from ahop.scale.stores.numbers import mark_number, marked_number
from ahop.scale.stores.recovery import newest_version
from ahop.scale.stores.table_rows import ID, batches_read, ids_of
from ahop.scale.stores.written import check_written

Result = TypeVar("Result")
# How often a change is tried where other writers keep committing, and the first pause in seconds, which then doubles.
TRIALS, PAUSE = 8, 0.02
# The words of Lance for a change that did not get through because of another.
CONFLICTS = ("conflict", "concurrent", "Incompatible transaction")


def fragments_of(operation: Any) -> Iterator[dict[str, Any]]:
    """The parts of a table that a change brings or touches, as Lance describes them."""
    for name in ("fragments", "updated_fragments", "new_fragments"):
        yield from (each.to_json() for each in getattr(operation, name, None) or ())


class Writer:
    """Commits to one table.

    On a local disk writers take turns: data are flushed, the version is committed, its head is flushed. Elsewhere a
    commit is durable once it is acknowledged, and Lance notices writers that change the same rows.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self.flusher = None if location.folder is None else Flusher(location.folder)
        self._least = 0  # no smaller number is given by this handle
        self._next: tuple[int, int] | None = None  # a version, and the number that is given next

    def next_id(self, table: Any) -> int:
        """The number after the largest that was ever given; the table is looked at where others wrote since."""
        if self._next is None or self._next[0] != table.version:
            batches = batches_read(table.scanner(columns=[ID]))
            largest = max((int(ids_of(batch).max()) for batch in batches if batch.num_rows), default=-1)
            self.remember(table, max(1 + largest, self._least, marked_number(self.location)))
        assert self._next is not None
        return self._next[1]

    def remember(self, table: Any, number: int) -> None:
        self._next = table.version, number

    def keep_number(self, number: int) -> None:
        """No smaller number is given from now on, though the row before it goes."""
        self._least = max(self._least, number)
        mark_number(self.location, number)

    def append(self, table: Any, rows: Any) -> None:
        """Add rows to the newest version whose numbers are not in it; to be called within `turn`.

        Where writers take turns it was enough to look. Elsewhere the merge looks once more as it is committed.
        """
        if self.flusher is None:
            self.merge(table, lambda builder: builder.when_matched_fail().when_not_matched_insert_all(), rows)
        else:
            self._commit(table, optional.lance().fragment.write_fragments(rows, table, return_transaction=True))

    def merge(self, table: Any, how: Callable[[Any], Any], rows: Any) -> dict[str, int]:
        """Merge rows by their numbers into the newest version; to be called within `turn`."""
        builder = how(table.merge_insert(ID))
        if self.flusher is None:
            counts: dict[str, int] = builder.execute(rows)
            return counts
        transaction, counts = builder.execute_uncommitted(rows)
        self._commit(table, transaction)
        return counts

    def change(self, table: Any, change: Callable[[Any], Result]) -> Result:
        """A change of the newest version, tried again where other writers were faster."""
        for trial in range(TRIALS):
            with self.turn(table):
                try:
                    return change(table)
                except OSError as error:
                    if not any(word in str(error) for word in CONFLICTS):
                        raise
                    failure = error
            time.sleep(PAUSE * 2**trial)
        raise ConflictError(
            f"Other writers changed `{self.location.address}` each time: {TRIALS} trials failed. Try again when fewer "
            "write, or write more rows at a time."
        ) from failure

    @contextmanager
    def turn(self, table: Any) -> Iterator[None]:
        """The table in its newest version, and on a local disk no other writer."""
        if self.location.folder is None:
            table.checkout_latest()
            yield
            return
        with locked(self.location.folder):
            newest_version(self.location)  # raises if its head is damaged
            table.checkout_latest()
            verify_version(self.location.folder, table)
            yield

    def flush(self) -> None:
        """Everything, in the right order."""
        if self.flusher is not None:
            self.flusher.flush_data()
            self.flusher.flush_versions()

    def _commit(self, table: Any, transaction: Any) -> None:
        """Commit a version: its files are durable before it is there, and it is durable before it is acknowledged."""
        assert self.flusher is not None
        check_written(self.flusher.folder, fragments_of(transaction.operation))
        self.flusher.flush_data()
        optional.lance().LanceDataset.commit(table, transaction)
        self.flusher.flush_versions()
        table.checkout_latest()
