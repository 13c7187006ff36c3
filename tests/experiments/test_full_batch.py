"""Summing every edge or every line once gives the objective's own exact value, and its gradient."""

import pytest
import torch

from concrete_score import objectives
from concrete_score.errors import InputError
from concrete_score.experiments.full_batch import LOSSES, EveryEdge, EveryLine
from concrete_score.models import Table
from concrete_score.neighborhoods import chain, cycle, grid, grid_bounded, hamming
from concrete_score.objectives import AllEdges, BregmanObjective, divergences
from concrete_score.randomness import generator
from concrete_score.spaces import Space

DIVERGENCES = [divergences.csm, divergences.score_entropy, divergences.logistic, divergences.ratio_matching]
GRAPHS = [(cycle, (5,)), (chain, (5,)), (grid, (4, 3)), (grid_bounded, (2, 4)), (hamming, (3, 2, 2))]


def sparse(space, seed=0):
    """A distribution that leaves some states empty."""
    weight = torch.rand(space.num_states, generator=generator(seed, "weights"), dtype=torch.float64)
    weight[weight < 0.3] = 0
    return weight / weight.sum()


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
@pytest.mark.parametrize(("graph", "sizes"), GRAPHS, ids=lambda g: getattr(g, "__name__", str(g)))
def test_every_edge_once_is_the_exact_objective(divergence, graph, sizes):
    space = Space(sizes)
    around, pmf = graph(space), sparse(space)
    model = Table(space, generator(1, "logits"), dtype=torch.float64)
    objective = EveryEdge(divergence, around, pmf)
    exact = BregmanObjective(divergence, AllEdges(around)).exact(model, pmf)
    torch.testing.assert_close(objective.value(model), exact, rtol=1e-12, atol=1e-12)
    slope, exact_slope = (torch.autograd.grad(value, model.logits)[0] for value in (objective.value(model), exact))
    torch.testing.assert_close(slope, exact_slope, rtol=1e-10, atol=1e-12)


def test_the_loss_of_a_step_is_the_number_of_states_times_that():
    space = Space((4, 3))
    pmf, other = sparse(space), sparse(space, 1)
    objective = EveryEdge(divergences.csm, grid(space), pmf)
    model = Table(space, generator(2, "logits"), dtype=torch.float64)
    draws = objective.draw(space.enumerate()[:1], generator(0))
    torch.testing.assert_close(objective.loss(model, draws), 12 * objective.value(model)[None])
    assert objective.exact(model, pmf) == objective.value(model)
    assert objective.exact(model, other) != objective.value(model)


def test_edges_refuse_a_model_of_another_space():
    objective = EveryEdge(divergences.csm, cycle(Space((4,))), torch.full((4,), 0.25))
    with pytest.raises(InputError):
        objective.check(Table(Space((5,))))


@pytest.mark.parametrize("sizes", [(3, 4), (2, 3, 2), (5,)], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_every_line_once_is_the_exact_objective(name, sizes):
    space = Space(sizes)
    pmf = torch.rand(space.num_states, generator=generator(0, "weights"), dtype=torch.float64)
    pmf[pmf < 0.3] = 0
    pmf = pmf / pmf.sum()
    model = Table(space, generator(1, "logits"), dtype=torch.float64)
    twin = (
        BregmanObjective(divergences.csm, AllEdges(hamming(space))) if name == "csm" else objectives.build(name, space)
    )
    exact, objective = twin.exact(model, pmf), EveryLine(name, space, pmf)
    torch.testing.assert_close(objective.value(model), exact, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(objective.exact(model, pmf), exact, rtol=1e-12, atol=1e-12)
    slope, exact_slope = (torch.autograd.grad(value, model.logits)[0] for value in (objective.value(model), exact))
    torch.testing.assert_close(slope, exact_slope, rtol=1e-10, atol=1e-12)
    draws = objective.draw(space.enumerate()[:1], generator(0))
    torch.testing.assert_close(objective.loss(model, draws), space.num_states * exact[None])


def test_lines_refuse_a_model_of_another_space():
    objective = EveryLine("csm", Space((2, 2)), torch.full((4,), 0.25))
    with pytest.raises(InputError):
        objective.check(Table(Space((4,))))
