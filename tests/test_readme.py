"""The README's own words must run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme import main, python_blocks

SCRIPT = Path(__file__).with_name("readme.py")


@pytest.mark.slow
def test_every_block_of_the_readme_runs() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_block_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n```python\nx = 1\n```\nwords\n```python\nassert x == 2\n```\n")
    assert main([str(page)]) == 1
    assert "block 2 of page.md, line 7, failed" in capsys.readouterr().err


def test_only_python_blocks_are_taken() -> None:
    text = "```\npip install .\n```\n```python\nx = 1\n```\n```json\n{}\n```\n"
    assert [(block.code, block.line) for block in python_blocks(text)] == [("x = 1\n", 5)]
