"""A term is defined once and used the same everywhere, and names in pages are names that there are."""

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch

import ahop
from ahop.cli.answer_table import Answers
from ahop.cli.arguments import Queries
from ahop.cli.explain import explain
from ahop.cli.recall import recall
from ahop.client import mcp
from ahop.service.http.answers import recall_response
from ahop.service.request import FitBody, RecallBody
from tests.test_docs import DOCS, ROOT, pages

GLOSSARY = DOCS / "glossary.md"
ENTRY = re.compile(r"^(\S[^\n]*)\n: ([^\n]*)$", re.MULTILINE)
USUAL = re.compile(r"\*Usual terms: ([^*]*)\.\*")
# History, the paper's own words, and generated pages speak as they like.
FREE = ("decisions", "paper", "results")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# What a page means by a word in front of a dot.
MEMORY = ahop.AssociativeMemory(
    torch.eye(2), model=ahop.Model(ahop.EuclideanSimilarity(), detector=ahop.unknown.UnknownDetector())
)
MEANT = {"ahop": ahop, "memory": MEMORY, "answer": MEMORY.recall(torch.eye(2))}


def terms() -> dict[str, str]:
    return dict(ENTRY.findall(GLOSSARY.read_text("utf-8")))


def usual_terms() -> dict[str, str]:
    """Each usual term of the field, and the word of this package for it."""
    found = {term: USUAL.search(words) for term, words in terms().items()}
    return {word: term for term, match in found.items() if match for word in match.group(1).split(", ")}


def read_pages() -> list[Path]:
    ours = [page for page in pages() if page.relative_to(DOCS).parts[0] not in FREE and page != GLOSSARY]
    return [ROOT / "README.md", ROOT / "src" / "ahop" / "docs" / "llms.txt", *ours]


def test_every_term_is_defined_once() -> None:
    names = [name.strip() for term, _ in ENTRY.findall(GLOSSARY.read_text("utf-8")) for name in term.split(",")]
    assert len(names) > 20
    assert len(names) == len(set(names))
    assert not set(usual_terms()) & set(names)


# Terms that people search for, each on a page beside the glossary.
SOUGHT = ("out of distribution", "top-1", "ensemble", "ground truth", "split-half", "template", "novelty", "cutoff")


@pytest.mark.parametrize("word", SOUGHT)
def test_a_page_names_the_usual_term(word: str) -> None:
    assert any(word in usual or word in ours for usual, ours in usual_terms().items()), "the glossary lacks it"
    assert any(word in page.read_text("utf-8").lower() for page in read_pages()), "no page says it"


def test_recall_has_the_same_words_in_python_over_http_and_on_the_command_line() -> None:
    python = set(inspect.signature(ahop.AssociativeMemory.recall).parameters) - {"self"}
    assert python <= set(RecallBody.__struct_fields__)
    shell = set(inspect.signature(recall).parameters)
    assert {"queries", "k", "same"} <= shell & python
    assert [each.metavar for each in get_args(Queries)[1:]] == ["QUERIES"]
    assert set(FitBody.__struct_fields__) <= set(inspect.signature(ahop.fit).parameters)


# The table on a screen speaks to people instead: "none of these: 65 %; if one of them ...".
@pytest.mark.parametrize("writes", [recall_response, Answers.columns, Answers.documents, explain, mcp.server])
def test_an_answer_has_the_same_words_in_python_over_http_and_on_the_command_line(
    writes: Callable[..., object],
) -> None:
    words = set(re.findall(r"""["\[{( ](\w+)(?:": |", |"] |=)""", inspect.getsource(writes)))
    assert "posterior" in words & set(dir(MEANT["answer"]))
    assert "probability" not in words  # that of a link is another thing


def is_there(name: str) -> bool:
    """Whether a dotted name leads to something: packages, what they offer, and attributes of these."""
    first, *rest = name.split(".")
    found: object = MEANT[first]
    for place, word in enumerate(rest):
        if hasattr(found, word):
            found = getattr(found, word)
            continue
        try:
            found = importlib.import_module(".".join([first, *rest[: place + 1]]))
        except ImportError:
            return False
    return True


def names_in(text: str) -> set[str]:
    """Dotted names in code spans that begin with a word whose meaning is known."""
    begins = "|".join(MEANT)
    spans = SPAN.findall(BLOCK.sub("", text))
    return {
        name.rstrip(".") for span in spans for name in re.findall(rf"(?<![\w.])((?:{begins})\.[a-zA-Z_][\w.]*)", span)
    }


def test_a_name_is_there_or_not() -> None:
    assert is_there("ahop.fit")
    assert is_there("memory.recall")
    assert is_there("ahop.nn.compat.hflayers.transformer")
    assert is_there("answer.posterior")
    assert not is_there("ahop.fitt")
    assert not is_there("memory.recal")
    assert names_in("use `ahop.fit(x)` or `phones.ahop` or `memory.save`") == {"ahop.fit", "memory.save"}


@pytest.mark.parametrize("page", read_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_names_of_a_page_are_there(page: Path) -> None:
    files = ("memory.ahop", "memory.npz")
    assert not {name for name in names_in(page.read_text("utf-8")) if name not in files and not is_there(name)}
