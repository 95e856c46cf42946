"""Optional dependencies: imported when needed, with an error that names the extra to install."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ahop.errors import MissingPackageError

# Packages of the extra `fit`: some rooms import another of them before torch.
OF_FIT = ("torch", "jaxtyping", "tqdm", "typing_extensions")


def is_of_fit(error: ModuleNotFoundError) -> bool:
    """True if the extra `fit` is what is missing."""
    return (error.name or "").partition(".")[0] in OF_FIT


def is_installed(name: str) -> bool:
    """True if a package can be imported, as far as can be said without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # it is shut off in this process
        return False


def _optional(name: str, *parts: str, package: str, extra: str) -> Callable[[], ModuleType]:
    """A function that imports a module, and parts of it that it does not import by itself."""

    def load_module() -> ModuleType:
        try:
            for each in (name.partition(".")[0], *parts):  # a part that was imported says nothing about its whole
                import_module(each)
            return import_module(name)
        except ImportError as error:
            raise MissingPackageError(
                f"This needs {package}, which is not installed. `pip install 'ahop[{extra}]'`."
            ) from error

    return load_module


pyplot = _optional("matplotlib.pyplot", package="matplotlib", extra="plots")
faiss = _optional("faiss", package="faiss", extra="index")
lance = _optional("lance", "lance.file", "lance.optimize", package="pylance", extra="store")
pyarrow = _optional("pyarrow", package="pylance", extra="store")  # which brings it along
parquet = _optional("pyarrow.parquet", package="pylance", extra="store")
arrow_files = _optional(
    "pyarrow", "pyarrow.parquet", "pyarrow.feather", "pyarrow.compute", package="pyarrow", extra="tables"
)
psycopg = _optional("psycopg", "psycopg.sql", package="psycopg", extra="pg")
ray = _optional("ray", package="ray", extra="cluster")
pandas = _optional("pandas", package="pandas", extra="datasets")
pillow = _optional("PIL.Image", package="pillow", extra="datasets")
sparse = _optional("scipy.sparse", package="scipy", extra="link")
csgraph = _optional("scipy.sparse.csgraph", package="scipy", extra="link")
langchain = _optional("langchain_core", "langchain_core.retrievers", package="langchain-core", extra="langchain")
llama_index = _optional(
    "llama_index.core",
    "llama_index.core.retrievers",
    "llama_index.core.schema",
    package="llama-index-core",
    extra="llama-index",
)
