"""Layers: explicit first weights, masks that hold, exact draws; sites as numbers and numbers as sites."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from concrete_score.errors import InputError, check_count
from concrete_score.models.layers import (
    LARGEST,
    Dense,
    Linear,
    SiteFeatures,
    SiteLogits,
    draw_categories,
    find_activation,
)
from concrete_score.spaces import Space
from tests.strategies import generators, spaces


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_same_generator_gives_the_same_weights_and_another_gives_others():
    one, two, other = (Linear(5, 4, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.weight, two.weight)
    assert torch.equal(one.bias, two.bias)
    assert not torch.equal(one.weight, other.weight)


def test_first_weights_are_uniform_with_the_bound_of_the_inputs_seen():
    mask = torch.zeros(2, 4000, dtype=torch.bool)
    mask[0, :400] = mask[1] = True
    layer = Linear(4000, 2, seeded(), torch.float64, mask)
    for row, seen in zip(layer.weight.detach(), (400, 4000), strict=True):
        # Kolmogorov-Smirnov against U(-1/sqrt(seen), 1/sqrt(seen)); the seed is fixed.
        assert stats.kstest(row.numpy() * seen**0.5, "uniform", args=(-1, 2)).pvalue > 1e-3


def test_a_masked_weight_neither_acts_nor_learns():
    mask = torch.tensor([[True, False, True], [False, False, True]])
    layer = Linear(3, 2, seeded(), torch.float64, mask)
    x = torch.randn(7, 3, generator=seeded(1), dtype=torch.float64)
    expected = x @ (layer.weight * mask).T + layer.bias
    torch.testing.assert_close(layer(x), expected)
    layer(x).square().sum().backward()
    assert (layer.weight.grad[~mask] == 0).all()
    assert (layer.weight.grad[mask] != 0).all()
    assert "mask" not in layer.state_dict()


def test_empty_layers_are_allowed_and_silent():
    assert Linear(0, 3, seeded())(torch.zeros(2, 0)).shape == (2, 3)
    assert Linear(3, 0, seeded())(torch.zeros(2, 3)).shape == (2, 0)


def test_dense_composes_its_layers_and_shifts_the_first():
    net = Dense([3, 5, 2], "tanh", seeded(), torch.float64)
    x, shift = torch.ones(4, 3, dtype=torch.float64), torch.full((5,), 0.5, dtype=torch.float64)
    first, second = net.layers
    torch.testing.assert_close(net(x), second(first(x).tanh()))
    torch.testing.assert_close(net(x, shift), second((first(x) + 0.5).tanh()))


@given(generators(), st.integers(1, 6), st.data())
def test_draws_invert_the_distribution_and_never_meet_probability_zero(generator, size, data):
    logits = torch.randn(size, generator=generator, dtype=torch.float64)
    hidden = data.draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(lambda h: not all(h)))
    logits[torch.tensor(hidden)] = -torch.inf
    # All edges of [0, 1): the points where rounding could go wrong.
    upto = logits.softmax(0).cumsum(0)
    last = torch.tensor([1 - 2**-53], dtype=torch.float64)
    unit = torch.cat([torch.zeros(1, dtype=torch.float64), upto[upto < 1], last])
    drawn = draw_categories(logits, unit)
    assert (logits[drawn] > -torch.inf).all()
    below = torch.cat([torch.zeros(1, dtype=torch.float64), upto])[drawn]
    assert (below <= unit + 1e-15).all()
    assert (unit <= upto[drawn] + 1e-15).all()


def test_batched_draws_are_those_of_each_row():
    logits = torch.randn(50, 4, generator=seeded(), dtype=torch.float64)
    unit = torch.rand(50, 3, generator=seeded(1), dtype=torch.float64)
    alone = torch.stack([draw_categories(row, u) for row, u in zip(logits, unit, strict=True)])
    assert torch.equal(draw_categories(logits, unit), alone)


def test_mistakes_are_refused():
    with pytest.raises(InputError, match="did you mean 'tanh'"):
        find_activation("tahn")
    with pytest.raises(InputError, match="hidden: expected a whole number of at least 1, got 0"):
        check_count(0, "hidden")
    with pytest.raises(InputError, match="got True"):
        check_count(True, "hidden")


@given(spaces(), st.data())
def test_features_tell_states_apart_and_each_site_keeps_its_own(space, data):
    order = torch.tensor(data.draw(st.permutations(range(space.num_sites))))
    features, states = SiteFeatures(space, order, torch.float64), space.enumerate()
    table = features(states)
    assert len(table.unique(dim=0)) == space.num_states
    widths = [1 if size <= 2 else size for size in space.sizes]
    assert table.shape == (space.num_states, sum(widths))
    assert features.site.tolist() == [d for d in order.tolist() for _ in range(widths[d])]
    for f, d in enumerate(features.site.tolist()):
        # A feature is a function of its site alone.
        for v in range(space.sizes[d]):
            assert len(table[states[:, d] == v, f].unique()) == 1


@given(spaces())
def test_features_of_one_site_are_the_columns_of_all(space):
    features, states = SiteFeatures(space, dtype=torch.float64), space.enumerate()
    start = 0
    for d, size in enumerate(space.sizes):
        columns = slice(start, start + (1 if size <= 2 else size))
        assert torch.equal(features.part(states[:, d], columns), features(states)[:, columns])
        start = columns.stop


@pytest.mark.parametrize("ordered", [(), (1, 3)])
def test_features_read_from_tables_are_those_of_comparisons(ordered):
    """Wide sites between narrow ones, one of them too large for a table, in an order of their own."""
    space, order = Space((2, 12, 3, 40, 2, LARGEST + 1)), torch.tensor([3, 0, 5, 2, 4, 1])
    features = SiteFeatures(space, order, torch.float64, ordered)
    x = space.uniform(50, seeded())
    columns = [features.site == d for d in order.tolist()]
    spans = [slice(int(each.nonzero()[0]), int(each.nonzero()[-1]) + 1) for each in columns]
    apart = [features.part(x[:, d], span) for d, span in zip(order.tolist(), spans, strict=True)]
    assert torch.equal(features(x), torch.cat(apart, -1))
    assert torch.equal(features(x.reshape(5, 10, 6)), features(x).reshape(5, 10, -1))


@given(spaces(), generators())
def test_site_log_probs_are_the_softmax_of_each_sites_own_outputs(space, generator):
    sites = SiteLogits(space)
    outputs = torch.randn(2, 3, sites.out_features, generator=generator, dtype=torch.float64)
    found = sites.log_probs(outputs)
    assert found.shape == (2, 3, space.num_sites, max(space.sizes))
    start = 0
    for d, size in enumerate(space.sizes):
        torch.testing.assert_close(found[..., d, :size], outputs[..., start : start + size].log_softmax(-1))
        assert (found[..., d, size:] == -torch.inf).all()
        start += size
