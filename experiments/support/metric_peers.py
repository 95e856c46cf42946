"""A Mahalanobis distance learned from the same pairs: neighborhood components analysis. Rows must have no gaps.

It is scikit-learn's. metric-learn 0.7.0, which also has LMNN and ITML, does not run beside scikit-learn 1.8 and later:
it passes `force_all_finite`, which is no longer an argument there.
"""

import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from torch import Tensor

import ahop

STEPS, SEED = 50, 0


def nearest_by_nca(patterns: Tensor, pairs: ahop.Pairs, queries: Tensor) -> Tensor:
    """A class is an origin; its members are the pattern and its copies."""
    stored = torch.unique(pairs.origins)
    rows = torch.cat([patterns[stored], pairs.queries]).double().numpy()
    classes = torch.cat([stored, pairs.origins]).numpy()
    model = NeighborhoodComponentsAnalysis(init="identity", max_iter=STEPS, random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, classes)
    asked, known = (
        torch.from_numpy(np.asarray(model.transform(each.double().numpy()))) for each in (queries, patterns)
    )
    return torch.cdist(asked, known).argmin(1)
