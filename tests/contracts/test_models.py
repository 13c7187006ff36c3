"""One contract for every registered model: a new one is enrolled by its registry line."""

import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.neighborhoods import grid, hamming
from concrete_score.protocols import DensityModel, Samplable, ScoreModel, SiteNeighborhood
from concrete_score.spaces import Space
from tests.strategies import generators, neighborhoods

every = pytest.mark.parametrize("name", registry.names("models"))
SHAPES = {2: (1, 2), 4: (2, 2), 6: (2, 3)}
"""Of pictures, by their number of pixels."""
PICTURES = [hamming(Space.bits(4)), grid(Space.bits(6)), hamming(Space((3, 3))), grid(Space((3, 3, 3, 3)))]


SMALL = {"transformer": {"width": 8, "depth": 1, "heads": 2}}
"""Options by which a model stays small."""
SINGLE = {"transformer"}
"""Models of neighborhoods whose edges change one site."""


def parameters(name):
    return inspect.signature(registry.load("models", name)).parameters


def built(name, neighborhood, generator):
    """A model asks for a neighborhood by naming it first, else it lives on the space alone; and for a shape by name."""
    takes = parameters(name)
    piece = neighborhood if next(iter(takes)) == "neighborhood" else neighborhood.space
    shape = SHAPES[neighborhood.space.num_sites] if "shape" in takes else None
    small = SMALL.get(name, {}) if shape is None else {"shape": shape, "width": 4, "depth": min(shape) - 1}
    return registry.load("models", name)(piece, generator=generator, dtype=torch.float64, **small)


def some_neighborhood(name, data):
    if "shape" in parameters(name):
        return data.draw(st.sampled_from(PICTURES))
    found = neighborhoods().filter(lambda n: n.space.num_states > 1 and n.num_slots > 0)
    return data.draw(found.filter(lambda n: name not in SINGLE or isinstance(n, SiteNeighborhood)))


@every
@settings(max_examples=15)
@given(data=st.data())
def test_a_density_is_one_and_a_score_is_a_score(name, data):
    n = some_neighborhood(name, data)
    model, states = built(name, n, data.draw(generators())), n.space.enumerate()
    if isinstance(model, DensityModel):
        density = model.log_density(states)
        assert density.isfinite().all()
        if model.normalized:
            assert density.logsumexp(0).item() == pytest.approx(0, abs=1e-10)
        doubled = model.log_density(states.expand(2, -1, -1))
        torch.testing.assert_close(doubled[1], density)
    else:
        assert isinstance(model, ScoreModel)
        ratios = model.log_ratios(states)
        assert ratios.shape == (len(states), n.num_slots)
        assert (ratios[~n.valid(states)] == 0).all()
        torch.testing.assert_close(model.log_ratios(states.expand(2, -1, -1))[1], ratios)


@every
@settings(max_examples=8)
@given(data=st.data())
def test_samples_follow_the_models_own_density(name, data):
    n = some_neighborhood(name, data)
    model = built(name, n, data.draw(generators()))
    if not (isinstance(model, Samplable) and isinstance(model, DensityModel)):
        return
    draws = 4000
    index = n.space.index(model.sample(draws, data.draw(generators())))
    count = torch.bincount(index, minlength=n.space.num_states)
    p = model.log_density(n.space.enumerate()).detach().exp()
    expected = draws * p
    chi = ((count - expected).square() / expected)[expected > 5].sum().item()
    freedom = max(1, int((expected > 5).sum()) - 1)
    assert (chi - freedom) / (2 * freedom) ** 0.5 < 6


@every
@settings(max_examples=8)
@given(data=st.data())
def test_every_parameter_is_used_and_the_state_travels(name, data):
    n = some_neighborhood(name, data)
    model, other = (built(name, n, data.draw(generators())) for _ in range(2))
    states = n.space.enumerate()

    def value(model):
        return model.log_density(states) if isinstance(model, DensityModel) else model.log_ratios(states)

    weight = torch.arange(1.0, value(model).numel() + 1, dtype=torch.float64).reshape(value(model).shape)
    (weight * value(model)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    other.load_state_dict(model.state_dict())
    assert torch.equal(value(other), value(model))
