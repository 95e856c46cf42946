"""The models that the retrieval experiments compare, each fitted the way its authors would."""

from itertools import pairwise
from math import exp

import torch
from scipy.optimize import minimize_scalar
from torch import Generator, Tensor, nn

import ahop
from ahop.paper.criteria import nearest

SHARPNESSES = (1.0, 1.25, 1.5, 2.0)
# Of the perceptron: pairs a step, steps from one look at the held-out loss to the next, what counts as a fall, and how
# many looks without one end it.
BATCH, CHECKED, LEAST_FALL, PATIENCE = 256, 50, 0.002, 4


class PerceptronMemory:
    """The paper's four-layer perceptron: a classifier over the stored patterns that never looks at them.

    Trained on fresh pairs until the loss of held-out pairs stops falling, at most for `steps`; it answers with the mean
    pattern under its own posterior.
    """

    def __init__(self, patterns: Tensor, variant: ahop.MixedVariant, steps: int, seed: int, width: int = 512) -> None:
        self.patterns = patterns
        torch.manual_seed(seed)
        sizes = [patterns.shape[1], width, width, width, len(patterns)]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.network = nn.Sequential(*layers[:-1])
        optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)
        generator = Generator().manual_seed(seed)
        held_out = variant.sample(patterns, 1024, seed=30_000 + seed)
        best, waited = float("inf"), 0
        for step in range(1, steps + 1):
            pairs = variant.sample(patterns, BATCH, generator)
            loss = nn.functional.cross_entropy(self.network(pairs.queries), pairs.origins)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if step % CHECKED == 0:
                with torch.no_grad():
                    now = float(nn.functional.cross_entropy(self.network(held_out.queries), held_out.origins))
                waited = 0 if now < (1 - LEAST_FALL) * best else waited + 1
                best = min(best, now)
                if waited == PATIENCE:
                    break
        self.steps = step

    def weights(self, queries: Tensor) -> Tensor:
        return torch.softmax(self.network(queries), dim=-1)

    def read(self, weights: Tensor) -> Tensor:
        return weights @ self.patterns

    def retrieve(self, queries: Tensor) -> Tensor:
        return self.read(self.weights(queries))


def with_beta(memory: ahop.AssociativeMemory, pairs: ahop.Pairs) -> ahop.AssociativeMemory:
    """The same memory with the softmax whose one number makes these pairs most likely."""
    with torch.no_grad():
        scores = memory.scores(pairs.queries).double()
    scores = scores - scores.max(-1, keepdim=True).values

    def loss(log_beta: float) -> float:
        return float(nn.functional.cross_entropy(exp(log_beta) * scores, pairs.origins))

    fitted = memory.copy()
    fitted.separation = ahop.Softmax(exp(minimize_scalar(loss, bounds=(-7.0, 5.0), method="bounded").x))
    return fitted


def a_hop_by_adam(patterns: Tensor, variant: ahop.MixedVariant, seed: int, epochs: int = 200) -> ahop.AssociativeMemory:
    """The paper's very recipe: Adam, learning rate .1, 200 epochs, fresh pairs each time. It prints no batch size."""
    solver = ahop.fitting.AdamSolver(epochs=epochs, learning_rate=0.1)
    memory = ahop.zoo.a_hop(patterns)
    return ahop.fit(memory, variant=variant, solver=solver, samples=64, seed=seed, progress=False)


def k_hop(patterns: Tensor, seed: int, epochs: int) -> ahop.AssociativeMemory:
    """K-Hop with softmax, as its authors run retrieval, and its kernel spread by the separation loss."""
    solver = ahop.fitting.SeparationSolver(epochs=epochs, learning_rate=0.064 / patterns.shape[1])
    return ahop.fit(ahop.zoo.k_hop(patterns, ahop.Softmax(), seed=seed), solver=solver, seed=seed, progress=False)


def k2_hop(patterns: Tensor, variant: ahop.MixedVariant, seed: int, epochs: int) -> ahop.AssociativeMemory:
    """K-Hop with its kernel fitted from fresh pairs by the loss of A-Hop."""
    solver = ahop.fitting.AdamSolver(epochs=epochs, learning_rate=0.064 / patterns.shape[1])
    memory = ahop.zoo.k2_hop(patterns, ahop.Softmax())
    return ahop.fit(memory, variant=variant, solver=solver, samples=512, seed=seed, progress=False)


def a_hop(
    patterns: Tensor, variant: ahop.MixedVariant, seed: int, samples: int, tolerance: float = 5e-4
) -> ahop.AssociativeMemory:
    """The paper's A-Hop: footprints of distance and dot product with shared weights, at its convex optimum."""
    solver = ahop.fitting.ConvexSolver(tolerance=tolerance)
    memory = ahop.zoo.a_hop(patterns)
    return ahop.fit(memory, variant=variant, solver=solver, samples=samples, seed=seed, progress=False)


def sharpened(memory: ahop.AssociativeMemory, variant: ahop.MixedVariant, seed: int) -> ahop.AssociativeMemory:
    """The same memory read out more sharply than its calibrated posterior, by as much as fresh pairs ask for.

    Ours, not the paper's. Where the posterior is wide, the blend of patterns is often nearest to one that is not the
    most likely. The pairs that choose are neither those of the fit nor those of the test.
    """
    chosen_on = variant.sample(memory.patterns, 500, seed=20_000 + seed)
    with torch.no_grad():
        scores = memory.scores(chosen_on.queries)  # the dear part, the same for every sharpness

    def hits(beta: float) -> int:
        retrieved = ahop.Softmax(beta)(scores) @ memory.patterns
        return int((nearest(memory.patterns, retrieved) == chosen_on.origins).sum())

    sharper = memory.copy()
    sharper.separation = ahop.Softmax(max(SHARPNESSES, key=hits))
    return sharper
