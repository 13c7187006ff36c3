"""Summing every line once gives the exact value of the objectives it stands for."""

import pytest
import torch

from concrete_score import objectives
from concrete_score.errors import InputError
from concrete_score.experiments.every_line import LOSSES, EveryLine
from concrete_score.models import Table
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import All, BregmanObjective, divergences
from concrete_score.randomness import generator
from concrete_score.spaces import Space


@pytest.mark.parametrize("sizes", [(3, 4), (2, 3, 2), (5,)], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_it_is_the_exact_objective(name, sizes):
    space = Space(sizes)
    pmf = torch.rand(space.num_states, generator=generator(0, "weights"), dtype=torch.float64)
    pmf[pmf < 0.3] = 0
    pmf = pmf / pmf.sum()
    model = Table(space, generator(1, "logits"), dtype=torch.float64)
    twin = BregmanObjective(divergences.csm, All(hamming(space))) if name == "csm" else objectives.build(name, space)
    exact, objective = twin.exact(model, pmf), EveryLine(name, space, pmf)
    torch.testing.assert_close(objective.value(model), exact, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(objective.exact(model, pmf), exact, rtol=1e-12, atol=1e-12)
    slope, exact_slope = (torch.autograd.grad(value, model.logits)[0] for value in (objective.value(model), exact))
    torch.testing.assert_close(slope, exact_slope, rtol=1e-10, atol=1e-12)
    draws = objective.draw(space.enumerate()[:1], generator(0))
    torch.testing.assert_close(objective.loss(model, draws), space.num_states * exact[None])


def test_a_model_of_another_space_is_refused():
    objective = EveryLine("csm", Space((2, 2)), torch.full((4,), 0.25))
    with pytest.raises(InputError):
        objective.check(Table(Space((4,))))
