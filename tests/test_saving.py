"""Files: bit for bit what was saved, and nothing that can run, crash or ask for memory."""

import ast
import errno
import json
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

import ahop
from ahop import zoo
from ahop._core import optional
from ahop.errors import FileFormatError, InvalidTypeError
from ahop.memory.saving import archive
from ahop.memory.saving.registry import COMPONENTS
from ahop.modulations.base import Modulation
from ahop.separations.base import Separation
from ahop.similarities.base import Similarity
from tests.catalogue import (
    ENERGIES,
    MODULATIONS,
    NOT_SAVED,
    SEPARATIONS,
    SIMILARITIES,
    VARIANTS,
    WITHOUT_LIKELIHOOD,
    ZOO,
    components,
)
from tests.strategies import problem

SOURCES = sorted(Path(ahop.__file__).parent.rglob("*.py"))


def same(first: ahop.AssociativeMemory, second: ahop.AssociativeMemory) -> bool:
    """Equal to the last bit: names, tensors, dtypes and answers."""
    left, right = first.state_dict(), second.state_dict()
    queries = problem(dtype=first.patterns.dtype).queries
    return (
        repr(first) == repr(second)
        and repr(first.energy_function) == repr(second.energy_function)
        and list(left) == list(right)
        and all(torch.equal(left[name], right[name]) and left[name].dtype == right[name].dtype for name in left)
        and [p.requires_grad for p in first.parameters()] == [p.requires_grad for p in second.parameters()]
        and torch.equal(first.scores(queries), second.scores(queries))
        and torch.equal(first.recall(queries, k=5).indices, second.recall(queries, k=5).indices)
        and torch.equal(first.recall(queries, k=5).posterior, second.recall(queries, k=5).posterior)
    )


def survives(memory: ahop.AssociativeMemory, folder: Path) -> bool:
    memory.save(folder / "memory.ahop")
    return same(memory, ahop.load(folder / "memory.ahop"))


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_network_comes_back_bit_for_bit(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    assert survives(ZOO[name](problem(dtype=dtype).patterns), tmp_path)


@pytest.mark.parametrize("name", [name for name in SIMILARITIES if name not in NOT_SAVED])
def test_every_similarity_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    assert survives(ahop.AssociativeMemory(problem().patterns, SIMILARITIES[name](4, 5)), tmp_path)


@pytest.mark.parametrize("separation", SEPARATIONS, ids=repr)
def test_every_separation_comes_back_bit_for_bit(separation: Separation, tmp_path: Path) -> None:
    assert survives(ahop.AssociativeMemory(problem().patterns, separation=separation), tmp_path)


@pytest.mark.parametrize("name", MODULATIONS)
@pytest.mark.parametrize("energy", [*ENERGIES, None], ids=repr)
def test_every_modulation_and_energy_comes_back_bit_for_bit(
    name: str, energy: ahop.energies.FreeEnergy | ahop.energies.QuadraticEnergy | None, tmp_path: Path
) -> None:
    modulation: Modulation = MODULATIONS[name](4)
    assert survives(ahop.AssociativeMemory(problem().patterns, modulation=modulation, energy=energy), tmp_path)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in WITHOUT_LIKELIHOOD])
def test_every_likelihood_comes_back_bit_for_bit(name: str, tmp_path: Path) -> None:
    similarity = ahop.likelihood.LikelihoodSimilarity(VARIANTS[name](4))
    assert survives(ahop.AssociativeMemory(problem().patterns, similarity), tmp_path)


@pytest.mark.parametrize("hidden", [-30.0, -16.0, 0.3, 16.0, 30.0])
def test_a_learned_alpha_comes_back_wherever_it_went(hidden: float, tmp_path: Path) -> None:
    separation = ahop.separations.Entmax(learnable=True)
    with torch.no_grad():
        separation.get_parameter("_alpha").fill_(hidden)
    assert survives(ahop.AssociativeMemory(problem().patterns, separation=separation), tmp_path)


def test_an_alpha_next_to_one_comes_back(tmp_path: Path) -> None:
    memory = ahop.AssociativeMemory(problem().patterns, separation=ahop.separations.Entmax(1.0000003))
    assert survives(memory, tmp_path)


def test_numbers_from_numpy_can_be_saved(tmp_path: Path, unchecked: None) -> None:
    number: Any = np.float32(0.25)
    count: Any = np.int64(3)
    variant = ahop.MixedVariant(number, number, number, seed=count)
    similarity, separation = ahop.likelihood.LikelihoodSimilarity(variant), ahop.Softmax(number)
    assert survives(ahop.AssociativeMemory(problem().patterns, similarity, separation), tmp_path)
    assert survives(zoo.d_hop(problem().patterns, count), tmp_path)


def test_a_prior_comes_back(tmp_path: Path) -> None:
    log_prior = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0]).log()
    assert survives(ahop.AssociativeMemory(problem().patterns, log_prior=log_prior), tmp_path)


def test_parameters_in_double_precision_come_back_so(tmp_path: Path) -> None:
    assert survives(zoo.a_hop(problem().patterns).double(), tmp_path)


def test_a_fitted_memory_comes_back(tmp_path: Path) -> None:
    fitted = ahop.fit(problem().patterns, variant=ahop.NoisyVariant(0.1), samples=50, progress=False)
    assert survives(fitted, tmp_path)


def test_a_loaded_memory_can_be_fitted_and_saved_again(tmp_path: Path) -> None:
    zoo.a_hop(problem().patterns).save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    fitted = ahop.fit(loaded, variant=ahop.NoisyVariant(0.1), samples=50, progress=False)
    assert survives(fitted, tmp_path)
    assert survives(
        ahop.fit(loaded, variant=ahop.NoisyVariant(0.1), solver=ahop.fitting.AdamSolver(3), progress=False),
        tmp_path,
    )


def test_a_memory_that_grew_comes_back(tmp_path: Path) -> None:
    memory = ahop.AssociativeMemory(problem().patterns, SIMILARITIES["isolated"](4, 5))
    memory.add(problem(seed=1).patterns)
    memory.remove(torch.tensor([0, 7]))
    assert survives(memory, tmp_path)


def test_a_file_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "memory.ahop"
    for count in (3, 5):
        ahop.AssociativeMemory(torch.rand(count, 2)).save(path)
        assert len(ahop.load(path)) == count
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    memory = zoo.m_hop(problem().patterns)
    memory.save(str(tmp_path / "memory.ahop"))
    assert same(memory, ahop.load(str(tmp_path / "memory.ahop")))


# Files that are not ours.


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "memory.ahop"
    similarity = ahop.AdaptiveSimilarity(4)
    ahop.AssociativeMemory(
        problem(dtype=torch.float32).patterns, similarity, ahop.separations.Entmax(learnable=True)
    ).save(path)
    return path.read_bytes()


def refused(content: bytes, path: Path, message: str = "") -> None:
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        ahop.load(path)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    refused(pickle.dumps(Trap()), tmp_path / "memory.ahop", "not a file that ahop wrote")
    torch.save(Trap(), tmp_path / "torch.ahop")
    with pytest.raises(FileFormatError):
        ahop.load(tmp_path / "torch.ahop")
    assert not (tmp_path / "sprung").exists()


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    refused(b"", tmp_path / "memory.ahop", "not a file that ahop wrote, or it is damaged")


def test_a_file_that_is_not_there_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ahop.load(tmp_path / "nowhere.ahop")


def test_tensors_without_a_manifest_are_refused(tmp_path: Path) -> None:
    save_file({"patterns": torch.zeros(2, 2)}, tmp_path / "memory.ahop")
    with pytest.raises(FileFormatError, match=r"no ahop manifest. Was it written by `memory.save`\?"):
        ahop.load(tmp_path / "memory.ahop")


def test_a_truncated_file_is_refused_wherever_it_ends(saved: bytes, tmp_path: Path) -> None:
    for length in range(0, len(saved), 7):
        refused(saved[:length], tmp_path / "memory.ahop", "damaged")


@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_file_loads_or_is_refused_and_nothing_else(
    saved: bytes, data: st.DataObject, tmp_path: Path, unchecked: None
) -> None:
    damaged = bytearray(saved)
    (header,) = struct.unpack("<Q", saved[:8])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, 8 + header) | st.integers(0, len(saved) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    path = tmp_path / "memory.ahop"
    path.write_bytes(bytes(damaged))
    try:
        memory = ahop.load(path)
    except FileFormatError:
        return
    assert memory.recall(problem().queries).indices.shape == (3, 1)


# Manifests that lie.


def described(name: str, /, **arguments: object) -> dict[str, object]:
    return {"component": name, "arguments": arguments}


def written(path: Path, changes: dict[str, object], tensors: dict[str, Tensor] | None = None) -> Path:
    """A file of an M-Hop, with the changes to what its manifest says."""
    parts: dict[str, object] = {
        "similarity": described("DotSimilarity"),
        "separation": described("Softmax", beta=1.0),
        "modulation": described("Unmodulated"),
        "energy": described("QuadraticEnergy"),
        "detector": None,
    }
    archive.write_archive(path, {"model": parts | changes}, {"patterns": torch.eye(3)} | (tensors or {}))
    return path


def test_the_file_that_the_lies_are_told_of_is_itself_true(tmp_path: Path) -> None:
    assert repr(ahop.load(written(tmp_path / "true.ahop", {}))) == repr(zoo.m_hop(torch.eye(3)))


HUGE = 10**12
SOFTMAX = described("Softmax")
LIES: dict[str, dict[str, object]] = {
    "an unknown class": {"similarity": described("os.system")},
    "a class that is no component": {"similarity": described("AssociativeMemory", patterns=[[1.0]])},
    "a method": {"similarity": described("__class__")},
    "no class": {"similarity": {"arguments": {}}},
    "a class that is a list": {"similarity": {"component": ["DotSimilarity"], "arguments": {}}},
    "no arguments": {"similarity": {"component": "DotSimilarity"}},
    "arguments in a list": {"similarity": {"component": "DotSimilarity", "arguments": [1]}},
    "an extra argument": {"similarity": described("DotSimilarity", extra=1)},
    "a missing argument": {"similarity": described("AdaptiveSimilarity")},
    "nothing": {"similarity": None},
    "a number": {"similarity": 3},
    "a list": {"separation": [described("Softmax", beta=1.0)]},
    "a separation for a similarity": {"similarity": described("Softmax")},
    "a similarity for a separation": {"separation": described("DotSimilarity")},
    "an energy for a modulation": {"modulation": described("FreeEnergy")},
    "a learned separation for an energy": {"energy": described("Entmax", learnable=True)},
    "a base that is no similarity": {"similarity": described("FootprintSimilarity", base=3, dimensions=3)},
    "a base that is a separation": {"similarity": described("FootprintSimilarity", base=SOFTMAX, dimensions=3)},
    "bases that are none": {"similarity": described("AdaptiveSimilarity", dimensions=3, bases=[SOFTMAX])},
    "a variant that is none": {"similarity": described("LikelihoodSimilarity", variant=SOFTMAX)},
    "a part that is no variant": {
        "similarity": described("LikelihoodSimilarity", variant=described("ComposedVariant", parts=[SOFTMAX]))
    },
    "a word for a number": {"separation": described("Softmax", beta="much")},
    "a number too large for any": {"separation": described("Softmax", beta=10**400)},
    "a number that is none": {"separation": described("Softmax", beta=float("nan"))},
    "a size that is a word": {"similarity": described("UnifiedSimilarity", dimensions="three")},
    "a size too large for any memory": {"similarity": described("UnifiedSimilarity", dimensions=HUGE)},
    "a size too large for any number": {"similarity": described("UnifiedSimilarity", dimensions=10**30)},
    "more weights than any memory": {"similarity": described("IsolatedSimilarity", count=HUGE, dimensions=3)},
    "more weights than this memory": {"similarity": described("IsolatedSimilarity", count=4 * 10**9, dimensions=3)},
    "a square of weights": {"similarity": described("IsolatedSimilarity", count=10**6, dimensions=10**6)},
    "a kernel too large": {"modulation": described("KernelModulation", dimensions=3, kernel_dimensions=HUGE)},
    "a large kernel": {"modulation": described("KernelModulation", dimensions=10**5, kernel_dimensions=10**5)},
    "weights that the file does not hold": {"similarity": described("UnifiedSimilarity", dimensions=3)},
}  # fmt: skip


def test_what_was_not_observed_is_saved_too(tmp_path: Path) -> None:
    patterns = torch.tensor([[1.0, torch.nan], [torch.nan, 2.0], [3.0, 4.0]])
    memory = ahop.AssociativeMemory(patterns)
    memory.save(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop")
    assert torch.equal(loaded.patterns.view(torch.int32), patterns.view(torch.int32))
    assert torch.equal(loaded.retrieve(patterns), memory.retrieve(patterns))


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_that_lies_is_refused(lie: str, tmp_path: Path, unchecked: None) -> None:
    written(tmp_path / "memory.ahop", LIES[lie])
    with pytest.raises(FileFormatError):
        ahop.load(tmp_path / "memory.ahop")


@pytest.mark.parametrize(
    "tensors",
    [
        {"patterns": torch.zeros(3)},
        {"patterns": torch.zeros(0, 3)},
        {"patterns": torch.full((2, 2), torch.inf)},
        {"patterns": torch.zeros(2, 2, dtype=torch.int64)},
        {"patterns": torch.zeros(2, 2, dtype=torch.bool)},
        {"patterns": torch.zeros(2, 2, dtype=torch.float8_e4m3fn)},
        {"surplus": torch.zeros(1)},
        {"log_prior": torch.zeros(4)},
        {"log_prior": torch.full((3,), torch.nan)},
    ],
    ids=str,
)
def test_tensors_that_do_not_belong_are_refused(tensors: dict[str, Tensor], tmp_path: Path, unchecked: None) -> None:
    with pytest.raises(FileFormatError):
        ahop.load(written(tmp_path / "memory.ahop", {}, tensors))


def test_missing_patterns_are_refused(tmp_path: Path) -> None:
    parts = {"similarity": described("DotSimilarity")}
    archive.write_archive(tmp_path / "memory.ahop", {"model": parts}, {"other": torch.zeros(1)})
    with pytest.raises(FileFormatError):
        ahop.load(tmp_path / "memory.ahop")


@pytest.mark.parametrize(
    ("similarity", "weights"),
    [
        (described("UnifiedSimilarity", dimensions=3), {"precision": torch.ones(2), "slope": torch.ones(3)}),
        (described("UnifiedSimilarity", dimensions=4), {"precision": torch.ones(4), "slope": torch.ones(4)}),
        (described("UnifiedSimilarity", dimensions=3), {"precision": torch.ones(3)}),
        (described("IsolatedSimilarity", count=4, dimensions=3), {"weights": torch.ones(2, 4, 3)}),
        (described("IsolatedSimilarity", count=3, dimensions=3), {"weights": torch.ones(1, 3, 3)}),
    ],
)
def test_weights_of_the_wrong_shape_are_refused(
    similarity: dict[str, object], weights: dict[str, Tensor], tmp_path: Path
) -> None:
    tensors = {f"similarity.{name}": tensor for name, tensor in weights.items()}
    with pytest.raises(FileFormatError):
        ahop.load(written(tmp_path / "memory.ahop", {"similarity": similarity}, tensors))


@pytest.mark.parametrize(
    "words",
    ["", "{", "null", "[]", "3", '"word"', "{}", '{"format": 1}', '{"format": 1, "memory": null}', "[" * 100_000],
    ids=lambda words: words[:30],
)
def test_words_that_are_no_manifest_are_refused(words: str, tmp_path: Path) -> None:
    save_file({"patterns": torch.eye(3)}, tmp_path / "memory.ahop", metadata={"ahop": words})
    with pytest.raises(FileFormatError):
        ahop.load(tmp_path / "memory.ahop")


@pytest.mark.parametrize("depth", [100, 300, 10_000])
def test_deep_nesting_is_refused(depth: int, tmp_path: Path) -> None:
    opening = '{"component": "ComposedVariant", "arguments": {"parts": ['
    innermost = '{"component": "NoisyVariant", "arguments": {"variance": 1.0}}'
    variant = opening * depth + innermost + "]}}" * depth
    words = '{"format": 1, "memory": {"similarity": {"component": "LikelihoodSimilarity", "arguments": {"variant": '
    save_file({"patterns": torch.eye(3)}, tmp_path / "memory.ahop", metadata={"ahop": words + variant + "}}}}"})
    with pytest.raises(FileFormatError):
        ahop.load(tmp_path / "memory.ahop")


plain_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5) | st.integers() | st.just(10**15),
    st.floats(),
    st.text(max_size=3) | st.sampled_from(["std", "variance", "constant", "per_query"]),
)
argument_names = sorted({name for part in components() for name in part.configuration()} | {"extra"})
any_parts = st.recursive(
    plain_values,
    lambda deeper: (
        st.lists(deeper, max_size=3)
        | st.builds(
            lambda name, arguments: described(name, **arguments),
            st.sampled_from([*COMPONENTS, "object"]),
            st.dictionaries(st.sampled_from(argument_names), deeper, max_size=3),
        )
    ),
    max_leaves=8,
)


@settings(max_examples=100)
@given(similarity=any_parts, separation=any_parts, modulation=any_parts)
def test_any_manifest_loads_or_is_refused(
    similarity: object, separation: object, modulation: object, tmp_path: Path, unchecked: None
) -> None:
    path = tmp_path / "memory.ahop"
    for name, part in (("similarity", similarity), ("separation", separation), ("modulation", modulation)):
        written(path, {name: part})
        with suppress(FileFormatError):
            ahop.load(path)


@pytest.mark.parametrize("version", [1, 3, 0, "2", None, 1e9])
def test_another_format_is_refused_with_a_way_out(version: object, tmp_path: Path) -> None:
    words = json.dumps({"format": version, "model": {}})
    save_file({"patterns": torch.eye(3)}, tmp_path / "memory.ahop", metadata={"ahop": f"0 {words}"})
    with pytest.raises(FileFormatError, match=r"has format .*; this release reads format 2\. Update ahop"):
        ahop.load(tmp_path / "memory.ahop")


# Writing.


WRITING = ["memory.saving.archive.save_file", "_core.files.os.fsync", "_core.files.Path.replace"]


@pytest.mark.parametrize("broken", WRITING)
def test_a_write_that_fails_leaves_the_old_file_and_no_litter(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.ahop"
    old = zoo.m_hop(problem().patterns)
    old.save(path)

    def fails(*arguments: object, **named: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(f"ahop.{broken}", fails)
    with pytest.raises(OSError, match="no space left"):
        zoo.a_hop(problem(seed=1).patterns).save(path)
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["memory.ahop"]
    assert same(old, ahop.load(path))


def test_a_new_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    zoo.m_hop(problem().patterns).save(tmp_path / "memory.ahop")
    assert survives(zoo.a_hop(problem(seed=1).patterns), tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["memory.ahop"]


def test_saving_into_a_folder_that_is_not_there_fails_plainly(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        zoo.m_hop(problem().patterns).save(tmp_path / "nowhere" / "memory.ahop")


# What the source may not do.


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_nothing_in_the_package_can_run_what_a_file_says(source: Path) -> None:
    banned_modules = {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "importlib", "subprocess"}
    banned_calls = {"eval", "exec", "compile", "__import__", "load", "unsafe_load"}
    if "service" in source.parts and source.name in ("refit.py", "testing.py"):  # our own interpreter
        banned_modules = banned_modules - {"subprocess"}
        assert re.search(r"subprocess\.Popen\([^\n]*\n +\[sys\.executable, ", source.read_text())
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            assert banned_modules.isdisjoint(name.name.split(".")[0] for name in node.names)
        if isinstance(node, ast.ImportFrom) and node.module != "importlib.metadata":
            of_a_closed_list = source.name in ("optional.py", "addresses.py") or source == Path(ahop.__file__)
            ways = ("importlib", "importlib.util", "importlib.machinery")
            looks_for_packages = of_a_closed_list and node.module in ways
            assert (node.module or "").split(".")[0] not in banned_modules or looks_for_packages
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of_arrays = ast.unparse(node) == "np.load(path, allow_pickle=False)"
            assert called not in banned_calls or of_arrays


def test_packages_that_are_looked_for_are_named_in_the_source_and_nowhere_else() -> None:
    tree = ast.parse(Path(optional.__file__).read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    looked_for = [name for node in calls if ast.unparse(node.func) == "_optional" for name in node.args]
    assert looked_for
    assert all(isinstance(name, ast.Constant) for name in looked_for)
    (looking,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "_optional")
    imports = {node for node in calls if ast.unparse(node.func) == "import_module"}
    assert imports
    assert imports <= set(ast.walk(looking))


# Damage.


def fitted_file(folder: Path) -> tuple[Path, ahop.AssociativeMemory]:
    patterns = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    pairs = ahop.MixedVariant(0.1, 0.1, 0.1).sample(patterns, 60, seed=1)
    memory = ahop.fit(patterns, pairs=pairs, similarity="mixture", progress=False)
    memory.save(folder / "memory.ahop")
    return folder / "memory.ahop", memory


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    path, memory = fitted_file(tmp_path)
    whole, generator = path.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        for place in generator.integers(len(whole), size=int(generator.integers(1, 9))):
            damaged[place] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        with suppress(FileFormatError):  # or the bit says nothing, as in a space of the header
            assert same_numbers(ahop.load(path), memory)


def same_numbers(first: ahop.AssociativeMemory, second: ahop.AssociativeMemory) -> bool:
    left, right = first.state_dict(), second.state_dict()
    return list(left) == list(right) and all(torch.equal(left[name], right[name]) for name in left)


def test_what_happens_to_a_file_after_it_was_loaded_changes_nothing(tmp_path: Path) -> None:
    path, memory = fitted_file(tmp_path)
    loaded = ahop.load(path)
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    path.write_bytes(b"")
    assert same_numbers(loaded, memory)
    assert torch.equal(loaded.recall(memory.patterns).posterior, memory.recall(memory.patterns).posterior)


@pytest.mark.skipif(os.name != "posix", reason="there are no such permissions")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_files_are_as_open_as_the_umask_says(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        zoo.m_hop(torch.eye(3)).save(tmp_path / "memory.ahop")
    finally:
        os.umask(before)
    assert (tmp_path / "memory.ahop").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.skipif(os.name != "posix", reason="processes are killed by a signal")
def test_what_a_killed_save_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    script = """
        import resource, signal, sys
        import torch
        import ahop
        memory = ahop.zoo.m_hop(torch.zeros(1000, 100))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # kills whoever writes a longer file
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        memory.save(sys.argv[1])
    """
    path = tmp_path / "memory.ahop"
    done = subprocess.run([sys.executable, "-c", dedent(script), str(path)], check=False)
    assert done.returncode == -signal.SIGXFSZ
    assert [each.suffix for each in tmp_path.iterdir()] == [".partial"]
    zoo.m_hop(torch.eye(3)).save(path)
    assert [each.name for each in tmp_path.iterdir()] == ["memory.ahop"]


def test_a_description_of_very_many_parts_is_refused_at_once(tmp_path: Path) -> None:
    bases = [described("DotSimilarity")] * 3000
    lie: dict[str, object] = {"similarity": described("AdaptiveSimilarity", dimensions=3, bases=bases)}
    started = time.process_time()
    with pytest.raises(FileFormatError, match="more than 1000 parts"):
        ahop.load(written(tmp_path / "memory.ahop", lie))
    assert time.process_time() - started < 1


# Parts of one's own.


class Halved(Similarity):
    """Half the inner product."""

    def forward(self, patterns: Tensor, queries: Tensor) -> Tensor:
        return 0.5 * queries @ patterns.mT


def test_parts_of_ones_own_are_loaded_by_who_names_them(tmp_path: Path) -> None:
    ahop.AssociativeMemory(torch.eye(3), Halved()).save(tmp_path / "memory.ahop")
    with pytest.raises(FileFormatError, match="Halved"):
        ahop.load(tmp_path / "memory.ahop")
    loaded = ahop.load(tmp_path / "memory.ahop", components=[Halved])
    assert isinstance(loaded.similarity, Halved)


@pytest.mark.parametrize("wrong", [torch.nn.Linear, "Halved", 3])
def test_what_is_no_part_cannot_be_named(wrong: object, tmp_path: Path, unchecked: None) -> None:
    with pytest.raises(InvalidTypeError, match="`components` must be classes"):
        ahop.load(tmp_path / "memory.ahop", components=[wrong])  # type: ignore[list-item]


def test_the_report_and_its_picture_come_back(tmp_path: Path) -> None:
    path, memory = fitted_file(tmp_path)
    loaded = ahop.load(path)
    assert loaded.report == memory.report
    assert str(loaded.report) == str(memory.report)


def test_a_disk_that_takes_no_more_is_told_by_an_oserror_and_the_old_file_stays(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "memory.ahop"
    zoo.m_hop(torch.eye(4)).save(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match=r"memory\.ahop") as told:
            zoo.m_hop(torch.rand(100, 100)).save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert told.value.errno == errno.EFBIG
    assert [each.name for each in tmp_path.iterdir()] == ["memory.ahop"]
    assert torch.equal(ahop.load(path).patterns, torch.eye(4))
