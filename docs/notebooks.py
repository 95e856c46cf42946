"""A notebook of each page of the tutorial, offered on the page: made from its Markdown when the docs are built."""

import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

BLOCK = re.compile(
    r"^```python[ \t]*\n(.*?)^```[ \t]*$(?:\s*^```text[ \t]*\n.*?^```[ \t]*$)?", re.MULTILINE | re.DOTALL
)
ROLE = re.compile(r"\{(?:doc|ref)\}`(?:([^`<]*?)\s*<)?([^`>]+)>?`")
INSTALL = "# Once, where it is not installed: %pip install 'ahop[datasets,plots]'"


def cell(kind: str, text: str, number: int) -> dict[str, Any]:
    of_code = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.strip(), **of_code}


def notebook(page: str) -> dict[str, Any]:
    """The words and the code of a page in Markdown, without what the code prints."""
    text = ROLE.sub(lambda role: role[1] or role[2], page)
    parts = BLOCK.split(text)  # words, code, words, code, ...
    kinds = [("markdown", "code")[place % 2] for place in range(len(parts))]
    some = [(kind, part) for kind, part in zip(kinds, parts, strict=True) if part.strip()]
    some.insert(1, ("code", INSTALL))
    return {
        "cells": [cell(kind, part, number) for number, (kind, part) in enumerate(some)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def offer(app: Sphinx, name: str, source: list[str]) -> None:
    """Write the notebook of a page that has code, and a line under its title that leads to it."""
    if not re.fullmatch(r"tutorial/\d-\w+", name) or not BLOCK.search(source[0]):
        return
    folder = Path(app.srcdir) / "tutorial" / "notebooks"
    folder.mkdir(exist_ok=True)
    path = folder / f"{Path(name).name}.ipynb"
    path.write_text(json.dumps(notebook(source[0]), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    title, _, rest = source[0].partition("\n")
    source[0] = f"{title}\n\n{{download}}`This page as a notebook <notebooks/{path.name}>`\n{rest}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", offer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
