"""Values whose standard deviations are known, entry by entry."""

from dataclasses import asdict
from inspect import unwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import ahop
from ahop.errors import InvalidTypeError, InvalidValueError, ShapeError, UnsupportedError
from tests.catalogue import moved_heteroscedastic
from tests.console import run

COLUMNS = 6


def measured(count: int, seed: int = 0, factor: float = 1.0) -> tuple[Tensor, ahop.Pairs, ahop.Pairs]:
    """Rows with standard deviations; the noise of copies is so many times these, and 0.1 more."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def errors(rows: int) -> Tensor:
        return torch.rand(rows, COLUMNS, generator=generator) ** 2

    values, of_values = normal(count, COLUMNS), 0.5 * errors(count)

    def copies(number: int) -> ahop.Pairs:
        origins = torch.randint(count, (number,), generator=generator)
        of_copies = 2 * errors(number) + 0.02
        spread = torch.hypot(factor * torch.hypot(of_copies, of_values[origins]), torch.tensor(0.1))
        return ahop.Pairs(origins, ahop.with_errors(values[origins] + spread * normal(*spread.shape), of_copies))

    return ahop.with_errors(values, of_values), copies(200), copies(200)


def fitted(seed: int = 0, similarity: str = "auto", factor: float = 1.0) -> tuple[ahop.AssociativeMemory, ahop.Pairs]:
    stored, pairs, test = measured(80, seed, factor)
    memory = ahop.fit(stored, pairs=pairs, errors=True, similarity=similarity, progress=False)
    return memory, test


def report_of(memory: ahop.AssociativeMemory) -> ahop.FitReport:
    assert isinstance(memory.report, ahop.FitReport)
    return memory.report


def log_loss(memory: ahop.AssociativeMemory, test: ahop.Pairs) -> float:
    answer = memory.recall(test.queries, k=len(memory))
    own = answer.posterior[answer.indices == test.origins[:, None]]
    return float(-own.clamp_min(1e-30).log().mean())


@pytest.mark.parametrize("factor", [1.0, 0.3, 4.0])
def test_the_factor_of_standard_deviations_and_the_noise_beyond_are_found(factor: float) -> None:
    memory, _ = fitted(1, "heteroscedastic", factor)
    told = report_of(memory).errors
    assert told is not None
    assert told.factor is not None
    assert told.noise is not None
    assert told.factor == pytest.approx(factor, rel=0.15)
    assert told.noise == pytest.approx(0.1, abs=0.06)
    assert "6 columns of standard deviations: true noise is" in str(memory.report)


def test_copies_are_found_better_with_their_standard_deviations() -> None:
    stored, pairs, test = measured(80)
    with_them = ahop.fit(stored, pairs=pairs, errors=True, progress=False)
    assert "heteroscedastic" in report_of(with_them).chosen
    alone = ahop.Pairs(pairs.origins, pairs.queries[:, :COLUMNS])
    without = ahop.fit(stored[:, :COLUMNS], pairs=alone, progress=False)
    gain = log_loss(without, ahop.Pairs(test.origins, test.queries[:, :COLUMNS])) - log_loss(with_them, test)
    assert gain > 0.2
    share = with_them.recall(test.queries)
    right = (share.indices[:, 0] == test.origins).double()
    assert float(share.posterior[:, 0].mean()) == pytest.approx(float(right.mean()), abs=0.1)


def test_standard_deviations_that_say_nothing_do_no_harm() -> None:
    stored, pairs, test = measured(80)
    drawn = torch.Generator().manual_seed(3)

    def with_noise(rows: Tensor) -> Tensor:
        found: Tensor = ahop.with_errors(rows[:, :COLUMNS], torch.rand(len(rows), COLUMNS, generator=drawn))
        return found

    def alone(given: ahop.Pairs) -> ahop.Pairs:
        return ahop.Pairs(given.origins, given.queries[:, :COLUMNS])

    noise, asked = (ahop.Pairs(each.origins, with_noise(each.queries)) for each in (pairs, test))
    memory = ahop.fit(with_noise(stored), pairs=noise, errors=True, progress=False)
    without = ahop.fit(stored[:, :COLUMNS], pairs=alone(pairs), progress=False)
    assert log_loss(memory, asked) <= log_loss(without, alone(test)) + 0.05
    plain = ahop.fit(with_noise(stored), pairs=noise, errors=True, similarity="mixture", progress=False)
    told = report_of(plain).errors
    assert told is not None
    assert told.factor is None
    assert str(told) == "6 columns of standard deviations: not used."


@given(dimensions=st.integers(2, 7), seed=st.integers(0, 10))
def test_a_standard_deviation_that_is_not_known_is_infinite(dimensions: int, seed: int) -> None:
    variant = moved_heteroscedastic(dimensions).double()
    generator = torch.Generator().manual_seed(seed)
    patterns, queries = torch.randn(2, 5, dimensions, generator=generator).abs().double().unbind()
    error = variant.errors[seed % (dimensions // 2)]
    for rows in (patterns, queries):
        said = []
        for size in (torch.nan, 1e12):
            changed = rows.clone()
            changed[:, error] = size
            given = (changed, queries) if rows is patterns else (patterns, changed)
            said.append(variant.evidence(*given))
            assert_close(variant.evidence_and_kept(*given)[0].sum(-1), said[-1])
        if rows is queries:  # of stored ones, what no pattern says has a typical error
            assert_close(said[0], said[1], rtol=0, atol=1e-6)


def test_the_larger_an_error_the_less_a_value_says() -> None:
    variant = moved_heteroscedastic(2).double()
    variant.base.missingness.shifts.zero_()
    errors = torch.logspace(-2, 8, 60, dtype=torch.float64)
    queries = torch.stack([torch.full_like(errors, 0.3), errors], 1)
    patterns = torch.tensor([[0.2, 0.1], [2.0, 0.1], [-3.0, 0.0]], dtype=torch.float64)
    said = variant.evidence(patterns, queries)
    spread = (said - said[:, :1]).abs().amax(-1)
    assert bool((spread.diff() <= 1e-9).all())
    assert float(said[-1].abs().max()) < 1e-6


def test_exact_values_are_those_of_the_mixture() -> None:
    variant = moved_heteroscedastic(8)
    variant.stored_errors.zero_()
    patterns, queries = torch.randn(2, 9, 8).unbind()
    patterns[:, variant.errors], queries[:, variant.errors] = 0, 0
    expected = variant.base.evidence(patterns[:, variant.values], queries[:, variant.values])
    assert_close(variant.evidence(patterns, queries), expected, rtol=1e-4, atol=1e-4)


def test_the_densities_of_a_value_sum_to_one() -> None:
    variant = moved_heteroscedastic(2).double()
    variant.base.missingness.base.fill_(-40.0)
    variant.base.missingness.shifts.zero_()
    grid = torch.linspace(-60, 60, 200_001, dtype=torch.float64)
    for error in (0.0, 0.4, 3.0):
        queries = torch.stack([grid, torch.full_like(grid, error)], 1)
        background = variant.log_background(queries).exp()
        assert float(torch.trapezoid(background, grid)) == pytest.approx(1, abs=0.01)
        for stored in (torch.tensor([[0.7, 0.2]]), torch.tensor([[-1.0, 0.0]])):
            density = variant.log_likelihood(stored.double(), queries)[:, 0].exp()
            assert float(torch.trapezoid(density, grid)) == pytest.approx(1, abs=0.01)


def test_copies_are_drawn_as_their_density_says() -> None:
    variant = moved_heteroscedastic(2)
    variant.base.outlier_rate.fill_(1e-6)
    variant.asked_errors.fill_(2.0)
    drawn = variant.corrupt(torch.tensor([[0.5, 0.3]]).repeat(20_000, 1), torch.Generator().manual_seed(0))
    gain, bias, std = (float(each[0]) for each in (variant.base.gain, variant.base.bias, variant.base.std))
    values = drawn[:, 0][~drawn[:, 0].isnan()]
    assert float(values.mean()) == pytest.approx(gain * 0.5 + bias, abs=0.05)
    spread = np.sqrt(std**2 + (0.7 * 2.0) ** 2 + (0.7 * gain * 0.3) ** 2)
    assert float(values.std()) == pytest.approx(spread, rel=0.05)
    assert bool((drawn[:, 1] == 2).all())


def test_outliers_have_no_noise_of_their_own() -> None:
    variant = moved_heteroscedastic(2)
    variant.base.outlier_rate.fill_(1 - 1e-6)
    variant.asked_errors.fill_(50.0)
    drawn = variant.corrupt(torch.tensor([[0.5, 0.3]]).repeat(2000, 1), torch.Generator().manual_seed(0))
    assert float(drawn[:, 0].nan_to_num(0).abs().max()) < 20


def test_more_patterns_than_a_fit_looks_at() -> None:
    stored, pairs, test = measured(2300)
    memory = ahop.fit(stored, pairs=pairs, errors=True, similarity="heteroscedastic", progress=False)
    answer = memory.recall(test.queries)
    right = float((answer.indices[:, 0] == test.origins).double().mean())
    assert float(answer.posterior[:, 0].mean()) == pytest.approx(right, abs=0.1)


def test_few_pairs_leave_a_metric_of_the_values() -> None:
    stored, pairs, _ = measured(80)
    few = ahop.Pairs(pairs.origins[:3], pairs.queries[:3])
    with pytest.warns(UserWarning, match="too few to learn"):
        memory = ahop.fit(stored, pairs=few, errors=True, similarity="heteroscedastic", progress=False)
    moved = few.queries.clone()
    moved[:, COLUMNS:] += 100
    assert torch.equal(memory.recall(moved).posterior, memory.recall(few.queries).posterior)


def test_a_metric_of_ones_own_sees_all_columns() -> None:
    stored, pairs, _ = measured(80)

    def chi_square(patterns: Tensor, queries: Tensor) -> Tensor:
        variance = queries[:, None, COLUMNS:] ** 2 + patterns[:, COLUMNS:] ** 2 + 0.01
        return -0.5 * ((queries[:, None, :COLUMNS] - patterns[:, :COLUMNS]) ** 2 / variance + variance.log()).sum(-1)

    memory = ahop.fit(stored, pairs=pairs, errors=True, candidates=[chi_square], progress=False)
    losses = {trial.name: trial.log_loss for trial in report_of(memory).trials}
    assert losses["chi_square"] < losses["mixture"]


def test_queries_without_their_standard_deviations_are_refused(tmp_path: Path) -> None:
    stored, copies, origins = frames()
    memory = ahop.fit(stored, pairs=(origins, copies), similarity="heteroscedastic", errors="_std", progress=False)
    memory.save(tmp_path / "a.ahop")
    names = list(stored.columns[:COLUMNS])
    for each in (memory, ahop.load(tmp_path / "a.ahop"), ahop.index(memory), memory.copy()):
        with pytest.raises(InvalidValueError, match="must have the column 'x0_std', the standard deviations of 'x0'"):
            each.recall(copies[names])
    with pytest.raises(InvalidValueError, match="must have the column 'x1_std'"):
        memory.explain({"x1": 0.3})
    assert len(memory.recall([{"x1": 0.3, "x1_std": 0.1}]).indices) == 1
    with pytest.raises(InvalidValueError, match="must have the column"):
        ahop.fit(stored, pairs=(origins, copies[names]), errors="_std", progress=False)
    copies[names].to_csv(tmp_path / "asked.csv", index=False)
    done = run(f"ahop recall {tmp_path}/a.ahop {tmp_path}/asked.csv")
    assert done.code != 0
    assert "standard deviations of 'x0'" in done.stderr


def test_answers_are_the_same_from_a_file_an_index_and_a_store(tmp_path: Path) -> None:
    memory, test = fitted()
    expected = memory.recall(test.queries, k=3)
    memory.save(tmp_path / "a.ahop")
    again = ahop.load(tmp_path / "a.ahop")
    assert torch.equal(again.recall(test.queries, k=3).posterior, expected.posterior)
    assert asdict(report_of(again)) == asdict(report_of(memory))
    indexed = ahop.index(memory).recall(test.queries, k=3)
    assert_close(indexed.posterior, expected.posterior)
    pytest.importorskip("lance")
    store = ahop.create_store(tmp_path / "store", memory)
    assert_close(torch.as_tensor(store.recall(test.queries, k=3).posterior), expected.posterior)
    with pytest.raises(UnsupportedError):
        ahop.open_memory(tmp_path / "a.ahop")


def test_a_memory_knows_its_columns_of_standard_deviations_at_the_next_fit() -> None:
    memory, test = fitted()
    again = ahop.fit(memory, pairs=test, similarity="auto", progress=False)
    first, second = report_of(memory).errors, report_of(again).errors
    assert first is not None
    assert second is not None
    assert (first.values, first.errors) == (second.values, second.errors)
    with pytest.raises(UnsupportedError, match="knows nothing of standard deviations"):
        ahop.adapt(memory, test.queries, progress=False)


def frames() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    stored, pairs, _ = measured(60, 5)
    names = [f"x{place}" for place in range(COLUMNS)]
    every = [*names, *(f"{name}_std" for name in names)]
    return (
        pd.DataFrame(stored.numpy(), columns=every),
        pd.DataFrame(pairs.queries.numpy(), columns=every),
        pairs.origins.numpy(),
    )


def test_columns_of_frames_are_named_or_end_so() -> None:
    stored, copies, origins = frames()
    errors = {name: f"{name}_std" for name in stored.columns[:COLUMNS]}
    answers = [
        ahop.fit(stored, pairs=(origins, copies), similarity="heteroscedastic", errors=given, progress=False).recall(
            copies[copies.columns[::-1]]
        )
        for given in ("_std", errors, True, {place: place + COLUMNS for place in range(COLUMNS)})
    ]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer.posterior, answers[0].posterior)


def test_explanations_name_values_and_not_their_standard_deviations() -> None:
    stored, copies, origins = frames()
    memory = ahop.fit(stored, pairs=(origins, copies), similarity="heteroscedastic", errors="_std", progress=False)
    explained = memory.explain(copies.iloc[0])
    told = {bar.name: bar for bar in explained.bars}
    assert all(told[f"x{place}_std"].log_odds == 0 for place in range(COLUMNS))
    assert {told[f"x{place}_std"].word for place in range(COLUMNS)} == {"says nothing"}
    assert "_std" not in str(explained)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x0": "x9_std"}, "names a column 'x9_std'"),
        ({"x0": "x1", "x1": "x2"}, "once, and none that holds values"),
        ("_sd", "ends so"),
        ("5_std", "no column of values beside"),
        (3.5, "must say which columns"),
        ({0: 99}, "columns from 0 to 11"),
    ],
)
def test_columns_that_are_not_there_are_refused(given: object, words: str) -> None:
    stored, copies, origins = frames()
    with pytest.raises((InvalidValueError, InvalidTypeError), match=words):
        unwrap(ahop.fit)(stored, pairs=(origins, copies), errors=given, progress=False)


def test_standard_deviations_below_zero_are_refused() -> None:
    stored, copies, origins = frames()
    with pytest.raises(InvalidValueError, match="`copies` hold standard deviations below zero"):
        ahop.fit(stored, pairs=(origins, -copies), errors="_std", progress=False)
    with pytest.raises(InvalidValueError, match="`patterns` hold standard deviations below zero"):
        ahop.fit(-stored, pairs=(origins, copies), errors="_std", progress=False)


def test_what_knows_no_standard_deviations_refuses_them() -> None:
    stored, copies, origins = frames()
    known = {"pairs": (origins, copies), "errors": "_std", "progress": False}
    for more in ({"groups": ["a"] * len(copies)}, {"categorical": ["x0"]}):
        with pytest.raises(InvalidTypeError, match="`errors` are learned from"):
            ahop.fit(stored, **known, **more)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="leave `queries` out"):
        ahop.fit(stored, queries=copies, errors="_std", progress=False)
    with pytest.raises(InvalidTypeError, match="leave `labels` out"):
        ahop.fit(stored, labels=[0] * len(stored), errors="_std", progress=False)
    with pytest.raises(InvalidValueError, match="takes standard deviations"):
        ahop.fit(stored, similarity="gower", **known)  # type: ignore[arg-type]


def test_rows_are_put_together_with_their_errors() -> None:
    values, counts = np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([[4, 1], [1, 0]])
    both = ahop.with_errors(values, counts=counts)
    np.testing.assert_array_equal(both, [[1, 2, 0.5, 1], [3, np.nan, 1, np.nan]])
    assert isinstance(ahop.with_errors(torch.tensor(values), [0.1, 0.2]), Tensor)
    frame = ahop.with_errors(pd.DataFrame(values, columns=["a", "b"]), [0.1, 0.2])
    assert list(frame.columns) == ["a", "b", "a_std", "b_std"]
    np.testing.assert_array_equal(ahop.with_errors([[1, 2]], [[0.5, 0.1]]), [[1, 2, 0.5, 0.1]])
    np.testing.assert_array_equal(ahop.with_errors(torch.tensor([[1, 2]]), counts=[[4, 1]]), [[1, 2, 0.5, 1]])
    errors = pd.DataFrame([[0.2, 0.1]], columns=["b", "a"])
    assert ahop.with_errors(pd.DataFrame([[1, 2]], columns=["a", "b"]), errors)["a_std"].tolist() == [0.1]
    with pytest.raises(InvalidValueError, match="columns of these names already: 'a_std'"):
        ahop.with_errors(pd.DataFrame([[1.0, 2.0]], columns=["a", "a_std"]), [[0.1, 0.2]])
    with pytest.raises(InvalidTypeError, match="either `errors` or `counts`"):
        ahop.with_errors(values)
    with pytest.raises(ShapeError, match="must have the shape of the values"):
        ahop.with_errors(values, np.zeros((3, 2)))
    with pytest.raises(InvalidValueError, match="not be below zero"):
        ahop.with_errors(values, -values)


def test_the_command_line_takes_the_end_of_their_names(tmp_path: Path) -> None:
    stored, copies, origins = frames()
    stored.to_csv(tmp_path / "stored.csv", index_label="id")
    copies.assign(origin=origins).to_csv(tmp_path / "copies.csv", index=False)
    line = f"ahop fit {tmp_path}/stored.csv --pairs {tmp_path}/copies.csv --id id --errors _std -o {tmp_path}/a.ahop"
    done = run(line)
    assert done.code == 0, done.stderr
    assert "6 columns of standard deviations" in done.stdout + done.stderr


def test_a_fit_without_them_forgets_which_columns_they_were() -> None:
    stored, copies, origins = frames()
    memory = ahop.fit(stored, pairs=(origins, copies), similarity="heteroscedastic", errors="_std", progress=False)
    plain = ahop.fit(memory, pairs=(origins, copies), similarity="euclidean", errors=False, progress=False)
    assert len(plain.recall(copies[list(stored.columns[:COLUMNS])]).indices) == len(copies)
    assert report_of(plain).errors is None
    with pytest.raises(InvalidValueError, match="must have the column"):
        memory.recall(copies[list(stored.columns[:COLUMNS])])
