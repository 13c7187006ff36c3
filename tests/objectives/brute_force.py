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


def measured_objective(divergence, neighborhood, copy, model, pmf, weight=None):
    """``Σ_x Σ_k w [p(x) σ(δ) h(ρ) - p(y) σ(-δ) f'(ρ)]`` with ``y = N(x)_k``, edge by edge.

    ``δ = log q̄(y)/q̄(x)`` and ``ρ = e^{-δ} q(y)/q(x)``.
    """
    states = neighborhood.space.enumerate()
    table, known, valid = log_density_table(model), log_density_table(copy), neighborhood.valid(states)
    total = 0.0
    for i, k in valid.nonzero().tolist():
        y = int(neighborhood.space.index(neighborhood.neighbor(states[i], torch.tensor(k))))
        delta = known[y] - known[i]
        l = (table[y] - table[i] - delta).reshape(1)
        w = 1.0 if weight is None else float(weight(states[i], torch.tensor(k)))
        there, back = pmf[i] * delta.sigmoid(), pmf[y] * (-delta).sigmoid()
        total += w * float(there * divergence.a(l) - back * divergence.b(l))
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
