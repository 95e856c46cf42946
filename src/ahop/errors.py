"""Exceptions. All derive from `AhopError` and from the built-in exception of their kind."""


class AhopError(Exception):
    """Root of every error that ahop raises on purpose."""


class ShapeError(AhopError, ValueError):
    """An array has the wrong shape."""


class InvalidValueError(AhopError, ValueError):
    """An argument is outside its range, or an array holds values that have no meaning here."""


class InvalidTypeError(AhopError, TypeError):
    """An argument is of the wrong kind: a dtype, a class, a missing pair of arguments."""


class UnsupportedError(AhopError, NotImplementedError):
    """The quantity asked for does not exist for this combination of parts."""


class MissingPackageError(AhopError, ImportError):
    """An optional package is needed and not installed."""


class DataNotFoundError(AhopError, FileNotFoundError):
    """A file, a folder or a table is not where it was looked for."""


class FileFormatError(AhopError, ValueError):
    """A file is not one of ours, is damaged, or was written by a newer release."""


class InsufficientMemoryError(AhopError, MemoryError):
    """The request would not fit into the memory that is free."""


class ConflictError(AhopError, RuntimeError):
    """Other writers were in the way, again and again."""


class UnavailableError(AhopError, TimeoutError):
    """A part of the answer cannot be had at this moment: ask again."""
