"""The command line: what it decides about tables, what it says, and how it ends."""

import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import typer
from typer.models import OptionInfo
from typer.testing import CliRunner

import ahop
from ahop.cli import talk
from ahop.cli.commands import COMMANDS
from ahop.cli.running import MISSING, command
from ahop.cli.tables.choosing import Wanted, choose
from ahop.cli.tables.formats import read_sheet
from ahop.cli.tables.saving import write_table, written
from ahop.cli.tables.sheet import Sheet
from ahop.cli.tables.table import Table
from ahop.datasets.building import demo_tables
from ahop.errors import AhopError
from tests.console import run, run_page, steps_of

DOCS = Path(__file__).resolve().parent.parent / "docs"
POINTS = [f"ap{place:02d}" for place in range(1, 17)]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of the demo and a memory."""
    folder = tmp_path_factory.mktemp("tables")
    for name, columns in demo_tables().items():
        write_table(folder / name, columns, force=False)
    done = run(f"ahop fit {folder}/rooms.csv --pairs {folder}/pairs.csv --similarity mixture -o {folder}/rooms.ahop")
    assert done.code == 0, done.stderr
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to work in."""
    copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(line: str) -> Any:
    """The JSON document of a command that must end well."""
    done = run(f"{line} --json")
    assert done.code == 0, done.stderr
    return json.loads(done.stdout)


def numbers(path: str) -> Any:
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array([[float(row[point] or "nan") for point in POINTS] for row in rows])


def sheet(folder: Path, text: str, keep: Sequence[str] = (), name: str = "table.csv") -> Sheet:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_sheet(path, ["id", *keep])


def table(folder: Path, text: str, wanted: Wanted | None = None) -> Table:
    return choose(sheet(folder, text), wanted or Wanted())


# The manual.


@pytest.mark.usefixtures("unchecked")
def test_every_example_of_the_manual_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    run_page(text)
    assert (tmp_path / "ahop-demo.png").read_bytes().startswith(b"\x89PNG")
    assert {step.command.split()[1] for step in steps_of(text) if step.command.startswith("ahop")} >= {
        each.__name__ for each in COMMANDS if each.__name__ != "serve"
    }


def test_an_example_that_says_something_else_is_found(folder: Path) -> None:
    with pytest.raises(AssertionError):
        run_page("```console\n$ ahop inspect rooms.ahop\nThis is not said.\n```\n")
    with pytest.raises(AssertionError):
        run_page("```console\n$ ahop inspect nothing.ahop\n```\n")


def test_the_manual_names_every_command_and_every_exit_code() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert all(f"`ahop {each.__name__}" in text for each in COMMANDS)
    assert all(f"\n| {code} |" in text for code in (0, 1, 2, 3, 4, 5, 130))


# Starting.


def python(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_help_and_wrong_flags_do_not_wait_for_torch() -> None:
    found = "[name for name in ('torch', 'pandas', 'matplotlib') if name in sys.modules]"
    script = f"import sys, ahop.cli.commands; print({found})"
    assert python("-c", script).stdout.strip() == "[]"


def test_without_the_extra_one_line_says_what_to_install() -> None:
    script = "import sys; sys.modules['typer'] = None; from ahop.cli import main; main()"
    done = python("-c", script)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert 'pip install "ahop[cli]"' in done.stderr


def test_who_has_a_memory_needs_no_torch_and_others_say_what_to_install(folder: Path) -> None:
    shut_off = "import sys; sys.modules['torch'] = sys.modules['jaxtyping'] = None; from ahop.cli import main; main()"
    for asked in (
        ["recall", "rooms.ahop", "scans.csv", "--quiet"],
        ["recall", "rooms.ahop", "scans.csv", "--quiet", "--precision", "0.9", "--held-out", "held_out.csv"],
        ["explain", "rooms.ahop", "scans.csv", "--quiet", "--row", "1"],
        ["explain", "rooms.ahop", "scans.csv", "--quiet", "--against", "unknown"],
        ["watch", "rooms.ahop", "scans.csv", "--quiet", "--windows", "2"],
        ["inspect", "rooms.ahop"],
    ):
        done = subprocess.run([sys.executable, "-c", shut_off, *asked], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == run(f"ahop {' '.join(asked)}").stdout
    for asked in (
        ["fit", "rooms.csv", "--queries", "scans.csv", "-o", "other.ahop"],
        ["link", "rooms.ahop", "scans.csv"],
    ):
        done = subprocess.run([sys.executable, "-c", shut_off, *asked], capture_output=True, text=True, check=False)
        assert done.returncode == MISSING
        assert "`pip install 'ahop[fit]'`" in done.stderr


def test_the_module_is_the_command() -> None:
    done = python("-m", "ahop.cli", "--version")
    assert (done.returncode, done.stdout) == (0, f"ahop {ahop.__version__}\n")


def test_the_shell_completes_commands() -> None:
    words = {"_AHOP_COMPLETE": "complete_bash", "COMP_WORDS": "ahop rec", "COMP_CWORD": "1"}
    assert python("-m", "ahop.cli", **words, _PYTHON_M_AHOP_CLI_COMPLETE="").stdout.split() == ["recall"]


@pytest.mark.slow
@pytest.mark.alone
def test_the_demo_learns_without_a_label_within_half_a_minute(tmp_path: Path) -> None:
    started = time.perf_counter()
    done = python("-m", "ahop.cli", "demo", "--json", "--png", str(tmp_path / "demo.png"))
    assert time.perf_counter() - started < 30
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["right"] > found["nearest"] + 0.2
    assert found["report"].startswith("Unchecked")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


# What is said.


@pytest.mark.parametrize("function", COMMANDS, ids=lambda each: each.__name__)
def test_every_flag_is_an_environment_variable(function: Callable[..., None]) -> None:
    text = run(f"ahop {function.__name__} --help").stdout
    options = {
        name
        for name, kind in get_type_hints(function, include_extras=True).items()
        if isinstance(getattr(kind, "__metadata__", (None,))[0], OptionInfo)
    }
    wanted = {f"AHOP_{function.__name__}_{name}".upper() for name in options} | {
        "AHOP_JSON",
        "AHOP_QUIET",
        "AHOP_DEBUG",
    }
    assert wanted <= set(re.findall(r"AHOP_\w+", text))


def test_a_variable_stands_for_its_flag_and_a_flag_goes_before_it(folder: Path) -> None:
    recall = "recall rooms.ahop scans.csv --json"
    assert len(json.loads(run(f"AHOP_RECALL_K=2 ahop {recall}").stdout)["answers"][0]["answers"]) == 2
    assert len(json.loads(run(f"AHOP_RECALL_K=2 ahop {recall} -k 1").stdout)["answers"][0]["answers"]) == 1


def test_json_is_all_that_stdout_has_and_holds_the_decisions(folder: Path) -> None:
    done = run("AHOP_JSON=1 ahop recall rooms.ahop scans.csv")
    assert done.stderr == ""
    assert json.loads(done.stdout)["notes"] == [
        "scans.csv: 100 rows, 16 columns of numbers (ap01, ..., ap16); the rows are named by 'scan'."
    ]


def test_quiet_is_quiet(folder: Path) -> None:
    assert run("ahop recall rooms.ahop scans.csv --quiet").stderr == ""


# Recall.


def test_answers_are_those_of_the_package(folder: Path) -> None:
    found = document("ahop recall rooms.ahop scans.csv -k 2")["answers"]
    answer = ahop.load("rooms.ahop").recall(numbers("scans.csv"), k=2)
    assert answer.labels is not None
    assert answer.unknown is not None
    assert [[each["answer"] for each in row["answers"]] for row in found] == answer.labels.tolist()
    assert np.allclose([[each["posterior"] for each in row["answers"]] for row in found], answer.posterior)
    assert np.allclose([row["unknown"] for row in found], answer.unknown)
    assert [row["query"] for row in found][:2] == ["scan 0", "scan 1"]


def columns_of(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".json":
        rows = json.loads(path.read_text())
        return {name: [row[name] for row in rows] for name in rows[0]}
    kept = read_sheet(path, ()).columns
    return {name: each.texts("") if each.numbers is None else list(each.numbers) for name, each in kept.items()}


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather", ".arrow", ".npz", ".npy", ".json"])
def test_answers_can_be_written_in_every_format(folder: Path, ending: str) -> None:
    path = folder / f"answers{ending}"
    assert run(f"ahop recall rooms.ahop scans.csv -k 2 -o {path}").code == 0
    found = columns_of(path)
    assert list(found) == ["query", "rank", "answer", "posterior", "confidence", "unknown"]
    assert found["query"][:3] == ["scan 0", "scan 0", "scan 1"]
    assert np.allclose(found["rank"][:4], [1, 2, 1, 2])
    answer = ahop.load("rooms.ahop").recall(numbers("scans.csv"), k=2)
    assert answer.labels is not None
    assert found["answer"] == answer.labels.reshape(-1).tolist()
    assert np.allclose(found["posterior"], answer.posterior.reshape(-1))


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".npz", ".tsv"])
def test_queries_can_be_read_in_every_format(folder: Path, ending: str) -> None:
    values = numbers("scans.csv")
    columns = {"scan": [f"scan {row}" for row in range(100)], **dict(zip(POINTS, values.T.tolist(), strict=True))}
    path = folder / f"asked{ending}"
    if ending == ".tsv":
        path.write_text((folder / "scans.csv").read_text().replace(",", "\t"))
    else:
        write_table(path, columns, force=False)
    wanted, found = (document(f"ahop recall rooms.ahop {name}")["answers"] for name in ("scans.csv", path))
    assert wanted == found


def test_an_array_is_taken_in_its_order(folder: Path) -> None:
    np.save("asked.npy", numbers("scans.csv"))
    wanted, found = (document(f"ahop recall rooms.ahop {name}")["answers"] for name in ("scans.csv", "asked.npy"))
    assert [row["answers"] for row in wanted] == [row["answers"] for row in found]
    assert found[0]["query"] == 0


def test_columns_are_put_in_order_by_name_and_missing_ones_were_not_observed(folder: Path) -> None:
    values = numbers("scans.csv")
    given = {"color": ["red"] * 100, **{POINTS[place]: values[:, place].tolist() for place in range(14, -1, -1)}}
    write_table(folder / "other.csv", given, force=False)
    found = document("ahop recall rooms.ahop other.csv -k 1")
    values[:, 15] = np.nan
    answer = ahop.load("rooms.ahop").recall(values)
    assert answer.labels is not None
    assert [row["answers"][0]["answer"] for row in found["answers"]] == answer.labels[:, 0].tolist()
    assert "ignored: 'color' (not in the memory)" in found["notes"][0]


def test_precision_with_pairs_is_a_promise_and_else_an_expectation(folder: Path) -> None:
    promised = document("ahop recall rooms.ahop scans.csv --precision 0.95 --held-out held_out.csv")
    assert "At least 95 %" in promised["promise"]
    expected = document("ahop recall rooms.ahop scans.csv --precision 0.99")
    accepted = [row["confidence"] for row in expected["answers"] if row["action"] == "accept"]
    asked = [row["confidence"] for row in expected["answers"] if row["action"] == "ask"]
    assert 1 - np.mean(accepted) <= 0.01
    assert min(accepted) > max(asked, default=0.0)
    done = run("ahop recall rooms.ahop scans.csv --precision 0.999 --held-out held_out.csv")
    assert done.code == 1
    assert "at least 2995 are needed" in done.stderr


def test_queries_of_one_origin_are_answered_together(folder: Path) -> None:
    values = numbers("held_out.csv")
    with open("held_out.csv", newline="") as file:
        rooms = [row["origin"] for row in csv.DictReader(file)]
    write_table(folder / "same.csv", {"visit": rooms, **dict(zip(POINTS, values.T.tolist(), strict=True))}, force=False)
    found = document("ahop recall rooms.ahop same.csv --same visit -k 1")["answers"]
    assert len(found) == len(set(rooms))
    assert np.mean([row["query"] == row["answers"][0]["answer"] for row in found]) > 0.9


def test_groups_are_learned_and_asked_for(folder: Path) -> None:
    values = numbers("pairs.csv")
    with open("pairs.csv", newline="") as file:
        rooms = [row["origin"] for row in csv.DictReader(file)]
    devices = ["old" if place % 2 else "new" for place in range(len(values))]
    values += np.array([20.0 if device == "old" else 0.0 for device in devices])[:, None]
    columns = {"origin": rooms, "device": devices, **dict(zip(POINTS, values.T.tolist(), strict=True))}
    write_table(folder / "devices.csv", columns, force=False)
    done = run("ahop fit rooms.csv --pairs devices.csv --group device --similarity mixture -o grouped.ahop")
    assert done.code == 0, done.stderr
    assert "'device' is the group" in done.stderr
    assert sorted(document("ahop inspect grouped.ahop")["groups"]) == ["new", "old"]
    found = document("ahop recall grouped.ahop devices.csv --group device -k 1")["answers"]
    right = np.mean([row["answers"][0]["answer"] == room for row, room in zip(found, rooms, strict=True)])
    assert right > 0.9
    assert "`--group COLUMN`" in run("ahop recall grouped.ahop devices.csv").stderr


# The other commands.


def test_fit_keeps_names_and_says_what_it_found(folder: Path) -> None:
    found = document("ahop fit rooms.csv --pairs pairs.csv --similarity mixture,euclidean -o again.ahop")
    memory = ahop.load("again.ahop")
    assert memory.labels is not None
    assert memory.labels[0] == "room 100"
    assert memory.columns == tuple(POINTS)
    assert found["report"] == str(memory.report)
    assert found["found"]["chosen"] == "mixture"
    assert "ignored: 'floor' (words, such as 'floor 0')" in found["notes"][0]


def test_whole_numbers_name_rows_whatever_the_format(folder: Path) -> None:
    values, pairs = numbers("rooms.csv"), numbers("pairs.csv")
    with open("pairs.csv", newline="") as file:
        rooms = [row["origin"].removeprefix("room ") for row in csv.DictReader(file)]
    stored = {"id": np.arange(100, 160), **dict(zip(POINTS, values.T, strict=True))}
    pyarrow.parquet.write_table(pa.table(stored), "stored.parquet")
    write_table(folder / "copies.csv", {"id": rooms, **dict(zip(POINTS, pairs.T.tolist(), strict=True))}, force=False)
    done = run("ahop fit stored.parquet --pairs copies.csv --similarity mixture -o numbered.ahop")
    assert done.code == 0, done.stderr
    memory = ahop.load("numbered.ahop")
    assert memory.labels is not None
    assert memory.labels[0] == 100


def test_explain_writes_a_page_and_a_picture(folder: Path) -> None:
    found = document("ahop explain rooms.ahop scans.csv --row 1 --html why.html --png why.png")
    why = ahop.load("rooms.ahop").explain(numbers("scans.csv")[1])
    assert found["words"] == str(why)
    assert np.isclose(sum(bar["log_odds"] for bar in found["bars"]), found["log_odds"])
    assert (folder / "why.html").read_text().startswith("<!doctype html>")
    assert (folder / "why.png").read_bytes().startswith(b"\x89PNG")
    assert document("ahop explain rooms.ahop scans.csv --against unknown")["rival"] == "unknown"
    assert document("ahop explain rooms.ahop scans.csv --against 'room 111'")["rival"] == "room 111"


def test_watch_raises_an_alarm_where_something_moved(folder: Path) -> None:
    found = document("ahop watch rooms.ahop later.csv --windows 2 --png watched.png")
    assert found["alarm"]
    assert found["drift"][0]["name"] == "ap05"
    assert len(found["windows"]) == 2
    assert (folder / "watched.png").exists()
    assert run("ahop watch rooms.ahop later.csv --fail").code == 4
    # Not held_out.csv: it happens to be one of the looks that raise a false alarm, as one in twenty may.
    assert run("ahop watch rooms.ahop scans.csv --fail --reference log.csv").code == 0


def test_two_tables_are_linked(folder: Path) -> None:
    lines = (folder / "pairs.csv").read_text().splitlines()
    first: dict[str, str] = {}
    for line in lines[1:]:
        first.setdefault(line.split(",", 1)[0], line)
    (folder / "seen.csv").write_text("\n".join([lines[0].replace("origin", "name"), *first.values()]) + "\n")
    found = document("ahop link rooms.ahop seen.csv -o links.csv")
    right = [each["left"] == each["right"] for each in found["links"]]
    assert len(right) > 0.8 * len(first)
    assert np.mean(right) > 0.9
    assert (folder / "links.csv").read_text().startswith("left,right,probability,rank\n")


def test_a_store_answers_as_its_memory_does(folder: Path) -> None:
    assert document("ahop index rooms.csv --memory rooms.ahop -o rooms.lance")["metadata"] == ["label", "floor"]
    of_store, of_memory = (
        document(f"ahop recall {path} scans.csv")["answers"] for path in ("rooms.lance", "rooms.ahop")
    )
    names = [[each["answer"] for each in row["answers"]] for row in of_memory]
    assert [[each["answer"] for each in row["answers"]] for row in of_store] == names
    scans = pd.read_csv("scans.csv")
    scans[scans.columns[::-1]].to_csv("backwards.csv", index=False)
    backwards = document("ahop recall rooms.lance backwards.csv")["answers"]
    assert [[each["answer"] for each in row["answers"]] for row in backwards] == names, "columns go by their names"
    why = document("ahop explain rooms.lance scans.csv --against 'room 111'")
    assert (why["answer"], why["rival"]) == (names[0][0], "room 111")
    assert document("ahop inspect rooms.lance")["patterns"] == 60
    assert run("ahop index rooms.csv --memory rooms.ahop -o rooms.lance").code == 1
    assert document("ahop index rooms.ahop -o whole.lance")["patterns"] == 60


def test_inspect_tells_what_is_inside_and_draws_it(folder: Path) -> None:
    found = document("ahop inspect rooms.ahop --png corruption.png --column ap07")
    assert (found["patterns"], found["dimensions"], found["columns"]) == (60, 16, POINTS)
    assert found["tells_unknown"]
    assert (folder / "corruption.png").exists()


def test_the_doctor_tells_of_kernels_and_extras(folder: Path) -> None:
    found = document("ahop doctor")
    assert found["kernels"].startswith(("compiled", "not compiled"))
    assert found["ahop"].startswith(ahop.__version__)


def test_the_doctor_names_and_mends_a_store_without_checksums(folder: Path) -> None:
    document("ahop index rooms.ahop -o hit.lance")
    assert document("ahop doctor hit.lance")["is_sound"]
    rmtree("hit.lance/_checksums")
    told = run("ahop doctor hit.lance")
    assert told.code == 1
    assert "have no checksum" in told.stdout
    assert "--repair" in told.stdout
    mended = document("ahop doctor hit.lance --repair")
    assert mended["is_sound"]
    assert mended["rows"] == 60
    assert document("ahop inspect hit.lance")["patterns"] == 60
    assert run("ahop doctor --repair").code == 1


def test_nothing_is_served_that_is_not_there(folder: Path) -> None:
    assert run("ahop serve nothing.ahop").code == 1


# Tables.


def test_gaps_are_not_observed(tmp_path: Path) -> None:
    found = table(tmp_path, "name,a,b\nx,1,\ny,NA,2\nz, nan ,-\n")
    assert np.array_equal(found.values, [[1, np.nan], [np.nan, 2], [np.nan, np.nan]], equal_nan=True)
    assert found.ids == ["x", "y", "z"]


def test_words_that_look_like_numbers_stay_as_they_are(tmp_path: Path) -> None:
    assert table(tmp_path, "id,a\n007,1\n008,2\n").ids == ["007", "008"]
    assert table(tmp_path, "id,a\n7,1\n8,2\n").ids == [7, 8]


def test_a_column_of_one_name_for_many_rows_names_none(tmp_path: Path) -> None:
    found = table(tmp_path, "device,id,a\nphone,1,1\nphone,1,2\n")
    assert found.ids is None
    assert set(found.ignored) == {"device", "id"}
    assert found.columns == ("a",)


def test_columns_can_be_chosen_and_left_out(tmp_path: Path) -> None:
    text = "id,ap1,ap2,x\n1,1,2,3\n2,4,5,6\n"
    assert table(tmp_path, text, Wanted.by(columns="ap*")).columns == ("ap1", "ap2")
    assert table(tmp_path, text, Wanted.by(ignore="x, ap2")).columns == ("ap1",)


def test_semicolons_and_decimal_commas_are_understood(tmp_path: Path) -> None:
    found = table(tmp_path, "id;a;b\n1;3,5;2\n2;-0,25;1\n")
    assert found.values.tolist() == [[3.5, 2], [-0.25, 1]]


def test_true_and_false_are_numbers(tmp_path: Path) -> None:
    assert table(tmp_path, "id,a,b\n1,True,1\n2,false,\n").values[:, 0].tolist() == [1, 0]


def test_a_table_without_names_is_an_array(tmp_path: Path) -> None:
    found = table(tmp_path, "1,2,3\n4,5,6\n")
    assert found.columns is None
    assert found.values.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_large_table_is_read_block_by_block(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(9001, 3))
    rows = "\n".join(f"row {place},{a!r},{b!r},{c!r}" for place, (a, b, c) in enumerate(values.tolist()))
    found = table(tmp_path, f"name,a,b,c\n{rows}\n")
    assert np.array_equal(found.values, values)
    assert found.ids is not None
    assert found.ids[-1] == "row 9000"


def test_words_behind_many_numbers_are_no_numbers(tmp_path: Path) -> None:
    rows = "\n".join(f"{place},{place}" for place in range(5000))
    found = table(tmp_path, f"a,b\n{rows}\n1,high\n")
    assert found.columns == ("a",)
    assert "'high'" in found.ignored["b"]


def test_lists_in_a_column_are_so_many_columns(tmp_path: Path) -> None:
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    pyarrow.parquet.write_table(pa.table({"id": ["a", "b"], "vector": vectors}), tmp_path / "v.parquet")
    found = choose(read_sheet(tmp_path / "v.parquet", ()), Wanted())
    assert found.columns == ("vector_0", "vector_1")
    assert found.values.dtype == np.float32
    assert found.values.tolist() == [[1, 2], [3, 4]]


def test_large_numbers_name_rows_exactly(tmp_path: Path) -> None:
    large = [2**60 + 1, 2**60 + 3]
    pyarrow.feather.write_feather(pa.table({"id": large, "a": [1.0, 2.0]}), tmp_path / "t.feather")
    assert choose(read_sheet(tmp_path / "t.feather", ["id"]), Wanted()).ids == large


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "different names"),
        ("a,b\n1,2\n3\n", "row 2"),
        ("a,b\nx,y\nz,w\n", "no columns of numbers"),
        ("id,a\n1,inf\n2,3\n", "must be finite"),
    ],
)
def test_what_is_wrong_with_a_table_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(AhopError, match=words):
        table(tmp_path, text)


def test_no_pickle_is_read_and_no_shape_is_believed(folder: Path) -> None:
    np.save("objects.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    assert run("ahop recall rooms.ahop objects.npy").code == 1
    with open("huge.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 16)})
    done = run("ahop recall rooms.ahop huge.npy")
    assert done.code == 1
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather", ".npy", ".npz", ".ahop", ".xlsx"])
def test_a_file_of_noise_is_refused_in_one_line(folder: Path, ending: str) -> None:
    (folder / f"noise{ending}").write_bytes(np.random.default_rng(0).bytes(2000))
    done = run(f"ahop recall rooms.ahop noise{ending}")
    assert done.code == 1
    assert len(done.stderr.splitlines()) == 1
    assert "noise" in done.stderr


# How it ends.


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("recall rooms.ahop nothing.csv", "nothing.csv"),
        ("recall nothing.ahop scans.csv", "nothing.ahop"),
        ("recall rooms.csv scans.csv", "a memory is needed"),
        ("recall rooms.ahop scans.csv --held-out held_out.csv", "--precision"),
        ("recall rooms.ahop scans.csv --group device", "no column 'device'"),
        ("recall rooms.ahop scans.csv -o nowhere/answers.csv", "no folder"),
        ("recall rooms.ahop scans.csv -o answers.doc", "must end in"),
        ("fit rooms.csv -o new.ahop", "--pairs FILE"),
        ("fit rooms.csv --pairs log.csv -o new.ahop", "--origin COLUMN"),
        ("fit rooms.csv --queries log.csv --group device -o new.ahop", "no column 'device' for `--group`"),
        ("fit rooms.csv --pairs log.csv --origin scan -o new.ahop", "stored patterns"),
        ("fit rooms.csv --pairs pairs.csv --similarity other -o new.ahop", "must be one of"),
        ("explain rooms.ahop scans.csv --row 100", "0..99"),
        ("explain rooms.ahop scans.csv --against nobody", "nobody"),
        ("inspect rooms.ahop --png c.png --column ap99", "ap99"),
        ("index rooms.csv -o new.lance", "--memory"),
        ("demo --data nowhere", "no folder"),
    ],
)
def test_a_wrong_request_ends_with_one_line_and_writes_nothing(folder: Path, line: str, words: str) -> None:
    before = sorted(folder.iterdir())
    done = run(f"ahop {line} --quiet")
    assert done.code == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert sorted(folder.iterdir()) == before


def test_a_wrong_flag_ends_with_2() -> None:
    assert run("ahop recall --nonsense").code == 2
    assert run("ahop recall rooms.ahop scans.csv -k 0").code == 2


def test_a_missing_package_ends_with_3(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    done = run("ahop link rooms.ahop scans.csv --quiet")
    assert done.code == 3
    assert "ahop[link]" in done.stderr


def ending(error: BaseException, *flags: str) -> tuple[int, str]:
    """How a command ends that fails like this."""

    def broken(talk: Any) -> None:
        raise error

    alone = typer.Typer()
    alone.command()(command(broken))
    done = CliRunner().invoke(alone, list(flags))
    return done.exit_code, done.stderr


def test_what_nobody_foresaw_ends_with_5_and_a_trace_only_if_asked_for() -> None:
    code, said = ending(RuntimeError("lost"))
    assert code == 5
    assert len(said.splitlines()) == 1
    assert "--debug" in said
    assert "Traceback" in ending(RuntimeError("lost"), "--debug")[1]


def test_who_interrupts_gets_130() -> None:
    assert ending(KeyboardInterrupt())[0] == 130


def test_a_file_is_never_written_over_unless_told_to(folder: Path) -> None:
    (folder / "answers.csv").write_text("mine")
    done = run("ahop recall rooms.ahop scans.csv -o answers.csv")
    assert done.code == 1
    assert "--force" in done.stderr
    assert (folder / "answers.csv").read_text() == "mine"
    assert run("ahop recall rooms.ahop scans.csv -o answers.csv --force").code == 0
    assert (folder / "answers.csv").read_text().startswith("query,")


def test_what_fails_halfway_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "kept.csv"
    path.write_text("old")
    with suppress(RuntimeError), written(path, force=True) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_rows_of_one_name_teach_each_other(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    places = chance.normal(size=(20, 6))
    points = [f"ap{number}" for number in range(6)]
    rows = np.concatenate([places + phone + 0.1 * chance.normal(size=places.shape) for phone in range(5)])
    survey = pd.DataFrame(rows, columns=points)
    survey.insert(0, "place", [f"p{number}" for number in range(20)] * 5)
    survey.insert(1, "phone", [f"phone {number // 20}" for number in range(100)])
    survey.to_csv(tmp_path / "survey.csv", index=False)
    log = pd.DataFrame(places[:12] + 3.5 + 0.1 * chance.normal(size=(12, 6)), columns=points)
    log.to_csv(tmp_path / "log.csv", index=False)
    given = f"ahop fit {tmp_path}/survey.csv --id place --group phone --similarity mixture -o {tmp_path}/m.ahop"
    done = run(f"{given} --queries {tmp_path}/log.csv")
    assert done.code == 0, done.stderr
    assert "100 rows of 20 labels.\nLeaving out each of 5 groups in turn" in done.stdout
    memory = ahop.load(tmp_path / "m.ahop")
    answer = memory.recall(log)
    assert len(memory) == 20
    assert answer.is_checked
    assert answer.labels is not None
    assert answer.labels[:, 0].tolist() == [f"p{place}" for place in range(12)]


def test_queries_come_through_a_pipe_and_a_reader_may_leave(folder: Path) -> None:
    ahop_ = f"{sys.executable} -m ahop.cli"
    asked = f"cat scans.csv | {ahop_} recall rooms.ahop - --json"
    piped = subprocess.run(asked, shell=True, capture_output=True, text=True, check=True)
    found, known = json.loads(piped.stdout), document("ahop recall rooms.ahop scans.csv")
    assert found["answers"] == known["answers"]
    assert "standard input: 100 rows" in found["notes"][0]
    left = f"{ahop_} recall rooms.ahop scans.csv --json | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", left], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr.count("Broken")) == ("0\n", 0)


def test_held_out_pairs_name_their_origins_as_those_of_the_fit_did(folder: Path) -> None:
    pairs = pd.read_csv("held_out.csv").rename(columns={"origin": "room"})
    assert "room" in pairs.columns
    pairs.to_csv("named.csv", index=False)
    done = run("ahop recall rooms.ahop scans.csv --precision 0.9 --held-out named.csv")
    assert done.code == 0, done.stderr
    pairs.drop(columns="room").to_csv("nameless.csv", index=False)
    done = run("ahop recall rooms.ahop scans.csv --precision 0.9 --held-out nameless.csv")
    assert done.code != 0
    assert "--origin" in done.stderr


def test_a_long_fit_says_that_it_goes_on_where_no_bar_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talk, "SECONDS_BETWEEN_LINES", 0.05)
    line = "ahop fit rooms.csv --pairs pairs.csv --similarity mixture -o other.ahop --force"
    done = run(line)
    assert re.search(r"fit: \d+ s so far", done.stderr)
    assert "so far" not in done.stdout
    assert "so far" not in run(f"{line} --quiet").stderr
    assert "so far" not in run(f"{line} --json").stderr


def test_the_screen_says_how_sure_an_answer_is_before_what_it_is_among_others(folder: Path) -> None:
    shown = run("ahop recall rooms.ahop scans.csv").stdout
    assert "confidence" in shown
    assert "none of these" in shown
    assert "if one of them" in shown


def test_a_note_counts_the_columns_of_the_file_and_asks_for_names_that_are_nearly_right(folder: Path) -> None:
    scans = pd.read_csv("scans.csv")[["scan", "ap01", "ap02", "ap03"]].rename(columns={"ap03": "AP03"})
    scans.to_csv("few.csv", index=False)
    (note,) = document("ahop recall rooms.ahop few.csv")["notes"][:1]
    assert "2 of the memory's 16 columns (ap01, ap02); the others not observed" in note
    assert "'AP03' (not in the memory. Did you mean 'ap03'?)" in note
    assert "Did you mean 'scan'?" in run("ahop recall rooms.ahop scans.csv --id scans").stderr
