"""A mixture of models against its own density, by enumeration."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.fitted import Fitted
from concrete_score.models.completing import complete
from concrete_score.models.mixture import LEAST, MixtureModel, best_weights
from concrete_score.neighborhoods import hamming
from concrete_score.spaces import Space
from tests.strategies import generators

MEMBERS = (
    {"model": "made", "options": {"hidden": 6, "parents": [[], [0], [1]]}},
    {"model": "made", "options": {"hidden": 6, "order_seed": 3}},
    {"model": "latent", "options": {"components": 5, "hidden": 4}, "training": None},
)
SPACE = Space((2, 3, 2))


def mixture(generator, weights=(0.5, 0.2, 0.3)):
    model = MixtureModel(SPACE, MEMBERS, generator=generator, dtype=torch.float64)
    for parameter in model.parameters():
        parameter.data += 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    model.log_weights.copy_(torch.tensor(weights, dtype=torch.float64).log())
    return model.requires_grad_(False)


def pmf(model):
    return model.log_density(SPACE.enumerate()).exp()


@settings(max_examples=10)
@given(generator=generators())
def test_the_density_is_the_weighted_sum_of_the_members(generator):
    model = mixture(generator)
    by_hand = sum(w * pmf(member) for w, member in zip(model.log_weights.exp(), model.members, strict=True))
    torch.testing.assert_close(pmf(model), by_hand)
    assert pmf(model).sum().item() == pytest.approx(1)


@settings(max_examples=5)
@given(generator=generators())
def test_log_ratios_are_those_of_the_density(generator):
    model, changes, x = mixture(generator), hamming(SPACE), SPACE.enumerate()
    p, valid = pmf(model), changes.valid(x)
    expected = (p[SPACE.index(changes.neighbors(x))] / p[:, None]).log()
    torch.testing.assert_close(Fitted(model, SPACE).log_ratios(x)[valid], expected[valid])


@settings(max_examples=5)
@given(generator=generators(), seen=st.lists(st.booleans(), min_size=3, max_size=3))
def test_proposals_are_weighted_draws_given_what_was_observed(generator, seen):
    model, n = mixture(generator), 20_000
    observed = torch.tensor(seen)
    x = torch.tensor([1, 2, 0])
    states, log_weight = model.propose_given(x.expand(n, -1), observed.expand(n, -1), generator)
    assert (states[:, observed] == x[observed]).all()
    fits = (SPACE.enumerate()[:, observed] == x[observed]).all(-1)
    joint = torch.where(fits, pmf(model), 0.0)
    weight = log_weight.exp()
    estimate = torch.zeros_like(joint).index_add(0, SPACE.index(states), weight) / n
    square = torch.zeros_like(joint).index_add(0, SPACE.index(states), weight**2) / n
    error = ((square - estimate**2).clamp_min(1e-12) / n).sqrt()
    assert ((estimate - joint).abs() <= 5 * error + 1e-9).all()


@settings(max_examples=5)
@given(generator=generators())
def test_blanks_are_summed_out(generator):
    model = mixture(generator)
    x, observed = torch.tensor([[1, 2, 0]]), torch.tensor([[True, False, False]])
    found = complete(model, x, observed, 8, generator).log_density
    expected = pmf(model)[SPACE.enumerate()[:, 0] == 1].sum()
    assert found.exp().item() == pytest.approx(expected.item())


def test_a_member_of_no_weight_is_never_drawn():
    generator = torch.Generator().manual_seed(0)
    model = mixture(generator, (0.0, 1.0, 0.0))
    torch.testing.assert_close(pmf(model), pmf(model.members[1]))
    assert model.sample(7, generator).shape == (7, 3)


@settings(max_examples=20)
@given(generator=generators(), members=st.integers(1, 4))
def test_the_best_weights_are_at_least_as_good_as_any_member_or_mixture(generator, members):
    table = 2 * torch.randn(30, members, generator=generator, dtype=torch.float64)
    row_weights = torch.rand(30, generator=generator, dtype=torch.float64)

    def value(log_weights):
        return (row_weights * (table + log_weights).logsumexp(-1)).sum() / row_weights.sum()

    best = value(best_weights(table, row_weights))
    others = torch.rand(50, members, generator=generator, dtype=torch.float64)
    for log_weights in [*torch.eye(members, dtype=torch.float64).log(), *(others / others.sum(1, keepdim=True)).log()]:
        assert best >= value(log_weights) - 2 * members * LEAST


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "at least one member"),
        ([{"model": "energy"}], "normalized"),
        ([{"model": "made", "order": 2}], "`options`"),
    ],
)
def test_members_that_cannot_be_are_refused(members, message):
    with pytest.raises(InputError, match=message):
        MixtureModel(SPACE, members, generator=torch.Generator())
