"""The numbers of rows: one that was given is never given again, whatever was removed or restored since.

The number after the largest is read off the rows. Before a change takes the row of the largest number away, that number
is written down: an empty table says nothing, and an older version too little. A mark is a file that is named by the
number, so that marks of several writers never overwrite one another; the largest counts.
"""

import tempfile
from pathlib import Path

from ahop._core.files import flush, make_folder
from ahop.errors import InvalidValueError
from ahop.scale.stores.location import Location, files_of

FOLDER = "_numbers"
# Numbers are 64-bit integers with a sign.
LARGEST = 2**63 - 1


def marked_number(location: Location) -> int:
    """The number from which on none was given yet, as far as it was written down."""
    return max(_marks(location), default=0)


def mark_number(location: Location, number: int) -> None:
    """Write down that no smaller number is to be given; durable when this returns."""
    if number <= marked_number(location) or location.is_in_memory:
        return
    if location.folder is not None:
        make_folder(location.folder / FOLDER)
        path = location.folder / FOLDER / str(number)
        path.write_text(str(number), "ascii")
        flush(path)
        flush(path.parent)
        return
    with tempfile.NamedTemporaryFile("w") as beside:
        beside.write(str(number))
        beside.flush()
        files_of(location).upload_file(beside.name, f"{FOLDER}/{number}")


def remove_marks(folder: Path) -> None:
    """All but the largest. Only for who alone may write."""
    marks = [path for path in (folder / FOLDER).glob("*") if path.name.isdecimal()]
    for path in sorted(marks, key=lambda each: int(each.name))[:-1]:
        path.unlink(missing_ok=True)


def check_numbers_left(start: int, count: int) -> None:
    """There are so many numbers from this one on."""
    if start + count - 1 > LARGEST:
        raise InvalidValueError(
            f"`ids` are needed: {start - 1} is or was the number of a row, and none of {count} more can be larger than "
            f"{LARGEST}. Pass `ids=`, numbers that are not in the table."
        )


def _marks(location: Location) -> list[int]:
    if location.is_in_memory:
        return []
    if location.folder is not None:
        where = location.folder / FOLDER
        names = [path.name for path in where.iterdir()] if where.is_dir() else []
    else:
        names = [Path(each).name for each in files_of(location).list(FOLDER)]
    return [int(name) for name in names if name.isascii() and name.isdecimal()]
