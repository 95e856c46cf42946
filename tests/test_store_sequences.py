"""What may be called twice, in any order, by two handles, leaves a store whole."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ahop
from ahop.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnavailableError
from ahop.scale.stores import Store, examine_store, repair_store
from ahop.scale.stores.integrity import CHECKSUMS
from ahop.service.collections.collection import Collection

pytest.importorskip("lance")

NOW = timedelta(0)


def rows(count: int, value: float = 0.0) -> torch.Tensor:
    return value + torch.arange(3.0 * count).reshape(count, 3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = ahop.create_store(tmp_path / "rows.lance", ahop.AssociativeMemory(rows(5), ahop.EuclideanSimilarity()))
    made.add(rows(1, 100.0))
    made.add(rows(1, 200.0))
    return made


def address(store: Store) -> Path:
    assert store.location.folder is not None
    return store.location.folder


@pytest.mark.parametrize("keep", [NOW, timedelta(days=7)])
def test_compaction_may_be_repeated(store: Store, keep: timedelta) -> None:
    for _ in range(3):
        store.compact(keep)
        assert ahop.open_store(address(store)).rows().ids.tolist() == list(range(7))


def test_two_handles_may_compact_in_turn(store: Store) -> None:
    other = ahop.open_store(address(store))
    for each in (store, other, store):
        each.compact(NOW)
    other.add(rows(1, 300.0))
    store.refresh()
    assert len(store.rows()) == len(ahop.open_store(address(store)).rows()) == 8


def test_two_services_may_compact_one_store(tmp_path: Path) -> None:
    path = tmp_path / "rows.lance"
    store = ahop.create_store(path, ahop.AssociativeMemory(rows(5), ahop.EuclideanSimilarity()))
    for place in range(66):
        store.add(rows(1, place))
    for each in (Collection("a", path), Collection("b", path)):
        each.compact()
    assert len(ahop.open_store(path).rows()) == 71


def test_a_reader_finds_its_checksums_while_lists_are_joined(store: Store) -> None:
    reader = ahop.open_store(address(store))

    def write() -> None:
        for place in range(15):
            store.add(rows(1, place))
            store.compact(timedelta(days=7))

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            assert len(reader.rows()) == 7
        writing.result()


# Repair.


def hit(store: Store) -> None:
    """As a second compaction left a store once."""
    shutil.rmtree(address(store) / CHECKSUMS)


def test_a_store_without_checksums_is_named_and_repaired(store: Store) -> None:
    assert examine_store(address(store)).is_sound
    hit(store)
    with pytest.raises(FileFormatError, match="--repair"):
        ahop.open_store(address(store)).rows()
    assert len(examine_store(address(store)).unchecked) == examine_store(address(store)).files
    found = repair_store(address(store))
    assert found.is_sound
    assert found.rows == 7
    mended = ahop.open_store(address(store))
    assert mended.rows().ids.tolist() == list(range(7))
    mended.add(rows(1, 300.0))
    assert len(mended.at(1).rows()) == 5


def test_a_damaged_file_is_not_taken_for_right(store: Store) -> None:
    hit(store)
    data = next((address(store) / "data").iterdir())
    data.write_bytes(data.read_bytes()[:-20])
    with pytest.raises(FileFormatError, match="cannot be read"):
        repair_store(address(store))
    assert not (address(store) / CHECKSUMS).exists()


def test_a_file_whose_checksum_does_not_fit_is_never_mended(store: Store) -> None:
    data = next((address(store) / "data").iterdir())
    content = bytearray(data.read_bytes())
    content[10] ^= 1
    data.write_bytes(content)
    assert examine_store(address(store)).damaged == (f"data/{data.name}",)
    with pytest.raises(FileFormatError, match="damaged"):
        repair_store(address(store))


def test_a_checksum_that_could_not_be_written_is_written_later(store: Store, monkeypatch: Any) -> None:
    folder, real = address(store) / CHECKSUMS, Path.mkdir

    def full(self: Path, *given: Any, **named: Any) -> None:
        if self.parent == folder:
            raise OSError(28, "No space left on device")
        real(self, *given, **named)

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match="No space"):
        store.add(rows(1, 300.0))
    monkeypatch.undo()
    store.refresh()
    store.add(rows(1, 400.0))
    assert examine_store(address(store)).is_sound


# Numbers.


def test_the_number_of_a_removed_row_is_never_given_again(store: Store) -> None:
    store.remove(torch.tensor([6]))
    assert store.add(rows(1)).tolist() == [7]
    store.remove(torch.tensor([7]))
    store.compact(NOW)
    store.compact(NOW)
    assert ahop.open_store(address(store)).add(rows(2)).tolist() == [8, 9]


def test_going_back_gives_no_number_again(store: Store) -> None:
    before = store.version
    assert store.add(rows(3)).tolist() == [7, 8, 9]
    store.restore(before)
    assert store.rows().ids.tolist() == list(range(7))
    assert ahop.open_store(address(store)).add(rows(1)).tolist() == [10]


def test_another_handle_gives_no_number_again(store: Store) -> None:
    other = ahop.open_store(address(store))
    assert other.add(rows(1)).tolist() == [7]
    other.remove(torch.tensor([7]))
    assert store.add(rows(1)).tolist() == [8]


def test_the_last_number_leaves_no_room_and_says_so(store: Store) -> None:
    assert store.add(rows(1), torch.tensor([2**63 - 1])).tolist() == [2**63 - 1]
    with pytest.raises(InvalidValueError, match="Pass `ids="):
        store.add(rows(1))
    assert store.add(rows(1), torch.tensor([7])).tolist() == [7]
    with pytest.raises(InvalidValueError, match="at most"):
        store.add(rows(1), np.array([2**63], np.uint64))


def test_a_list_of_numbers_that_are_too_large_is_refused(store: Store, unchecked: None) -> None:
    given: Any = [2**63]
    with pytest.raises(InvalidTypeError, match="whole numbers"):
        store.add(rows(1), given)


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr", "_distance", "_x"])
def test_names_that_the_table_keeps_for_itself_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValueError, match="begin with a letter"):
        ahop.create_store(tmp_path / "x", ahop.AssociativeMemory(rows(1)), metadata={name: [1]})


def test_whole_numbers_stay_whole_where_others_are_missing(tmp_path: Path) -> None:
    large = 2**53 + 1
    made = ahop.create_store(tmp_path / "x", ahop.AssociativeMemory(rows(2)), metadata={"count": [large, None]})
    assert made.rows().metadata["count"].tolist() == [large, None]
    assert Collection("x", tmp_path / "x").snapshot.metadata.columns["count"].values == [large, None]


def test_the_last_number_of_all_is_given(store: Store) -> None:
    store.add(rows(1), torch.tensor([2**63 - 2]))
    assert store.add(rows(1)).tolist() == [2**63 - 1]


def test_no_rows_are_added_whatever_the_largest_number_is(store: Store) -> None:
    store.add(rows(1), torch.tensor([2**63 - 1]))
    assert store.add(rows(0)).tolist() == []


def test_a_version_that_another_handle_dropped_is_told_from_a_damaged_one(store: Store) -> None:
    other = ahop.open_store(address(store))
    store.add(rows(1, 300.0))
    store.compact(NOW)
    for read in (other.rows, other.index, other.memory, lambda: other.recall(rows(1))):
        with pytest.raises(UnavailableError, match=r"refresh\(\)"):
            read()
    other.refresh()
    assert len(other.rows()) == 8
