"""Names and words of the sources: a constant has one meaning in its room, a docstring begins with its subject."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import ahop

ROOMS = ("fitting", "operate")


def constants(path: Path) -> list[str]:
    """Upper-case names that a file defines."""
    targets = [target for node in ast.parse(path.read_text("utf-8")).body for target in _targets(node)]
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


@pytest.mark.parametrize("room", ROOMS)
def test_a_constant_of_a_room_is_defined_once(room: str) -> None:
    files = (Path(ahop.__file__).parent / room).rglob("*.py")
    counted = Counter(name for path in files for name in constants(path) if name.isupper())
    assert not {name for name, count in counted.items() if count > 1}


# Words that hide the subject of a sentence.
HIDING = re.compile(r"(What|Who|Whose|Of|Whether|How|Which|Where|When|The same)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def test_a_docstring_begins_with_a_noun_or_a_verb() -> None:
    found = [
        f"{path.name}: {words.splitlines()[0]}"
        for path in sorted(Path(ahop.__file__).parent.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, DOCUMENTED) and (words := ast.get_docstring(node)) and HIDING.match(words)
    ]
    assert not found
