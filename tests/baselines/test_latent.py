"""The decoded mixture against its own tables, and what it starts from."""

import pytest
import torch
from hypothesis import given, settings

from concrete_score import objectives
from concrete_score.baselines.conditionals import Conditionals, Tiltable
from concrete_score.baselines.counts import PSEUDO_COUNT
from concrete_score.baselines.latent import LatentMixture
from concrete_score.spaces import Space
from concrete_score.training import TrainingSettings, fit
from tests.strategies import generators

SPACE = Space((3, 2, 1, 4, 2))


def model_of(generator, **options):
    return LatentMixture(SPACE, **{"components": 6, "hidden": 5, **options}, generator=generator, dtype=torch.float64)


@settings(max_examples=10)
@given(generator=generators())
def test_the_density_is_that_of_its_tables(generator):
    model, x = model_of(generator), SPACE.enumerate()
    model.start_from(SPACE.uniform(20, generator))
    torch.testing.assert_close(model.log_density(x), model.mixture().log_density(x))
    assert isinstance(model, Conditionals)
    assert isinstance(model, Tiltable)


@settings(max_examples=5)
@given(generator=generators())
def test_draws_given_some_cells_weigh_the_probability_of_these(generator):
    model = model_of(generator)
    x, observed = torch.tensor([[1, 0, 0, 2, 1]]), torch.tensor([[True, False, True, False, True]])
    states, log_weight = model.propose_given(x.expand(50, -1), observed.expand(50, -1), generator)
    assert (states[:, observed[0]] == x[0, observed[0]]).all()
    every = SPACE.enumerate()
    fits = (every[:, observed[0]] == x[0, observed[0]]).all(-1)
    torch.testing.assert_close(log_weight, model.log_density(every[fits]).logsumexp(0).expand(50).detach())


def test_it_starts_near_the_columns_frequencies():
    rows = torch.tensor([[2, 1, 0, 3, 0]] * 9 + [[0, 0, 0, 1, 1]])
    seen = torch.ones_like(rows, dtype=torch.bool)
    seen[0] = False
    for weights, many, few in ((None, 8.0, 1.0), (torch.tensor([1.0] * 9 + [4.0]), 8.0, 4.0)):
        model = model_of(torch.Generator().manual_seed(0))
        for parameter in [model.points, *model.decoder.layers[-1].parameters()]:
            parameter.data.zero_()
        model.start_from(rows, seen, weights)
        marginal = model.site_log_conditionals(rows[:1], torch.zeros(1, 5, dtype=torch.bool)).exp()
        for site, size in ((1, 2), (3, 4)):
            expected = (many + PSEUDO_COUNT / size) / (many + few + PSEUDO_COUNT)
            assert marginal[0, site, rows[0, site]].item() == pytest.approx(expected)


def test_it_learns_what_independent_columns_cannot():
    generator = torch.Generator().manual_seed(0)
    bit = torch.randint(2, (500, 1), generator=generator)
    rows, space = bit.expand(-1, 6).contiguous(), Space.bits(6)
    model = LatentMixture(space, 8, 16, generator=generator)
    settings = TrainingSettings(steps=300, lr=0.01, valid_every=100)
    ended = fit(model, objectives.build("maximum_likelihood", space), rows, settings)
    assert ended.best > -0.75  # log 2 is the best there is, 6 log 2 that of independent columns
