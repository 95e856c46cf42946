"""Every label of the paper has one home, and `docs/paper` tells the truth about it.

The rule for docstrings of `ahop` and `experiments`: a label in brackets stands in the docstring of its home and in no
other. Elsewhere the paper is referred to in words.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "paper"

SECTIONS = [
    "sec:var_dis_correct_ret",
    "sec:sim_ftpt",
    "sec:ada_sim_a_hop",
    "sec:experiments",
    "sec:mem-ret",
    "apd:notations",
    "apd:theorems",
    "apd:proof-optimal",
    "apd:proof-energy",
    "apd:discussion",
    "apd:optimal",
    "apd:complicated",
    "apd:experiments",
    "apd:memory",
    "apd:tabular",
    "apd:image",
    "apd:ablation",
]
DEFINITIONS = [
    "def:eps-ret",
    "def:var-dis",
    "def:correct-ret",
    "def:noisy-var",
    "def:masked-var",
    "def:biased-var",
    "def:opt-correct-ret",
    "def:ret-acc",
    "def:emp-ret-acc",
]
THEOREMS = [
    "thm:ret-dyn",
    "thm:energy",
    "thm:equiv",
    "lem:opt-iso-noisy",
    "lem:opt-noisy",
    "lem:opt-masked",
    "lem:opt-biased",
    "lem:rewrite",
    "lem:dec",
]
EQUATIONS = [
    "eqn:correct_ret",
    "eqn:likelihood",
    "eqn:ftpt",
    "eqn:ret-dyn",
    "eqn:loss",
    "eqn:decomposable",
    "eqn:eng",
    "eqn:ret",
    "eqn:dec",
    "eqn:class-loss",
]
FIGURES_AND_TABLES = [
    "fig:cloud",
    "fig:main",
    "fig:ret-acc",
    "tab:summary",
    "tab:ret-acc",
    "tab:tab-acc",
    "tab:cplx-acc",
    "tab:ablation-1",
    "tab:ablation-2",
    "tab:ablation-3",
    "tab:multimodal",
    "tab:timing",
]
LABELS = [*SECTIONS, *DEFINITIONS, *THEOREMS, *EQUATIONS, *FIGURES_AND_TABLES]

ROW = re.compile(r"^\| `(?P<label>[^`]+)` \|(?P<what>[^|]+)\| (?P<home>[^|]+) \|$", re.MULTILINE)
IN_BRACKETS = re.compile(r"\[((?:sec|apd|def|thm|lem|eqn|fig|tab):[\w-]+)\]")

pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not part of this copy")


def rows() -> list[tuple[str, str]]:
    """Label and home of every row of the map."""
    return [(row["label"], row["home"].strip()) for row in ROW.finditer((DOCS / "map.md").read_text("utf-8"))]


def homes() -> dict[str, str]:
    return dict(rows()) if DOCS.is_dir() else {}


def homes_in(*packages: str) -> list[tuple[str, str]]:
    """Labels that live in the code of these packages, below their top."""
    named = [(label, home.strip("`")) for label, home in homes().items()]
    return [(label, home) for label, home in named if home.startswith(tuple(f"{name}." for name in packages))]


def docstrings() -> Iterator[tuple[str, str]]:
    """Where, and what it says, for every docstring of the library and of the experiments."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for folder in (ROOT / "src" / "ahop", ROOT / "experiments"):
        for file in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, documented) and (text := ast.get_docstring(node)):
                    yield f"{file.relative_to(ROOT)}: {getattr(node, 'name', 'module')}", text


def test_every_label_of_the_paper_is_in_the_map_exactly_once() -> None:
    assert len(LABELS) == len(set(LABELS)) == 57
    assert Counter(label for label, _ in rows()) == Counter(LABELS)


@pytest.mark.parametrize(("label", "home"), homes().items())
def test_every_home_exists(label: str, home: str) -> None:
    if home == "later":
        return
    if page := re.fullmatch(r"\[[^\]]+\]\((?P<file>[\w/.-]+\.md)\)", home):
        assert (DOCS / page["file"]).is_file()
        return
    name = home.strip("`")
    assert home == f"`{name}`", f"the home of {label} is neither an object, a page, nor later: {home}"
    if name.partition(".")[0] == "experiments":
        file = ROOT / (name.replace(".", "/") + ("" if "." in name else "/__init__") + ".py")
        assert file.is_file()
    else:
        assert resolve_name(name) is not None


@pytest.mark.parametrize(("label", "home"), homes_in("ahop", "tests", "experiments"))
def test_every_home_in_the_code_names_its_label(label: str, home: str) -> None:
    assert f"[{label}]" in (resolve_name(home).__doc__ or "")


def test_no_docstring_but_the_homes_names_a_label_in_brackets() -> None:
    named: dict[str, list[str]] = {}
    for where, text in docstrings():
        for label in IN_BRACKETS.findall(text):
            named.setdefault(label, []).append(where)
    assert {label: places for label, places in named.items() if len(places) > 1} == {}
    assert set(named) == {label for label, _ in homes_in("ahop", "experiments")}


def test_every_test_that_the_errata_call_as_witness_exists() -> None:
    called = set(re.findall(r"`(test_[a-z0-9_]+)`", (DOCS / "errata.md").read_text("utf-8")))
    known = {
        node.name
        for file in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert len(called) > 20
    assert called <= known


def test_every_page_is_reached_from_the_index() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    toctree = index.split("```{toctree}")[1].split("```")[0]
    assert {line for line in toctree.split() if not line.startswith(":")} == {
        page.stem for page in DOCS.glob("*.md") if page.stem != "index"
    }
