"""What `make docs` refuses: links that lead nowhere, and formulas that would not be shown."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("latex2mathml")

DOCS = Path(__file__).resolve().parent.parent / "docs"
SETTINGS = f"""
import sys
sys.path.insert(0, {str(DOCS)!r})
extensions = ["mathml", "myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
"""
GOOD = "# One\n\n[there](#two) and [there](other.md#three), $x_1 \\le \\log y$\n\n## Two\n"


def built(folder: Path, page: str) -> subprocess.CompletedProcess[str]:
    (folder / "conf.py").write_text(SETTINGS)
    (folder / "index.md").write_text(page + "\n```{toctree}\nother\n```\n")
    (folder / "other.md").write_text("# Other\n\n## Three\n")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(folder), str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_page_in_order_is_built_and_its_formulas_need_no_script(tmp_path: Path) -> None:
    done = built(tmp_path, GOOD)
    assert done.returncode == 0, done.stderr
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
    assert done.returncode != 0
    assert "WARNING" in done.stderr or "warning" in done.stderr
