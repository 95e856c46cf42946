"""Settings of the fits: checked, passed down, saved with the model, and the same as before where none are given."""

import re
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import ahop
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError
from ahop.fitting import AdaptSettings, PoolSettings, PosteriorSettings, SelectionSettings, Settings
from ahop.fitting.settings import DEFAULT, Stage
from ahop.memory.saving.archive import read_archive, write_archive

NAMES = [(stage.name, each.name) for stage in fields(Settings) for each in fields(getattr(DEFAULT, stage.name))]
PATTERNS = 2 * torch.rand(40, 12, generator=torch.Generator().manual_seed(0)) - 1
PAIRS = ahop.MixedVariant(mask=0.2, noise=0.3, bias=0.1).sample(PATTERNS, 120, seed=1)
QUICK: dict[str, Any] = {"pairs": PAIRS, "similarity": ["mixture", "additive", "euclidean"], "progress": False}


def changed(stage: str, name: str, value: object) -> Settings:
    return replace(DEFAULT, **{stage: replace(getattr(DEFAULT, stage), **{name: value})})


def same_state(one: ahop.AssociativeMemory, other: ahop.AssociativeMemory) -> bool:
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(_equal(first[name], second[name]) for name in first)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.nan_to_num(7.0), other.nan_to_num(7.0))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "two", None, True])
def test_a_setting_that_makes_no_sense_is_refused_by_name(value: object) -> None:
    for stage, name in NAMES:
        with pytest.raises(
            InvalidValueError, match=rf"`settings\.{stage}\.{name}` .* Leave it out for .*, the default"
        ):
            changed(stage, name, value)


def test_a_share_is_at_most_one() -> None:
    for stage, name in NAMES:
        if name.endswith("_share"):
            with pytest.raises(InvalidValueError, match=name):
                changed(stage, name, 1.1)


def test_one_fold_judges_nothing() -> None:
    with pytest.raises(InvalidValueError, match="at least 2"):
        SelectionSettings(folds=1)


def test_every_setting_is_read_by_a_fit() -> None:
    sources = [path.read_text() for path in Path(ahop.fitting.__file__).parent.rglob("*.py") if path.stem != "settings"]
    read = set(re.findall(r"\.([a-z_]+)\b", " ".join(sources)))
    assert {name for _, name in NAMES} <= read


def test_names_are_those_of_their_stages() -> None:
    for each in fields(Settings):
        stage = getattr(DEFAULT, each.name)
        assert isinstance(stage, Stage)
        assert stage.stage() == each.name


@pytest.mark.usefixtures("unchecked")
def test_a_stage_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"`settings.pool` must be `ahop.fitting.PoolSettings`"):
        Settings(pool=PosteriorSettings())  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="`settings` must be of the kind Settings"):
        ahop.fit(PATTERNS, **QUICK, settings={"pool": {}})  # type: ignore[arg-type]


def test_a_solver_refuses_settings() -> None:
    memory = ahop.AssociativeMemory(PATTERNS, ahop.AdaptiveSimilarity(12))
    with pytest.raises(InvalidTypeError, match="`settings` are those of a similarity that is learned by name"):
        ahop.fit(memory, pairs=PAIRS, settings=DEFAULT, progress=False)


def test_the_default_is_the_same_fit() -> None:
    plain, told = ahop.fit(PATTERNS, **QUICK), ahop.fit(PATTERNS, **QUICK, settings=Settings())
    assert same_state(plain, told)
    assert isinstance(plain.report, ahop.FitReport)
    assert isinstance(told.report, ahop.FitReport)
    assert plain.report.settings == told.report.settings == asdict(DEFAULT)


def test_settings_change_the_fit_and_are_saved_with_it(tmp_path: Path) -> None:
    cautious = Settings(posterior=PosteriorSettings(missed_pairs=20.0), pool=PoolSettings(most_members=1))
    memory = ahop.fit(PATTERNS, **QUICK, settings=cautious)
    report = memory.report
    assert isinstance(report, ahop.FitReport)
    assert len(report.members) == 1
    assert report.floor > 0.1
    assert report.settings["posterior"]["missed_pairs"] == 20
    memory.save(tmp_path / "memory.ahop")
    again = ahop.load(tmp_path / "memory.ahop").report
    assert again == report
    assert isinstance(again, ahop.FitReport)
    assert Settings.told(again.settings) == cautious
    assert same_state(memory, ahop.fit(PATTERNS, **QUICK, settings=Settings.told(again.settings)))


def test_a_file_without_settings_is_read_as_before(tmp_path: Path) -> None:
    old, path = tmp_path / "old.ahop", tmp_path / "memory.ahop"
    memory = ahop.fit(PATTERNS, **QUICK)
    memory.save(path)
    manifest, tensors = read_archive(path)
    del manifest["report"]["settings"]
    write_archive(old, manifest, tensors)
    read = ahop.load(old)
    assert isinstance(read.report, ahop.FitReport)
    assert read.report.settings == {}
    assert same_state(read, memory)
    one, other = (ahop.adapt(each, PAIRS.queries + 0.3, progress=False) for each in (read, memory))
    assert same_state(one, other)


@pytest.mark.parametrize("told", [[], {"pool": 3}, {"pool": {"most_members": "two"}}])
def test_a_file_with_settings_that_are_no_numbers_is_refused(tmp_path: Path, told: object) -> None:
    path = tmp_path / "memory.ahop"
    ahop.fit(PATTERNS, **QUICK).save(path)
    manifest, tensors = read_archive(path)
    manifest["report"]["settings"] = told
    write_archive(path, manifest, tensors)
    with pytest.raises(FileFormatError):
        ahop.load(path)


def test_names_that_are_not_known_here_are_passed_over() -> None:
    assert Settings.told({"pool": {"color": 3.0, "most_members": 2}, "later": {"x": 1.0}}) == Settings(
        pool=PoolSettings(most_members=2)
    )


def test_adapt_takes_the_settings_of_the_fit_or_others() -> None:
    stubborn = Settings(adapt=AdaptSettings(clear_std_errors=1e6))
    moved = PAIRS.queries + 0.8
    memory = ahop.fit(PATTERNS, **QUICK, settings=stubborn)
    kept = ahop.adapt(memory, moved, progress=False)
    followed = ahop.adapt(memory, moved, settings=DEFAULT, progress=False)
    assert isinstance(kept.report, ahop.FitReport)
    assert isinstance(followed.report, ahop.FitReport)
    assert kept.report.adapted is not None
    assert followed.report.adapted is not None
    assert not kept.report.adapted.is_kept
    assert followed.report.adapted.is_kept
    assert followed.report.settings == asdict(DEFAULT)
