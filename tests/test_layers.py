"""Layers: each sample on its own, one meaning of masks, and an answer that is the stored pattern."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.testing import assert_close

import ahop
import ahop.nn
import ahop.nn.compat.hflayers
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from ahop.nn import (
    Association,
    Hopfield,
    HopfieldDecoderLayer,
    HopfieldEncoderLayer,
    HopfieldLayer,
    HopfieldPooling,
    Prototypes,
)
from tests.layers import LAYERS, PATTERNS, QUERIES, SIZE

every_layer = pytest.mark.parametrize("name", LAYERS)
every_masked_layer = pytest.mark.parametrize("name", [name for name, case in LAYERS.items() if case.masks])


@every_layer
def test_a_batch_is_a_loop_over_its_samples(name: str) -> None:
    case = LAYERS[name]
    layer, inputs, masks = case.layer(), case.inputs(), case.padding()
    together = layer(*inputs, **masks)
    for sample in range(len(inputs[0])):
        alone = slice(sample, sample + 1)
        one = layer(*(each[alone] for each in inputs), **{key: mask[alone] for key, mask in masks.items()})
        assert_close(together[alone], one)


@every_layer
def test_a_single_sample_needs_no_batch(name: str) -> None:
    case = LAYERS[name]
    layer, inputs = case.layer(), case.inputs(batch=1)
    assert_close(layer(*(each[0] for each in inputs)), layer(*inputs)[0])


@every_layer
def test_no_sample_is_a_fair_question(name: str) -> None:
    case = LAYERS[name]
    answers = case.layer()(*case.inputs(batch=0))
    assert answers.shape[1:] == case.layer()(*case.inputs(batch=1)).shape[1:]
    assert len(answers) == 0


@every_masked_layer
def test_padding_changes_nothing(name: str) -> None:
    """What stands in a padded row does not matter, nor whether it is there."""
    case = LAYERS[name]
    layer, inputs, masks = case.layer(), case.inputs(batch=2), case.padding(batch=3)
    masks = {key: mask[:2] for key, mask in masks.items()}
    before = layer(*inputs, **masks)
    sizes = {mask.shape[1]: mask for mask in masks.values()}
    padded = [
        each.masked_fill(~sizes[each.shape[1]][..., None], 1e3) if each.shape[1] in sizes else each for each in inputs
    ]
    after = layer(*padded, **masks)
    if name.startswith(("encoder", "decoder", "energy")):  # the padded query itself still has an answer of its own
        before, after = before[:, :-1], after[:, :-1]
    assert_close(before, after)


@every_masked_layer
def test_where_all_is_padding_answers_and_gradients_are_finite(name: str) -> None:
    case = LAYERS[name]
    layer, inputs, masks = case.layer(), [each.requires_grad_() for each in case.inputs()], case.padding()
    answers = layer(*inputs, **masks)
    torch.autograd.backward(answers.square().sum())
    assert bool(answers.isfinite().all())
    gradients = [each.grad for each in (*inputs, *layer.parameters()) if each.grad is not None]
    assert gradients
    assert all(bool(each.isfinite().all()) for each in gradients)


def test_a_query_that_sees_nothing_gets_the_answer_zero() -> None:
    layer, (queries, patterns) = LAYERS["hopfield"].layer(), LAYERS["hopfield"].inputs()
    assert isinstance(layer, Hopfield)
    assert layer.output_projection.bias.any()
    present = torch.zeros(3, PATTERNS, dtype=torch.bool)
    assert not layer(queries, patterns, present=present).any()
    assert not layer.associate(queries, patterns, present=present).retrieved.any()
    allowed = torch.ones(QUERIES, PATTERNS, dtype=torch.bool)
    allowed[1] = False
    assert layer(queries, patterns, allowed=allowed).any(-1).equal(allowed.any(-1).expand(3, -1))
    never = torch.zeros(QUERIES, PATTERNS).masked_fill(~allowed, -torch.inf)
    assert_close(layer(queries, patterns, log_prior=never), layer(queries, patterns, allowed=allowed))
    assert not layer.retrieve(queries, patterns, present=present).any()


@pytest.mark.parametrize("name", [name for name, case in LAYERS.items() if list(case.make().parameters())])
def test_every_parameter_gets_a_gradient(name: str) -> None:
    case = LAYERS[name]
    layer = case.layer()
    torch.autograd.backward(layer(*case.inputs()).square().sum())
    assert not [key for key, each in layer.named_parameters() if each.grad is None or not each.grad.any()]


@every_layer
def test_gradcheck(name: str) -> None:
    case = LAYERS[name]
    layer = case.layer().double()
    inputs = tuple(each.requires_grad_() for each in case.inputs(batch=2, dtype=torch.float64))
    masks = {key: mask[:2] for key, mask in case.padding().items()}
    parameters = tuple(layer.parameters())

    def answers(*leaves: Tensor) -> Tensor:
        return layer(*leaves[: len(inputs)], **masks)

    assert torch.autograd.gradcheck(answers, inputs + parameters, fast_mode=True)


@every_layer
def test_what_is_saved_is_loaded_bit_for_bit(name: str, tmp_path: Path) -> None:
    case = LAYERS[name]
    layer = case.layer()
    layer.save_pretrained(tmp_path / "deep" / "folder")
    again = type(layer).from_pretrained(tmp_path / "deep" / "folder")
    assert repr(again) == repr(layer)
    assert not again.training
    assert torch.equal(again(*case.inputs()), layer(*case.inputs()))
    assert {path.name for path in (tmp_path / "deep" / "folder").iterdir()} == {"config.json", "model.safetensors"}


@every_layer
def test_a_state_is_taken_over(name: str) -> None:
    case = LAYERS[name]
    other = case.make().eval()
    other.load_state_dict(case.layer().state_dict())
    assert torch.equal(other(*case.inputs()), case.layer()(*case.inputs()))


@pytest.mark.parametrize("heads", [1, 3, 8])
@pytest.mark.parametrize("similarity", ["dot", "euclidean", "adaptive"])
def test_an_untrained_layer_gives_back_the_stored_image(heads: int, similarity: str) -> None:
    """One line, no settings: what was stored comes back from a noisy copy and from half of it."""
    images = torch.rand(50, 784)
    half = images.clone()
    half[:, 392:] = 0
    layer = Hopfield(784, heads, similarity=similarity)
    for damaged in (images + 0.3 * torch.randn(50, 784), half):
        assert_close(layer.retrieve(damaged, images), images, rtol=0, atol=0.02)
    if heads == 1:
        assert_close(layer(images + 0.3 * torch.randn(50, 784), images), images, rtol=0, atol=0.02)


def test_stored_patterns_of_a_layer_come_back() -> None:
    images, labels = torch.rand(30, 100), torch.eye(30)
    layer = HopfieldLayer.of(images, labels, output_size=30)
    damaged = images + 0.1 * torch.randn(30, 100)
    assert_close(layer.retrieve(damaged), images, rtol=0, atol=0.02)
    assert torch.equal(layer(damaged).argmax(-1), torch.arange(30))
    assert not layer.patterns.patterns.requires_grad
    assert HopfieldLayer.of(images, trainable=True).patterns.patterns.requires_grad


def test_one_memory_for_all_samples_is_that_memory_for_each() -> None:
    layer, (queries, patterns) = LAYERS["hopfield, adaptive"].layer(), LAYERS["hopfield"].inputs()
    allowed = torch.rand(3, 2, QUERIES, PATTERNS) < 0.6
    shared = layer(queries, patterns[0], allowed=allowed)
    assert_close(shared, layer(queries, patterns[:1].expand(3, -1, -1), allowed=allowed))
    per_sample = torch.rand(3, PATTERNS) < 0.6
    expected = layer(queries, patterns[:1].expand(3, -1, -1), present=per_sample)
    assert_close(layer(queries, patterns[0], present=per_sample), expected)


def test_everything_on_the_way_can_be_read() -> None:
    layer, (queries, patterns) = LAYERS["hopfield, updated"].layer(), LAYERS["hopfield"].inputs()
    assert isinstance(layer, Hopfield)
    present = LAYERS["hopfield"].padding()["present"]
    found = layer.associate(queries, patterns, present=present)
    assert_close(found.retrieved, layer(queries, patterns, present=present))
    assert found.weights.shape == (3, 2, QUERIES, PATTERNS)
    assert found.energies.shape == found.updates.shape == (3, 2, QUERIES)
    assert found.patterns.shape == (3, 2, PATTERNS, 4)
    assert_close(found.weights[:2].sum(-1), torch.ones(2, 2, QUERIES))
    assert not found.weights[1:, :, :, -1].any()
    by_hand = (found.weights @ found.values).transpose(1, 2).flatten(2)
    assert_close(layer.output_projection(by_hand)[:2], found.retrieved[:2])


def test_a_memory_for_all_samples_is_read_sample_by_sample() -> None:
    layer, queries = LAYERS["layer, adaptive"].layer(), LAYERS["layer, adaptive"].inputs()[0]
    assert isinstance(layer, HopfieldLayer)
    together = layer.associate(queries)
    assert together.weights.shape == (3, 2, QUERIES, 7)
    assert layer.associate(queries[:0]).weights.shape == (0, 2, QUERIES, 7)
    for sample in range(3):
        alone = layer.associate(queries[sample])
        for name in ("weights", "energies", "states", "updates"):
            assert_close(getattr(together, name)[sample], getattr(alone, name)[0])


def test_the_instances_that_a_bag_is_judged_by_can_be_read() -> None:
    pool = LAYERS["pooling"].layer()
    assert isinstance(pool, HopfieldPooling)
    found = pool.associate(*LAYERS["pooling"].inputs(), **LAYERS["pooling"].padding())
    assert found.weights.shape == (3, 4, 2, PATTERNS)
    assert not found.weights[1, :, :, -1].any()


def test_a_mask_for_each_head_is_for_that_head() -> None:
    layer, (queries, patterns) = LAYERS["hopfield"].layer(), LAYERS["hopfield"].inputs()
    assert isinstance(layer, Hopfield)
    allowed = torch.rand(3, 2, QUERIES, PATTERNS) < 0.7
    assert not layer.associate(queries, patterns, allowed=allowed).weights[~allowed].any()


def test_a_prior_is_added_to_the_logarithms() -> None:
    layer, (queries, patterns) = LAYERS["hopfield"].layer(), LAYERS["hopfield"].inputs()
    assert isinstance(layer, Hopfield)
    prior = torch.randn(QUERIES, PATTERNS)
    plain = layer.associate(queries, patterns).weights
    assert_close(layer.associate(queries, patterns, log_prior=prior).weights, (plain.log() + prior).softmax(-1))


def test_half_of_an_image_that_was_not_observed_is_no_evidence() -> None:
    images = torch.rand(20, 40)
    half = images.masked_fill(torch.arange(40) >= 20, torch.nan)
    for similarity in (ahop.EuclideanSimilarity(), ahop.AdaptiveSimilarity(40)):
        found = Association(similarity, ahop.Softmax(20.0)).retrieve(half, images)
        assert_close(found, images, rtol=0, atol=1e-3)


def test_dropout_is_for_training_only() -> None:
    for similarity in ("dot", "euclidean"):
        layer = Hopfield(SIZE, similarity=similarity, dropout=0.5)
        queries = torch.rand(2, QUERIES, SIZE)
        assert not torch.equal(layer(queries), layer(queries))
        layer.eval()
        assert torch.equal(layer(queries), layer(queries))


@pytest.mark.parametrize("name", ["pooling", "pooling, adaptive"])
def test_a_padded_bag_is_the_bag(name: str) -> None:
    pool, bags = LAYERS[name].layer(), [torch.randn(count, SIZE) for count in (1, 4, 2)]
    padded = pad_sequence(bags, batch_first=True, padding_value=7.0)
    present = torch.arange(4) < torch.tensor([[len(bag)] for bag in bags])
    assert_close(pool(padded, present=present), torch.stack([pool(bag) for bag in bags]))


def test_a_bag_of_230_with_four_heads() -> None:
    pool = HopfieldPooling(230, similarity="adaptive", num_heads=4)
    assert pool(torch.rand(2, 7, 230)).shape == (2, 230)
    assert pool.hopfield.head_size == 58


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"num_heads": 0}, InvalidValueError, "num_heads"),
        ({"similarity": "cosine"}, InvalidValueError, "'dot', 'euclidean', 'manhattan', 'adaptive'"),
        ({"similarity": ahop.AdaptiveSimilarity(5)}, ShapeError, "3 dimensions, the size of a head"),
        ({"similarity": [ahop.DotSimilarity()] * 3}, InvalidValueError, "one for each of the 2 heads"),
        ({"separation": "softmax1"}, InvalidValueError, "separation"),
        ({"modulation": ahop.modulations.KernelModulation(4)}, ShapeError, "modulation"),
        ({"updates": None}, InvalidValueError, "needs a `tolerance`"),
        ({"updates": -1}, InvalidValueError, "updates"),
        ({"tolerance": 0.0}, InvalidValueError, "tolerance"),
        ({"scaling": 0.0}, InvalidValueError, "scaling"),
        ({"scaling": torch.ones(2, 2)}, ShapeError, "one for each head"),
        ({"dropout": 1.5}, InvalidValueError, "dropout"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said_when_it_is_made(
    arguments: dict[str, object], error: type[Exception], words: str, unchecked: None
) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        Hopfield(**({"input_size": SIZE, "num_heads": 2} | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("inputs", "masks", "error", "words"),
    [
        ([(3, 4, 5)], {}, ShapeError, "`queries` must have shape"),
        ([(4, SIZE), (5, 3)], {}, ShapeError, "`patterns` must have shape"),
        ([(4, SIZE), (5, SIZE), (4, SIZE)], {}, ShapeError, "one for each pattern"),
        ([(4, SIZE)], {"present": torch.ones(4)}, InvalidTypeError, "log_prior"),
        ([(4, SIZE)], {"present": torch.ones(1, 1, 4) > 0}, ShapeError, "present"),
        ([(4, SIZE)], {"allowed": torch.ones(4) > 0}, ShapeError, "allowed"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said_when_it_is_called(
    inputs: list[tuple[int, ...]], masks: dict[str, Tensor], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Hopfield(SIZE, 2)(*(torch.rand(shape) for shape in inputs), **masks)


def test_blocks_need_an_output_as_wide_as_their_input() -> None:
    with pytest.raises(ShapeError, match="output_size"):
        HopfieldEncoderLayer(Hopfield(SIZE, output_size=3))
    with pytest.raises(ShapeError, match="input_size"):
        HopfieldDecoderLayer(Hopfield(SIZE), Hopfield(4))


def test_one_similarity_for_each_head_wants_as_many_heads() -> None:
    association = Association([ahop.DotSimilarity(), ahop.EuclideanSimilarity()])
    with pytest.raises(ShapeError, match="third axis"):
        association(torch.rand(3, 2, 4), torch.rand(3, 2, 4))


def test_as_many_values_as_patterns() -> None:
    with pytest.raises(ShapeError, match="one for each pattern"):
        HopfieldLayer.of(torch.rand(3, 2), torch.rand(4, 2))


def test_prototypes_are_a_copy() -> None:
    given = torch.rand(3, 2)
    table = Prototypes.of(given)
    given.zero_()
    assert bool(table().all())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", '{"format": 2}'),
        ("config.json", '{"format": 1, "component": "Association", "arguments": {}}'),
        ("config.json", '{"format": 1, "component": "Hopfield", "arguments": {"input_size": 4}}'),
        ("config.json", '{"format": 1, "component": "Hopfield", "arguments": {"input_size": 1000000000}}'),
        ("config.json", '{"format": 1, "component": "Hopfield", "arguments": {"similarity": {"component": "print"}}}'),
        ("config.json", '{"format": 1, "component": "Hopfield"}'),
        ("model.safetensors", "nothing"),
    ],
)
def test_a_folder_that_is_not_ours_is_refused(name: str, words: str, tmp_path: Path) -> None:
    Hopfield(SIZE, 2).save_pretrained(tmp_path)
    (tmp_path / name).write_text(words)
    with pytest.raises(FileFormatError):
        Hopfield.from_pretrained(tmp_path)


def test_a_name_of_a_hub_is_no_folder() -> None:
    with pytest.raises(FileNotFoundError, match="download its folder first"):
        Hopfield.from_pretrained("someone/some-model")


def test_until_rest_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Hopfield(SIZE, updates=None, tolerance=1e-3)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with pytest.raises(UnsupportedError, match="compile with a number"):
        layer(torch.rand(3, SIZE))


def block_and_tokens(**options: Any) -> tuple[ahop.nn.EnergyTransformerBlock, Tensor]:
    torch.manual_seed(3)
    block = ahop.nn.EnergyTransformerBlock(SIZE, 2, **options).double()
    return block, torch.randn(4, 5, SIZE, dtype=torch.float64)


def test_the_step_of_an_energy_transformer_is_the_gradient_of_its_energy_in_the_normed_tokens() -> None:
    block, tokens = block_and_tokens(steps=1, step_size=0.25)
    normed = block._norm(tokens).detach().requires_grad_()
    present = torch.tensor([True, True, True, True, False])
    mask = block._mask(tokens, present, None)
    queries, keys = block._project(normed)
    scores = (block.beta * queries @ keys.mT).masked_fill(~mask, -torch.inf)[:, :, :4]
    matched = torch.relu(normed[:, :4] @ block.patterns.mT).square()
    energy = -scores.logsumexp(-1).sum() / block.beta - 0.5 * matched.sum()
    assert_close(block.energy(tokens, present=present).sum(), energy)
    (slope,) = torch.autograd.grad(energy, normed)
    assert_close(block(tokens, present=present), tokens - 0.25 * slope)


@pytest.mark.parametrize("sees_itself", [False, True])
def test_small_steps_of_an_energy_transformer_lower_its_energy(sees_itself: bool) -> None:
    block, tokens = block_and_tokens(steps=1, step_size=0.01, sees_itself=sees_itself)
    energies = [block.energy(tokens)]
    for _ in range(50):
        tokens = block(tokens)
        energies.append(block.energy(tokens))
    history = torch.stack(energies)
    assert bool((history.diff(dim=0) <= 1e-9).all())
    assert bool((history[-1] < history[0] - 0.1).all())


def test_an_energy_transformer_has_no_order_of_its_tokens() -> None:
    block, tokens = block_and_tokens()
    order = torch.randperm(5)
    assert_close(block(tokens[:, order]), block(tokens)[:, order])
    with pytest.raises(ShapeError, match="`tokens` must have shape"):
        block(torch.rand(3, SIZE + 1, dtype=torch.float64))


@pytest.mark.parametrize("module", [ahop.nn, ahop.compat.hflayers], ids=lambda module: module.__name__)
def test_every_layer_is_in_the_reference_and_in_the_tests(module: ModuleType) -> None:
    root = Path(__file__).parent.parent
    words = (root / "docs" / "api" / "layers.rst").read_text()
    assert all(f".. autoclass:: {module.__name__}.{name}\n" in words for name in module.__all__)
    if module is ahop.nn:
        tested = {type(part) for case in LAYERS.values() for part in case.make().modules()}
        assert {getattr(module, name) for name in module.__all__} - tested == {ahop.nn.Associated, ahop.nn.Layer}
