"""The exact posterior when the variant is known."""

import torch

from ahop._core.typing import Patterns, PerPattern, Queries, Scores
from ahop.errors import UnsupportedError
from ahop.variants.base import Variant


def log_posterior(
    variant: Variant, patterns: Patterns, queries: Queries, log_prior: PerPattern | None = None
) -> Scores:
    r"""$\log p(\xi_n \mid x_b) \propto \log p(x_b \mid \xi_n) + \log p(\xi_n)$; its argmax is the correct retrieval.

    A query that no pattern can have produced gets the prior.

    Paper:
        [eqn:likelihood].
    """
    likelihood = variant.log_likelihood(patterns, queries)
    if bool(torch.isnan(likelihood).any()):  # float32 overflowed on the way
        likelihood = variant.log_likelihood(patterns.double(), queries.double()).to(patterns)
    if bool(torch.isnan(likelihood).any()):
        raise UnsupportedError(
            f"{variant!r} does not say what it makes of values that were not observed (NaN). Fill them first, or leave "
            "those rows out."
        )
    prior = torch.zeros_like(patterns[:, 0]) if log_prior is None else log_prior
    joint = likelihood + prior
    impossible = torch.isneginf(joint).all(-1, keepdim=True)
    return torch.log_softmax(torch.where(impossible, prior, joint), dim=-1)
