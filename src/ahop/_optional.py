"""Packages that only some parts need: looked for when those are used, and asked for by name if they are absent."""

from types import ModuleType

from ahop.errors import MissingPackageError


def pyplot() -> ModuleType:
    """`matplotlib.pyplot`, for pictures."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise _missing("matplotlib", "plots") from error
    found: ModuleType = pyplot
    return found


def faiss() -> ModuleType:
    """`faiss`, for indexes of very many patterns."""
    try:
        import faiss
    except ImportError as error:
        raise _missing("faiss", "index") from error
    found: ModuleType = faiss
    return found


def lance() -> ModuleType:
    """`lance`, for durable tables of patterns."""
    try:
        import lance
        import lance.file
        import lance.optimize
    except ImportError as error:
        raise _missing("pylance", "store") from error
    found: ModuleType = lance
    return found


def pyarrow() -> ModuleType:
    """`pyarrow`, which comes with `lance`: columns as it takes and gives them."""
    try:
        import pyarrow
    except ImportError as error:
        raise _missing("pylance", "store") from error
    found: ModuleType = pyarrow
    return found


def parquet() -> ModuleType:
    """`pyarrow.parquet`, for tables in files."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise _missing("pylance", "store") from error
    found: ModuleType = pyarrow.parquet
    return found


def psycopg() -> ModuleType:
    """`psycopg`, for PostgreSQL."""
    try:
        import psycopg
        import psycopg.sql  # a part of its own, which the package does not bring along
    except ImportError as error:
        raise _missing("psycopg", "pg") from error
    return psycopg


def pgvector() -> ModuleType:
    """`pgvector`, for vectors in PostgreSQL."""
    try:
        import pgvector
        import pgvector.psycopg
    except ImportError as error:
        raise _missing("pgvector", "pg") from error
    found: ModuleType = pgvector
    return found


def ray() -> ModuleType:
    """`ray`, for shards on many machines."""
    try:
        import ray
    except ImportError as error:
        raise _missing("ray", "cluster") from error
    return ray


def ray_serve() -> ModuleType:
    """`ray.serve`, for answers over HTTP."""
    try:
        from ray import serve
    except ImportError as error:
        raise _missing("ray[serve]", "cluster") from error
    return serve


def starlette_responses() -> ModuleType:
    """`starlette.responses`, which comes with `ray.serve`."""
    try:
        from starlette import responses
    except ImportError as error:
        raise _missing("ray[serve]", "cluster") from error
    return responses


def pandas() -> ModuleType:
    """`pandas`, for tables with names and categories."""
    try:
        import pandas
    except ImportError as error:
        raise _missing("pandas", "datasets") from error
    found: ModuleType = pandas
    return found


def pillow() -> ModuleType:
    """`PIL.Image`, for photographs that come as JPEG."""
    try:
        from PIL import Image
    except ImportError as error:
        raise _missing("pillow", "datasets") from error
    return Image


def _missing(package: str, extra: str) -> MissingPackageError:
    return MissingPackageError(f"This needs {package}, which is not installed. `pip install 'ahop[{extra}]'`.")
