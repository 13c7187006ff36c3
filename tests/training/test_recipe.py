"""A recipe builds what its names stand for, also names of others who know nothing but the protocols; settings are
checked by kind and range, and a mistake gets the nearest name."""

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
from concrete_score.training.recipe import Recipe, sort_settings


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


def test_texts_and_values_give_the_same_settings_and_travel_as_json():
    texts = {"steps": "100", "lr": "1e-2", "average": "0.9", "schedule": "constant", "patience": "none"}
    values = {"steps": 100, "lr": 0.01, "average": 0.9, "schedule": "constant", "patience": None}
    assert TrainingSettings.of(texts) == TrainingSettings.of(values)
    assert TrainingSettings.of(TrainingSettings.of(texts).to_json()) == TrainingSettings.of(texts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", "0"),
        ("steps", "1.5"),
        ("steps", "true"),
        ("lr", "0"),
        ("lr", "nan"),
        ("lr", "Infinity"),
        ("lr", "fast"),
        ("average", "1"),
        ("patience", "0"),
        ("schedule", "cosin"),
        ("seed", "-1"),
        ("minutes", "-1"),
    ],
)
def test_wrong_values_are_refused_by_name(name, value):
    with pytest.raises(InputError, match=name):
        TrainingSettings.of({name: value})


def test_mistyped_names_get_the_nearest():
    with pytest.raises(InputError, match="did you mean 'clip_norm'"):
        TrainingSettings.of({"clipnorm": "1"})
    with pytest.raises(InputError, match="did you mean 'valid_every'"):
        sort_settings({"validevery": "3"})
    for key in ("model", "model.", "noise.", "optimizer.lr"):
        with pytest.raises(InputError, match=r"options: expected the name of a setting"):
            sort_settings({key: "1"})


def test_schedules_start_at_the_rate_and_cosine_ends_at_zero():
    for schedule, end in (("constant", 1.0), ("cosine", 0.0)):
        settings = TrainingSettings(steps=100, lr=0.5, schedule=schedule)
        assert settings.rate(0) == 0.5
        assert settings.rate(100) == pytest.approx(0.5 * end)
        assert settings.rate(50) == pytest.approx(0.25 + 0.25 * end)


@pytest.mark.parametrize(
    ("recipe", "match"),
    [
        (Recipe(model="mad"), "did you mean 'made'"),
        (Recipe(objective="csn"), "did you mean 'csm'"),
        (Recipe(edges="paired"), "no edges with made and maximum_likelihood"),
        (Recipe(neighborhood="grid"), "no neighborhood"),
        (Recipe(objective="logistic", edges="self_proposal", neighborhood="grid"), "no neighborhood"),
        (Recipe(noise="categorical"), "no noise"),
    ],
)
def test_recipes_that_make_no_sense_are_refused(recipe, match):
    with pytest.raises(InputError, match=match):
        recipe.resolved()


@pytest.mark.parametrize(
    ("recipe", "match"),
    [
        (Recipe(model_options={"hiden": 3}), "did you mean 'hidden'"),
        (Recipe(model_options={"generator": 3}), "model.generator"),
        (Recipe("mlp", "logistic", "self_proposal"), "density model"),
        (Recipe("energy", "maximum_likelihood"), "normalized"),
        (Recipe("made", "logistic", objective_options={"n": 3}), "objective"),
        (Recipe("mlp", "denoising", noise="categorical"), "weights"),
        (Recipe("mlp", "denoising"), "noise"),
        (Recipe("mlp", "csm", neighborhood="explicit"), "explicit"),
    ],
)
def test_pieces_that_do_not_fit_are_refused(recipe, match):
    with pytest.raises(InputError, match=match):
        recipe.resolved().build(Space((2, 3)), TrainingSettings(pool=8))
