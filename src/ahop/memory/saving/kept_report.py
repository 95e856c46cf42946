"""The report of a fit, as a file keeps it."""

from typing import Any

from ahop.memory.report import (
    AdaptReport,
    CategoriesReport,
    Corruption,
    FitReport,
    Member,
    RepeatsReport,
    Report,
    SolverReport,
    SpacesReport,
    Trial,
    UnlabeledReport,
)


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
        lists = {name: tuple(each) for name, each in corruption.items() if isinstance(each, list)}
        corruption = Corruption(**{**corruption, **lists})
    trials = tuple(Trial(**each) for each in fields.pop("trials"))
    members = tuple(Member(**each) for each in fields.pop("members"))
    unlabeled = fields.pop("unlabeled", None)
    unlabeled = None if unlabeled is None else UnlabeledReport(**unlabeled)
    told = fields.pop("settings", {})
    fields["settings"] = {stage: {name: +each for name, each in values.items()} for stage, values in told.items()}
    repeats = fields.pop("repeats", None)
    repeats = None if repeats is None else RepeatsReport(**repeats)
    spaces = fields.pop("spaces", None)
    spaces = None if spaces is None else SpacesReport(**spaces)
    categories = fields.pop("categories", None)
    categories = None if categories is None else CategoriesReport(**categories)
    parts = {
        "corruption": corruption,
        "unlabeled": unlabeled,
        "repeats": repeats,
        "spaces": spaces,
        "categories": categories,
    }
    report = FitReport(**fields, **parts, trials=trials, members=members)
    str(report)  # raises if a field is no number
    return report
