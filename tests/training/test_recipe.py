"""A recipe builds what its names stand for, also names of others who know nothing but the protocols."""

import importlib.metadata
import sys
from dataclasses import dataclass
from types import ModuleType

import pytest
import torch

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.models import Table
from concrete_score.spaces import Space
from concrete_score.training import Finished, TrainingSettings, train
from concrete_score.training.recipe import Recipe


@dataclass(frozen=True)
class Plain:
    """Minus the log-likelihood by the three methods of the protocol and no other."""

    space: Space
    scale: float = 1.0

    def draw(self, x, generator, model=None):
        return x

    def loss(self, model, draws):
        return -self.scale * model.log_density(draws)

    def exact(self, model, pmf):
        return -self.scale * (pmf * model.log_density(self.space.enumerate())).sum()


@pytest.fixture
def third_party(monkeypatch):
    module = ModuleType("someone_elses")
    module.Plain = Plain
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def entry_points(group):
        point = importlib.metadata.EntryPoint("plain", "someone_elses:Plain", group)
        return [point] if group == "concrete_score.objectives" else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    registry.installed.cache_clear()
    yield
    registry.installed.cache_clear()


def test_an_objective_with_nothing_but_the_protocol_is_trained(third_party):
    space = Space((2, 3))
    rows = space.enumerate()[torch.tensor([0, 0, 0, 1, 4, 5])].repeat(50, 1)
    settings = TrainingSettings(steps=400, lr=0.1, batch_size=300)
    built = Recipe(model="table", objective="plain", objective_options={"scale": 2.0}).resolved().build(space, settings)
    assert built.objective == Plain(space, 2.0)
    assert isinstance(list(train(*built, rows, settings))[-1], Finished)
    found = built.model.log_density(space.enumerate()).exp()
    torch.testing.assert_close(found, torch.tensor([3, 1, 0, 0, 1, 1]) / 6, rtol=0, atol=0.01)


def test_an_option_it_does_not_have_is_named(third_party):
    with pytest.raises(InputError, match=r"objective\.scala: .*did you mean 'scale'"):
        Recipe(model="table", objective="plain", objective_options={"scala": 1}).build(Space((2,)), TrainingSettings())


def test_parts_are_those_of_the_whole():
    space, settings = Space.bits(3), TrainingSettings(seed=4)
    recipe = Recipe(objective="logistic", edges="self_proposal", model_options={"hidden": 8}).resolved()
    whole, model = recipe.build(space, settings), recipe.build_model(space, settings)
    for name, weights in whole.model.state_dict().items():
        assert torch.equal(weights, model.state_dict()[name]), name
    x = space.enumerate()
    draws = [
        recipe.build_objective(space, settings, each).draw(x, torch.Generator().manual_seed(0), each)
        for each in (whole.model, model)
    ]
    assert torch.equal(draws[0].nodes, draws[1].nodes)


def test_a_self_proposal_draws_from_the_model_given():
    space = Space((4,))
    peaked = Table(space)
    with torch.no_grad():
        peaked.logits[1] = 50.0
    recipe = Recipe(model="table", objective="logistic", edges="self_proposal").resolved()
    objective = recipe.build_objective(space, TrainingSettings(), peaked)
    draws = objective.draw(space.enumerate(), torch.Generator().manual_seed(0), peaked)
    assert (draws.nodes[:, 1] == 1).all()
