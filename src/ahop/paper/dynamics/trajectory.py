"""Iterate states until they converge."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ahop._core.checks import check_count, check_not_negative
from ahop._core.inputs import as_queries
from ahop._core.missing import filled
from ahop._core.typing import Array, Origins, Queries
from ahop.errors import InvalidTypeError, ShapeError
from ahop.memory.memory import AssociativeMemory
from ahop.paper.dynamics.base import Dynamics, known_kept
from ahop.paper.dynamics.readout import Readout


@dataclass(frozen=True)
class Trajectory:
    """Path of each state.

    Attributes:
        states: (steps + 1, b, d), the queries first. A state that rests is repeated.
        energies: (steps + 1, b); None if the memory has no energy.
        steps: (b,) how many updates moved each state.
        converged: (b,) whether it came to rest.
        answers: (b, d) what the resting states say.
    """

    states: Tensor
    energies: Tensor | None
    steps: Origins
    converged: Tensor
    answers: Queries


def iterate(
    memory: AssociativeMemory,
    queries: Array,
    dynamics: Dynamics | None = None,
    *,
    max_steps: int = 100,
    tolerance: float = 1e-6,
    known: Array | None = None,
) -> Trajectory:
    """Apply a dynamics until each state rests, each judged on its own: no answer depends on the rest of the batch.

    Coordinates that were not observed (NaN) are filled by the first step.

    Args:
        dynamics: default `Readout`.
        tolerance: a state rests when no coordinate moves by more than this, relative to its largest one.
        known: (d,) or (b, d), True where the query is to be trusted; those coordinates stay as they are, if observed.
    """
    rule = dynamics or Readout()
    start = as_queries(queries, memory.patterns)
    check_count("max_steps", max_steps)
    check_not_negative("tolerance", tolerance)
    kept = None if known is None else _checked_mask(known, start) & ~start.isnan()
    with torch.no_grad():
        states, steps = start, torch.zeros(len(start), dtype=torch.long, device=start.device)
        converged = torch.zeros(len(start), dtype=torch.bool, device=start.device)
        history = [states]
        for _ in range(max_steps):
            if bool(converged.all()):
                break
            moved = states.clone()
            moving = ~converged
            part = None if kept is None else kept[moving]
            moved[moving] = known_kept(rule.step(memory, states[moving]), start[moving], part)
            scale = 1 + filled(moved).abs().amax(-1)
            # What no pattern can fill does not keep a state from resting; what was filled just now does.
            distance = (moved - states).masked_fill(moved.isnan() & states.isnan(), 0).abs().amax(-1)
            resting = distance <= tolerance * scale
            steps = steps + (moving & ~resting).long()
            converged = converged | resting
            states = moved
            history.append(states)
        energies = None
        if memory.energy_function is not None:
            energies = torch.stack([memory.energy(each) for each in history])
    return Trajectory(
        torch.stack(history), energies, steps, converged, known_kept(rule.answer(memory, states), start, kept)
    )


def _checked_mask(known: Array, queries: Queries) -> Tensor:
    mask = torch.as_tensor(known, device=queries.device)
    if mask.dtype != torch.bool:
        raise InvalidTypeError(
            f"`known` must be boolean, True where the query is to be trusted; got dtype {mask.dtype}."
        )
    try:
        return mask.expand(queries.shape)
    except RuntimeError as error:
        raise ShapeError(
            f"`known` must have shape ({queries.shape[1]},) or {tuple(queries.shape)}; got {tuple(mask.shape)}."
        ) from error
