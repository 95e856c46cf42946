"""What a memory answers that was opened without torch is what the memory answers."""

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from safetensors.torch import load as tensors_from_bytes
from torch import Tensor

import ahop
from ahop._core.kernels import native
from ahop.errors import FileFormatError, InvalidTypeError, ShapeError, UnsupportedError
from ahop.memory.explanation import Bar, Explanation
from ahop.memory.saving import archive
from ahop.memory.saving.archive import read_archive, write_archive
from ahop.similarities.euclidean import EuclideanSimilarity
from ahop.similarities.match import MatchSimilarity
from tests.laws.test_plans import MODELS, Draw, is_planned, plan_of

pytestmark = pytest.mark.skipif(native.native is None, reason="plans are compiled")


def test_it_answers_to_the_bit_as_the_memory_does(tmp_path: Path) -> None:
    opened = 0
    for seed in range(MODELS):
        draw = Draw(seed)
        memory, queries, k = draw.memory(), draw.queries(), draw.whole(1, 9)
        wanted = memory.recall(queries.numpy(), k=k)
        memory.save(tmp_path / "memory.ahop")
        if not is_planned(memory):
            with pytest.raises(UnsupportedError, match=r"ahop\.load"):
                ahop.open_memory(tmp_path / "memory.ahop")
            continue
        runtime = ahop.open_memory(tmp_path / "memory.ahop", threads=1)
        plan = plan_of(memory)
        assert plan is not None
        if plan.rank(queries.numpy(), min(k, len(memory)), 1) is None:
            with pytest.raises(UnsupportedError, match="single precision"):
                runtime.recall(queries.numpy(), k=k)
            continue
        opened += 1
        found = runtime.recall(queries.numpy(), k=k)
        np.testing.assert_array_equal(found.indices, wanted.indices)
        np.testing.assert_array_equal(found.posterior, wanted.posterior)
        np.testing.assert_array_equal(found.patterns, wanted.patterns)
        assert (found.unknown is None) == (wanted.unknown is None)
        if wanted.unknown is not None:
            np.testing.assert_array_equal(found.unknown, wanted.unknown)
    assert opened > 0.8 * MODELS


def test_it_explains_as_the_memory_does(tmp_path: Path) -> None:
    """Bars, words and odds; the memory works them out by torch, in single precision."""
    compared = 0
    for seed in range(0, MODELS, 3):
        draw = Draw(seed)
        memory, queries = draw.memory(), draw.queries()
        memory.recall(queries)
        plan = plan_of(memory)
        if plan is None:
            continue
        memory.save(tmp_path / "memory.ahop")
        opened = ahop.open_memory(tmp_path / "memory.ahop", threads=1)
        rivals: list[object] = [None, draw.whole(0, len(memory))]
        for query in queries[:3].numpy():
            if plan.rank(query[None], 1, 1) is None:
                with pytest.raises(UnsupportedError, match="single precision"):
                    opened.explain(query)
                continue
            for against in [*rivals, "unknown"] if memory.detector is not None else rivals:
                try:
                    wanted = memory.explain(query, against=against)
                except UnsupportedError:
                    with pytest.raises(UnsupportedError):
                        opened.explain(query, against=against)
                    continue
                found = opened.explain(query, against=against)
                if (found.answer, found.rival) != (wanted.answer, wanted.rival):
                    best = memory.recall(query[None], k=3).posterior[0]  # of equals any is the first
                    assert np.isclose(best[:-1], best[1:], rtol=1e-4).any()
                    continue
                compared += 1
                assert_alike(found, wanted)
    assert compared > 2 * MODELS


def assert_alike(found: Explanation, wanted: Explanation) -> None:
    ours, theirs = ({bar.name: bar for bar in each.bars} for each in (found, wanted))
    size = max([1.0, *(abs(bar.log_odds) for bar in wanted.bars if np.isfinite(bar.log_odds))])
    assert found.posterior == pytest.approx(wanted.posterior, abs=1e-5)
    assert found.log_odds == pytest.approx(wanted.log_odds, abs=1e-5 * size, rel=1e-5)
    for name in ours.keys() | theirs.keys():
        one, other = (each.get(name, Bar(name, 0.0, "")) for each in (ours, theirs))
        assert one.log_odds == pytest.approx(other.log_odds, abs=2e-5 * size), name
        if name in ours and name in theirs and abs(one.log_odds) > 1e-4 * size:
            assert (one.word, str(one.seen), str(one.answer)) == (other.word, str(other.seen), str(other.answer))


def pairs(count: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    stored = torch.rand(60, 5, generator=generator)
    origins = torch.randint(60, (count,), generator=generator)
    copies = stored[origins] + 0.05 * torch.randn(count, 5, generator=generator)
    copies[1::2] += 0.3
    return stored, origins, copies.masked_fill(torch.rand(copies.shape, generator=generator) < 0.1, torch.nan)


def test_groups_labels_columns_and_checks_are_those_of_the_memory(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    stored, origins, copies = pairs(300)
    names = [f"ap{column}" for column in range(5)]
    frame = pandas.DataFrame(stored.numpy(), columns=names, index=[f"room {row} ä" for row in range(60)])
    asked = pandas.DataFrame(copies.numpy(), columns=names)[names[::-1]]
    memory = ahop.fit(
        frame,
        pairs=([f"room {row} ä" for row in origins.tolist()], asked),
        similarity="mixture",
        groups=["this", "that"] * 150,
        progress=False,
    )
    assert memory.model.groups
    memory.save(tmp_path / "memory.ahop")
    opened = ahop.open_memory(tmp_path / "memory.ahop")
    assert opened.columns == memory.columns
    assert (len(opened), opened.dimensions, opened.is_checked) == (60, 5, True)
    assert opened.labels is not None
    for groups in (None, ["that"] * 300, ["this", "that", "nobody"] * 100):
        found, wanted = (each.recall(asked, k=3, groups=groups) for each in (opened, memory))
        assert found.labels is not None
        assert wanted.labels is not None
        assert found.labels.tolist() == wanted.labels.tolist()
        np.testing.assert_allclose(found.posterior, wanted.posterior, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.confidence, wanted.confidence, rtol=1e-4, atol=1e-6)
    assert found.to_frame().equals(found.to_frame())
    assert opened.recall(np.empty((0, 5)), k=2).indices.shape == (0, 2)
    with pytest.raises(ShapeError):
        opened.recall([[1.0, 2.0]])
    flags = np.arange(60) % 3 == 0
    for where in (flags, flags.nonzero()[0], [4]):
        some, wanted = (each.recall(asked, k=2, where=where) for each in (opened, memory))
        np.testing.assert_array_equal(some.indices, wanted.indices)
        np.testing.assert_array_equal(some.posterior, wanted.posterior)
        np.testing.assert_array_equal(some.patterns, wanted.patterns)
    with pytest.raises(ShapeError, match="`where`"):
        opened.recall(asked, where=[True, False])
    with pytest.raises(UnsupportedError, match=r"`same`.*ahop\.load"):
        opened.recall(copies.numpy(), same=[0] * 300)
    with pytest.raises(InvalidTypeError):
        opened.recall([["a"] * 5])


def test_it_is_watched_as_the_memory_is(tmp_path: Path) -> None:
    stored, origins, copies = pairs(400)
    memory = ahop.fit(
        stored, pairs=(origins, copies), groups=["this", "that"] * 200, similarity="mixture", progress=False
    )
    memory.save(tmp_path / "memory.ahop")
    opened, later = ahop.open_memory(tmp_path / "memory.ahop"), copies[:200].clone()
    later[:, 2] += 0.5
    for queries in (later, later.numpy(), later.tolist()):
        report = ahop.watch(opened, queries, windows=2, reference=copies)
        assert report == ahop.watch(memory, queries, windows=2, reference=copies)
        assert report.alarm
        assert report.accuracy is not None
    devices = ["this", "that"] * 100
    ours, theirs = (ahop.watch(each, later, groups=devices) for each in (opened, memory))
    assert (ours.reference, ours.groups.keys()) == (theirs.reference, theirs.groups.keys())
    for one, other in zip(ours.rows(), theirs.rows(), strict=True):
        assert one["name"] == other["name"]
        assert one["size"] == pytest.approx(other["size"], rel=1e-4)  # a memory answers groups by torch
    assert ahop.watch(opened, later, reference=later).alarm is False
    ahop.AssociativeMemory(stored, EuclideanSimilarity()).save(tmp_path / "bare.ahop")
    bare = ahop.open_memory(tmp_path / "bare.ahop")
    assert (bare.report, bare.reference, bare.detector) == (None, None, None)
    assert ahop.watch(bare, later).drift == ()


def test_torch_is_not_imported(tmp_path: Path) -> None:
    stored, origins, copies = pairs(100)
    memory = ahop.fit(stored, pairs=(origins, copies), similarity=["mixture", "additive"], progress=False)
    memory.save(tmp_path / "memory.ahop")
    script = """
        import sys
        sys.modules["torch"] = sys.modules["jaxtyping"] = None  # as if nobody had installed them
        import ahop
        memory = ahop.open_memory(sys.argv[1])
        answer = memory.recall(memory.patterns + 0.01, k=2)
        assert memory.explain(memory.patterns[3]).answer == 3
        assert memory.explain(memory.patterns[3], against="unknown").bars
        assert ahop.watch(memory, memory.patterns).queries == len(memory)
        print(int((answer.indices[:, 0] == range(len(memory))).sum()), answer.is_checked)
    """
    ran = subprocess.run(
        [sys.executable, "-c", dedent(script), tmp_path / "memory.ahop"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() in (["59", "True"], ["60", "True"])


def test_what_needs_torch_is_refused_with_a_way_out(tmp_path: Path) -> None:
    stored = torch.rand(9, 3)
    others = {
        "a similarity that no plan knows": ahop.AssociativeMemory(stored, MatchSimilarity()),
        "numbers that single precision does not tell apart": ahop.AssociativeMemory(
            1e9 + stored.double(), EuclideanSimilarity()
        ),
        "weights of another kind": ahop.AssociativeMemory(
            stored, EuclideanSimilarity(), separation=ahop.separations.Sparsemax()
        ),
        "modulated": ahop.AssociativeMemory(
            stored, EuclideanSimilarity(), modulation=ahop.modulations.KernelModulation(3)
        ),
    }
    for memory in others.values():
        memory.save(tmp_path / "memory.ahop")
        with pytest.raises(UnsupportedError, match=r"ahop\.load"):
            ahop.open_memory(tmp_path / "memory.ahop")
    ahop.AssociativeMemory(stored, EuclideanSimilarity()).save(tmp_path / "memory.ahop")
    with pytest.raises(UnsupportedError, match=r"ahop\.load"):
        ahop.open_memory(tmp_path / "memory.ahop").recall([[1e30] * 3])


def test_rows_of_double_precision_are_rounded(tmp_path: Path) -> None:
    """As tables are read: -63.9 is no number of single precision, and it does not matter."""
    stored, origins, copies = pairs(200)
    stored, copies = 100 * stored.double() - 90, 100 * copies.double() - 90
    memory = ahop.fit(stored, pairs=(origins, copies), similarity=["mixture", "additive"], progress=False)
    memory.save(tmp_path / "memory.ahop")
    found = ahop.open_memory(tmp_path / "memory.ahop").recall(copies.numpy(), k=3)
    wanted = memory.recall(copies.numpy(), k=3)
    np.testing.assert_allclose(found.posterior, wanted.posterior, atol=1e-4)
    np.testing.assert_allclose(found.unknown, wanted.unknown, atol=1e-4)  # type: ignore[arg-type]


def test_half_precision_of_a_model_is_read(tmp_path: Path) -> None:
    stored, origins, copies = pairs(100)
    memory = ahop.fit(stored, pairs=(origins, copies), similarity="mixture", progress=False)
    memory.model = memory.model.bfloat16()
    memory.save(tmp_path / "memory.ahop")
    found = ahop.open_memory(tmp_path / "memory.ahop").recall(copies.numpy())
    np.testing.assert_allclose(found.posterior, memory.recall(copies.numpy()).posterior, rtol=1e-5)


def test_bent_files_of_which_the_checksum_fits_end_in_an_error(tmp_path: Path) -> None:
    stored, origins, copies = pairs(100)
    memory = ahop.fit(stored, pairs=(origins, copies), similarity=["mixture", "additive"], progress=False)
    path, bent = tmp_path / "memory.ahop", tmp_path / "bent.ahop"
    memory.save(path)
    manifest, tensors = read_archive(path)
    for name, values in tensors.items():
        others = [torch.zeros(3), torch.zeros(()), values.new_full(values.shape, torch.inf)]
        others += [values[:-1]] if values.ndim else []
        for other in (each for each in others if each.shape != values.shape or bool(each.isinf().any())):
            write_archive(bent, manifest, {**tensors, name: other})
            try:
                opened = ahop.open_memory(bent)
            except FileFormatError:
                continue
            # Patterns of other numbers, and queries that are kept for `watch`, make other memories.
            assert name == "patterns" or name.startswith("model.reference"), name
            assert np.isfinite(opened.recall(np.zeros((2, opened.dimensions))).posterior).all()
    for name in tensors:
        write_archive(bent, manifest, {other: values for other, values in tensors.items() if other != name})
        if not name.startswith("model.reference"):
            with pytest.raises(FileFormatError):
                ahop.open_memory(bent)


def test_words_that_describe_no_model_end_in_an_error(tmp_path: Path) -> None:
    path, bent = tmp_path / "memory.ahop", tmp_path / "bent.ahop"
    memory = ahop.AssociativeMemory(torch.rand(9, 3), EuclideanSimilarity(), labels=list(range(9)))
    memory.save(path)
    manifest, tensors = read_archive(path)
    for key in ("model", "similarity", "separation", "arguments", "component", "detector"):
        replacements: list[object] = [None, 3, "words", [], {}]
        for other in replacements:
            words = json.loads(json.dumps(manifest).replace(f'"{key}"', '"other"'))
            words["other" if key == "model" else key] = other
            write_archive(bent, words, tensors)
            if key != "detector" or "model" in words:
                try:
                    ahop.open_memory(bent)
                except (FileFormatError, UnsupportedError):
                    continue
                pytest.fail(f"{key}: {other}")
    write_archive(bent, manifest, {**tensors, "labels": tensors["labels"][:-2]})
    with pytest.raises(FileFormatError):
        ahop.open_memory(bent)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    bent.write_bytes(content)
    with pytest.raises(FileFormatError, match="checksum"):
        ahop.open_memory(bent)


def test_one_reader_serves_torch_and_numpy() -> None:
    """Tensors of every kind come back as safetensors reads them."""
    kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.uint8)
    tensors = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in kinds} | {"empty": torch.empty(0, 3)}
    content = archive.archive_to_bytes({}, tensors)
    found = archive.archive_from_bytes(content, "bytes", None)[1]
    for name, values in tensors_from_bytes(content).items():
        assert torch.equal(found[name], values)
        assert found[name].dtype == values.dtype
