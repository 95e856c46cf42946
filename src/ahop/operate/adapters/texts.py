"""Answers to one text, where there are any."""

import numpy as np

from ahop._core.labels import Label
from ahop.memory.decisions import Policy
from ahop.operate.attaching.attached import AttachedSearch


def found_for(search: AttachedSearch, query: str, k: int, policy: Policy | None) -> tuple[list[Label], list[float]]:
    """Ids and relevance of the answers to one text; none where a policy does not accept, or where none fits."""
    answer = search.recall([query], k)
    unknown = float(np.asarray(answer.unknown)[0])
    is_refused = unknown >= Policy.unknown_from if policy is None else answer.decide(policy).actions[0] != "accept"
    if is_refused:
        return [], []
    named = (answer.indices if answer.labels is None else answer.labels)[0].tolist()
    relevance = np.asarray(answer.relevance)[0].tolist()
    is_there = np.asarray(answer.indices)[0] >= 0
    return [each for each, there in zip(named, is_there, strict=True) if there], [
        each for each, there in zip(relevance, is_there, strict=True) if there
    ]
