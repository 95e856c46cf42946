"""`python -m tests.engines NAME`: layers under torch's compilers, exporters and process groups.

In processes of their own, as the types that the tests check while they run are not for compilers.
"""

import inspect
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from ahop.nn.compat import hflayers
from tests.layers import LAYERS, Case

# One of each class, and of each path through the association.
CHOSEN = [
    *("hopfield", "hopfield, updated", "hopfield, at rest", "hopfield, sparse"),
    *("pooling, adaptive", "layer", "encoder", "decoder"),
]


def original() -> tuple[nn.Module, list[Tensor]]:
    """The layer of hopfield-layers, as it is used most."""
    torch.manual_seed(0)
    layer = hflayers.HopfieldPooling(6, num_heads=2, hidden_size=4, quantity=2, update_steps_max=2)
    return layer.eval(), [torch.randn(3, 5, 6)]


def compiled() -> None:
    for name in CHOSEN:
        case = LAYERS[name]
        check_compiled(case.layer(), case.inputs(), case.padding())
    check_compiled(*original(), {"stored_pattern_padding_mask": torch.rand(3, 5) < 0.3})


def check_compiled(layer: nn.Module, inputs: list[Tensor], masks: dict[str, Tensor]) -> None:
    """One graph without a break, forward and backward, to the same numbers."""
    torch.compiler.reset()
    results = []
    for function in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        leaves = [each.clone().requires_grad_() for each in inputs]
        answers = function(*leaves, **masks)
        parameters = list(layer.parameters())
        slopes = torch.autograd.grad(answers.square().sum(), [*leaves, *parameters])
        results.append([answers, *slopes])
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-5)


def exported() -> None:
    for name in CHOSEN:
        layer, inputs, others, shapes = dynamic(LAYERS[name])
        program = torch.export.export(layer, tuple(inputs), dynamic_shapes=shapes)
        assert_close(program.module()(*others), layer(*others))
    layer, inputs = original()
    free = torch.export.Dim.AUTO
    program = torch.export.export(layer, tuple(inputs), dynamic_shapes={"input": {0: free, 1: free}})
    others = [torch.randn(4, 9, 6)]
    assert_close(program.module()(*others), layer(*others))


def onnx() -> None:
    """In another engine: an adaptive layer, too, needs nothing of ours there."""
    import onnxruntime

    warnings.simplefilter("ignore")  # the exporter warns about itself
    for name in ("hopfield, sparse", "pooling, adaptive", "encoder"):
        layer, inputs, others, shapes = dynamic(LAYERS[name])
        with TemporaryDirectory() as folder:
            path = str(Path(folder) / "layer.onnx")
            torch.onnx.export(layer, tuple(inputs), path, dynamo=True, dynamic_shapes=shapes, verbose=False)
            session = onnxruntime.InferenceSession(path)
            named = {each.name: tensor.numpy() for each, tensor in zip(session.get_inputs(), others, strict=True)}
            (found,) = session.run(None, named)
        assert_close(torch.from_numpy(found), layer(*others).detach(), rtol=1e-4, atol=1e-5)


def dynamic(case: Case) -> tuple[nn.Module, list[Tensor], list[Tensor], dict[str, dict[int, object]]]:
    """A layer, inputs to trace it with, others of other sizes, and that both sizes are free."""
    layer, inputs = case.layer(), case.inputs()
    names = list(inspect.signature(layer.forward).parameters)[: len(inputs)]
    others = [torch.cat([each, each + 1], dim=1) for each in case.inputs(batch=7, seed=1)]
    return layer, inputs, others, {name: {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO} for name in names}


def parallel() -> None:
    """Two processes with half of the batch each learn what one with all of it does."""
    with TemporaryDirectory() as folder:
        spawn(_in_a_group, (folder,), nprocs=2)  # type: ignore[no-untyped-call]


def _in_a_group(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    for name in ("hopfield, adaptive", "pooling", "layer, adaptive", "decoder"):
        case = LAYERS[name]
        layer, alone, inputs = case.layer(), case.layer(), case.inputs(batch=4)
        shared = DistributedDataParallel(layer)
        half = [each[2 * rank : 2 * rank + 2] for each in inputs]
        torch.autograd.backward(shared(*half).square().mean())
        torch.autograd.backward(alone(*inputs).square().mean())
        for (key, found), expected in zip(layer.named_parameters(), alone.parameters(), strict=True):
            assert found.grad is not None, key
            assert expected.grad is not None, key
            assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-6)
    distributed.destroy_process_group()


ENGINES: dict[str, Callable[[], None]] = {each.__name__: each for each in (compiled, exported, onnx, parallel)}

if __name__ == "__main__":
    ENGINES[sys.argv[1]]()
