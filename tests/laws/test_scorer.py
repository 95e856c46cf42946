"""What numpy alone recalls is what the memory recalls, or the memory says that it cannot be exported."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import ahop
import ahop.runtime.scorer
from ahop.errors import UnsupportedError
from ahop.runtime.scorer import Scorer
from tests.catalogue import SIMILARITIES

COUNT, DIMENSIONS = 40, 12
# The words of similarities that the scorer does not know.
REFUSED = (
    *("match", "unified", "footprint", "adaptive", "isolated", "correlation", "logarithm", "ranks", "callable"),
    "forward",
)
REFUSED_LIKELIHOODS = ("likelihood of noise", "likelihood of a mask", "likelihood of a mixture", "learned nuisance")


def rows(count: int, seed: int, gaps: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(count, DIMENSIONS, generator=generator, dtype=torch.float64)
    return values.masked_fill(torch.rand(values.shape, generator=generator) < gaps, torch.nan)


def memory_with(name: str, gaps: float) -> ahop.AssociativeMemory:
    detector = ahop.unknown.UnknownDetector(rate=0.3)
    detector.center.copy_(torch.tensor([1.0, 2.0, -3.0, 2.0]))
    detector.slopes.copy_(torch.tensor([0.3, 0.2, 0.1, -0.1]))
    similarity = SIMILARITIES[name](DIMENSIONS, COUNT)
    model = ahop.Model(similarity, ahop.Softmax(0.7, floor=0.03), detector=detector)
    prior = torch.log_softmax(torch.linspace(0, 1, COUNT, dtype=torch.float64), 0)
    labels = [f"place {row}" if row % 2 else row for row in range(COUNT)]
    return ahop.AssociativeMemory(rows(COUNT, 0, gaps), model=model, log_prior=prior, labels=labels).double()


def is_refused(name: str) -> bool:
    return any(word in name for word in (*REFUSED, *REFUSED_LIKELIHOODS))


@pytest.mark.parametrize("gaps", [0.0, 0.25, 0.9])
@pytest.mark.parametrize("name", [name for name in SIMILARITIES if not is_refused(name)])
def test_the_scorer_recalls_as_the_memory_does(name: str, gaps: float, tmp_path: Path) -> None:
    memory = memory_with(name, gaps)
    memory.export(tmp_path / "memory.npz")
    queries = rows(30, 1, gaps)
    queries[0] = torch.nan
    queries[1] = 100.0
    queries[2] = 0.0
    found = Scorer(tmp_path / "memory.npz").recall(queries.numpy(), k=5)
    expected = memory.recall(queries, k=5)
    told = expected.posterior.numpy() > 0  # those that share nothing with a query have no order
    np.testing.assert_array_equal(found.indices[told], expected.indices.numpy()[told])
    np.testing.assert_allclose(found.posterior, expected.posterior, atol=1e-7)
    assert expected.unknown is not None
    assert found.unknown is not None
    np.testing.assert_allclose(found.unknown, expected.unknown, atol=1e-7)
    assert found.labels is not None
    assert expected.labels is not None
    assert found.labels[told].tolist() == expected.labels[told].tolist()


@pytest.mark.parametrize("name", [name for name in SIMILARITIES if is_refused(name)])
def test_what_the_scorer_does_not_know_is_refused_with_a_way_out(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="ahop serve"):
        memory_with(name, 0.0).export(tmp_path / "memory.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("similarity", ["auto", "mixture", "additive", "powed_sorensen"])
def test_a_fitted_memory_of_single_precision_keeps_its_answers(similarity: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    stored = rng.uniform(-1, 1, size=(60, DIMENSIONS)).astype("float32")
    origins = rng.integers(60, size=200)
    copies = stored[origins] + 0.3 + rng.normal(0, 0.2, (200, DIMENSIONS))
    copies[rng.random(copies.shape) < 0.2] = np.nan
    candidates = ["mixture", "additive", "debiased"] if similarity == "auto" else similarity
    groups = ["this" if row % 2 else "that" for row in range(200)]
    memory = ahop.fit(stored, pairs=(origins, copies), similarity=candidates, groups=groups, progress=False)
    memory.export(tmp_path / "memory.npz")
    scorer = Scorer(tmp_path / "memory.npz")
    for group in ("this", "that", "another"):
        found = scorer.recall(copies, k=3, group=group)
        expected = memory.recall(copies, k=3, groups=[group] * len(copies))
        np.testing.assert_allclose(found.posterior, expected.posterior, atol=1e-5)
        np.testing.assert_allclose(found.unknown, expected.unknown, atol=1e-5)  # type: ignore[arg-type]


def test_a_scan_may_be_a_mapping_of_names(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rooms = pandas.DataFrame({"kitchen ap": [-40.0, -80.0], "hall ap": [-70.0, -45.0]}, index=["kitchen", "hall"])
    ahop.AssociativeMemory(rooms, ahop.EuclideanSimilarity()).export(tmp_path / "rooms.npz")
    scorer = Scorer(tmp_path / "rooms.npz")
    answer = scorer.recall([{"kitchen ap": -43.0, "a neighbor": -60.0}, {"hall ap": -50.0}])
    assert answer.labels is not None
    assert answer.labels.ravel().tolist() == ["kitchen", "hall"]
    assert answer.unknown is None
    with pytest.raises(ValueError, match="rows of 2 values"):
        scorer.recall([[1.0, 2.0, 3.0]])


def test_no_queries_have_no_answers(tmp_path: Path) -> None:
    ahop.AssociativeMemory(torch.eye(3), ahop.EuclideanSimilarity()).export(tmp_path / "memory.npz")
    assert Scorer(tmp_path / "memory.npz").recall(np.empty((0, 3)), k=2).indices.shape == (0, 2)


def test_the_scorer_is_short_and_needs_numpy_alone(tmp_path: Path) -> None:
    code = Path(ahop.scorer.__file__).read_text()
    assert len(code.splitlines()) < 200
    imported = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {each.module if isinstance(each, ast.ImportFrom) else each.names[0].name for each in imported}
    assert {str(name).split(".")[0] for name in names} <= {"numpy", *sys.stdlib_module_names}
    ahop.AssociativeMemory(torch.eye(3), ahop.EuclideanSimilarity()).export(tmp_path / "memory.npz")
    (tmp_path / "scorer.py").write_text(code)
    script = (
        "import scorer, sys; a = scorer.Scorer('memory.npz').recall([[0, 1, 0]]); print(a.indices[0, 0], *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "1"
    assert not {"torch", "ahop"} & set(done.stdout.split())
