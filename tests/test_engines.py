"""Layers under torch's engines: compilers, exporters, half precision, several processes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from ahop._core.kernels.native import native
from tests.engines import ENGINES
from tests.layers import LAYERS

every_layer = pytest.mark.parametrize("name", LAYERS)


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_run_under(engine: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines", engine],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@every_layer
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_the_same_answer_with_fewer_digits(name: str, dtype: torch.dtype) -> None:
    case = LAYERS[name]
    layer, inputs, masks = case.layer(), case.inputs(), case.padding()
    expected = layer(*inputs, **masks)
    found = layer.to(dtype)(*(each.to(dtype) for each in inputs), **masks)
    assert found.dtype == dtype
    assert_close(found.float(), expected, rtol=0, atol=60 * torch.finfo(dtype).eps)


@every_layer
def test_autocast_trains(name: str) -> None:
    case = LAYERS[name]
    layer, inputs, masks = case.layer(), [each.requires_grad_() for each in case.inputs()], case.padding()
    expected = layer(*inputs, **masks)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(*inputs, **masks)
    assert_close(found.float(), expected, rtol=0, atol=60 * torch.finfo(torch.bfloat16).eps)
    torch.autograd.backward(found.float().square().sum())
    gradients = [each.grad for each in (*inputs, *layer.parameters())]
    assert all(each is not None and bool(each.isfinite().all()) for each in gradients)


@pytest.mark.skipif(native is None, reason="built without a compiler")
def test_exported_layers_have_the_kernels_in_them() -> None:
    case = LAYERS["hopfield, adaptive"]
    program = torch.export.export(case.layer(), tuple(case.inputs()))
    assert any("footprint_scores" in str(node.target) for node in program.graph.nodes)
