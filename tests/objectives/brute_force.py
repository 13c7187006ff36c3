"""Objectives by plain loops over states and edges, straight from their formulas: what the library is tested against."""

import torch


def log_density_table(model):
    """The model's log-density at every state, as floats."""
    return model.log_density(model.space.enumerate()).detach().double()


def bregman_objective(divergence, neighborhood, model, pmf, weight=None):
    """``Σ_x p(x) Σ_k w h(s_k(x)) - Σ_x Σ_k w p(N(x)_k) f'(s_k(x))``, edge by edge."""
    states, valid = neighborhood.space.enumerate(), None
    table = log_density_table(model)
    valid = neighborhood.valid(states)
    total = 0.0
    for i in range(len(states)):
        for k in range(neighborhood.num_slots):
            if not valid[i, k]:
                continue
            y = int(neighborhood.space.index(neighborhood.neighbor(states[i], torch.tensor(k))))
            l = (table[y] - table[i]).reshape(1)
            w = 1.0 if weight is None else float(weight(states[i], torch.tensor(k)))
            total += w * float(pmf[i] * divergence.a(l) - pmf[y] * divergence.b(l))
    return total


def sampled_objective(divergence, kernel, model, pmf):
    """``Σ_x p(x) Σ_y K(y|x) [h(ρ) - f'(1/ρ)]``, pair by pair."""
    table = log_density_table(model)
    total = 0.0
    for x in range(len(pmf)):
        for y in range(len(pmf)):
            if kernel[x, y] > 0:
                l = (table[y] + kernel[y, x].log() - table[x] - kernel[x, y].log()).reshape(1)
                total += float(pmf[x] * kernel[x, y] * (divergence.a(l) - divergence.b(-l)))
    return total
