"""Every experiment runs in its quick form and says what it must."""

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments import publish
from experiments.__main__ import NAMES, PLACES
from experiments.claims import settings
from experiments.support import harness, table_peers, wifi_protocol
from experiments.support.harness import Experiment, Row

from ahop.fitting import Settings
from tests.apart import run_apart
from tests.real_data import NEEDED, skip_without_data

ROOT = Path(__file__).parent.parent
# Whose data nobody knows the distribution of have no ceiling; each has a test of its own.
WITHOUT_CEILING = {"tab_tabular", "tab_tabular_parts", "tab_tabular_network", "tab_mil", "tab_images"}
OF_RETRIEVAL = [name for name in NAMES if name.startswith(("tab_", "fig_")) and name not in WITHOUT_CEILING]

Rows = list[dict[str, Any]]


def quick(name: str) -> dict[str, Any]:
    """Result of the quick form; a test whose data are not here ends as skipped."""
    skip_without_data(name)
    done = run_apart("experiments.__main__", name, "--json", "--quick", "--no-progress")
    assert done.code == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_each_setting_is_halved_and_doubled_on_the_tasks_of_its_stage() -> None:
    asked = [cell for cell in settings.cells(1, quick=True) if cell["setting"] != settings.DEFAULT]
    names = {f"{stage}.{name}" for stage in settings.PLACES for name in settings.settings_of(stage)}
    assert {cell["setting"] for cell in settings.cells(1, quick=False)} == names | {settings.DEFAULT}
    assert {cell["change"] for cell in asked} == settings.FACTORS.keys()
    for cell in asked:
        stage, name = cell["setting"].split(".")
        assert settings.changed(stage, name, cell["change"]) != Settings()


def test_what_a_setting_moves_is_told_beside_the_default() -> None:
    skip_without_data("settings")
    task = "near infrared, a log"
    cells = [
        {"task": task, "setting": setting, "change": change, "seed": 0}
        for setting, change in ((settings.DEFAULT, ""), ("unlabeled.clear_std_errors", settings.HALVED))
    ]
    rows = [row for cell in cells for row in settings.run(cell, quick=True)]
    assert rows[0]["loss_moved"] is None
    assert rows[1]["loss_moved"] == pytest.approx(rows[1]["loss"] - rows[0]["loss"])
    assert settings.headline(settings.summarize(rows))["settings"] == 1


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_an_experiment_whose_data_are_not_here_is_skipped_with_the_reason(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name in NAMES
    monkeypatch.setenv("AHOP_DATA", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=f"`{name}` needs real data: set AHOP_DATA to"):
        skip_without_data(name)


def test_experiments_that_read_real_data_are_those_that_say_so() -> None:
    assert {name for name, place in PLACES.items() if "experiments.datasets" in uses(place)} == NEEDED.keys()


def uses(place: str) -> set[str]:
    """The modules that an experiment imports, and those that these import from beside it."""
    found: set[str] = set()
    file = ROOT / f"{place.replace('.', '/')}.py"
    if not file.exists():
        return found
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            imported = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            found |= imported
            for name in imported:
                if name.startswith("experiments.") and not name.startswith("experiments.datasets"):
                    found |= uses(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_RETRIEVAL)
def test_an_experiment_ends_in_one_line_of_json_with_ceiling_and_paper(name: str) -> None:
    result = quick(name)
    assert result["rows"]
    for row in result["rows"]:
        assert {"bayes", "paper"} <= row.keys()
        assert row["bayes"] is None or 0 <= row["bayes"] <= 1
        assert ("top1" in row) == ("bayes_blend" in row), "two metrics, two ceilings"
    if name == "tab_retrieval":
        _a_hop_leads(result["rows"])


def _a_hop_leads(rows: Rows) -> None:
    for row in rows:
        rivals = [
            other
            for other in rows
            if all(other[key] == row[key] for key in ("reading", "dataset", "difficulty"))
            and not other["model"].startswith("A-Hop")
        ]
        if row["model"] == "A-Hop":
            assert all(row["accuracy"] > other["accuracy"] for other in rivals)


def ours(name: str) -> Rows:
    """The rows of one of our own claims. Margins below are for one seed; the full form has the figures."""
    rows: Rows = quick(name)["rows"]
    return rows


def by(rows: Rows, *keys: str, value: str = "top1") -> dict[Any, float]:
    """One figure of each row, under the values of its keys."""
    return {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): row[value] for row in rows}


@pytest.mark.slow
def test_the_fitted_generator_stands_nearer_to_the_printed_figures_than_the_written_one() -> None:
    misfit: dict[str, float] = {}
    for row in ours("generator"):
        misfit[row["candidate"]] = misfit.get(row["candidate"], 0) + row["misfit"]
    assert misfit["mask last, noise x 1.2, bias x 1.5"] < 0.2 * misfit["text, noise as std"]


def test_a_number_that_no_result_file_holds_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    (results / "some.json").write_text(json.dumps({"rows": [{"top1": 0.48271}], "runs": [{"top1": 0.91}]}))
    (tmp_path / "README.md").write_text("It finds .483, or 48.3 %, in `0.77` and $0.66$. It never finds 0.91.\n")
    (tmp_path / "SECURITY.md").write_text("Of a thousand, none.\n")
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    monkeypatch.setattr(publish, "RESULTS", results)
    assert list(publish._unheld_numbers()) == ["README.md says 0.91, which no result file holds."]


def test_a_result_with_fewer_seeds_than_it_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [{"cell": {"seed": seed}, "rows": []} for seed in (0, 1, 1)]
    result = {"seeds": 3, "command": "python -m experiments few_pairs", "rows": [], "runs": runs}
    (tmp_path / "few_pairs.json").write_text(json.dumps(result))
    monkeypatch.setattr(publish, "RESULTS", tmp_path)
    assert list(publish._too_few_runs()) == [
        "few_pairs says 3 seeds and has 2: run `python -m experiments few_pairs --resume`."
    ]


def test_a_result_that_lacks_cells_is_told_though_it_has_its_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [{"cell": {"dataset": "Tiger", "seed": seed}, "rows": []} for seed in (0, 1)]
    result = {"seeds": 2, "cells": 10, "command": "python -m experiments tab_mil", "rows": [], "runs": runs}
    (tmp_path / "tab_mil.json").write_text(json.dumps(result))
    monkeypatch.setattr(publish, "RESULTS", tmp_path)
    assert list(publish._too_few_runs()) == [
        "tab_mil has 2 of its 10 cells: run `python -m experiments tab_mil --resume`."
    ]


@pytest.mark.slow
def test_weights_of_each_pattern_pay_where_it_has_pairs_and_cost_nothing_where_not() -> None:
    found = by(ours("isolated"), "pairs", "model")
    assert found[1, "own weights, shrunk"] >= found[1, "shared weights"] - 0.02
    assert found[16, "own weights, shrunk"] >= found[16, "shared weights"]


@pytest.mark.slow
def test_auto_comes_close_to_the_exact_posterior() -> None:
    rows = ours("bayes_limit")
    reached = by(rows, "setting", "model", value="ratio")
    assert reached["synthetic 0.4 constant, 512 pairs", "auto"] >= 0.97
    assert reached["synthetic 0.4 constant, 64 pairs", "auto"] >= 0.95
    assert reached["synthetic 0.4 per query, 512 pairs", "auto"] >= 0.92
    for row in rows:
        if row["model"] == "auto" and row["paper"] is not None:
            assert row["top1"] > row["paper"]


@pytest.mark.slow
def test_a_few_pairs_are_enough_and_more_are_better() -> None:
    found = by(ours("few_pairs"), "pairs", "model")
    assert found[5, "auto"] >= found[5, "euclidean"] - 0.02
    assert found[20, "auto"] >= found[20, "euclidean"] + 0.2
    assert found[200, "auto"] >= found[20, "auto"]


@pytest.mark.slow
def test_wrong_pairs_cost_little() -> None:
    found = by(ours("wrong_pairs"), "share")
    assert found[0.3] >= found[0.0] - 0.06


@pytest.mark.slow
def test_auto_beats_fixed_metrics_under_corruption_that_nobody_parametrized() -> None:
    found = by(ours("unseen_corruption"), "corruption", "model")
    assert found["mean, outside", "auto"] >= found["mean, outside", "best fixed"] + 0.1
    for corruption, model in found:
        assert found[corruption, "auto"] >= found[corruption, model] - 0.03


@pytest.mark.slow
def test_auto_finds_the_rows_that_broken_queries_came_from() -> None:
    rows = ours("broken_data")
    found = by(rows, "setting", "model")
    ceiling = by(rows, "setting", value="bayes")
    for setting in ceiling:
        best = max(accuracy for (other, _), accuracy in found.items() if other == setting)
        assert found[setting, "auto"] >= best - 0.03
        assert found[setting, "auto"] >= found[setting, "nan_euclidean"] - 0.02
        if setting != "NaN 50%":
            assert found[setting, "auto"] >= found[setting, "nan_euclidean"] + 0.15


@pytest.mark.slow
def test_a_memory_notices_drift_without_labels_and_follows_it() -> None:
    rows = ours("watching")
    found = {(row["task"], row["drift"]): row for row in rows if not row["setting"].startswith("mean of")}
    assert found["estimate", "none"]["error"] <= 0.05
    assert found["drift of one", "none"]["alarm"] <= 0.25
    named = [row["named"] for (task, drift), row in found.items() if task == "drift of one" and drift != "none"]
    assert sum(named) / len(named) >= 0.8
    assert found["adapt", "a quarter of the dimensions"]["won_back"] >= 0.7


@pytest.mark.slow
def test_queries_without_labels_teach_nearly_as_much_as_with() -> None:
    rows = ours("unlabelled")
    for row in rows:
        assert row["accuracy"] >= 0.93 * row["labelled"]
        assert row["accuracy"] >= row["plain"] + 0.1


@pytest.mark.slow
def test_scans_teach_where_a_phone_is_though_nobody_says_where_they_were_made() -> None:
    result = quick("wifi_unlabelled")
    assert result["share of the gain over plain"] >= 0.8
    assert result["worst phone beside plain"] <= 0.03


@pytest.mark.slow
def test_probabilities_without_labels_hold_on_the_generator_and_are_counted_everywhere() -> None:
    result = quick("label_free")
    rows = {(row["family"], row["variant"]): row for row in result["rows"] if row["task"] != "mean"}
    generated = rows["paper's generator", "no label"]
    assert generated["ece"] <= generated["ece_chance"] + 0.02
    assert generated["watch_covers"] is None
    assert rows["paper's generator", "20 labels"]["watch_covers"] == 1
    assert generated["promise"] != "broken"
    assert result["promises"] + result["refusals"] == len(rows) == 8
    assert result["promises_broken"] <= result["promises"]
    assert rows["tables", "no label"]["link_f1_nearest"] >= 0.8


def test_raw_scans_of_other_phones_average_to_the_map_that_one_was_left_out_of() -> None:
    skip_without_data("label_free")
    phone = wifi_protocol.phones()[0]
    scans, places, groups = wifi_protocol.scans_of_others(phone)
    patterns = wifi_protocol.leave_out_phone(phone, 0).patterns
    assert phone not in groups
    assert len(scans) == len(places) == len(groups)
    assert sorted(set(places)) == list(range(len(patterns)))
    for place in (0, len(patterns) - 1):
        mean = scans[[row for row, each in enumerate(places) if each == place]].nanmean(0)
        heard = ~patterns[place].isnan()
        assert np.allclose(mean[heard], patterns[place][heard], atol=1e-3)


@pytest.mark.slow
def test_a_memory_knows_what_it_does_not_know() -> None:
    found = by(ours("unknown_queries"), "model", value="auroc")
    assert found["auto"] >= 0.97
    assert found["oracle"] + 0.005 >= found["auto"] >= found["top score"] - 0.01


@pytest.mark.slow
def test_known_standard_deviations_find_more_than_none_and_than_a_distance_in_them() -> None:
    rows = {(row["model"], row["errors"]): row for row in quick("error_bars")["rows"]}
    known, unknown, by_hand = rows["auto", "yes"], rows["auto", "no"], rows["chi-square distance", "yes"]
    assert "heteroscedastic" in known["chosen"]
    assert known["log_loss"] < 0.6 * min(unknown["log_loss"], by_hand["log_loss"])
    assert known["top1"] > max(unknown["top1"], by_hand["top1"]) + 0.1


@pytest.mark.slow
def test_explanations_name_the_outlier_and_sum_to_the_log_odds() -> None:
    rows = ours("explain")
    assert by(rows, "outlier", value="named")["8 to 16 std off"] >= 0.95
    for row in rows:
        assert row["sum_error_micro"] <= 10
        assert row["beyond_ms"] <= 10 * row["recall_ms"]  # one native call beside the bars of every dimension


@pytest.mark.slow
def test_policies_keep_what_they_promise_or_refuse() -> None:
    rows = {(row["pairs"], row["rule"]): row for row in ours("policy")}
    assert rows[1000, "precision 0.9"]["realized"] >= 0.9
    assert rows[1000, "false_accept 0.1"]["realized"] <= 0.1
    assert 0.93 <= rows[1000, "coverage 0.95"]["realized"] <= 0.975
    assert rows[100, "precision 0.99"]["refused"] == 1


@pytest.mark.slow
def test_a_search_of_others_is_told_strangers_and_calibrated_by_clicks() -> None:
    rows = {(row["model"], row["clicks"], row["way"]): row for row in ours("attach")}
    for model in ("MiniLM", "WordLlama"):
        found, plain = rows[model, 500, "attach, with a log"], rows[model, 500, "cosine, temperature"]
        assert found["auroc"] >= plain["auroc"] + 0.02
        assert found["top1"] >= plain["top1"]
        assert found["ece"] <= found["ece_chance"] + 0.03


@pytest.mark.slow
def test_probabilities_mean_what_they_say() -> None:
    rows = ours("calibration")
    wrong = by(rows, "setting", "model", value="ece")
    for setting, model in wrong:
        # The exact posterior shows what chance alone does to this many queries.
        if model == "auto":
            assert wrong[setting, "auto"] <= max(0.03, wrong[setting, "exact posterior"] + 0.02)


@pytest.mark.slow
@pytest.mark.alone
def test_recall_fills_gaps_better_than_the_mean_of_the_nearest_rows() -> None:
    rows = quick("imputing")["rows"]  # one job: its times are compared
    tuned = by(rows, "dataset", "model", value="error_ratio_tuned")
    assert {dataset for dataset, _ in tuned} == {"digits", "adult", "uji_indoorloc", "mean"}
    for row in rows:
        if row["model"] == "AssociativeImputer":
            assert row["error_ratio"] <= (0.9 if row["dataset"] == "mean" else 1.0)
            assert row["time_ratio"] <= 2.0
    assert tuned["mean", "AssociativeImputer"] < 0.95
    assert all(tuned[dataset, "AssociativeImputer"] < tuned[dataset, "column mean"] for dataset, _ in tuned)


@pytest.mark.slow
def test_a_phone_that_the_map_was_made_without_is_placed() -> None:
    result = quick("wifi")
    assert {"phone_top1", "phone_error_m", "phones_not_below_best", "phones", "ece", "region_ece"} <= result.keys()
    assert {"official_error_m", "official_floor", "ms_per_query"} <= result.keys()
    assert result["phones"] == 2
    found = {(row["setting"], row["model"]): row for row in result["rows"]}
    practitioner = found["official", "Sørensen, offset"]
    assert abs(practitioner["metres"] - 6.97) <= 0.3
    assert abs(practitioner["floor"] - 0.961) <= 0.03
    assert result["phone_top1"] >= found["all phones", "euclidean"]["top1"] + 0.1
    assert result["phone_error_m"] <= found["all phones", "euclidean, offset"]["metres"]


@pytest.mark.slow
def test_a_sample_is_found_by_the_spectrum_of_another_instrument() -> None:
    result = quick("nir")
    names = {"pairs_won", "pairs", "mean_top1", "best_simple_top1", "ece", "within_of_best"}
    assert names | {f"{name}_5" for name in names} <= result.keys()
    assert result["pairs"] == 3
    found = by(result["rows"], "query", "model", value="top1")
    known = {"Micronir2200": 0.438, "Tellspec": 0.300, "Nirscan_nano": 0.388}
    assert all(abs(found[query, "SNV, debiased"] - top1) <= 0.03 for query, top1 in known.items())
    assert result["mean_top1"] >= found["mean", "correlation, debiased"]
    assert found["Micronir2200", "nuisance, SNV"] >= found["Micronir2200", "PDS, tuned"]


@pytest.mark.slow
def test_a_compound_is_found_by_a_spectrum_at_another_energy() -> None:
    result = quick("massbank")
    assert {"top1", "entropy_top1", "ece", "unknown_auroc"} <= result.keys()
    found = by(result["rows"], "model", value="top1_up_to_75")
    assert abs(found["spectral entropy"] - 0.892) <= 0.03
    assert abs(found["cosine of roots"] - 0.828) <= 0.03
    assert found["spectral entropy"] > found["cosine of roots"]


@pytest.mark.slow
def test_samples_are_identified_near_the_ceiling_and_swaps_are_found() -> None:
    rows = {(row["task"], row["method"]): row for row in quick("sample_identity")["rows"]}
    for name in ("ahop, 60 pairs", "ahop, 400 queries"):
        found = rows["whose is it", name]
        assert found["of_ceiling"] >= 0.97
        assert found["auroc"] >= rows["whose is it", "IBS"]["auroc"] + 0.03
        assert found["ece"] <= 0.06
    named = rows["swapped", "ahop link, wrong names"]
    assert named["swaps_found"] >= named["swaps"] - 0.5
    assert named["swaps_false"] <= 1


@pytest.mark.slow
def test_tables_of_words_codes_and_numbers_are_linked_as_well_as_by_the_tools_of_the_field() -> None:
    rows = {(row["task"], row["method"]): row for row in quick("mixed_linkage")["rows"]}
    for task in {task for task, _ in rows}:
        assert rows[task, "ahop"]["f1"] >= rows[task, "Splink 5"]["f1"] - 0.02
        assert rows[task, "ahop"]["ece"] <= 0.08
        assert rows[task, "ahop"]["f1"] >= max(
            rows[task, name]["f1"] for t, name in rows if t == task and "alone" in name
        )


@pytest.mark.slow
def test_tables_are_classified_by_models_tuned_alike() -> None:
    rows = quick("tab_tabular")["rows"]
    assert all({"dataset", "model", "accuracy", "auc", "paper", "seconds"} <= row.keys() for row in rows)
    found = by(rows, "model", value="auc")
    assert found["ahop"] >= found["XGBoost"] - 0.03
    assert found["ahop"] >= found["kNN"]


@pytest.mark.skipif(find_spec("pytabkit") is not None, reason="pytabkit is installed")
def test_the_network_of_others_is_asked_for_where_it_is_missing() -> None:
    done = run_apart("experiments.__main__", "tab_tabular_network", "--quick")
    assert done.code != 0
    assert "`pip install pytabkit`" in done.stderr.splitlines()[-1]


def test_gaps_among_words_are_a_word_that_the_network_of_others_takes() -> None:
    given = np.array([[1.0, 0.5], [np.nan, 0.25]])
    frame = table_peers.frame(given, words=1)
    assert list(frame["x0"].cat.categories) == ["1.0", "gap"]
    assert not frame.isna().any(axis=None)
    assert frame["x1"].tolist() == [0.5, 0.25]


@pytest.mark.slow
def test_bags_are_told_apart_by_every_pooling() -> None:
    rows = quick("tab_mil")["rows"]
    assert all({"dataset", "model", "auc", "std", "paper"} <= row.keys() for row in rows)
    found = by(rows, "dataset", "model", value="auc")
    assert {model for _, model in found} == {"M-Hop", "S-Hop", "A-Hop", "attention"}
    assert all(area >= 0.85 for area in found.values())
    assert all(found[dataset, "A-Hop"] >= area - 0.05 for (dataset, _), area in found.items())


@pytest.mark.slow
def test_one_pattern_leaves_a_similarity_without_a_say() -> None:
    rows = quick("tab_images")["rows"]
    assert all({"dataset", "model", "accuracy", "std", "paper"} <= row.keys() for row in rows)
    assert {row["patterns"] for row in rows} == {1, 4, 16}
    assert all((row["swayed"] == 0) == (row["patterns"] == 1) for row in rows)


@pytest.mark.slow
def test_adaptive_similarities_find_patches_that_broken_sensors_saw() -> None:
    rows = quick("broken_patches")["rows"]
    found = by(rows, "model", value="top1")
    fixed = [found[model] for model in ("M-Hop", "M-Hop, fitted beta", "Euclid, fitted beta", "U-Hop")]
    assert min(found["A-Hop"], found["auto"]) >= max(fixed) + 0.2


@pytest.mark.slow
def test_parts_of_the_classifier_are_worth_having() -> None:
    found = by(ours("tab_tabular_parts"), "model", value="auc")
    assert found["as it comes"] == max(found.values())


@pytest.mark.slow
@pytest.mark.alone
def test_the_convex_fit_takes_a_fifth_of_the_time_of_the_adam_recipe_at_most() -> None:
    command = [sys.executable, "-m", "benchmarks", "fitting", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["time_ratio"] <= 0.2
    assert result["convex_loss"] <= result["adam_loss"]


def test_tables_in_readme_and_docs_are_those_of_the_result_files() -> None:
    done = run_apart("experiments.publish", "--check")
    assert done.code == 0, done.stdout


@pytest.mark.slow
def test_no_flipped_bit_is_answered() -> None:
    result = quick("bit_flips")
    assert result["flips"] == 800
    wrong = {name: result[name] for name in ("different", "lost", "strange_error", "abort")}
    assert not any(wrong.values()), wrong


def test_a_run_that_was_cut_goes_on_and_only_a_whole_one_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def run(cell: Row, quick: bool) -> list[Row]:
        asked.append(cell["seed"])
        return [{**cell, "model": "ours", "top1": 0.5 + cell["seed"]}]

    experiment = Experiment(
        name="cut",
        title="",
        seeds=3,
        cells=lambda seeds, quick: [{"seed": seed} for seed in range(seeds)],
        run=run,
        keys=("model",),
        metrics=("top1",),
    )
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    options: dict[str, Any] = {"quick": False, "seeds": None, "resume": True, "progress": False}
    harness.perform(experiment, **options, only="1")
    assert not (tmp_path / "cut.json").exists()
    assert (tmp_path / "unfinished" / "cut.json").exists()
    result = harness.perform(experiment, **options)
    assert asked == [1, 0, 2]
    assert result["rows"][0]["top1"] == 1.5
    assert json.loads((tmp_path / "cut.json").read_text())["cells"] == 3
    assert not (tmp_path / "unfinished" / "cut.json").exists()
