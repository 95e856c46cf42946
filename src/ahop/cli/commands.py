"""All commands of `ahop`."""

from typing import Annotated

import typer

from ahop.cli.demo import demo
from ahop.cli.doctor import doctor
from ahop.cli.explain import explain
from ahop.cli.fit import fit
from ahop.cli.index import index
from ahop.cli.inspect import inspect
from ahop.cli.link import link
from ahop.cli.recall import recall
from ahop.cli.running import command
from ahop.cli.serve import serve
from ahop.cli.watch import watch

COMMANDS = (demo, fit, recall, explain, link, watch, inspect, index, serve, doctor)
CODES = (
    "Exit codes: 0 all is well; 1 the data or the request is wrong; 2 a flag is wrong, or the extra `cli` is not "
    "installed; 3 a package is missing; 4 `watch --fail` has raised an alarm; 5 something unexpected, which `--debug` "
    "shows; 130 interrupted. Every flag is an environment variable too: `--pairs` of `fit` is AHOP_FIT_PAIRS."
)

app = typer.Typer(
    name="ahop",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": "AHOP", "help_option_names": ["-h", "--help"]},
    epilog=CODES,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> bool:
    if wanted:
        import ahop

        typer.echo(f"ahop {ahop.__version__}")
        raise typer.Exit()
    return wanted


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, allow_from_autoenv=False)
    ] = False,
) -> None:
    """Associative memory that learns how queries get corrupted. `ahop demo` needs nothing, and shows all of it."""


for each in COMMANDS:
    app.command(each.__name__)(command(each))
