"""Every complaint says the name, the demand, what came, and the mend."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop._core import checks, inputs
from ahop.errors import AhopError, InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError

PATTERNS = torch.eye(3)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({1.0}, InvalidTypeError, r"`queries` must be a numpy array, a torch tensor, a frame.*; got set\. Pass `numpy"),
        ([[1.0, 2.0, 3.0], [1.0]], ShapeError, "`queries` must be rows of numbers, all of one length"),
        ([["a", "b", "c"]], InvalidTypeError, "must hold real numbers; got dtype <U1"),
        ([["a", None, 1.0]], InvalidTypeError, "must hold real numbers; got dtype object"),
        (None, InvalidTypeError, "got NoneType"),
        (np.zeros(3), ShapeError, r"two axes.*got shape \(3,\)\. For a single query pass `query\[None\]`"),
        (np.zeros((1, 1, 3)), ShapeError, r"got shape \(1, 1, 3\)\.$"),
        (torch.tensor(1.0), ShapeError, r"got shape \(\)\.$"),
        (np.zeros((2, 4)), ShapeError, r"shape \(b, 3\), as the stored patterns have d=3; got shape \(2, 4\)"),
        (np.full((1, 3), np.inf), InvalidValueError, r"`queries` must be finite; got infinity\. Put NaN where nothing"),
        (torch.full((1, 3), -torch.inf), InvalidValueError, "must be finite"),
        (np.zeros((1, 3), dtype=complex), InvalidTypeError, "`queries` must hold real numbers; got dtype complex128"),
        (torch.zeros(1, 3, dtype=torch.complex64), InvalidTypeError, r"real numbers; got dtype torch\.complex64"),
        (np.array([["a", "b", "c"]]), InvalidTypeError, "must hold real numbers; got dtype <U1"),
        (np.zeros((1, 3), dtype=object), InvalidTypeError, "must hold real numbers; got dtype object"),
    ],
)  # fmt: skip
def test_queries_without_meaning_are_refused(
    value: Tensor, error: type[AhopError], message: str, unchecked: None
) -> None:
    with pytest.raises(error, match=message):
        inputs.as_queries(value, PATTERNS)


@pytest.mark.parametrize(("name", "single"), [("queries", "query"), ("copies", "copy"), ("patterns", "pattern")])
def test_a_single_one_is_called_by_its_name(name: str, single: str) -> None:
    with pytest.raises(ShapeError, match=rf"For a single {single} pass `{single}\[None\]`"):
        inputs.as_queries(torch.zeros(3), PATTERNS, name=name)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({1.0}, InvalidTypeError, "must be a numpy array, a torch tensor, a frame or a list of lists; got set"),
        (np.zeros(3), ShapeError, r"`patterns` must have two axes.*got shape \(3,\)\. For a single pattern"),
        (np.zeros((0, 3)), ShapeError, r"at least one pattern of at least one dimension; got shape \(0, 3\)"),
        (np.zeros((3, 0)), ShapeError, r"got shape \(3, 0\)"),
        (np.array([[1.0, np.inf]]), InvalidValueError, "`patterns` must be finite"),
    ],
)  # fmt: skip
def test_patterns_without_meaning_are_refused(
    value: Tensor, error: type[AhopError], message: str, unchecked: None
) -> None:
    with pytest.raises(error, match=message):
        inputs.as_patterns(value)
    for make in (ahop.AssociativeMemory, ahop.zoo.a_hop, ahop.zoo.k_hop, ahop.zoo.u_hop):
        with pytest.raises(error, match=message):
            make(value)
    with pytest.raises(error, match=message):
        ahop.fit(value, variant=ahop.NoisyVariant(1.0), progress=False)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.arange(6, dtype=np.uint16).reshape(2, 3),
        np.arange(6).reshape(2, 3),
        np.arange(6, dtype=np.float16).reshape(2, 3),
        np.arange(6, dtype=np.float64).reshape(2, 3),
        np.arange(6, dtype=np.longdouble).reshape(2, 3),
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.arange(6, dtype=">i8").reshape(2, 3),
        np.arange(6, dtype=np.float32).reshape(3, 2).T,
        np.arange(6, dtype=np.float32).reshape(2, 3)[::-1, ::-1],
        np.arange(12, dtype=np.float32).reshape(4, 3)[::2],
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(6, dtype=np.float32).reshape(2, 3) > 2,
    ],
    ids=lambda array: f"{array.dtype}, strides {array.strides}",
)
def test_every_array_of_numbers_is_understood(array: NDArray[np.generic]) -> None:
    expected = torch.tensor(array.tolist(), dtype=torch.float32)
    assert torch.equal(inputs.as_queries(array, PATTERNS), expected)
    assert torch.equal(inputs.as_patterns(array).float(), expected)
    array.setflags(write=False)
    assert torch.equal(inputs.as_queries(array, PATTERNS), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_patterns_keep_their_precision_and_queries_take_theirs(dtype: torch.dtype) -> None:
    stored = inputs.as_patterns(torch.eye(3, dtype=dtype))
    assert stored.dtype == dtype
    for given in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool):
        assert inputs.as_queries(torch.ones(2, 3, dtype=given), stored).dtype == dtype


def test_a_large_array_that_fits_is_shared_and_not_copied() -> None:
    array = np.zeros((2, 3), dtype=np.float32)
    assert inputs.as_patterns(array).data_ptr() == array.ctypes.data


def test_queries_beyond_the_range_of_the_patterns_stay_finite() -> None:
    queries = inputs.as_queries(np.array([[1e300, -1e300, 1.0]]), PATTERNS)
    largest = torch.finfo(torch.float32).max
    assert torch.equal(queries, torch.tensor([[largest, -largest, 1.0]]))


def test_nan_is_understood_and_stays() -> None:
    array = np.array([[np.nan, 1e300, 1.0]])
    assert torch.equal(inputs.as_patterns(array).isnan(), torch.tensor([[True, False, False]]))
    largest = torch.finfo(torch.float32).max
    for given in (array, torch.from_numpy(array)):
        queries = inputs.as_queries(given, PATTERNS)
        assert_close(queries, torch.tensor([[torch.nan, largest, 1.0]]), rtol=0, atol=0, equal_nan=True)


def test_queries_keep_their_gradient() -> None:
    queries = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    assert inputs.as_queries(queries, PATTERNS).requires_grad


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (torch.tensor([0.0, 1.0]), InvalidTypeError, r"`origins` must be whole.*got dtype float32\. To look"),
        (np.array([True, False]), InvalidTypeError, r"got dtype bool"),
        (np.array(["a", "b"]), InvalidTypeError, "`origins` must hold real numbers; got dtype <U1"),
        (torch.tensor([0]), ShapeError, r"`origins` must have shape \(2,\), one row for each query; got shape \(1,\)"),
        (torch.tensor([[0], [1]]), ShapeError, r"got shape \(2, 1\)"),
        (torch.tensor([0, 3]), InvalidValueError, r"`origins` must lie in 0\.\.2, as 3.*; got 0\.\.3"),
        (torch.tensor([-1, 2]), InvalidValueError, r"got -1\.\.2"),
    ],
)  # fmt: skip
def test_origins_without_meaning_are_refused(
    value: Tensor, error: type[AhopError], message: str, unchecked: None
) -> None:
    with pytest.raises(error, match=message):
        inputs.as_origins(value, count=2, patterns=3)


@pytest.mark.parametrize(
    "origins",
    [
        np.array([1, 0]),
        np.array([0, 1])[::-1],
        np.array([1, 0], dtype=np.uint8),
        np.array([1, 0], dtype=np.uint32),
        np.array([1, 0], dtype=">u8"),
        torch.tensor([1, 0]).int(),
    ],
    ids=lambda origins: str(origins.dtype),
)
def test_origins_of_any_whole_kind_are_understood(origins: NDArray[np.generic]) -> None:
    assert torch.equal(inputs.as_origins(origins, 2, 3), torch.tensor([1, 0]))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (torch.zeros(2), ShapeError, r"`log_prior` must have shape \(3,\), one for each pattern; got \(2,\)"),
        (torch.zeros(3, 1), ShapeError, r"got \(3, 1\)"),
        (torch.tensor([0.0, torch.nan, 0.0]), InvalidValueError, r"`log_prior` must hold logarithms.*NaN"),
        (torch.tensor([0.0, torch.inf, 0.0]), InvalidValueError, r"plus infinity.*Pass `probabilities\.log\(\)`"),
        (torch.full((3,), -torch.inf), InvalidValueError, "never for all"),
        (np.array(["a", "b", "c"]), InvalidTypeError, "`log_prior` must hold real numbers"),
    ],
)
def test_a_prior_without_meaning_is_refused(
    value: Tensor, error: type[AhopError], message: str, unchecked: None
) -> None:
    with pytest.raises(error, match=message):
        ahop.AssociativeMemory(PATTERNS, log_prior=value)


def test_a_pattern_may_be_impossible_beforehand() -> None:
    memory = ahop.AssociativeMemory(PATTERNS, log_prior=torch.tensor([-torch.inf, 0.0, 0.0]))
    recall = memory.recall(PATTERNS, k=3)
    assert_close(recall.posterior.sum(-1), torch.ones(3))
    assert torch.equal(recall.indices[:, 2], torch.zeros(3).long())
    assert torch.equal(recall.posterior[:, 2], torch.zeros(3))


@pytest.mark.parametrize(
    ("make", "wrong", "message"),
    [
        (
            lambda wrong: ahop.AssociativeMemory(PATTERNS, wrong),
            3,
            "`similarity` must be of the kind Similarity; got int",
        ),
        (
            lambda wrong: ahop.AssociativeMemory(PATTERNS, wrong),
            ahop.DotSimilarity,
            "the class `DotSimilarity`. Call it",
        ),
        (
            lambda wrong: ahop.AssociativeMemory(PATTERNS, separation=wrong),
            ahop.DotSimilarity(),
            "`separation` must be",
        ),
        (lambda wrong: ahop.AssociativeMemory(PATTERNS, modulation=wrong), "none", "kind Modulation; got str"),
        (lambda wrong: ahop.AssociativeMemory(PATTERNS, energy=wrong), ahop.Softmax(), "kind Energy; got Softmax"),
        (lambda wrong: ahop.AdaptiveSimilarity(3, [wrong]), ahop.Softmax(), "`bases` must be of the kind Decomposable"),
        (
            lambda wrong: ahop.similarities.FootprintSimilarity(wrong, 3),
            ahop.AdaptiveSimilarity(3),
            "`base` must be of the kind",
        ),
        (lambda wrong: ahop.variants.ComposedVariant([wrong]), 3, "`parts` must be of the kind Variant; got int"),
        (
            lambda wrong: ahop.likelihood.LikelihoodSimilarity(wrong),
            None,
            "`variant` must be of the kind Variant; got NoneType",
        ),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(
    make: Callable[[object], object], wrong: object, message: str, unchecked: None
) -> None:
    with pytest.raises(InvalidTypeError, match=message):
        make(wrong)


@pytest.mark.parametrize(
    ("similarity", "modulation"),
    [
        (ahop.AdaptiveSimilarity(4), None),
        (ahop.similarities.UnifiedSimilarity(1), None),
        (ahop.similarities.IsolatedSimilarity(4, 3), None),
        (None, ahop.modulations.KernelModulation(2, 3)),
    ],
    ids=repr,
)
def test_parts_made_for_other_patterns_are_refused(
    similarity: ahop.AdaptiveSimilarity | None, modulation: ahop.modulations.KernelModulation | None
) -> None:
    with pytest.raises(ShapeError, match="must be made for 3 patterns of 3 dimensions, as the memory stores; got"):
        ahop.AssociativeMemory(PATTERNS, similarity, modulation=modulation)


@pytest.mark.parametrize("value", [0, -1, 1.0, 2.5, True, "2", None])
def test_a_count_is_a_whole_number_of_at_least_one(value: int, unchecked: None) -> None:
    with pytest.raises(InvalidValueError, match=f"`k` must be a whole number of at least 1; got {value!r}"):
        checks.check_count("k", value)


def test_a_count_may_come_from_numpy(unchecked: None) -> None:
    assert checks.check_count("k", np.int64(3)) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), float("-inf")])
def test_numbers_out_of_range_are_refused(value: float) -> None:
    for check in (checks.check_positive, checks.check_not_negative, checks.check_rate):
        with pytest.raises(InvalidValueError, match=r"`size` .*must .*; got"):
            check("size", value)
    with pytest.raises(InvalidValueError, match=r"`size` must be positive and finite; got 0\.0"):
        checks.check_positive("size", 0.0)
    assert checks.check_not_negative("size", 0.0) == 0.0
    assert [checks.check_rate("size", rate) for rate in (0.0, 1.0)] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ShapeError, ValueError),
        (InvalidValueError, ValueError),
        (InvalidTypeError, TypeError),
        (UnsupportedError, NotImplementedError),
        (ahop.errors.FileFormatError, ValueError),
    ],
)
def test_an_error_is_ours_and_also_the_builtin_that_a_stranger_would_catch(
    error: type[Exception], builtin: type[Exception]
) -> None:
    assert issubclass(error, AhopError)
    assert issubclass(error, builtin)
