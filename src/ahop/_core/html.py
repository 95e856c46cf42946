"""HTML for notebooks: words and a small table."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a line of titles."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return f"<table><tr>{titles}</tr>{''.join(_line(row) for row in rows)}</table>"


def facts(title: str, known: Mapping[str, object], words: str = "") -> str:
    """A title, what is known of a thing by name, and sentences."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in known.items())
    return f"<p><b>{escape(title)}</b></p><table>{body}</table>" + (f"<p>{escape(words)}</p>" if words else "")


def _line(row: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>"
