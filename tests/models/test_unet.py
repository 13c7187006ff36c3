"""The U-Net: every pixel and level is seen, images keep their places, heads get what they read."""

from copy import deepcopy

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.models import layers
from concrete_score.models import unet as module
from concrete_score.models.layers import low_precision
from concrete_score.models.unet import UNet, unet
from concrete_score.neighborhoods import grid, hamming, moore
from concrete_score.noise import binarized_gaussian, categorical
from concrete_score.noise.families import log_snr
from concrete_score.protocols import NoiseConditional, ScoreModel, is_raw
from concrete_score.spaces import Space


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def net(shape=(5, 6), size=2, per_pixel=1, **options):
    options = {"width": 8, "depth": 1, "num_levels": 3, "dtype": torch.float64, **options}
    space = Space((size,) * (shape[0] * shape[1]))
    return UNet(space, per_pixel * space.num_sites, shape, generator=seeded(), **options)


@pytest.mark.parametrize(("shape", "depth"), [((2, 3), 1), ((5, 6), 2), ((9, 8), 3), ((4, 4), 0)])
def test_every_output_sees_every_pixel(shape, depth):
    trunk = net(shape, depth=depth, width=4)
    x = trunk.space.uniform(1, seeded(1))
    flipped = torch.where(torch.eye(x.shape[1], dtype=torch.bool), 1 - x, x)
    moved = (trunk(flipped, 1) - trunk(x, 1)).abs()
    assert moved.min() > 1e-9, "an output does not depend on some pixel"


def test_every_output_sees_every_level():
    trunk = net(num_levels=32)
    x = trunk.space.uniform(1, seeded(1)).expand(32, -1)
    found = trunk(x, torch.arange(32))
    apart = (found[:, None] - found).abs().amin(-1)
    assert apart[~torch.eye(32, dtype=torch.bool)].min() > 1e-9


@pytest.mark.parametrize(("shape", "depth", "size"), [((2, 3), 1, 2), ((5, 7), 2, 2), ((3, 4), 0, 3), ((6, 5), 2, 4)])
def test_pixels_go_in_patches_and_come_back_to_their_places(shape, depth, size):
    per_pixel = 1 if size == 2 else 1 + size
    trunk = net(shape, size, per_pixel, depth=depth)
    x = trunk.space.uniform(4, seeded(2))
    back = trunk._pixels(trunk._features(x)).reshape(4, -1, per_pixel)
    torch.testing.assert_close(back[..., 0], 2 * x.double() / (size - 1) - 1)
    if size > 2:
        assert torch.equal(back[..., 1:], torch.nn.functional.one_hot(x, size).double())


def test_rows_do_not_see_each_other_and_levels_may_differ_by_row():
    trunk = net()
    x, level = trunk.space.uniform(6, seeded(3)), torch.tensor([0, 1, 2, 0, 1, 2])
    together = trunk(x, level)
    alone = torch.cat([trunk(x[i : i + 1], int(level[i])) for i in range(6)])
    torch.testing.assert_close(together, alone)
    boxed = trunk(x.reshape(2, 3, -1), torch.tensor([[0, 1, 2]]))
    torch.testing.assert_close(boxed.reshape(6, -1), alone)
    torch.testing.assert_close(trunk(x.to(torch.uint8), level), alone)
    assert trunk(x[:0], 1).shape == (0, trunk.out_features)


@pytest.mark.parametrize("levels", [1, torch.arange(7) % 3])
def test_chunks_change_nothing(monkeypatch, levels):
    trunk = net()
    x = trunk.space.uniform(7, seeded(4))
    whole = trunk(x, levels)
    monkeypatch.setattr(module, "CHUNK", 3)
    with torch.no_grad():
        torch.testing.assert_close(trunk(x, levels), whole)


def test_the_layout_of_memory_changes_nothing_else():
    x = Space.bits(30).uniform(3, seeded(5))
    torch.testing.assert_close(net(channels_last=True)(x, 1), net(channels_last=False)(x, 1))


def test_layers_stay_in_channels_last():
    trunk, found = net((8, 8), width=8, depth=2), []
    for name, part in trunk.named_modules():
        if type(part).__name__ in ("Conv", "Block", "ChannelNorm", "Attention"):
            part.register_forward_hook(
                lambda _, __, out, name=name: found.append((name, out.is_contiguous(memory_format=torch.channels_last)))
            )
    trunk(trunk.space.uniform(3, seeded()), 0)
    assert found
    assert all(right for _, right in found), [name for name, right in found if not right]


def test_every_parameter_learns_and_the_state_travels():
    trunk, other = net((8, 6), depth=2), net((8, 6), depth=2)
    for p in other.parameters():
        torch.nn.init.zeros_(p)
    x = trunk.space.uniform(5, seeded(6))
    weight = torch.randn(5, trunk.out_features, generator=seeded(7), dtype=torch.float64)
    (weight * trunk(x, torch.arange(5) % 3)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in trunk.parameters())
    assert set(trunk.state_dict()) == {name for name, _ in trunk.named_parameters()}
    assert all(value.is_contiguous() for value in trunk.state_dict().values())
    other.load_state_dict(trunk.state_dict())
    assert torch.equal(other(x, 2), trunk(x, 2))


def test_a_gradient_is_the_limit_of_differences():
    trunk = net((2, 3), width=4)
    x, step = trunk.space.uniform(4, seeded(8)), 1e-6
    trunk(x, 1).square().sum().backward()
    for name, p in trunk.named_parameters():
        place = tuple(0 for _ in p.shape)
        values = []
        for sign in (1, -1):
            moved = deepcopy(trunk)
            with torch.no_grad():
                dict(moved.named_parameters())[name][place] += sign * step
            values.append(moved(x, 1).square().sum().item())
        assert p.grad[place].item() == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-6), name


def test_the_default_has_half_a_million_weights():
    space = Space.bits(784)
    model = unet(hamming(space), noise=binarized_gaussian(space), shape=(28, 28), generator=seeded())
    assert 4e5 < sum(p.numel() for p in model.parameters()) < 6e5


@pytest.mark.parametrize("neighborhood", [hamming, grid])
@pytest.mark.parametrize("head", ["denoising", "log_ratio", "raw"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_head_reads_it(neighborhood, head, size):
    space = Space((size,) * 6)
    n, noise = neighborhood(space), categorical(space, (0.9, 0.6))
    model = unet(n, head, noise, shape=(2, 3), width=4, depth=1, generator=seeded(), dtype=torch.float64)
    assert isinstance(model, NoiseConditional)
    assert isinstance(model.at(1), ScoreModel)
    assert is_raw(model.at(0)) == (head == "raw")
    assert model.at(torch.tensor([0, 1])).log_ratios(space.uniform(2, seeded())).shape == (2, n.num_slots)


def test_a_denoising_heads_ratios_lie_within_the_noises():
    space = Space.bits(6)
    noise = binarized_gaussian(space)
    model = unet(hamming(space), noise=noise, shape=(2, 3), width=4, depth=1, generator=seeded())
    for level in range(noise.num_levels):
        stay, leave = noise.site_log_prob(level, 0)[0].tolist()
        ratios = model.at(level).log_ratios(space.enumerate())
        assert ratios.abs().max() <= stay - leave + 1e-4


def test_a_silent_network_means_uniform_data():
    space = Space((3,) * 6)
    model = unet(hamming(space), noise=log_snr(space, 4), shape=(2, 3), width=4, depth=1, generator=seeded())
    torch.nn.init.zeros_(model.trunk.trunk.write.weight)
    torch.nn.init.zeros_(model.trunk.trunk.write.bias)
    x = space.uniform(20, seeded(1))
    for level in range(4):
        assert model.at(level).log_ratios(x).abs().max() < 1e-5
        expected = torch.stack([model.noise.site_log_prob(level, 0)[:, v] for v in range(3)])[x].log_softmax(-1)
        torch.testing.assert_close(model.clean_log_probs(x, level).double(), expected, rtol=1e-4, atol=1e-5)


def test_without_a_noise_it_is_a_plain_score_model():
    model = unet(grid(Space((4,) * 9)), shape=(3, 3), width=4, depth=1, generator=seeded())
    assert isinstance(model, ScoreModel)
    assert not isinstance(model, NoiseConditional)
    assert model.log_ratios(torch.zeros(2, 9, dtype=torch.int64)).shape == (2, 18)


def test_low_precision_is_close_and_answers_in_the_parameters_kind(monkeypatch):
    exact = net(dtype=torch.float32)
    mixed = net(dtype=torch.float32, mixed=True)
    x = exact.space.uniform(3, seeded(1))
    monkeypatch.setattr(layers, "low_precision", lambda device: torch.bfloat16)
    found = mixed(x, 1)
    assert found.dtype == torch.float32
    assert not torch.equal(found, exact(x, 1))
    torch.testing.assert_close(found, exact(x, 1), rtol=0.1, atol=0.1)


def test_low_precision_where_the_device_has_none_is_full_precision(monkeypatch):
    assert low_precision(torch.device("meta")) is None
    monkeypatch.setattr(layers, "low_precision", lambda device: None)
    x = Space.bits(30).uniform(3, seeded(1))
    assert torch.equal(net(mixed=True)(x, 1), net()(x, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (2, 3), "depth": 2}, r"shape: expected images of at least 4x4 for depth 2, got 2x3.*at most 1"),
        ({"shape": (3, 3)}, r"shape: expected a shape of 6 pixels, one a site, got 3x3 = 9"),
        ({"shape": (6,)}, "shape: expected height and width"),
        ({"shape": (0, 6)}, r"shape\[0\]: expected a whole number of at least 1"),
        ({"shape": (2, 3), "depth": -1}, "depth: expected a whole number of at least 0"),
        ({"shape": (2, 3), "width": 6}, "width: expected a multiple of 4"),
        ({"shape": (2, 3), "blocks": 0}, "blocks: expected a whole number from 1 to 1000"),
    ],
)
def test_bad_images(options, message):
    with pytest.raises(InputError, match=message):
        unet(hamming(Space.bits(6)), generator=seeded(), **{"depth": 1, **options})


def test_bad_spaces_and_neighborhoods():
    with pytest.raises(InputError, match="pixels of one size"):
        UNet(Space((2, 3)), 2, (1, 2), depth=0, generator=seeded())
    with pytest.raises(InputError, match="as many outputs at every pixel"):
        UNet(Space((2, 2)), 3, (1, 2), depth=0, generator=seeded())
    with pytest.raises(InputError, match="the same moves at every pixel"):
        unet(moore(Space((3, 3))), shape=(1, 2), depth=0, generator=seeded())
    with pytest.raises(InputError, match="the same moves at every pixel"):
        unet(hamming(Space((2, 3))), shape=(1, 2), depth=0, generator=seeded())
    with pytest.raises(InputError, match="level: expected a noise level"):
        net()(torch.zeros(1, 30, dtype=torch.int64))
    with pytest.raises(InputError, match="level: expected no noise level"):
        net(num_levels=None)(torch.zeros(1, 30, dtype=torch.int64), 1)
