"""Where annealing starts: normalized product distributions."""

from concrete_score.baselines.counts import valid_values
from concrete_score.baselines.independent import Independent
from concrete_score.spaces import Space


def uniform(space: Space) -> Independent:
    """All states alike: ``1 / num_states`` each, on a space of any size.

    >>> import torch
    >>> uniform(Space((2, 3))).log_density(torch.tensor([1, 2])).exp().item()
    0.1666...
    """
    valid = valid_values(space)
    weights = valid.double() / space.sizes_tensor()[:, None]
    return Independent(space, weights.log())
