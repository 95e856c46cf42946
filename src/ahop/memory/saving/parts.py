"""Parts of a model as a file describes them: kinds, arguments and numbers, as attributes. Torch is not needed."""

from collections.abc import Mapping
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from ahop.errors import InvalidValueError
from ahop.memory.decisions import log_odds_of

Arrays = Mapping[str, NDArray[Any]]
# Attributes that are neither arguments in a file nor numbers.
IMPLIED: Final[dict[str, dict[str, Any]]] = {
    "PooledSimilarity": {"compares_patterns": True},
    "Softmax": {"floor": 0.0},
}


@final
class Part:
    """One part, its arguments and its numbers as attributes.

    Attributes:
        kind: name of its class.
    """

    kind: str
    log_prior_odds: float

    def __init__(self, kind: str, attributes: Mapping[str, Any]) -> None:
        vars(self).update(attributes, kind=kind)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.kind or 'a part'} has no {name!r} in the file.")


def model_of(manifest: Mapping[str, Any], arrays: Arrays, group: str | None = None) -> Part:
    """The model, for queries of a group, or of none that is known.

    Args:
        arrays: of the whole file, by their names.
    """
    described, own = manifest["model"], _under("model", arrays)
    similarity, numbers = described["similarity"], _under("similarity", own)
    if group is not None:
        groups: dict[str, Any] = manifest["groups"]
        similarity, numbers = groups[group], _under(f"_of_groups.{list(groups).index(group)}", own)
    separation, detector = _part(described["separation"], {}), None
    if described["detector"] is not None:
        detector = _part(described["detector"], _under("detector", own))
        detector.log_prior_odds = log_odds_of(float(detector.rate))
    return Part(
        "Model",
        {
            "similarity": _part(similarity, numbers),
            "modulation": _part(described["modulation"], {}),
            "separation": separation,
            "detector": detector,
            "weighs_by_mass": separation.kind == "Softmax",
            "beta": float(getattr(separation, "beta", 1.0)),
        },
    )


def _part(described: Mapping[str, Any], arrays: Arrays) -> Part:
    kind, found = str(described["component"]), dict[str, Any]()
    for name, value in described["arguments"].items():
        if isinstance(value, Mapping):
            found[name] = _part(value, _under(name, arrays))
        elif isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
            found[name] = [_part(each, _under(f"{name}.{place}", arrays)) for place, each in enumerate(value)]
        else:
            found[name] = value
    return Part(kind, {**IMPLIED.get(kind, {}), **_numbers(arrays, found), **found})


def _numbers(arrays: Arrays, known: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name, and parts that have numbers and no arguments."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(each.partition(".")[0] for each in arrays):
        if name in known:
            continue
        whole = arrays.get(name)
        if whole is None:
            found[name] = Part("", _numbers(_under(name, arrays), {}))
        elif not np.isfinite(whole).all():
            raise InvalidValueError(f"{name} of the model is not finite.")
        else:
            found[name] = whole
    return found


def _under(name: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Those of one part, by their names in it."""
    return {each.removeprefix(f"{name}."): array for each, array in arrays.items() if each.startswith(f"{name}.")}
