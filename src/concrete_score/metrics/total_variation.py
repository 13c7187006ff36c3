"""Total variation: the most two distributions can disagree about any event."""

from concrete_score.metrics.tables import Table, log_tables


def total_variation(p: Table, q: Table) -> float:
    """``½ Σ_x |p(x) - q(x)|``, from 0 to 1.

    Args:
        p: a `Pmf`, or an array of probabilities.
        q: likewise, over the same states.

    >>> total_variation([0.5, 0.5], [1.0, 0.0])
    0.5
    """
    one, other = log_tables(p, q)
    return float((one.exp() - other.exp()).abs().sum() / 2)
