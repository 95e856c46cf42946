"""More complicated variant distributions [apd:complicated]: patterns damaged each in its own way, and priors."""

import torch
from torch import Tensor

from ahop import AdaptiveSimilarity, AssociativeMemory, EuclideanSimilarity, NoisyVariant, Pairs, evaluate, fit
from ahop.fitting import AdamSolver
from ahop.separations import Argmax
from ahop.similarities import IsolatedSimilarity
from ahop.variants import MaskedVariant
from tests.paper.worlds import four_standard_errors, uniform_patterns

N, D, QUERIES = 8, 12, 4000
PATTERNS = uniform_patterns(N, D, dtype=torch.float32)


def isolated_pairs(count: int, seed: int) -> Pairs:
    """The first half of the patterns is masked, the second half gets noise."""
    half = N // 2
    masked = MaskedVariant(0.7).sample(PATTERNS[:half], count // 2, seed)
    noisy = NoisyVariant(1.0).sample(PATTERNS[half:], count // 2, seed + 1)
    return Pairs(torch.cat([masked.origins, noisy.origins + half]), torch.cat([masked.queries, noisy.queries]))


def fitted_accuracy(similarity: AdaptiveSimilarity | IsolatedSimilarity, train: Pairs, test: Pairs) -> float:
    memory = AssociativeMemory(PATTERNS, similarity, Argmax())
    learner = AssociativeMemory(PATTERNS, similarity)
    solver = None if isinstance(similarity, AdaptiveSimilarity) else AdamSolver(epochs=150, learning_rate=0.05)
    memory.similarity = fit(learner, pairs=train, solver=solver, progress=False).similarity
    return evaluate(memory, test).accuracy


def test_weights_of_their_own_beat_shared_ones_where_each_pattern_is_damaged_in_its_own_way() -> None:
    """Against the global optimum of the shared weights, so that only the family is compared."""
    train, test = isolated_pairs(2048, seed=0), isolated_pairs(QUERIES, seed=100)
    shared = fitted_accuracy(AdaptiveSimilarity(D), train, test)
    isolated = fitted_accuracy(IsolatedSimilarity(N, D), train, test)
    assert isolated - shared > 2 * four_standard_errors(shared, QUERIES)


def test_weights_of_their_own_want_many_more_pairs() -> None:
    """The two problems that the paper names: more samples, and samples of every pattern."""
    variant = MaskedVariant(0.7)
    train, test = variant.sample(PATTERNS, 24), variant.sample(PATTERNS, QUERIES, seed=1)
    shared = fitted_accuracy(AdaptiveSimilarity(D), train, test)
    isolated = fitted_accuracy(IsolatedSimilarity(N, D), train, test)
    assert shared - isolated > four_standard_errors(isolated, QUERIES)


def test_isolated_weights_that_are_all_alike_are_the_shared_similarity() -> None:
    queries = NoisyVariant(0.1).sample(PATTERNS, 20).queries
    shared, isolated = AdaptiveSimilarity(D), IsolatedSimilarity(N, D)
    torch.testing.assert_close(isolated(PATTERNS, queries), shared(PATTERNS, queries))


def skewed(strength: float = 1.5) -> Tensor:
    return torch.log_softmax(-strength * torch.arange(N, dtype=torch.float32), dim=0)


def test_a_bias_for_each_pattern_improves_the_accuracy_under_a_skewed_prior() -> None:
    """With s + b and b_k = log p(xi_k), exact for the likelihood of noise."""
    variant, log_prior = NoisyVariant(2.0), skewed()
    pairs = variant.sample(PATTERNS, QUERIES, log_prior=log_prior)
    # log p(x | xi) = -|x - xi|^2 / 2v + constant: the prior in the units of the distance.
    with_prior = AssociativeMemory(PATTERNS, EuclideanSimilarity(), Argmax(), log_prior=2 * 2.0 * log_prior)
    without = AssociativeMemory(PATTERNS, EuclideanSimilarity(), Argmax())
    informed, uninformed = evaluate(with_prior, pairs).accuracy, evaluate(without, pairs).accuracy
    assert informed - uninformed > 2 * four_standard_errors(uninformed, QUERIES)


def test_a_fit_with_the_prior_learns_the_likelihood_beside_it() -> None:
    variant, log_prior = MaskedVariant(0.8), skewed()
    train, test = (variant.sample(PATTERNS, 2000, seed, log_prior) for seed in (0, 1))
    with_prior = fit(AssociativeMemory(PATTERNS, log_prior=log_prior), pairs=train, progress=False)
    without = fit(AssociativeMemory(PATTERNS), pairs=train, progress=False)
    informed, uninformed = ((m.recall(test.queries).indices[:, 0] == test.origins) for m in (with_prior, without))
    gained = float(informed.double().mean() - uninformed.double().mean())
    assert gained > four_standard_errors(float(uninformed.double().mean()), 2000)
