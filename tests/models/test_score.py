"""Score models: a trunk and a head that fit, with what the head offers and no more; or the ratios of a density."""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.models import (
    MADE,
    MLP,
    DenoisingHead,
    DensityScore,
    Energy,
    LogRatioHead,
    NoiseConditionalNetwork,
    RawHead,
    ScoreNetwork,
    Table,
    mlp,
)
from concrete_score.neighborhoods import cycle, hamming, moore
from concrete_score.noise import categorical
from concrete_score.protocols import DensityModel, NoiseConditional, ScoreModel
from concrete_score.spaces import Space
from tests.strategies import generators, neighborhoods, registered

SPACE = Space((3, 2))
NOISE = categorical(SPACE, [0.9, 0.7, 0.5])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def build(head="log_ratio", noise=None):
    return mlp(hamming(SPACE), head, noise, generator=seeded(), hidden=8, dtype=torch.float64)


@given(neighborhoods(), generators())
def test_a_network_is_its_head_on_its_trunk(neighborhood, generator):
    net = mlp(neighborhood, generator=generator, hidden=4, dtype=torch.float64)
    assert isinstance(net, ScoreModel)
    assert not isinstance(net, DensityModel)
    x = neighborhood.space.enumerate()
    expected = torch.where(neighborhood.valid(x), net.trunk(x), 0.0)
    assert torch.equal(net.log_ratios(x), expected)
    assert torch.equal(net(x), expected)


def test_raw_networks_offer_scores_and_others_do_not():
    raw, plain, x = build("raw"), build(), SPACE.enumerate()
    assert torch.equal(raw.concrete_scores(x), raw.trunk(x))
    assert raw.share_below(x) == (raw.trunk(x) <= -1).double().mean()
    torch.testing.assert_close(raw.log_ratios(x).expm1(), raw.trunk(x).clamp_min(-1))
    for name in ("concrete_scores", "share_below"):
        assert hasattr(raw, name)
        assert not hasattr(plain, name)
        assert hasattr(build("raw", NOISE).at(0), name)
        assert not hasattr(build("log_ratio", NOISE).at(0), name)


@pytest.mark.parametrize("head", ["log_ratio", "raw", "denoising"])
def test_a_level_per_row_is_each_rows_level(head):
    net, x = build(head, NOISE), SPACE.enumerate()
    assert isinstance(net, NoiseConditional)
    assert isinstance(net.at(0), ScoreModel)
    level = torch.tensor([0, 1, 2, 2, 1, 0])
    rows = [net.at(int(i)).log_ratios(row) for row, i in zip(x, level, strict=True)]
    torch.testing.assert_close(net.at(level).log_ratios(x), torch.stack(rows))
    torch.testing.assert_close(net(x, level), torch.stack(rows))
    assert not torch.allclose(net(x, 0), net(x, 2))


def test_the_clean_posterior_is_offered_by_denoising_networks_alone():
    net, x = build("denoising", NOISE), SPACE.enumerate()
    level = torch.arange(6) % 3
    found = net.clean_log_probs(x, level)
    assert torch.equal(found, net.at(level).clean_log_probs(x))
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(6, 2, dtype=torch.float64))
    # The log-ratios are the posterior mean of the noise's own ratios, read off by brute force.
    for k in range(3):
        site, new = net.neighborhood.edit(x, torch.full((6,), k))
        for i in range(6):
            d, a, b = int(site[i]), int(x[i, site[i]]), int(new[i])
            kernel = NOISE.site_log_prob(int(level[i]), d).exp()
            mean = sum(found[i, d, v].exp() * kernel[v, b] / kernel[v, a] for v in range(SPACE.sizes[d]))
            torch.testing.assert_close(net.at(level).log_ratios(x)[i, k].exp(), mean)
    assert not hasattr(build("log_ratio", NOISE), "clean_log_probs")
    assert not hasattr(build("log_ratio", NOISE).at(0), "clean_log_probs")


def test_views_share_the_networks_weights():
    net, x = build("denoising", NOISE), SPACE.enumerate()
    net.at(1).log_ratios(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())
    assert net.trunk.levels.grad[0].abs().max() == 0
    assert net.trunk.levels.grad[1].abs().max() > 0


@pytest.mark.parametrize("level", [-1, 3, torch.tensor([0, 3]), torch.tensor([0.5]), torch.tensor([True])])
def test_levels_out_of_range_are_told(level):
    with pytest.raises(InputError, match="level: expected levels from 0 to 2"):
        build("raw", NOISE).at(level)


def test_pieces_that_do_not_fit_are_told():
    head, generator = LogRatioHead(hamming(SPACE)), seeded()
    with pytest.raises(InputError, match="a trunk of 3 outputs, as LogRatioHead reads, got 4"):
        ScoreNetwork(MLP(SPACE, 4, generator=generator), head)
    with pytest.raises(InputError, match="trunk and neighborhood on the same space"):
        ScoreNetwork(MLP(Space((3,)), 3, generator=generator), head)
    with pytest.raises(InputError, match="use NoiseConditionalNetwork"):
        ScoreNetwork(MLP(SPACE, 3, num_levels=3, generator=generator), head)
    denoising = DenoisingHead(NOISE, hamming(SPACE))
    with pytest.raises(InputError, match="got DenoisingHead; use NoiseConditionalNetwork"):
        ScoreNetwork(MLP(SPACE, 5, generator=generator), denoising)
    trunk = MLP(SPACE, 5, num_levels=3, generator=generator)
    with pytest.raises(InputError, match="a head built with the same noise"):
        NoiseConditionalNetwork(trunk, denoising, categorical(SPACE, [0.9, 0.7, 0.6]))
    with pytest.raises(InputError, match="build it with num_levels=3"):
        NoiseConditionalNetwork(MLP(SPACE, 5, generator=generator), denoising, NOISE)
    other = categorical(Space((2,)), 0.9)
    with pytest.raises(InputError, match="noise and neighborhood on the same space"):
        NoiseConditionalNetwork(MLP(SPACE, 3, num_levels=1, generator=generator), head, other)


def test_a_raw_head_on_a_directed_cycle_is_the_papers_one_dimensional_model():
    space = Space((16,))
    head = RawHead(cycle(space))
    net = ScoreNetwork(MLP(space, head.out_features, generator=seeded()), head)
    assert net.concrete_scores(space.enumerate()).shape == (16, 1)


TRUNK_SPACE = Space((16, 1, 2))


def built(**options):
    return MLP(TRUNK_SPACE, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, **options)


def test_inputs_are_scaled_to_the_unit_interval_and_a_single_value_is_zero():
    trunk = built(layers=1)
    (layer,) = trunk.network.layers
    x = torch.tensor([[15, 0, 1], [3, 0, 0]])
    scaled = torch.tensor([[1.0, 0.0, 1.0], [0.2, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(trunk(x), scaled @ layer.weight.T + layer.bias)


def test_the_default_is_the_papers_three_layers_of_one_hundred_units():
    trunk = built()
    assert [tuple(layer.weight.shape) for layer in trunk.network.layers] == [(100, 3), (100, 100), (5, 100)]


def test_levels_per_row_are_those_of_each_row():
    trunk, x = built(num_levels=3), TRUNK_SPACE.uniform(6, torch.Generator().manual_seed(1))
    level = torch.tensor([0, 1, 2, 2, 1, 0])
    alone = torch.stack([trunk(row, int(i)) for row, i in zip(x, level, strict=True)])
    torch.testing.assert_close(trunk(x, level), alone)
    assert not torch.allclose(trunk(x, 0), trunk(x, 1))
    deep = trunk(x[:, None].expand(-1, 4, -1), level[:, None])
    torch.testing.assert_close(deep, alone[:, None].expand(-1, 4, -1))


def test_levels_are_given_exactly_when_there_are_any():
    x = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(InputError, match="level: expected a noise level, got None"):
        built(num_levels=2)(x)
    with pytest.raises(InputError, match="level: expected no noise level, got one"):
        built()(x, 0)


@pytest.mark.parametrize("option", [{"hidden": 0}, {"layers": 0}, {"num_levels": 0}, {"activation": "sine"}])
def test_bad_options_are_refused(option):
    with pytest.raises(InputError, match=next(iter(option))):
        built(**option)


@dataclass
class Counting:
    """A density that counts the rows of each pass."""

    model: DensityModel
    rows: list[int] = field(default_factory=list)
    normalized: bool = True

    @property
    def space(self):
        return self.model.space

    def log_density(self, x):
        self.rows.append(x[..., 0].numel())
        return self.model.log_density(x)


@pytest.mark.parametrize("name", registry.names("neighborhoods"))
@given(data=st.data())
def test_ratios_equal_brute_force_on_every_registered_neighborhood(name, data):
    neighborhood = data.draw(registered(name))
    space, states = neighborhood.space, neighborhood.space.enumerate()
    density = Counting(Table(space, data.draw(generators()), dtype=torch.float64))
    chunk = data.draw(st.sampled_from([1, 7, 64, 2**18]))
    score = DensityScore(density, neighborhood, chunk)
    assert isinstance(score, ScoreModel)
    found, valid = score.log_ratios(states), neighborhood.valid(states)
    log_pmf = density.model.logits.log_softmax(0)
    brute = torch.zeros_like(found)
    for i, k in valid.nonzero().tolist():
        brute[i, k] = log_pmf[space.index(neighborhood.neighbor(states[i], torch.tensor(k)))] - log_pmf[i]
    torch.testing.assert_close(found, brute)
    assert (found[~valid] == 0.0).all()
    assert sum(density.rows) == len(states) + int(valid.sum())


def test_memory_is_bounded_by_the_chunk_and_a_large_chunk_is_one_pass():
    neighborhood = hamming(Space.bits(20))
    x = neighborhood.space.uniform(30, torch.Generator().manual_seed(0))
    made = MADE(neighborhood.space, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    small, large = Counting(made), Counting(made)
    few = DensityScore(small, neighborhood, chunk=100).log_ratios(x)
    many = DensityScore(large, neighborhood).log_ratios(x)
    torch.testing.assert_close(few, many)
    assert large.rows == [30 * 21]
    # 100 sites are 5 states; a pass may also carry the row they belong to.
    assert max(small.rows) <= 6
    assert sum(small.rows) == 30 * 21


def test_gradients_are_those_of_the_two_densities():
    space = Space((3, 2, 2))
    model = Energy(space, (5,), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    neighborhood, x = moore(space), space.enumerate()
    weight = torch.randn(12, neighborhood.num_slots, generator=torch.Generator().manual_seed(1)).double()
    direct = model.log_density(neighborhood.neighbors(x)) - model.log_density(x)[:, None]
    expected = torch.autograd.grad((weight * direct).sum(), list(model.parameters()))
    derived = DensityScore(model, neighborhood, chunk=50).log_ratios(x)
    for one, two in zip(torch.autograd.grad((weight * derived).sum(), list(model.parameters())), expected, strict=True):
        torch.testing.assert_close(one, two)


def test_leading_axes_are_kept():
    space = Space((3, 2))
    score = DensityScore(Table(space, torch.Generator().manual_seed(0)), hamming(space))
    x = space.enumerate().reshape(2, 3, 2)
    assert torch.equal(score.log_ratios(x).reshape(6, 3), score.log_ratios(x.reshape(6, 2)))
    assert torch.equal(score.log_ratios(x[1, 2]), score.log_ratios(x)[1, 2])


def test_bad_densities_are_refused():
    with pytest.raises(InputError, match="density and neighborhood on the same space"):
        DensityScore(Table(Space((2,))), hamming(Space((3,))))
    with pytest.raises(InputError, match="chunk: expected a whole number of at least 1, got 0"):
        DensityScore(Table(Space((2,))), hamming(Space((2,))), chunk=0)
