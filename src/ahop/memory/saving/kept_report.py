"""The report of a fit, as a file keeps it."""

from typing import Any

from ahop.memory.report import (
    AdaptReport,
    CategoriesReport,
    Corruption,
    ErrorsReport,
    FitReport,
    Member,
    RepeatsReport,
    Report,
    SolverReport,
    SpacesReport,
    Trial,
    UnlabeledReport,
)

PARTS: dict[str, Any] = {
    "unlabeled": UnlabeledReport,
    "repeats": RepeatsReport,
    "spaces": SpacesReport,
    "categories": CategoriesReport,
    "errors": ErrorsReport,
}


def kept_report(given: Any) -> Report | None:
    """The report that its fields describe; any error if they describe none."""
    if given is None:
        return None
    fields = dict(given)
    adapted = fields.pop("adapted", None)
    fields["adapted"] = None if adapted is None else AdaptReport(**adapted)
    if fields.pop("kind") == "SolverReport":
        return SolverReport(**fields)
    corruption = fields.pop("corruption")
    if corruption is not None:
        corruption = Corruption(**_with_tuples(corruption))
    trials = tuple(Trial(**each) for each in fields.pop("trials"))
    members = tuple(Member(**each) for each in fields.pop("members"))
    told = fields.pop("settings", {})
    fields["settings"] = {stage: {name: +each for name, each in values.items()} for stage, values in told.items()}
    for name, kind in PARTS.items():
        part = fields.pop(name, None)
        fields[name] = None if part is None else kind(**_with_tuples(part))
    report = FitReport(**fields, corruption=corruption, trials=trials, members=members)
    str(report)  # raises if a field is no number
    return report


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(each) if isinstance(each, list) else each for name, each in fields.items()}
