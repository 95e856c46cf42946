"""The documentation names everything public, its code runs, and it keeps to itself."""

import ast
import re
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

import ahop
import ahop.estimators
import ahop.nn
from tests import postgres
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
    for folder in ("src", "tests", "examples", "experiments", "benchmarks", "faults"):
        yield from sorted((ROOT / folder).rglob("*.py"))
    yield from sorted([*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.cff"), ROOT / "Makefile"])


def in_reference() -> set[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.rst"))
    return set(re.findall(r"^\.\. auto\w+:: ahop\.([\w.]+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", [name for name in ahop.__all__ if not isinstance(getattr(ahop, name), ModuleType)])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert name in in_reference()


@pytest.mark.parametrize(
    "package",
    [getattr(ahop, name) for name in ahop.__all__ if hasattr(getattr(ahop, name), "__path__")],
    ids=lambda package: package.__name__,
)
def test_what_a_package_offers_is_in_the_reference(package: ModuleType) -> None:
    known, short = in_reference(), package.__name__.removeprefix("ahop.")
    for name in getattr(package, "__all__", ()):
        places = {f"{short}.{name}", f"{short}.base.{name}"} | ({name} if name in ahop.__all__ else set())
        assert places & known, name


def test_every_network_of_the_zoo_is_in_the_reference() -> None:
    networks = {f"paper.zoo.{name}" for name in vars(ahop.zoo) if name.endswith("hop")}
    assert networks
    assert networks <= in_reference()


def runnable() -> list[Path]:
    """Pages with python in them. The landing page shows the idea with names that only a reader has."""
    return [page for page in pages() if page != DOCS / "index.md" and python_blocks(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", runnable(), ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    with ExitStack() as stack:
        if 'psycopg.connect(""' in text:
            if postgres.binaries() is None:
                pytest.skip("no server of PostgreSQL is installed")
            address = urlsplit(stack.enter_context(postgres.server()))
            known = {"HOST": address.hostname, "PORT": address.port, "USER": address.username, "DATABASE": "postgres"}
            for name, value in known.items():
                monkeypatch.setenv(f"PG{name}", str(value))
        for block in python_blocks(text):
            run_block(block, page.name, namespace)


def test_the_similarity_to_add_has_fifteen_lines() -> None:
    code = python_blocks((DOCS / "extending.md").read_text(encoding="utf-8"))[0].code
    body = code[code.index("@final") :]
    assert len([line for line in body.splitlines() if line.strip()]) <= 15


def test_no_page_and_no_source_holds_forbidden_words() -> None:
    texts = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in words()}
    assert len(texts) > 300
    assert not [
        (path, found.group()) for path, text in texts.items() for word in FORBIDDEN for found in word.finditer(text)
    ]


def of_packages() -> dict[str, set[str]]:
    """What the packages offer that have names of their own to offer: `ahop`, `ahop.nn` and their like."""
    top = Path(ahop.__file__).parent
    names = sorted(".".join(path.parent.relative_to(top).parts) for path in top.glob("*/**/__init__.py"))
    packages = [ahop, *(import_module(f"ahop.{name}") for name in names)]
    return {package.__name__: set(package.__all__) for package in packages if hasattr(package, "__all__")}


def is_public(name: str, offered: dict[str, set[str]]) -> bool:
    """Whether a dotted name leads through packages to something that the last of them offers."""
    package, *others = name.split(".")
    for other in others:
        if f"{package}.{other}" not in offered:
            return other in offered[package]
        package = f"{package}.{other}"
    return True


def private_names(code: str) -> set[str]:
    """What a script takes from this package that no package of it offers."""
    nodes = list(ast.walk(ast.parse(code)))
    taken: set[str] = set()
    meant: dict[str, str] = {}  # by the words that imports bind
    for node in nodes:
        if isinstance(node, ast.Import):
            taken |= {each.name for each in node.names}
            whole = {each.asname or each.name: each.name for each in node.names}
            meant |= {word.split(".")[0]: name if word != name else name.split(".")[0] for word, name in whole.items()}
        elif isinstance(node, ast.ImportFrom):
            taken |= {f"{node.module}.{each.name}" for each in node.names}
            meant |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            word, _, rest = re.split(r"[^\w.]", ast.unparse(node))[0].partition(".")
            taken |= {f"{meant[word]}.{rest}"} if word in meant and rest else set()
    offered = of_packages()
    return {name for name in taken if name.split(".")[0] == "ahop" and not is_public(name, offered)}


def test_a_name_is_public_if_its_package_offers_it() -> None:
    assert not private_names("import ahop, torch\nahop.fit(ahop.zoo.a_hop(torch.rand(2, 2))).report")
    assert not private_names("from ahop.estimators import PrototypeClassifier\nfrom ahop import datasets")
    assert not private_names("import ahop.nn\nahop.nn.Hopfield(4)")
    assert private_names("from ahop.estimators.classifier import PrototypeClassifier")
    assert private_names("from ahop.estimators import _columns")
    assert private_names("import ahop.memory.memory")
    assert private_names("import ahop.nn\nahop.nn.base.Layer")
    assert private_names("import ahop\nahop._core.kernels.footprints")
    assert private_names("from ahop import *")
    assert private_names("from ahop import nn\nnn.base.Layer")
    assert private_names("import ahop as other\nother.memory.Recall")


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_use_public_names_only(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert re.search(r"\bahop\b", text)
    assert not private_names(text)


# What a benchmark compares with its readable form, or switches off; and what runs services for it.
MEASURED = r"ahop\.(_core\.kernels(\.\w+)*|similarities\.additive\.hats|service\.testing\.\w+|__version__)"


def test_experiments_and_benchmarks_use_public_names_only() -> None:
    scripts = [path for folder in ("experiments", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert len(scripts) > 50
    private = [(script, name) for script in scripts for name in private_names(script.read_text(encoding="utf-8"))]
    assert not [(script, name) for script, name in private if not re.fullmatch(MEASURED, name)]


def test_the_tree_of_the_house_is_the_contract_of_the_imports() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    layers = [[name.strip() for name in re.split(r"[|:]", layer)] for layer in contract["layers"]]
    block = (DOCS / "house.md").read_text("utf-8").split("## Floors", 1)[1].split("```")[1].strip("\n")
    floors: list[str] = []
    for line in block.splitlines():
        floors = [*floors, line] if line[:1] != " " else [*floors[:-1], floors[-1] + line]
    assert len(floors) == len(layers) == 9
    for floor, layer in zip(floors, layers, strict=True):
        rooms = [name.removeprefix("ahop.") for name in layer]
        assert all(re.search(rf"(?<![\w.]){name}(/|\.py)", floor) for name in rooms), (floor, rooms)
    drawn = {name.split(".")[1] for layer in layers for name in layer if name.startswith("ahop.")}
    top = [path for path in (ROOT / "src" / "ahop").iterdir() if path.name not in ("__pycache__", "__init__.py")]
    assert drawn == {path.stem for path in top if path.suffix in ("", ".py")}
