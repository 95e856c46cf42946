"""The guide can be read from an installed package."""

import pytest

from ahop.docs import guide as docs


def test_every_page_of_the_guide_has_a_name_and_a_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = {line.split()[0]: line[32:].strip() for line in lines}
    assert {"llms", "faq", "tutorial/1-look", "cookbook/index", "migration/splink"} <= set(listed)
    assert all(listed.values())


def test_a_page_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["saving"]) == 0
    assert "ahop.open_memory" in capsys.readouterr().out


def test_another_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["savign"]) == 2
    assert "no page savign" in capsys.readouterr().err


def test_the_guide_is_small() -> None:
    assert sum(path.stat().st_size for path in docs.pages().values()) < 400_000
