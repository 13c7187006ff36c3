"""Recovery where some ratios are zero, as a raw head may say: first the support is found, then the pmf on it (M13)."""

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Neighborhood
from concrete_score.scores.recovery import Recovery, recover
from concrete_score.shapes import PerSlotTable


def recover_support(log_ratios: PerSlotTable, neighborhood: Neighborhood) -> Recovery:
    """The distribution whose log-ratios these are, some of them -inf, with its support.

    What a zero state says of its neighbors means nothing, and a learned ratio may be zero by mistake. So a state that
    any edge calls zero is believed to be only if no state outside of suspicion gives it a ratio above zero; one that
    is vouched for may vouch for others. An edge of -inf between two states of the support is read from its far end.

    Args:
        log_ratios: ``(S, K)``, a row for each state of the space; values at invalid slots are ignored.
        neighborhood: weakly connected on the support.

    Raises:
        InputError: every state is called zero, the support is not connected, or an edge can be read from neither end.

    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.scores import log_ratios
    >>> from concrete_score.targets import pmf
    >>> p, support = pmf([[0.4, 0.3], [0.0, 0.3]]), torch.tensor([[0, 0], [0, 1], [1, 1]])
    >>> ratios = torch.full((4, 2), 0.4).double()                # whatever is said at the zero state
    >>> ratios[p.space.index(support)] = log_ratios(p, hamming(p.space), support)
    >>> recover_support(ratios, hamming(p.space)).log_pmf.exp().round(decimals=6).tolist()
    [0.4, 0.3, 0.0, 0.3]
    """
    states = neighborhood.space.enumerate()
    ratios = log_ratios.detach().double()
    row, slot = neighborhood.valid(states).nonzero(as_tuple=True)
    target = neighborhood.space.index(neighborhood.neighbor(states[row], slot))
    ratio = ratios[row, slot]
    positive = _support(len(states), row, target, ratio == -torch.inf)
    if not positive.any():
        raise InputError("a state of positive probability", "ratios of zero towards every state", where="log_ratios")
    back = neighborhood.back_slot(states[row], slot)
    doubted = (ratio == -torch.inf) & positive[row] & positive[target] & (back >= 0)
    mended = ratios.clone()
    mended[row[doubted], slot[doubted]] = -ratios[target[doubted], back[doubted]]
    return recover(mended[positive], neighborhood, states[positive])


def _support(count: int, source: Tensor, target: Tensor, zero: Tensor) -> Tensor:
    """Which states are positive ``(S,)``: those nobody calls zero, and those that such states vouch for."""
    positive = torch.ones(count, dtype=torch.bool)
    positive[target[zero]] = False
    while True:
        vouched = target[~zero & positive[source] & ~positive[target]]
        if not len(vouched):
            return positive
        positive[vouched] = True
