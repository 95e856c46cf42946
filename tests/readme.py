"""Run the python blocks of README.md, one after another in one namespace: `python tests/readme.py [file]`.

A block of text right behind a block of python is what that one prints. Words must agree; numbers may differ a little,
as other machines round otherwise, and seconds as they like.

Standard library only, so that it runs in an environment that has nothing but the package.
"""

import io
import os
import re
import sys
import tempfile
import time
import traceback
from contextlib import redirect_stdout
from math import isclose
from pathlib import Path
from typing import NamedTuple

README = Path(__file__).resolve().parent.parent / "README.md"
FENCE = re.compile(
    r"^```python[ \t]*\n(.*?)^```[ \t]*$(?:\s*^```text[ \t]*\n(.*?)^```[ \t]*$)?", re.MULTILINE | re.DOTALL
)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")
SECONDS = re.compile(r"\d+(?:\.\d*)? s\b")
# Of a number that a page prints: by which share of it, or by how much, another machine may be off.
SHARE, STEP = 0.1, 0.11


class Block(NamedTuple):
    """A fenced block of python: its code, the line of the page that the code starts on, and what it prints if told."""

    code: str
    line: int
    printed: str | None = None


def python_blocks(text: str) -> list[Block]:
    """The blocks fenced as ```` ```python ````, in the order of the page."""
    return [
        Block(match.group(1), text.count("\n", 0, match.start(1)) + 1, match.group(2)) for match in FENCE.finditer(text)
    ]


def agrees(printed: str, expected: str) -> bool:
    """Whether both say the same; lines may be wrapped otherwise."""
    ours, theirs = (SECONDS.sub("_ s", " ".join(text.split())) for text in (printed, expected))
    if NUMBER.sub("_", ours) != NUMBER.sub("_", theirs):
        return False
    numbers = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
    return all(isclose(float(one), float(other), rel_tol=SHARE, abs_tol=STEP) for one, other in numbers)


def run_block(block: Block, page: str, namespace: dict[str, object]) -> None:
    """Execute a block so that a traceback shows the line of the page; what it prints is as the page has it."""
    code = compile("\n" * (block.line - 1) + block.code, page, "exec")
    if block.printed is None:
        exec(code, namespace)
        return
    with redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    if not agrees(printed.getvalue(), block.printed):
        raise AssertionError(
            f"{page} says that line {block.line} prints\n{block.printed}\nbut it prints\n{printed.getvalue()}"
        )


def main(arguments: list[str]) -> int:
    page = Path(arguments[0]).resolve() if arguments else README
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    if not blocks:
        print(f"{page.name} has no python blocks", file=sys.stderr)
        return 1
    namespace: dict[str, object] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # what a block writes is gone afterwards
        try:
            for number, block in enumerate(blocks, start=1):
                print(f"[{number}/{len(blocks)}] {block.code.strip().splitlines()[0]}", flush=True)
                started = time.perf_counter()
                try:
                    run_block(block, page.name, namespace)
                except Exception:
                    traceback.print_exc()
                    print(f"block {number} of {page.name}, line {block.line}, failed", file=sys.stderr)
                    return 1
                print(f"    {time.perf_counter() - started:.1f} s", flush=True)
        finally:
            os.chdir(before)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
