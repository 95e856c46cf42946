"""One table of the tasks on real data: what practitioners use beside ahop."""

from collections.abc import Callable, Mapping, Sequence

from experiments.support.harness import Row

HEAD = "| task | practitioner's metric | its figure | ahop | figure |"
TO_COME = "the full run is still to come"


def real_table(results: Mapping[str, Row | None]) -> str:
    """The figures of each task, beside the metric that is customary there and the one that is best after the fact."""
    lines = [HEAD, "|---" * 5 + "|"]
    for name, (title, figures) in TASKS.items():
        result = results.get(name)
        lines += [_line(title, TO_COME, "", "", "")] if result is None else figures(result)
    return "\n".join(lines)


def _wifi(result: Row) -> list[str]:
    settings = (
        ("Wi-Fi, a phone new to the map", "all phones", "auto", {"top1": "phone_top1", "metres": "phone_error_m"}),
        ("Wi-Fi, months later", "official", "auto, groups", {"metres": "official_groups_error_m"}),
    )
    lines = []
    for title, setting, ours, keys in settings:
        rows = [row for row in result["rows"] if row["setting"] == setting]
        for metric, key in keys.items():
            lines += _compared(title, rows, metric, "Sørensen, offset", ours, result[key])
    return lines


def _nir(result: Row) -> list[str]:
    lines = []
    for pairs, key in ((20, "mean_top1"), (5, "mean_top1_5")):
        rows = [row for row in result["rows"] if row["query"] == "mean" and row["pairs"] == pairs]
        lines += _compared(f"Near infrared, another instrument, {pairs} pairs", rows, "top1", None, "auto", result[key])
    return lines


def _massbank(result: Row) -> list[str]:
    title = "Mass spectra, another collision energy"
    return [
        line
        for metric, key in (("top1", "top1"), ("unknown_auroc", "unknown_auroc"))
        for line in _compared(title, result["rows"], metric, "spectral entropy", "auto", result[key])
    ]


def _compared(
    title: str, rows: Sequence[Row], metric: str, customary: str | None, ours: str, figure: float | None
) -> list[str]:
    """A line for the customary metric, and one for the best, if that is another or none is customary."""
    sign, form = FORMS[metric]
    figures = {row["model"]: row[metric] for row in rows if row["method"] == "baselines" and row[metric] is not None}
    if figure is None or not figures:
        return [_line(f"{title}: {NAMES[metric]}", TO_COME, "", "", "")]
    best = max(figures, key=lambda name: sign * figures[name])
    shown = [name for name in (customary, best) if name in figures]
    return [
        _line(f"{title}: {NAMES[metric]}", name + _remark(name, customary), form(figures[name]), ours, form(figure))
        for name in dict.fromkeys(shown)
        if name is not None
    ]


def _remark(name: str, customary: str | None) -> str:
    return "" if name == customary else " (best after the fact)"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


NAMES = {"top1": "found first", "metres": "mean error", "unknown_auroc": "unknown compounds told, AUROC"}
# Whether larger is better, and how a figure is written.
FORMS: dict[str, tuple[int, Callable[[float], str]]] = {
    "top1": (1, "{:.3f}".format),
    "metres": (-1, "{:.2f} m".format),
    "unknown_auroc": (1, "{:.3f}".format),
}
TASKS: dict[str, tuple[str, Callable[[Row], list[str]]]] = {
    "wifi": ("Wi-Fi", _wifi),
    "nir": ("Near infrared", _nir),
    "massbank": ("Mass spectra", _massbank),
}
