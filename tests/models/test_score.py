"""Score networks: a trunk and a head that fit, with what the head offers and no more."""

import pytest
import torch
from hypothesis import given

from concrete_score.errors import InputError
from concrete_score.models import MLP, DenoisingHead, LogRatioHead, NoiseConditionalNetwork, RawHead, ScoreNetwork, mlp
from concrete_score.neighborhoods import cycle, hamming
from concrete_score.noise import categorical
from concrete_score.protocols import DensityModel, NoiseConditional, ScoreModel
from concrete_score.spaces import Space
from tests.strategies import generators, neighborhoods

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
