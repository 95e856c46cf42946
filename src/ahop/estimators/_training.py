"""Steps of AdamW over the rows of a table."""

from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor, nn

# The share of the steps in which the learning rate rises; in the others it falls along a cosine.
WARM_UP = 0.1
# Rows of a step, if nothing else is said: so many steps in a pass, within these bounds.
STEPS, LEAST_ROWS, MOST_ROWS = 20, 16, 256


def usual_batch(count: int) -> int:
    return min(max(count // STEPS, LEAST_ROWS), MOST_ROWS)


def losses(kind: str, logits: Tensor, codes: Tensor) -> Tensor:
    """Losses (b,): "log" is the cross-entropy, "squared" the paper's distance to the indicator of the class."""
    if kind == "log":
        return nn.functional.cross_entropy(logits, codes, reduction="none")
    target = nn.functional.one_hot(codes, logits.shape[-1]).to(logits)
    return (torch.softmax(logits, dim=-1) - target).square().sum(-1)


def passes(
    network: nn.Module,
    loss_of: Callable[[Tensor], Tensor],
    count: int,
    batch_size: int,
    epochs: int,
    learning_rate: float,
    weight_decay: float,
    generator: Generator,
    falling: bool = True,
) -> Iterator[int]:
    """Train on all rows `epochs` times; each pass is answered when it is done.

    Args:
        loss_of: row numbers -> what to minimize.
        falling: whether the learning rate rises and falls; else it is held.
    """
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, learning_rate, weight_decay=weight_decay, fused=True)
    steps = epochs * -(-count // batch_size)
    # The schedule divides by the steps of the warm-up less one.
    warm_up = 2 / steps if WARM_UP * steps == 1 else WARM_UP
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, steps, pct_start=warm_up)
    for epoch in range(epochs):
        order = torch.randperm(count, generator=generator)
        for batch in (order[start : start + batch_size] for start in range(0, count, batch_size)):
            optimizer.zero_grad()
            with torch.enable_grad():
                torch.autograd.backward(loss_of(batch))
            optimizer.step()
            if falling:
                schedule.step()
        yield epoch
