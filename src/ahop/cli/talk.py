"""Output of a command: results on stdout, all else on stderr."""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TypeVar, final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

Item = TypeVar("Item")
# Columns of a table that goes to a file or another program, where nothing says how wide the page is.
PAGE = 160
# Between two lines that say that work goes on, where no bar shows it: a log of an hour has 120 of them.
SECONDS_BETWEEN_LINES = 30.0


@final
class Talk:
    """Output of a command, for people or as JSON.

    Attributes:
        is_json: stdout is one JSON document and nothing else.
        is_quiet: no notes and no bars.
        notes: what was decided, in words.
    """

    def __init__(self, is_json: bool = False, is_quiet: bool = False) -> None:
        self.is_json, self.is_quiet = is_json, is_quiet
        self.notes: list[str] = []
        self._stderr = Console(stderr=True, highlight=False)
        self._stdout = Console(highlight=False, width=None if sys.stdout.isatty() else PAGE)

    @property
    def shows_bars(self) -> bool:
        """Bars are for terminals: in a file they are but noise."""
        return self._stderr.is_terminal and not self.is_quiet

    def note(self, text: str) -> None:
        """Say what was decided; a JSON document has it among its `notes`."""
        if text in self.notes:
            return
        self.notes.append(text)
        if not self.is_quiet and not self.is_json:
            self._stderr.print(text, markup=False, soft_wrap=True, style="dim")

    @contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Show that something is under way."""
        with self._bar(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as bar:
            bar.add_task(text, total=None)
            yield

    @contextmanager
    def learning(self, text: str) -> Iterator[None]:
        """Say now and then that it goes on, in a file or a pipe, where no bar is shown."""
        if self.shows_bars or self.is_quiet or self.is_json:
            yield
            return
        done, began = Event(), time.monotonic()

        def tell() -> None:
            while not done.wait(SECONDS_BETWEEN_LINES):
                self._stderr.print(f"{text}: {time.monotonic() - began:.0f} s so far", markup=False, soft_wrap=True)

        teller = Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            done.set()
            teller.join()

    def tracked(self, parts: Sequence[Item], text: str) -> Iterator[Item]:
        """The parts one after another, under a bar."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with self._bar(*columns) as bar:
            yield from bar.track(parts, description=text)

    def say(self, *parts: str | Grid) -> None:
        """Results for people, on stdout; nothing where a program reads."""
        if self.is_json:
            return
        for part in parts:
            self._stdout.print(part, markup=False, soft_wrap=isinstance(part, str))

    def document(self, **content: Any) -> None:
        """The one JSON document, if that was asked for."""
        if self.is_json:
            print(json.dumps(plain({**content, "notes": self.notes}), allow_nan=False, indent=2))

    def _bar(self, *columns: Any) -> Progress:
        return Progress(*columns, console=self._stderr, transient=True, disable=not self.shows_bars)


def plain(value: Any) -> Any:
    """Arrays as lists, and None for numbers that JSON has no word for."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def facts(rows: Mapping[str, object]) -> Grid:
    """Names and what is known of them, for people."""
    found = grid(["", ""], [[name, str(value)] for name, value in rows.items()])
    found.show_header = False
    return found


def grid(titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> Grid:
    """A table for people; the columns of `numbers` stand to the right."""
    found = Grid(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        found.add_column(title, justify="right" if title in numbers else "left", overflow="fold")
    for row in rows:
        found.add_row(*(_literal(each) for each in row))
    return found


def _literal(text: str) -> Any:
    """Words of users are no markup."""
    from rich.text import Text

    return Text(text)
