"""The Kullback-Leibler divergence."""

import torch

from concrete_score.metrics.tables import Table, log_tables


def kl(p: Table, q: Table) -> float:
    """``Σ_x p(x) [log p(x) - log q(x)]`` in nats; infinite where q forbids what p allows.

    Args:
        p: a `Pmf`, or an array of probabilities.
        q: likewise, over the same states.

    >>> round(kl([0.5, 0.5], [0.25, 0.75]), 6), kl([0.5, 0.5], [1.0, 0.0])
    (0.143841, inf)
    """
    one, other = log_tables(p, q)
    possible = one > -torch.inf  # 0 log 0 = 0
    terms = one[possible].exp() * (one[possible] - other[possible])
    # Rounding may leave a sum of equal tables just below zero.
    return max(0.0, float(terms.sum()))
