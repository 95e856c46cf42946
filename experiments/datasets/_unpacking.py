"""Reading what is packed, without trusting it: bounded, in memory, and nothing is ever written to where it says."""

import gzip
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase, BufferedReader, BytesIO
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from typing_extensions import override

from ahop.errors import FileFormatError
from experiments.datasets._lzw import unpack_z

BLOCK = 1 << 20
LARGEST_ARCHIVE_INSIDE = 1 << 24
# What the readers of the standard library raise on bytes that are not what they should be.
DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    tarfile.TarError,
    struct.error,
    ValueError,
    OverflowError,
    RuntimeError,  # a member that is encrypted, or packed in a way that this Python lacks
)

Stream: TypeAlias = BufferedReader | BytesIO


@dataclass(frozen=True)
class Member:
    """One file in an archive. `read` must be called before the next member is asked for."""

    name: str
    size: int
    read: Callable[[], bytes]


def unpack(path: Path, limit: int, where: str) -> bytes:
    """The content of one file that may be packed alone: `.gz`, `.xz`, `.Z`, or not at all."""
    if path.suffix == ".Z":
        return unpack_z(_read(path.open("rb"), limit, where), limit, where)
    if path.suffix == ".gz":
        return _read(gzip.GzipFile(path), limit, where)
    return _read(lzma.LZMAFile(path) if path.suffix == ".xz" else path.open("rb"), limit, where)


def read_members(path: Path, name: str, wanted: Mapping[tuple[str, ...], int], where: str) -> dict[str, bytes]:
    """The members asked for, by the last name on the way to them, with a limit for each.

    Args:
        name: What the archive is called, which says what kind it is; the file itself may still be called otherwise.
        wanted: The names on the way to a member, one for each archive inside another, and its limit.
    """
    with path.open("rb") as stream:
        return _read_members(stream, name, wanted, where)


def members(stream: Stream, name: str, limit: int, where: str) -> Iterator[Member]:
    """Every file of an archive, in its order.

    Args:
        limit: A tar is a stream that must be unpacked to be looked through: no more of it than this.
    """
    with _naming(where):
        for member in _of_zip(stream, where) if name.endswith(".zip") else _of_tar(stream, name, limit, where):
            yield Member(member.name, member.size, partial(_read_named, member, where))


def _read_members(stream: Stream, name: str, wanted: Mapping[tuple[str, ...], int], where: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    first = {way[0] for way in wanted}
    seen: set[str] = set()
    total = LARGEST_ARCHIVE_INSIDE + 2 * sum(wanted.values())
    for member in members(stream, name, total, where):
        base = PurePosixPath(member.name).name
        if base not in first:
            continue
        inside = f"{where}: {member.name}"
        if base in seen:
            raise FileFormatError(f"`{where}` holds two files called `{base}`.")
        seen.add(base)
        deeper = {way[1:]: limit for way, limit in wanted.items() if way[0] == base and len(way) > 1}
        limit = LARGEST_ARCHIVE_INSIDE if deeper else wanted[(base,)]
        if member.size > limit:
            raise FileFormatError(f"`{inside}` has {member.size} bytes; no more than {limit} were expected.")
        content = member.read()
        if deeper:
            found |= _read_members(BytesIO(content), base, deeper, inside)
        else:
            found[base] = unpack_z(content, limit, inside) if base.endswith(".Z") else content
    if first - seen:
        raise FileFormatError(f"`{where}` holds no {', '.join(f'`{name}`' for name in sorted(first - seen))}.")
    return found


def _of_zip(stream: Stream, where: str) -> Iterator[Member]:
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            _refuse_a_way_out(info.filename, where)
            if not info.is_dir():
                yield Member(info.filename, info.file_size, partial(_whole_of_zip, archive, info))


def _of_tar(stream: Stream, name: str, limit: int, where: str) -> Iterator[Member]:
    with (
        lzma.LZMAFile(stream) if name.endswith(".xz") else gzip.GzipFile(fileobj=stream) as unpacked,
        tarfile.open(fileobj=_Bounded(unpacked, limit, where), mode="r|") as archive,
    ):
        for info in archive:
            _refuse_a_way_out(info.name, where)
            if info.isreg():
                yield Member(info.name, info.size, partial(_whole_of_tar, archive, info))


def _read_named(member: Member, where: str) -> bytes:
    with _naming(f"{where}: {member.name}"):
        return member.read()


def _whole_of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """As many bytes as it says it has. To ask for all would be to unpack all, however many there are."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile("it is packed in a way whose size cannot be bounded")
    with archive.open(info) as file:
        return _complete(file.read(info.file_size), info.file_size)


def _whole_of_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(info)
    return _complete(b"" if file is None else file.read(), info.size)


def _complete(content: bytes, size: int) -> bytes:
    if len(content) != size:
        raise EOFError(f"it ends after {len(content)} of {size} bytes")
    return content


class _Bounded(BufferedIOBase):
    """A stream that ends in an error instead of filling the memory, for `tarfile` reads what a header tells it to."""

    def __init__(self, stream: BufferedIOBase, limit: int, where: str) -> None:
        self.stream, self.left, self.limit, self.where = stream, limit, limit, where

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        allowed = self.left + 1
        block = self.stream.read(allowed if size is None or size < 0 else min(size, allowed))
        self.left -= len(block)
        if self.left < 0:
            raise FileFormatError(f"`{self.where}` unpacks to more than {self.limit} bytes.")
        return block


def _read(stream: BufferedIOBase, limit: int, where: str) -> bytes:
    content = bytearray()
    with stream, _naming(where, lambda: f"after {len(content)} unpacked bytes"):
        while block := stream.read(min(BLOCK, limit + 1 - len(content))):
            content += block
            if len(content) > limit:
                raise FileFormatError(f"`{where}` unpacks to more than the {limit} bytes that were expected.")
    return bytes(content)


def _refuse_a_way_out(name: str, where: str) -> None:
    """Nothing is unpacked to disk here; but an archive with such a name was made to do harm, and is not read at all."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in (path.parts or ("",))[0]:
        raise FileFormatError(
            f"`{where}` holds the name `{name}`, which leads out of its folder. It is not to be trusted."
        )


@contextmanager
def _naming(where: str, at: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Say of which file the standard library complains."""
    try:
        yield
    except FileFormatError:
        raise
    except DAMAGE as error:
        raise FileFormatError(f"`{where}` is damaged or cut short{at() and f', {at()}'}: {error}.") from error
