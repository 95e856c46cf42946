"""Optional dependencies: imported when needed, with an error that names the extra to install."""

from importlib import import_module
from types import ModuleType

from ahop.errors import MissingPackageError


def pyplot() -> ModuleType:
    """`matplotlib.pyplot`, for pictures."""
    return _module("matplotlib.pyplot", "matplotlib", "plots")


def faiss() -> ModuleType:
    """`faiss`, for indexes of very many patterns."""
    return _module("faiss", "faiss", "index")


def lance() -> ModuleType:
    """`lance`, for durable tables of patterns."""
    _module("lance.file", "pylance", "store")  # parts of their own, which the package does not bring along
    _module("lance.optimize", "pylance", "store")
    return _module("lance", "pylance", "store")


def pyarrow() -> ModuleType:
    """`pyarrow`, which comes with `lance`: columns as it takes and gives them."""
    return _module("pyarrow", "pylance", "store")


def parquet() -> ModuleType:
    """`pyarrow.parquet`, for tables in files."""
    return _module("pyarrow.parquet", "pylance", "store")


def arrow_files() -> ModuleType:
    """`pyarrow` with its parts for Parquet and Feather files."""
    _module("pyarrow.parquet", "pyarrow", "tables")
    _module("pyarrow.feather", "pyarrow", "tables")
    _module("pyarrow.compute", "pyarrow", "tables")
    return _module("pyarrow", "pyarrow", "tables")


def psycopg() -> ModuleType:
    """`psycopg`, for PostgreSQL."""
    _module("psycopg.sql", "psycopg", "pg")
    return _module("psycopg", "psycopg", "pg")


def pgvector() -> ModuleType:
    """`pgvector`, for vectors in PostgreSQL."""
    _module("pgvector.psycopg", "pgvector", "pg")
    return _module("pgvector", "pgvector", "pg")


def ray() -> ModuleType:
    """`ray`, for shards on many machines."""
    return _module("ray", "ray", "cluster")


def ray_serve() -> ModuleType:
    """`ray.serve`, for answers over HTTP."""
    return _module("ray.serve", "ray[serve]", "cluster")


def pandas() -> ModuleType:
    """`pandas`, for tables with names and categories."""
    return _module("pandas", "pandas", "datasets")


def sparse() -> ModuleType:
    """`scipy.sparse`, for tables that are linked."""
    return _module("scipy.sparse", "scipy", "link")


def csgraph() -> ModuleType:
    """`scipy.sparse.csgraph`, for the best matching of two tables."""
    return _module("scipy.sparse.csgraph", "scipy", "link")


def _module(name: str, package: str, extra: str) -> ModuleType:
    try:
        import_module(name.partition(".")[0])  # a part that was imported before says nothing about its whole
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"This needs {package}, which is not installed. `pip install 'ahop[{extra}]'`."
        ) from error
