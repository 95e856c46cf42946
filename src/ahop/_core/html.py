"""HTML that notebooks show of an object: words and a small table."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape


class Markup(str):
    """HTML of our own, which is not escaped."""

    __slots__ = ()


def paragraph(words: object) -> str:
    """Words of an object; line breaks stay."""
    return f"<p>{escape(str(words))}</p>".replace("\n", "<br>")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a line of titles, if there are any."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return f"<table>{f'<tr>{titles}</tr>' if head else ''}{''.join(_line(row) for row in rows)}</table>"


def facts(title: str, known: Mapping[str, object], words: str = "") -> str:
    """A title, what is known of a thing by name, and sentences."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in known.items())
    return f"<p><b>{escape(title)}</b></p><table>{body}</table>" + (f"<p>{escape(words)}</p>" if words else "")


def _line(row: Sequence[object]) -> str:
    cells = (cell if isinstance(cell, Markup) else escape(str(cell)) for cell in row)
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
