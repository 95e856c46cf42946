"""Run the ```` ```console ```` blocks of a page: lines after `$ ` are commands, the others are what they must say."""

import re
import shlex
from typing import NamedTuple

from typer.testing import CliRunner

from ahop.cli.commands import app

FENCE = re.compile(r"^```console[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
LAST_CODE = "echo $?"


class Step(NamedTuple):
    """A command, and lines that it says among others; `...` stands for anything."""

    command: str
    lines: list[str]


class Done(NamedTuple):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


def steps_of(text: str) -> list[Step]:
    steps: list[Step] = []
    for line in "".join(match.group(1) for match in FENCE.finditer(text)).splitlines():
        if line.startswith("$ "):
            steps.append(Step(line.removeprefix("$ "), []))
        elif line.strip():
            steps[-1].lines.append(line)
    return steps


def run(command: str) -> Done:
    """`ahop ...` in this process, with variables before it as a shell has them."""
    words = shlex.split(command)
    place = words.index("ahop")
    variables = dict(word.split("=", 1) for word in words[:place])
    done = CliRunner().invoke(app, words[place + 1 :], env=variables, prog_name="ahop")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def run_page(text: str) -> None:
    """Every command, in order. One ends with 0, unless the next one asks for its code."""
    steps = steps_of(text)
    assert steps
    last = Done(0, "", "")
    for step, following in zip(steps, [*steps[1:], Step("", [])], strict=True):
        if step.command == LAST_CODE:
            assert [str(last.code)] == step.lines
            continue
        last = run(step.command)
        assert last.code == 0 or following.command == LAST_CODE, f"$ {step.command}\n{last.stdout}{last.stderr}"
        for line in step.lines:
            pattern = ".*".join(re.escape(part) for part in line.split("..."))
            assert re.search(f"^{pattern}$", last.stdout + last.stderr, re.MULTILINE), f"{line}\n{last.stdout}"
