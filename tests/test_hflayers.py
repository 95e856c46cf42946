"""The layers of hopfield-layers by their own names: its numbers where it is right, the right ones where it is not."""

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError
from ahop.nn.compat import hflayers
from ahop.nn.compat.hflayers import Hopfield, HopfieldDecoderLayer, HopfieldEncoderLayer, HopfieldLayer, HopfieldPooling

# What hopfield-layers 1.0.2 itself answers, in double precision: states, inputs, masks and outputs, no code.
NUMBERS = Path(__file__).parent / "data" / "hflayers.safetensors"
with safe_open(NUMBERS, framework="pt") as archive:
    CASES: dict[str, dict[str, Any]] = json.loads(archive.metadata()["cases"])
    TENSORS = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118 - an archive is no dict

OFF = {
    f"normalize_{name}{end}": False
    for name in ("stored_pattern", "state_pattern", "pattern_projection")
    for end in ("", "_affine")
}
STATIC = ("stored_pattern_as_static", "state_pattern_as_static", "pattern_projection_as_static")
PLAIN: dict[str, Any] = OFF | dict.fromkeys(STATIC, True) | {"disable_out_projection": True}
SIZE, BATCH, QUERIES, PATTERNS = 6, 3, 4, 5


def tensors(prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): each for name, each in TENSORS.items() if name.startswith(prefix)}


def arguments(described: dict[str, Any]) -> dict[str, Any]:
    return {
        name: torch.tensor(value["tensor"]) if isinstance(value, dict) else value for name, value in described.items()
    }


def build(name: str) -> nn.Module:
    case = CASES[name]
    parts = [Hopfield(**arguments(part)) for part in case.get("parts", [])]
    made: nn.Module = getattr(hflayers, case["class"])(*parts, **arguments(case["arguments"]))
    return made.double().eval()


def inputs(name: str) -> tuple[Any, dict[str, Tensor]]:
    given = [TENSORS[f"{name}/input/{number}"].double() for number in range(CASES[name]["inputs"])]
    masks = {key: mask.double() if mask.is_floating_point() else mask for key, mask in tensors(f"{name}/mask/").items()}
    return (given[0] if len(given) == 1 else tuple(given)), masks


def data(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def three(batch: int = BATCH, size: int = SIZE, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Stored pattern, state pattern, projection."""
    rows = (PATTERNS, QUERIES, PATTERNS)
    stored, state, read = (data(batch, count, size, seed=seed + number) for number, count in enumerate(rows))
    return stored, state, read


def made(kind: Callable[..., nn.Module] = Hopfield, seed: int = 0, **options: Any) -> Any:
    """A layer in double precision whose parameters are large enough to matter."""
    torch.manual_seed(seed)
    layer = kind(**options).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape) + (parameter.ndim == 1))
    return layer


@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_the_original(name: str) -> None:
    layer, (given, masks) = build(name), inputs(name)
    state = tensors(f"{name}/state/")
    assert {key: each.shape for key, each in layer.state_dict().items()} == {k: each.shape for k, each in state.items()}
    layer.load_state_dict(state)
    answers = layer(*given, **masks) if CASES[name].get("parts") and isinstance(given, tuple) else layer(given, **masks)
    assert_close(answers, TENSORS[f"{name}/output"], rtol=1e-6, atol=1e-6)
    if isinstance(layer, (Hopfield, HopfieldPooling, HopfieldLayer)):
        found = layer.get_association_matrix(given, **masks)
        assert_close(found, TENSORS[f"{name}/weights"], rtol=1e-6, atol=1e-6)
        found = layer.get_projected_pattern_matrix(given, **masks)
        assert_close(found, TENSORS[f"{name}/values"], rtol=1e-6, atol=1e-6)
        assert not found.requires_grad


def test_parameters_start_as_in_the_original() -> None:
    layer = HopfieldPooling(64, num_heads=4, hidden_size=64, concat_bias_pattern=True, quantity=50)
    for name, parameter in layer.named_parameters():
        if "norm" in name:
            assert torch.equal(parameter, torch.full_like(parameter, float(name.endswith("weight"))))
        elif name.endswith(("in_proj_bias", "out_proj.bias")):
            assert not parameter.any()
        else:
            assert 0.015 < float(parameter.detach().std()) < 0.025


# Where the original is wrong.


@pytest.mark.parametrize("static", range(1, 8), ids="static {:03b}".format)
@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("batch", [1, 3])
def test_samples_do_not_mix_where_patterns_are_static(static: int, heads: int, batch: int) -> None:
    chosen: dict[str, Any] = {name: bool(static >> bit & 1) for bit, name in enumerate(STATIC)}
    layer = made(input_size=SIZE, hidden_size=SIZE, num_heads=heads, **chosen)
    given = three(batch)
    together = layer(given)
    for sample in range(batch):
        alone = tuple(each[sample : sample + 1] for each in given)
        assert_close(together[sample : sample + 1], layer(alone), rtol=1e-9, atol=1e-9)
        # Each head by itself, in the plainest words.
        weights = layer.get_association_matrix(alone)[0]
        values = layer.get_projected_pattern_matrix(alone)[0]
        side_by_side = torch.cat([weights[head] @ values[head] for head in range(heads)], dim=-1)
        assert_close(together[sample], layer.association_core.out_proj(side_by_side))
    changed = tuple(torch.cat([each[:-1], 2 * each[-1:]]) for each in given)
    assert torch.equal(layer(changed)[:-1], together[:-1])


@pytest.mark.parametrize("updates", [0, 3])
def test_a_scaling_for_each_head_is_for_that_head(updates: int) -> None:
    options: dict[str, Any] = {
        "input_size": SIZE,
        "hidden_size": 3,
        "num_heads": 2,
        "update_steps_max": updates,
        "update_steps_eps": 1e-12,
    }
    both = made(**options, scaling=torch.tensor([1.0, 50.0])).get_association_matrix(three())
    for head, beta in enumerate((1.0, 50.0)):
        alone = made(**options, scaling=beta).get_association_matrix(three())
        assert_close(both[:, head], alone[:, head], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pattern_size", [None, 5])
def test_bias_patterns_take_part(pattern_size: int | None) -> None:
    layer = made(input_size=SIZE, num_heads=2, concat_bias_pattern=True, pattern_size=pattern_size)
    padding = torch.ones(BATCH, PATTERNS, dtype=torch.bool)
    assert layer.get_association_matrix(three()).shape == (BATCH, 2, QUERIES, PATTERNS + 1)
    only = layer.get_association_matrix(three(), padding)
    assert_close(only[..., -1], torch.ones(BATCH, 2, QUERIES, dtype=torch.float64))
    torch.autograd.backward(layer(three()).square().sum())
    assert layer.association_core.bias_k.grad.any()
    assert layer.association_core.bias_v.grad.any()
    state = layer.state_dict()
    state["association_core.bias_v"] = torch.zeros(1, 1, SIZE)  # as wide as the original made it
    layer.load_state_dict(state)


@pytest.mark.parametrize("name", ["stored_pattern_padding_mask", "association_mask"])
def test_masks_of_bytes_are_those_of_booleans(name: str) -> None:
    layer = made(input_size=SIZE)
    mask = torch.zeros((BATCH, PATTERNS) if "padding" in name else (QUERIES, PATTERNS), dtype=torch.bool)
    mask[0, 1] = True
    with pytest.deprecated_call(match=name):
        found = layer(three(), **{name: mask.to(torch.uint8)})
    assert torch.equal(found, layer(three(), **{name: mask}))


PROPERTIES = [
    "batch_first",
    "scaling",
    "stored_pattern_dim",
    "state_pattern_dim",
    "pattern_projection_dim",
    "input_size",
    "hidden_size",
    "output_size",
    "pattern_size",
    "update_steps_max",
    "update_steps_eps",
    "stored_pattern_as_static",
    "state_pattern_as_static",
    "pattern_projection_as_static",
    "normalize_stored_pattern",
    "normalize_stored_pattern_affine",
    "normalize_state_pattern",
    "normalize_state_pattern_affine",
    "normalize_pattern_projection",
    "normalize_pattern_projection_affine",
    "normalize_hopfield_space",
    "normalize_hopfield_space_affine",
]


@pytest.mark.parametrize("kind", [Hopfield, HopfieldPooling, HopfieldLayer])
def test_every_property_can_be_read(kind: Callable[..., nn.Module]) -> None:
    layer = kind(input_size=SIZE, num_heads=2, normalize_hopfield_space=True)
    found = {name: getattr(layer, name) for name in PROPERTIES}
    assert found == {
        **dict.fromkeys(PROPERTIES[-8:], True),
        **dict.fromkeys(STATIC, False),
        **dict.fromkeys(["stored_pattern_dim", "state_pattern_dim", "pattern_projection_dim"], SIZE),
        "batch_first": True,
        "scaling": 3**-0.5,
        "input_size": SIZE,
        "hidden_size": 3,
        "output_size": SIZE,
        "pattern_size": 3,
        "update_steps_max": 0,
        "update_steps_eps": 1e-4,
        "normalize_hopfield_space_affine": False,
    }
    if kind is not Hopfield:
        assert layer.quantity == 1


def test_blocks_know_their_sizes() -> None:
    part = Hopfield(input_size=SIZE, batch_first=False)
    for block in (HopfieldEncoderLayer(part), HopfieldDecoderLayer(part, part)):
        assert (block.batch_first, block.input_size, block.output_size) == (False, SIZE, SIZE)
    assert HopfieldEncoderLayer(part).get_association_matrix(torch.rand(2, 3, SIZE)).shape == (3, 1, 2, 2)
    decoder = HopfieldDecoderLayer(part, part)
    assert decoder.get_association_matrix_self(torch.rand(2, 3, SIZE)).shape == (3, 1, 2, 2)
    assert decoder.get_association_matrix_cross(torch.rand(2, 3, SIZE)).shape == (3, 1, 2, 2)


def test_the_space_can_be_normalized_with_weights_at_the_default_size() -> None:
    layer = made(input_size=SIZE, num_heads=2, normalize_hopfield_space=True, normalize_hopfield_space_affine=True)
    assert layer(three()).shape == (BATCH, QUERIES, SIZE)
    assert layer.association_core.p_norm_weight.shape == (3,)


@pytest.mark.parametrize("updates", [0, 2])
def test_a_row_of_padding_is_zero_and_leaves_the_others_alone(updates: int) -> None:
    layer = made(input_size=SIZE, num_heads=2, update_steps_max=updates)
    given = tuple(each.requires_grad_() for each in three())
    padding = torch.zeros(BATCH, PATTERNS, dtype=torch.bool)
    padding[1] = True
    answers = layer(given, padding)
    assert not layer.get_association_matrix(given, padding)[1].any()
    assert_close(answers[[0, 2]], layer(given)[[0, 2]])
    torch.autograd.backward(answers.sum())
    leaves = [*given, *layer.parameters()]
    assert all(bool(leaf.grad.isfinite().all()) for leaf in leaves if leaf.grad is not None)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_masks_of_numbers_may_be_of_any_precision(dtype: torch.dtype) -> None:
    layer, mask = made(input_size=SIZE, num_heads=2), data(QUERIES, PATTERNS)
    expected = layer(three(), association_mask=mask)
    layer.to(dtype)
    found = layer([each.to(dtype) for each in three()], association_mask=mask.to(dtype))
    assert found.dtype == dtype
    assert_close(found.double(), expected, rtol=0, atol=30 * torch.finfo(dtype).eps)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer.float()([each.float() for each in three()], association_mask=mask.to(dtype))
    assert_close(found.double(), expected, rtol=0, atol=0.2)


def test_a_scaling_can_be_any_kind_of_number_and_be_learned() -> None:
    original = made(input_size=SIZE, num_heads=2, scaling=2.0)
    learned = nn.Parameter(torch.tensor([2.0, 2.0], dtype=torch.float64))
    for scaling in (2, torch.tensor(2.0), torch.tensor([2.0, 2.0]), learned):
        layer = Hopfield(SIZE, num_heads=2, scaling=scaling).double()
        layer.load_state_dict(original.state_dict(), strict=not isinstance(scaling, nn.Parameter))
        assert_close(layer(three()), original(three()))
    torch.autograd.backward(layer(three()).sum())
    assert learned.grad is not None
    assert learned.grad.any()
    assert any("scal" in name for name in layer.state_dict())


def test_a_single_sample_needs_no_batch_and_lists_are_tuples() -> None:
    given = three(batch=1)
    mask = torch.tensor([[False, True, False, False, True]])
    for batch_first in (True, False):
        layer = made(input_size=SIZE, num_heads=2, batch_first=batch_first)
        batched = given if batch_first else tuple(each.transpose(0, 1) for each in given)
        answers = layer(list(batched), mask)
        single = layer([each[0] for each in given], mask[0])
        assert_close(single, answers[0] if batch_first else answers[:, 0])
    for kind in (HopfieldPooling, HopfieldLayer):
        layer = made(kind, input_size=SIZE, quantity=2)
        assert_close(layer(given[0][0]), layer(given[0])[0])


def test_equal_tensors_are_like_one() -> None:
    layer, stored = made(input_size=SIZE, num_heads=2), data(BATCH, PATTERNS, SIZE)
    assert torch.equal(layer(stored), layer((stored, stored.clone(), stored.clone())))


@pytest.mark.parametrize("eps", [1e-4, 0.01, 0.1])
@pytest.mark.parametrize("updates", [None, 20])
def test_no_sample_waits_for_the_others(eps: float, updates: int | None) -> None:
    layer = made(input_size=SIZE, num_heads=2, scaling=2.0, update_steps_max=updates, update_steps_eps=eps)
    given = three(batch=8)
    together = layer(given)
    for sample in range(8):
        alone = layer(tuple(each[sample : sample + 1] for each in given))
        assert_close(together[sample : sample + 1], alone, rtol=0, atol=1e-6)


def test_pooling_gives_one_row_a_sample_in_both_layouts() -> None:
    first = made(HopfieldPooling, input_size=SIZE, quantity=3, num_heads=2, output_size=4)
    second = HopfieldPooling(SIZE, quantity=3, num_heads=2, output_size=4, batch_first=False).double().eval()
    state = first.state_dict()
    second.load_state_dict(state | {"pooling_weights": state["pooling_weights"].transpose(0, 1)})
    stored = data(BATCH, PATTERNS, SIZE)
    assert second(stored.transpose(0, 1)).shape == (BATCH, 12)
    assert_close(second(stored.transpose(0, 1)), first(stored))


def test_an_activation_that_is_not_there_is_refused() -> None:
    for make in (
        lambda: Hopfield(SIZE, association_activation="no such thing"),
        lambda: HopfieldEncoderLayer(Hopfield(SIZE), activation="no such thing"),
    ):
        with pytest.raises(ValueError, match="activation"):
            make()


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax", "argmax"])
def test_the_separation_that_is_named_is_the_one_that_runs(name: str) -> None:
    expected: dict[str, Callable[[Tensor], Tensor]] = {
        "softmax": ahop.Softmax(),
        "sparsemax": ahop.separations.Sparsemax(),
        "entmax": ahop.separations.Entmax(),
        "argmax": ahop.separations.Argmax(),
    }
    stored, state, read = three()
    found = Hopfield(**PLAIN, scaling=0.7, separation=name).get_association_matrix((stored, state, read))
    assert_close(found[:, 0], expected[name](0.7 * state @ stored.mT))
    assert bool((found == 0).any()) == (name != "softmax")


@pytest.mark.parametrize("beta", [0.1, 1.0, 10.0])
def test_rows_sum_to_one_whatever_the_scaling(beta: float) -> None:
    weights = Hopfield(**PLAIN, scaling=beta).get_association_matrix(three())
    assert_close(weights.sum(-1), torch.ones(BATCH, 1, QUERIES, dtype=torch.float64))


@pytest.mark.parametrize("similarity", ["euclidean", "manhattan"])
def test_the_nearest_pattern_is_retrieved_not_the_farthest(similarity: str) -> None:
    stored = data(1, PATTERNS, SIZE)
    layer = Hopfield(**PLAIN, scaling=50.0, similarity=similarity)
    assert_close(layer((stored, stored + 0.01, stored)), stored, rtol=0, atol=1e-3)


def test_stored_images_come_back() -> None:
    """The plain retrieval of the original's own demonstrations, and the same with an adaptive similarity."""
    images = torch.rand(1, 30, 64)
    noisy = images + 0.2 * torch.randn(1, 30, 64)
    for similarity in ("euclidean", ahop.AdaptiveSimilarity(64)):
        layer = Hopfield(**PLAIN, scaling=8.0, similarity=similarity, update_steps_max=3)
        assert_close(layer((images, noisy, images)), images, rtol=0, atol=0.02)


@pytest.mark.parametrize("kind", [Hopfield, HopfieldPooling, HopfieldLayer])
@pytest.mark.parametrize("similarity", ["euclidean", "adaptive"])
def test_other_similarities_are_learned(kind: Callable[..., nn.Module], similarity: str) -> None:
    layer = made(kind, input_size=SIZE, num_heads=2, similarity=similarity, modulation="kernel")
    stored = data(BATCH, PATTERNS, SIZE)
    torch.autograd.backward(layer(stored).square().sum())
    wanted = [name for name, _ in layer.named_parameters() if "similarities" in name or "kernel" in name]
    assert wanted
    gradients = dict(layer.named_parameters())
    if kind is not HopfieldLayer:  # which stores a single pattern here, so that no comparison matters
        assert all(gradients[name].grad.any() for name in wanted)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "input_size"),
        ({"input_size": 5, "num_heads": 2}, "multiple of `num_heads`"),
        ({"input_size": 6, "normalize_state_pattern": False}, "turn both off"),
        ({"input_size": 6, "normalize_hopfield_space_affine": True}, "turn both off"),
        ({"input_size": 6, "pattern_projection_as_connected": True, "pattern_size": 2}, "as_connected"),
        ({"input_size": 6, "concat_bias_pattern": True, "stored_pattern_as_static": True}, "concat_bias_pattern"),
        ({"input_size": 6, "update_steps_eps": 0.0}, "tolerance"),
        (PLAIN | {"similarity": "adaptive"}, "AdaptiveSimilarity"),
        (PLAIN | {"normalize_state_pattern": True}, "needs a size"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said_when_it_is_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        Hopfield(**options)


def test_what_does_not_fit_is_said_when_it_is_called() -> None:
    layer, (stored, state, read) = made(input_size=SIZE), three()
    with pytest.raises(InvalidTypeError, match="three"):
        layer((stored, state))
    with pytest.raises(InvalidTypeError, match="two"):
        made(HopfieldPooling, input_size=SIZE)((stored, stored, stored))
    with pytest.raises(ShapeError, match="state pattern must have size 6"):
        layer((stored, state[..., :3], read))
    with pytest.raises(ShapeError, match="one projection for each"):
        layer((stored, state, read[:, :2]))
    with pytest.raises(ShapeError, match="one size"):
        Hopfield(**PLAIN)((stored, state[..., :3], read))
    with pytest.raises(ShapeError, match=r"\(3, 5\)"):
        layer((stored, state, read), torch.zeros(2, 5, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"\(4, 5\) or \(3, 4, 5\)"):
        layer((stored, state, read), association_mask=torch.zeros(5, 4, dtype=torch.bool))
    with pytest.raises(InvalidTypeError, match="True for what to ignore"):
        layer((stored, state, read), torch.zeros(3, 5))
    with pytest.raises(InvalidTypeError, match="numbers to add"):
        layer((stored, state, read), association_mask=torch.zeros(4, 5, dtype=torch.long))


def test_modules_within_are_where_the_original_has_them() -> None:
    from ahop.nn.compat.hflayers.transformer import HopfieldEncoderLayer as Same

    assert Same is HopfieldEncoderLayer


@pytest.mark.parametrize(("module", "name"), [("activation", "HopfieldCore"), ("functional", "hopfield_core_forward")])
def test_what_is_not_taken_over_says_where_to_go(module: str, name: str) -> None:
    found = importlib.import_module(f"ahop.nn.compat.hflayers.{module}")
    with pytest.raises(ImportError, match=r"ahop\.nn\.Association") as refused:
        getattr(found, name)
    for place in re.findall(r"`(ahop\.nn\.compat[.\w]*)`", str(refused.value)):
        importlib.import_module(place)
    assert "`ahop.nn.compat.hflayers`" in str(refused.value)
    assert not hasattr(found, "__path__")
