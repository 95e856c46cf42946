"""Programs of Python in a process of their own, without the wait for their imports.

A server imports once what they share, and forks for each of them: nothing that one leaves behind reaches the next, and
none is seen by what the tests have put around `ahop`.
"""

import io
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from multiprocessing import get_context

from experiments.__main__ import PLACES


@dataclass(frozen=True)
class Ended:
    """The exit code of a program and all that it printed."""

    code: int
    stdout: str
    stderr: str


def run_apart(module: str, *arguments: str, timeout: float = 900) -> Ended:
    """End of the function `main` of a module, called with these arguments."""
    return _server().submit(_run, module, arguments).result(timeout)


@cache
def _server() -> ProcessPoolExecutor:
    context = get_context("forkserver")
    context.set_forkserver_preload([*PLACES.values(), "sphinx.cmd.build"])
    return ProcessPoolExecutor(1, context, max_tasks_per_child=1)


def _run(module: str, arguments: Sequence[str]) -> Ended:
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            code = import_module(module).main(list(arguments))
        except SystemExit as error:
            code = error.code
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            code = 1
    if isinstance(code, str):
        stderr.write(f"{code}\n")
    return Ended(code if isinstance(code, int) else int(code is not None), stdout.getvalue(), stderr.getvalue())
