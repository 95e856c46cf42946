"""Log-posterior over all stored patterns."""

import torch
from torch import Tensor

from ahop.memory.memory import AssociativeMemory
from ahop.separations.softmax import Softmax, below_top


def log_posterior(memory: AssociativeMemory, queries: Tensor, left_out: Tensor | None = None) -> Tensor:
    """(b, n); without the one pattern that each query leaves out, if `left_out` says which."""
    with torch.no_grad():
        scores = memory.scores(queries)
        if left_out is not None:
            scores = scores.scatter(-1, left_out.unsqueeze(-1), -torch.inf)
        if isinstance(memory.separation, Softmax) and memory.separation.floor:
            return memory.separation(scores).log()
        return torch.log_softmax(memory.separation.beta * below_top(scores)[0], dim=-1)
