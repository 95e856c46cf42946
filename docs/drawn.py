"""Under each block of code that draws, what it draws: pages of pictures are run when the docs are built."""

import re
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.pyplot as plt
from sphinx.application import Sphinx

PAGES = {"pictures", "tutorial/3-explain"}
BLOCK = re.compile(r"^(?:#+ (?P<title>[^\n]+)|```python[ \t]*\n(?P<code>.*?)^```[ \t]*)$", re.MULTILINE | re.DOTALL)
FOLDER = "_drawn"


def draw(app: Sphinx, name: str, source: list[str]) -> None:
    """Run the blocks of a page one after the other, and show the figures of each below it."""
    if name not in PAGES:
        return
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    names: dict[str, Any] = {"__name__": "__main__"}
    title = name

    def shown(block: re.Match[str]) -> str:
        nonlocal title
        if block["title"]:
            title = block["title"]
            return block[0]
        exec(compile(block["code"], f"{name}.md", "exec"), names)  # our own page
        images = []
        for number in plt.get_fignums():
            path = folder / f"{name.replace('/', '-')}-{block.start()}-{number}.png"
            plt.figure(number).savefig(path, dpi=110, bbox_inches="tight")
            images.append(f"\n\n![{title}](/{FOLDER}/{path.name})")
        plt.close("all")
        return block[0] + "".join(images)

    plt.close("all")
    with TemporaryDirectory() as somewhere, chdir(somewhere):  # for what blocks write
        source[0] = BLOCK.sub(shown, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
