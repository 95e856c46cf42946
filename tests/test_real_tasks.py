"""The table of real tasks says what the result files say, losses too."""

from experiments.support.harness import Row
from experiments.support.real_tasks import TO_COME, real_table


def massbank(**ours: float | None) -> Row:
    baselines = {"spectral entropy": 0.7, "Stein and Scott": 0.75}
    rows = [
        {"model": name, "method": "baselines", "top1": figure, "unknown_auroc": 0.8}
        for name, figure in baselines.items()
    ]
    return {"top1": 0.72, "unknown_auroc": 0.81, "rows": rows, **ours}


def wifi() -> Row:
    rows = [
        {"setting": setting, "model": name, "method": "baselines", "top1": 0.3, "metres": metres}
        for setting in ("all phones", "official")
        for name, metres in (("Sørensen, offset", 5.0), ("euclidean", 9.0))
    ]
    return {"phone_top1": 0.4, "phone_error_m": 6.25, "official_groups_error_m": None, "rows": rows}


def lines(table: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_a_metric_that_is_best_after_the_fact_stands_beside_the_customary_one() -> None:
    found = lines(real_table({"massbank": massbank()}))[2:4]
    assert [line[1:] for line in found] == [
        ["spectral entropy", "0.700", "auto", "0.720"],
        ["Stein and Scott (best after the fact)", "0.750", "auto", "0.720"],
    ]


def test_fewer_metres_are_better_and_losses_are_shown() -> None:
    found = lines(real_table({"wifi": wifi()}))
    assert found[1][1:] == ["Sørensen, offset", "5.00 m", "auto", "6.25 m"]


def test_what_has_not_run_is_said_to_be_still_to_come() -> None:
    table = real_table({"wifi": wifi(), "nir": None, "massbank": massbank(top1=None)})
    assert [line[0].split(",")[0] for line in lines(table) if TO_COME in line[1]] == [
        "Wi-Fi",
        "Near infrared",
        "Mass spectra",
    ]
