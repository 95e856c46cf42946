"""The README's own words must run."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import ahop
from ahop.datasets.building import demo_tables
from tests.console import run_page
from tests.readme import README, agrees, main, python_blocks

SCRIPT = Path(__file__).with_name("readme.py")


@pytest.mark.slow
def test_every_block_of_the_readme_runs() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(README.read_text("utf-8"))
    assert (tmp_path / "answers.csv").exists()


@pytest.mark.slow
def test_the_request_of_the_readme_is_answered(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    from ahop.service.testing import running

    rooms, log = (pd.DataFrame(demo_tables()[name]) for name in ("rooms.csv", "log.csv"))
    stored = rooms.set_index("room").drop(columns="floor")
    ahop.fit(stored, queries=log.drop(columns="scan"), progress=False).save(tmp_path / "rooms.ahop")
    (command,) = re.findall(r"^```sh\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    with running(tmp_path, str(tmp_path / "rooms.ahop")) as made:
        here = command.replace("localhost:8000", f"localhost:{made.port}")
        done = subprocess.run(here, shell=True, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["labels"][0][0] == "room 147"
    assert found["posterior"][0][0] == pytest.approx(0.89, abs=0.1)
    assert found["unknown"][0] == pytest.approx(0.03, abs=0.05)


def test_the_readme_is_read_in_a_minute() -> None:
    assert len(README.read_text("utf-8").splitlines()) < 200


def test_a_block_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n```python\nx = 1\n```\nwords\n```python\nassert x == 2\n```\n")
    assert main([str(page)]) == 1
    assert "block 2 of page.md, line 7, failed" in capsys.readouterr().err


def test_only_python_blocks_are_taken() -> None:
    text = "```\npip install .\n```\n```python\nx = 1\n```\n```json\n{}\n```\n"
    assert [(block.code, block.line) for block in python_blocks(text)] == [("x = 1\n", 5)]


def test_what_a_block_prints_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint('one', 2)\n```\n\n```text\none 2\n```\n")
    assert main([str(page)]) == 0
    page.write_text("```python\nprint('one', 2)\n```\n\n```text\ntwo 2\n```\n")
    assert main([str(page)]) == 1
    assert "but it prints" in capsys.readouterr().err


def test_words_must_agree_and_numbers_nearly() -> None:
    assert agrees("room 120: 0.991\n in 8.3 s", "room 120: 0.989 in 31 s")
    assert not agrees("room 120: 0.7", "room 120: 0.989")
    assert not agrees("room 120", "rooms 120")
