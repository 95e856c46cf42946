"""Files of a service are there after kills, and damage to them is noticed."""

import os
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

import ahop
from ahop.errors import FileFormatError, ShapeError

pytest.importorskip("fastapi")

from ahop._core.files import make_folder
from ahop.service import Collection, Limits
from ahop.service.collections.feedback import FILE, Feedback
from ahop.service.request import RecallBody, read_body


def told(folder: Path, *numbers: int) -> Feedback:
    """A log of pairs, with one more for each number."""
    log = Feedback(folder, 2, Limits(pairs=4))
    for number in numbers:
        log.add(query(number), [number], None)
    return log


def query(number: int) -> Tensor:
    return torch.tensor([[float(number), float("nan")]])


def kept(folder: Path) -> list[int]:
    return told(folder).pairs()[1]


def test_a_pair_after_a_line_that_was_cut_off_is_kept(tmp_path: Path) -> None:
    told(tmp_path, 1, 2)
    whole = (tmp_path / FILE).read_bytes()
    for size in range(len(whole) // 2, len(whole)):
        (tmp_path / FILE).write_bytes(whole[:size])
        told(tmp_path, 3)
        assert kept(tmp_path) in ([1, 3], [1, 2, 3]), size


def test_a_damaged_pair_is_left_out(tmp_path: Path) -> None:
    told(tmp_path, 1, 2, 3)
    whole = (tmp_path / FILE).read_bytes()
    for place in range(len(whole)):
        (tmp_path / FILE).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        queries, ids, groups, _ = told(tmp_path).pairs()
        assert 1 <= len(ids) <= 3
        assert groups is None
        assert torch.equal(queries.nan_to_num(-1), torch.cat([query(each) for each in ids]).nan_to_num(-1))


def test_the_newest_pairs_are_kept_when_the_log_is_written_anew(tmp_path: Path) -> None:
    told(tmp_path, *range(1, 10))
    assert kept(tmp_path) == [6, 7, 8, 9]
    assert (tmp_path / FILE).read_bytes().count(b"\n") == 4


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the open files of a process")
def test_names_of_new_folders_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, real = list[Path](), os.fsync

    def fsync(handle: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    make_folder(tmp_path / "a" / "b")
    assert set(flushed) == {tmp_path, tmp_path / "a"}
    flushed.clear()
    make_folder(tmp_path / "a" / "b")
    assert not flushed
    told(tmp_path / "log", 1)
    assert {tmp_path, tmp_path / "log", tmp_path / "log" / FILE} <= set(flushed)
    flushed.clear()
    ahop.create_store(tmp_path / "table", ahop.zoo.m_hop(torch.eye(3)))
    names = [each.name for each in flushed]
    made = next(each for each in names if each.startswith(".table"))
    assert len(names) - 1 - names[::-1].index(made) > names.index("data"), "the folder of checksums came after the data"


def test_a_model_in_use_is_not_another_because_of_a_flipped_bit(tmp_path: Path) -> None:
    path = tmp_path / "rooms.ahop"
    memory = ahop.zoo.m_hop(torch.eye(3))
    memory.save(path)
    collection = Collection("rooms", path)
    for beta in (2.0, 3.0):
        collection.learn(memory.model.replaced(separation=ahop.Softmax(beta)))
    (current,) = tmp_path.glob("*.service/current-*")
    whole = current.read_bytes()
    assert Collection("rooms", path).snapshot.version == 3
    for place in range(len(whole)):
        current.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FileFormatError, match="which model is in use"):
            Collection("rooms", path)
    current.unlink()
    assert Collection("rooms", path).snapshot.version == 1


def test_a_body_of_millions_of_lists_is_refused_before_it_is_read() -> None:
    body = b'{"queries": [' + b"[]," * 2_000_000 + b"[]]}"
    started = time.process_time()
    with pytest.raises(ShapeError, match="lists"):
        read_body(RecallBody, body)
    assert time.process_time() - started < 0.5
    rows = b'{"queries": [' + b"[1,2]," * 10_000 + b"[1,2]]}"
    assert len(read_body(RecallBody, rows).queries) == 10_001
