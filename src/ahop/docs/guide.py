"""The guide, without a network: `python -m ahop.docs` lists its pages, `python -m ahop.docs saving` shows one."""

import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
# In a wheel the pages lie beside this file; in a checkout, where they are written.
FOLDERS = (HERE / "pages", HERE.parents[2] / "docs")
GUIDE = ("*.md", "tutorial/*.md", "cookbook/*.md", "migration/*.md")


def pages() -> dict[str, Path]:
    """The files of the guide in Markdown, by name, and `llms`: all of it in one page, for assistants."""
    folder = next((folder for folder in FOLDERS if (folder / "glossary.md").exists()), None)
    found = {} if folder is None else dict(_named(folder))
    return found | {"llms": HERE / "llms.txt"}


def _named(folder: Path) -> Iterator[tuple[str, Path]]:
    for some in GUIDE:
        for path in sorted(folder.glob(some)):
            yield path.relative_to(folder).with_suffix("").as_posix(), path


def main(arguments: list[str]) -> int:
    known = pages()
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"There is no page {', '.join(unknown)}; `python -m ahop.docs` lists them.", file=sys.stderr)
        return 2
    for name in arguments:
        print(known[name].read_text("utf-8"))
    if not arguments:
        for name, path in known.items():
            print(f"{name:32} {path.read_text('utf-8').partition('# ')[2].partition(chr(10))[0]}")
    return 0
