"""How probable states are relative to one of them: differences of log-densities that need no normalizer."""

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.likelihood.exact import row_log_densities
from concrete_score.likelihood.views import Views
from concrete_score.models.masked import Masked
from concrete_score.shapes import States

CHUNK = 2**18
"""Sites (states × D) evaluated at a time."""


@torch.no_grad()
def relative_log_densities(views: Views, states: States, reference: Tensor) -> Float[Tensor, " rows"]:
    """``log q(x) - log q(reference)`` of states ``(N, D)`` in float64 ``(N,)``.

    Of a model of hidden sites, ``log q(changed sites | the others)`` against the reference's, by the chain rule over
    the changed sites from first to last: its conditionals, where they are those of one distribution, give the ratio.

    Raises:
        InputError: a score model that has no density.
    """
    if isinstance(views.model, Masked):
        step = max(1, CHUNK // states.shape[-1])
        return torch.cat([_by_chain_rule(views.model, part, reference) for part in torch.split(states, step)])
    density = views.model if views.score is None else views.density
    if density is None:
        raise InputError("a model with a density", type(views.model).__name__, where="model")
    both = row_log_densities(density, torch.cat([reference[None], states]))
    return both[1:] - both[0]


def _by_chain_rule(model: Masked, states: Tensor, reference: Tensor) -> Tensor:
    changed = states != reference
    total = torch.zeros(len(states), dtype=torch.float64, device=states.device)
    for place in range(int(changed.sum(-1).max()) if len(states) else 0):
        # The sites changed so far are visible, this one and later ones are not.
        rank = changed.cumsum(-1) - 1
        now = changed & (rank == place)
        hidden = changed & (rank >= place)
        site = now.double().argmax(-1)
        for sign, rows in ((1.0, states), (-1.0, reference.expand_as(states))):
            table = model.clean_log_probs(model.noise.hide(rows, hidden)).double()
            own = table.gather(-1, rows[..., None]).squeeze(-1).gather(-1, site[:, None]).squeeze(-1)
            total += torch.where(now.any(-1), sign * own, 0.0)
    return total
