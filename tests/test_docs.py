"""The documentation names everything public, its code runs, and it keeps to itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ahop
from tests.readme import python_blocks, run_block

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GENERATED = ("_build", "gallery")

# Written so that this file does not name them itself.
FORBIDDEN = [re.compile(words) for words in ("TO" + "DO", r"(?<![\w.~-])/(?:wo" + "rk|op" + "t)/", "(?i)issue" + " #")]


def pages() -> list[Path]:
    """The pages that people write by hand."""
    found = [path for suffix in ("md", "rst") for path in DOCS.rglob(f"*.{suffix}")]
    return sorted(path for path in found if path.relative_to(DOCS).parts[0] not in GENERATED)


def words() -> Iterator[Path]:
    """Everything that is published: pages, sources, and the files at the root."""
    yield from pages()
    yield DOCS / "conf.py"
    for folder in ("src", "tests", "examples", "experiments", "benchmarks"):
        yield from sorted((ROOT / folder).rglob("*.py"))
    yield from sorted([*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.cff"), ROOT / "Makefile"])


def in_reference() -> set[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.rst"))
    return set(re.findall(r"^\.\. auto\w+:: ahop\.([\w.]+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ahop.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert name in in_reference()


def test_every_network_of_the_zoo_is_in_the_reference() -> None:
    networks = {f"zoo.{name}" for name in vars(ahop.zoo) if name.endswith("hop")}
    assert networks
    assert networks <= in_reference()


def runnable() -> list[Path]:
    """Pages with python in them. The landing page shows the idea with names that only a reader has."""
    return [page for page in pages() if page != DOCS / "index.md" and python_blocks(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", runnable(), ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in python_blocks(page.read_text(encoding="utf-8")):
        run_block(block, page.name, namespace)


def test_the_similarity_to_add_has_fifteen_lines() -> None:
    code = python_blocks((DOCS / "extending.md").read_text(encoding="utf-8"))[0].code
    body = code[code.index("@final") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 15


@pytest.mark.parametrize("path", list(words()), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_and_no_source_holds_forbidden_words(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [found.group() for pattern in FORBIDDEN for found in pattern.finditer(text)]


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_use_public_names_only(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    used = set(re.findall(r"\bahop\.(\w+)", text))
    assert used
    assert used <= set(ahop.__all__)
    assert "from ahop" not in text
