"""Exact variances of drawn losses and gradients against brute force: every outcome enumerated, on a small space."""

import pytest
import torch

from concrete_score import registry
from concrete_score.experiments.edge_variance import gradient_terms, loss_terms, row_tables, ways
from concrete_score.models import MADE, Table
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import BregmanObjective
from concrete_score.spaces import Space

SPACE = Space((2, 3, 2))
N = hamming(SPACE)
X = torch.tensor([[0, 2, 1], [1, 0, 0]])
MODEL = MADE(SPACE, hidden=5, blocks=1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
REFERENCE = Table(SPACE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
WAYS = {way.name: way for way in ways(N, 3, {"table": REFERENCE})}
every_way = pytest.mark.parametrize("name", WAYS)
every_f = pytest.mark.parametrize("f", [registry.load("divergences", n) for n in registry.names("divergences")])


def spread(probabilities, values):
    """Trace of the covariance of outcomes ``(O, N, P)`` with probabilities ``(O, N)``, for each row."""
    p = probabilities[..., None]
    mean = (p * values).sum(0)
    return (p * (values - mean).square()).sum((0, 2))


def enumerated(way, f):
    """Every outcome's probability ``(O, N)``, loss ``(O, N)`` and gradient ``(O, N, P)``."""
    objective, found = BregmanObjective(f, way.edges), []
    for probability, edges in way.edges.outcomes(X):
        loss = objective.loss(MODEL, edges)
        rows = [torch.autograd.grad(value, list(MODEL.parameters()), retain_graph=True) for value in loss]
        gradient = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
        found.append((probability, loss.detach(), gradient))
    return [torch.stack(parts) for parts in zip(*found, strict=True)]


@every_way
@every_f
def test_variances_are_those_of_the_enumerated_outcomes(name, f):
    way, tables = WAYS[name], row_tables(MODEL, N, X)
    probability, loss, gradient = enumerated(way, f)
    exact = way.variance(X, loss_terms(f, tables.log_ratios))
    torch.testing.assert_close(exact, spread(probability, loss[..., None]), rtol=1e-9, atol=1e-12)
    exact = way.variance(X, gradient_terms(f, tables.log_ratios), tables.gram)
    torch.testing.assert_close(exact, spread(probability, gradient), rtol=1e-9, atol=1e-12)


@every_f
def test_pairing_never_loses_at_equal_evaluations(f):
    """Var(A + B) <= 2 (Var A + Var B), for the loss as for every coordinate of its gradient, at every row."""
    x = SPACE.enumerate()
    tables = row_tables(MODEL, N, x)
    for terms, gram in (
        (loss_terms(f, tables.log_ratios), None),
        (gradient_terms(f, tables.log_ratios), tables.gram),
    ):
        paired, independent = (WAYS[name].variance(x, terms, gram) for name in ("paired", "independent"))
        assert (paired <= independent * (1 + 1e-9)).all()
    coincide = f.name in ("logistic", "ratio_matching")
    assert coincide == torch.allclose(paired, independent), "equal exactly where the two terms of f coincide"


def test_every_way_spends_the_same_evaluations():
    for evaluations in (3, 7):
        for way in ways(N, evaluations, {"table": REFERENCE}):
            nodes = way.edges.draw(X, torch.Generator().manual_seed(0)).nodes
            assert nodes.shape[1] <= evaluations
            assert nodes.shape[1] == evaluations or way.name == "stratified", "at most one edge a slot"
