"""What `make docs` refuses: links that lead nowhere, and formulas that would not be shown."""

import json
from pathlib import Path

import pytest

from tests.apart import Ended, run_apart

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("latex2mathml")

DOCS = Path(__file__).resolve().parent.parent / "docs"
SETTINGS = f"""
import sys
sys.path.insert(0, {str(DOCS)!r})
extensions = ["mathml", "notebooks", "myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
"""
GOOD = "# One\n\n[there](#two) and [there](other.md#three), $x_1 \\le \\log y$\n\n## Two\n"


def built(folder: Path, page: str) -> Ended:
    (folder / "conf.py").write_text(SETTINGS)
    (folder / "index.md").write_text(page + "\n```{toctree}\nother\n```\n")
    (folder / "other.md").write_text("# Other\n\n## Three\n")
    return run_apart("sphinx.cmd.build", "-W", "-q", "-b", "html", str(folder), str(folder / "out"))


def test_a_page_in_order_is_built_and_its_formulas_need_no_script(tmp_path: Path) -> None:
    done = built(tmp_path, GOOD)
    assert done.code == 0, done.stderr
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "<math" in page
    assert "mathjax@" not in page
    assert 'src="http' not in page


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(#two)", "(#nowhere)"),
        ("other.md#three", "other.md#nowhere"),
        ("other.md", "none.md"),
        (r"\le", r"\nonsense"),
    ],
)
def test_what_leads_nowhere_or_cannot_be_shown_fails(right: str, wrong: str, tmp_path: Path) -> None:
    assert right in GOOD
    done = built(tmp_path, GOOD.replace(right, wrong))
    assert done.code != 0
    assert "WARNING" in done.stderr or "warning" in done.stderr


def test_a_page_of_the_tutorial_is_offered_as_a_notebook_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tutorial").mkdir()
    page = (DOCS / "tutorial" / "1-look.md").read_text("utf-8").replace("{doc}`2-fit`", "the second page")
    (tmp_path / "tutorial" / "1-look.md").write_text(page)
    done = built(tmp_path, GOOD + "\n[first](tutorial/1-look.md)\n\n```{toctree}\ntutorial/1-look\n```\n")
    assert done.code == 0, done.stderr
    assert "1-look.ipynb" in (tmp_path / "out" / "tutorial" / "1-look.html").read_text("utf-8")
    (made,) = (tmp_path / "out" / "_downloads").rglob("1-look.ipynb")
    cells = json.loads(made.read_text("utf-8"))["cells"]
    assert {cell["cell_type"] for cell in cells} == {"code", "markdown"}
    assert "{doc}" not in made.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(cell["source"], namespace)
    assert "found" in namespace
