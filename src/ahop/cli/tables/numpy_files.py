"""NPY and NPZ: arrays that numpy saved, read without pickle; shapes are compared with the file before room is taken."""

import zlib
from collections.abc import Iterable
from io import BytesIO
from math import prod
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from ahop._core.free_memory import check_free_memory
from ahop.cli.tables.sheet import Column, Sheet
from ahop.errors import FileFormatError

NUMBERS, KINDS = "fiub", "fiubU"
LONGEST_HEADER = 1024  # characters: a header says dtype and shape, and numpy evaluates it


def read_npy(path: Path, keep: Iterable[str]) -> Sheet:
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # refuses objects, and a shape that the file cannot fill
    except (ValueError, EOFError, SyntaxError) as error:
        raise FileFormatError(f"`{path}` is no array of numbers that numpy saved: {error}") from error
    if array.dtype.names is not None:
        return _make_sheet({name: array[name] for name in array.dtype.names}, path)
    return _sheet(path, array, {})


def read_npz(path: Path, keep: Iterable[str]) -> Sheet:
    """One array with two axes; those with one axis, as long as it, are columns beside it."""
    try:
        with ZipFile(path) as archive:
            check_free_memory(2 * sum(each.file_size for each in archive.infolist()), f"`{path}`, unpacked,")
            found = {
                each.filename.removesuffix(".npy"): _parse(archive.read(each), f"{path}: {each.filename}")
                for each in archive.infolist()
            }
    except (BadZipFile, NotImplementedError, RuntimeError, zlib.error) as error:
        raise FileFormatError(f"`{path}` holds no arrays that numpy saved: {error}") from error
    tables = [name for name, array in found.items() if array.ndim == 2]
    beside = {name: array for name, array in found.items() if array.ndim == 1}
    if not tables and beside:
        return _make_sheet(beside, path)
    if len(tables) != 1:
        raise FileFormatError(
            f"`{path}` must hold one array with two axes, one row each; it has {', '.join(tables) or 'none'}. "
            "Save that one by itself: `numpy.save('rows.npy', array)`."
        )
    return _sheet(path, found[tables[0]], beside)


def _parse(content: bytes, where: str) -> NDArray[np.generic]:
    """Read one array of numbers or words."""
    stream = BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = read_header[version](stream, max_header_size=LONGEST_HEADER)
    except (ValueError, KeyError, TypeError, SyntaxError, EOFError, RecursionError) as error:
        raise FileFormatError(f"`{where}` is no array that numpy saved: {error}.") from error
    start = stream.tell()
    if dtype.kind not in KINDS or len(content) != start + prod(shape) * dtype.itemsize:
        raise FileFormatError(
            f"`{where}` must hold plain numbers that fill its shape; got {shape} of {dtype} in {len(content)} bytes."
        )
    flat: NDArray[np.generic] = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C").copy()


def _sheet(path: Path, array: NDArray[np.generic], beside: dict[str, NDArray[np.generic]]) -> Sheet:
    if array.ndim != 2 or array.dtype.kind not in NUMBERS:
        raise FileFormatError(
            f"`{path}` must hold numbers with two axes, one row each; got {array.dtype} of shape {array.shape}."
        )
    columns = {str(place): Column(str(place), _floats(array[:, place])) for place in range(array.shape[1])}
    columns |= {name: _column(name, values, len(array), path) for name, values in beside.items()}
    return Sheet(path, columns, len(array), has_names=False)


def _make_sheet(arrays: dict[str, NDArray[np.generic]], path: Path) -> Sheet:
    rows = len(next(iter(arrays.values())))
    return Sheet(path, {name: _column(name, each, rows, path) for name, each in arrays.items()}, rows, has_names=True)


def _column(name: str, values: NDArray[np.generic], rows: int, path: Path) -> Column:
    if len(values) != rows:
        raise FileFormatError(f"`{path}`: {name!r} must have {rows} entries, one for each row; got {len(values)}.")
    if values.dtype.kind in NUMBERS:
        return Column(name, _floats(values))
    return Column(name, None, [str(each) for each in values.tolist()])


def _floats(values: NDArray[np.generic]) -> NDArray[np.generic]:
    return np.asarray(values if values.dtype in (np.float32, np.float64) else values.astype(np.float64))
