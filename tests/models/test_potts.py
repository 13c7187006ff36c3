"""The Potts model: its density, its conditionals, its gradient and its gauge."""

from importlib import import_module

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score import Space
from concrete_score.models import DensityScore, Potts, Table, coupling_strengths
from concrete_score.models.potts import _with_mirror_image, zero_sum
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import build
from concrete_score.training import TrainingSettings, fit
from concrete_score.training.examples import Examples
from tests.strategies import generators, spaces


def random_potts(space, seed=0, scale=1.0):
    model = Potts(space, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale / 1e-3)
    return model


@settings(max_examples=15, derandomize=True, deadline=None)
@given(space=spaces(max_sites=4).filter(lambda space: space.num_states > 1), seed=st.integers(0, 99))
def test_its_density_and_fields_are_those_of_the_pairwise_model(space, seed):
    model, x = random_potts(space, seed), space.enumerate()
    torch.testing.assert_close(model.log_density(x), model.pairwise().log_density(x))
    torch.testing.assert_close(model.local_fields(x), model.pairwise().local_fields(x))
    plain = Table.from_pmf(space, (model.log_density(x) - model.log_density(x).logsumexp(0)).exp().detach())
    edges = hamming(space)
    torch.testing.assert_close(DensityScore(model, edges).log_ratios(x), DensityScore(plain, edges).log_ratios(x))


@settings(max_examples=10, derandomize=True, deadline=None)
@given(space=spaces(max_sites=3).filter(lambda space: space.num_states > 1), seed=st.integers(0, 99))
def test_pseudo_likelihood_is_the_log_loss_of_enumerated_conditionals(space, seed):
    model, x = random_potts(space, seed), space.enumerate()
    pmf = (model.log_density(x) - model.log_density(x).logsumexp(0)).exp().detach()
    truth = torch.rand(space.num_states, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    truth = truth / truth.sum()
    grid, wanted = pmf.reshape(space.sizes), 0.0
    for site in range(space.num_sites):
        conditional = grid / grid.sum(site, keepdim=True)
        wanted = wanted - (truth * conditional.reshape(-1).log()).sum()
    objective = build("pseudo_likelihood", space)
    torch.testing.assert_close(objective.exact(model, truth), wanted)
    torch.testing.assert_close(objective.exact(Table.from_pmf(space, pmf), truth), wanted)


@given(generator=generators())
@settings(max_examples=10, derandomize=True, deadline=None)
def test_on_bits_it_is_half_of_logistic_on_flips(generator):
    space = Space.bits(3)
    truth = torch.rand(8, generator=generator, dtype=torch.float64) + 0.1
    truth = truth / truth.sum()
    pairs = []
    for seed in (0, 1):  # f is known up to a constant, so differences are compared
        model = random_potts(space, seed)
        logistic = build("logistic", space, edges="all").exact(model, truth)
        pairs.append((build("pseudo_likelihood", space).exact(model, truth), logistic / 2))
    (first, half_first), (second, half_second) = pairs
    torch.testing.assert_close(first - second, half_first - half_second)


def test_couplings_stay_symmetric_and_get_the_slope_of_both_ends():
    space = Space((2, 3, 2))
    model, x = random_potts(space), space.enumerate()
    loss = build("pseudo_likelihood", space)
    truth = torch.full((12,), 1 / 12).double()
    (slope,) = torch.autograd.grad(loss.exact(model, truth), model.couplings)
    torch.testing.assert_close(slope, slope.T)
    d, e, step = (0, 1), (1, 2), 1e-5
    a, b = (site * 3 + value for site, value in (d, e))
    values = []
    for sign in (1, -1):
        moved = random_potts(space)
        with torch.no_grad():
            moved.couplings[a, b] += sign * step
            moved.couplings[b, a] += sign * step
        values.append(float(loss.exact(moved, truth).detach()))
    assert float(slope[a, b]) == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-6)
    settings_ = TrainingSettings(steps=20, l2=0.01, lr=0.05)
    fit(model, loss, x, settings_)
    assert torch.equal(model.couplings, model.couplings.T)
    assert not model.blocks().diagonal(dim1=0, dim2=1).any()


def test_weights_count_as_repeated_rows():
    space = Space((3, 2))
    rows = torch.tensor([[0, 0], [1, 1], [2, 0]])
    weighted = Examples.of(rows, None, torch.tensor([1.0, 2.0, 3.0]))
    repeated = rows.repeat_interleave(torch.tensor([1, 2, 3]), 0)
    one, other = (Potts(space, generator=torch.Generator().manual_seed(0)) for _ in range(2))
    one.start_from(weighted.states, None, 2 * weighted.weights)
    other.start_from(repeated)
    torch.testing.assert_close(
        one.local_fields(rows).softmax(-1), other.local_fields(rows).softmax(-1), rtol=0.2, atol=0.1
    )


@pytest.mark.parametrize("l2", [1e-3, 0.01, 0.5])
def test_penalized_fields_start_where_the_penalized_loss_of_independent_sites_is_flat(l2):
    space = Space((3, 4))
    rows = space.uniform(200, torch.Generator().manual_seed(1)) * torch.tensor([1, 0])  # the second site is constant
    model = Potts(space, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    model.start_from(rows, l2=l2)
    loss = build("pseudo_likelihood", space)
    value = loss.loss(model, loss.draw(rows, torch.Generator().manual_seed(0))).mean()
    value = value + l2 * sum(weight.square().sum() for weight in model.penalized)
    (slope,) = torch.autograd.grad(value, model.fields)
    exists = model.exists.flatten()
    # Only the pseudo-rows, which the start counts and this loss does not, are left.
    assert float(slope[exists].abs().max()) < 1.5 / len(rows)


@pytest.mark.parametrize("tile", [1, 3, 4, 64])
def test_a_matrix_and_its_mirror_image_by_tiles(tile, monkeypatch):
    monkeypatch.setattr(import_module("concrete_score.models.potts"), "TILE", tile)
    matrix = torch.randn(10, 10, generator=torch.Generator().manual_seed(0))
    assert torch.equal(_with_mirror_image(matrix.clone()), matrix + matrix.T)


def test_strengths_do_not_depend_on_the_gauge():
    space = Space((3, 3, 2))
    model = random_potts(space)
    before = coupling_strengths(model)
    with torch.no_grad():  # a function of one site alone, moved between field and coupling
        model.couplings.view(3, 3, 3, 3)[0, :, 1, :] += torch.arange(3.0).double()[:, None]
        model.couplings.view(3, 3, 3, 3)[1, :, 0, :] += torch.arange(3.0).double()[None, :]
    torch.testing.assert_close(coupling_strengths(model), before)
    blocks = zero_sum(model.blocks(), model.exists)
    assert blocks.sum(-1).abs().max() < 1e-12


def test_blanks_are_left_out_of_every_conditional():
    space = Space((2, 3, 2))
    model, x = random_potts(space), space.enumerate()
    observed = torch.tensor([True, False, True]).expand(x.shape)
    objective = build("pseudo_likelihood", space)
    draws = objective.draw_observed(x, observed, torch.Generator(), model)
    alone = random_potts(space)
    with torch.no_grad():  # the same model without the couplings of the blank site
        alone.couplings.view(3, 3, 3, 3)[1] = alone.couplings.view(3, 3, 3, 3)[:, :, 1] = 0.0
    others = objective.draw(x, torch.Generator())
    expected = objective.loss(alone, others._replace(weight=others.weight * observed))
    torch.testing.assert_close(objective.loss(model, draws), expected)
    rows = Examples.of(x, observed)
    fit(model, objective, rows, TrainingSettings(steps=3, batch_size=4))
    assert not model.blocks()[1].abs().max().isnan()
