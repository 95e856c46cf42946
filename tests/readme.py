"""Run the python blocks of README.md, one after another in one namespace: `python tests/readme.py [file]`.

Standard library only, so that it runs in an environment that has nothing but the package.
"""

import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

README = Path(__file__).resolve().parent.parent / "README.md"
FENCE = re.compile(r"^```python[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block of python: its code, and the line of the page that the code starts on."""

    code: str
    line: int


def python_blocks(text: str) -> list[Block]:
    """The blocks fenced as ```` ```python ````, in the order of the page."""
    return [Block(match.group(1), text.count("\n", 0, match.start(1)) + 1) for match in FENCE.finditer(text)]


def run_block(block: Block, page: str, namespace: dict[str, object]) -> None:
    """Execute a block so that a traceback shows the line of the page."""
    code = compile("\n" * (block.line - 1) + block.code, page, "exec")
    exec(code, namespace)


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
