"""Mixtures of trees against enumeration, and their decoded twin against its own tables."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score import objectives
from concrete_score.baselines.chow_liu import ChowLiu
from concrete_score.baselines.conditionals import Conditionals, Tiltable
from concrete_score.baselines.forests import Forest, TreeMixture
from concrete_score.baselines.latent import LatentMixture
from concrete_score.errors import InputError
from concrete_score.spaces import Space
from concrete_score.training import TrainingSettings, fit
from tests.strategies import generators

SPACE = Space((3, 2, 1, 4, 2))
FORESTS = [(-1, 0, 0, 0, 3), (1, 4, -1, -1, -1), (-1,) * 5, (3, 3, 3, -1, 3)]


def decoded(generator, parents):
    options = {"components": 4, "hidden": 5, "parents": parents}
    model = LatentMixture(SPACE, **options, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        for layer in model.decoder.layers:
            layer.weight.mul_(3)  # components that differ
    return model


@settings(max_examples=12)
@given(generator=generators(), parents=st.sampled_from(FORESTS))
def test_the_decoded_density_is_that_of_its_tables(generator, parents):
    model, x = decoded(generator, parents), SPACE.enumerate()
    model.start_from(SPACE.uniform(20, generator).to(torch.uint8))
    torch.testing.assert_close(model.log_density(x), model.mixture().log_density(x))
    assert model.log_density(x).logsumexp(0).item() == pytest.approx(0.0, abs=1e-12)
    assert isinstance(model.mixture(), Conditionals)
    assert isinstance(model.mixture(), Tiltable)


@settings(max_examples=12)
@given(generator=generators(), parents=st.sampled_from(FORESTS), mask=st.lists(st.booleans(), min_size=5, max_size=5))
def test_conditionals_are_those_of_the_enumerated_density(generator, parents, mask):
    mixture, every = decoded(generator, parents).mixture(), SPACE.enumerate()
    log_q, seen = mixture.log_density(every), torch.tensor(mask)
    x = SPACE.uniform(3, generator)
    observed = seen.expand(3, -1)
    fits = (every[None] == x[:, None]).logical_or(~seen).all(-1)
    joint = torch.where(fits, log_q, -torch.inf)
    torch.testing.assert_close(mixture.log_marginal(x, observed), joint.logsumexp(-1))
    found = mixture.site_log_conditionals(x, observed)
    for site, size in enumerate(SPACE.sizes):
        for value in range(size):
            exact = torch.where(every[:, site] == value, joint, -torch.inf).logsumexp(-1) - joint.logsumexp(-1)
            torch.testing.assert_close(found[:, site, value].exp(), exact.exp())


@settings(max_examples=6, deadline=None)
@given(generator=generators(), parents=st.sampled_from(FORESTS[:2]))
def test_draws_given_some_cells_have_their_conditional_law_and_weigh_its_evidence(generator, parents):
    model, every = decoded(generator, parents), SPACE.enumerate()
    log_q = model.log_density(every).detach()
    x, observed = torch.tensor([[1, 0, 0, 2, 1]]), torch.tensor([[True, False, True, False, True]])
    n = 4000
    states, log_weight = model.propose_given(x.expand(n, -1), observed.expand(n, -1), generator)
    fits = (every[:, observed[0]] == x[0, observed[0]]).all(-1)
    torch.testing.assert_close(log_weight, log_q[fits].logsumexp(0).expand(n))
    p = torch.where(fits, log_q, -torch.inf).softmax(0)
    count = torch.bincount(SPACE.index(states), minlength=len(every))
    assert (((count - n * p) / (n * p * (1 - p)).clamp_min(1e-9).sqrt())[fits].abs() < 5).all()
    assert count[~fits].sum() == 0


@settings(max_examples=6, deadline=None)
@given(generator=generators(), parents=st.sampled_from(FORESTS[:2]))
def test_free_draws_have_the_density(generator, parents):
    model, every = decoded(generator, parents), SPACE.enumerate()
    p, n = model.log_density(every).exp().detach(), 5000
    count = torch.bincount(SPACE.index(model.sample(n, generator)), minlength=len(every))
    assert (((count - n * p) / (n * p * (1 - p)).sqrt()).abs() < 5).all()


@settings(max_examples=8)
@given(generator=generators(), parents=st.sampled_from(FORESTS))
def test_a_tilted_mixture_is_the_weighted_density(generator, parents):
    mixture, every = decoded(generator, parents).mixture(), SPACE.enumerate()
    log_e = torch.randn(5, 4, dtype=torch.float64, generator=generator)
    log_e[3, 1] = -torch.inf
    tilted, log_z = mixture.tilted(log_e)
    joint = mixture.log_density(every) + log_e[torch.arange(5), every].sum(-1)
    torch.testing.assert_close(log_z, joint.logsumexp(0))
    torch.testing.assert_close(tilted.log_density(every).exp(), (joint - log_z).exp())


def test_one_component_is_the_tree_itself():
    rows = Space.bits(4).uniform(50, torch.Generator().manual_seed(0))
    tree = ChowLiu.fit(rows, Space.bits(4))
    mixture = TreeMixture(Space.bits(4), Forest(tree.parents), torch.zeros(1).double(), tree.log_tables[None])
    torch.testing.assert_close(mixture.log_density(rows), tree.log_density(rows))


def test_it_starts_near_the_tree_of_the_counts():
    rows = Space.bits(3).uniform(400, torch.Generator().manual_seed(1))
    rows[:, 2] = rows[:, 0]
    model = LatentMixture(Space.bits(3), 4, parents=[-1, 0, 0], generator=torch.Generator().manual_seed(0))
    model.decoder.layers[-1].weight.data.zero_()
    model.start_from(rows)
    tree = ChowLiu(Space.bits(3), (-1, 0, 0), model.mixture().log_tables[0])
    best = ChowLiu.fit(rows, Space.bits(3))
    assert (best.log_density(rows) - tree.log_density(rows)).mean() < 0.01


def test_a_mixture_of_trees_learns_what_one_tree_cannot():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(2, (2000, 3), generator=generator)
    rows = torch.cat([rows, rows.sum(-1, keepdim=True) % 2], -1)  # the parity of three bits
    model = LatentMixture(Space.bits(4), 8, 16, parents=[-1, 0, 1, 2], generator=generator)
    trained = TrainingSettings(steps=600, lr=0.02, valid_every=200)
    ended = fit(model, objectives.build("maximum_likelihood", Space.bits(4)), rows, trained)
    assert ended.best > -2.2  # 3 log 2 is the best there is, 4 log 2 what any tree gets


def test_circles_and_wrong_counts_are_refused():
    with pytest.raises(InputError, match="circle"):
        Forest((1, 0))
    with pytest.raises(InputError, match="parents"):
        LatentMixture(SPACE, 4, parents=[-1, 0], generator=torch.Generator())
