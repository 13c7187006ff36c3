"""The trunk: scaled inputs, and levels that enter at the first layer."""

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.models import MLP
from concrete_score.spaces import Space

SPACE = Space((16, 1, 2))


def build(**options):
    return MLP(SPACE, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, **options)


def test_inputs_are_scaled_to_the_unit_interval_and_a_single_value_is_zero():
    trunk = build(layers=1)
    (layer,) = trunk.network.layers
    x = torch.tensor([[15, 0, 1], [3, 0, 0]])
    scaled = torch.tensor([[1.0, 0.0, 1.0], [0.2, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(trunk(x), scaled @ layer.weight.T + layer.bias)


def test_the_default_is_the_papers_three_layers_of_one_hundred_units():
    trunk = build()
    assert [tuple(layer.weight.shape) for layer in trunk.network.layers] == [(100, 3), (100, 100), (5, 100)]


def test_levels_per_row_are_those_of_each_row():
    trunk, x = build(num_levels=3), SPACE.uniform(6, torch.Generator().manual_seed(1))
    level = torch.tensor([0, 1, 2, 2, 1, 0])
    alone = torch.stack([trunk(row, int(i)) for row, i in zip(x, level, strict=True)])
    torch.testing.assert_close(trunk(x, level), alone)
    assert not torch.allclose(trunk(x, 0), trunk(x, 1))
    deep = trunk(x[:, None].expand(-1, 4, -1), level[:, None])
    torch.testing.assert_close(deep, alone[:, None].expand(-1, 4, -1))


def test_levels_are_given_exactly_when_there_are_any():
    x = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(InputError, match="level: expected a noise level, got None"):
        build(num_levels=2)(x)
    with pytest.raises(InputError, match="level: expected no noise level, got one"):
        build()(x, 0)


@pytest.mark.parametrize("option", [{"hidden": 0}, {"layers": 0}, {"num_levels": 0}, {"activation": "sine"}])
def test_mistakes_are_told(option):
    with pytest.raises(InputError, match=next(iter(option))):
        build(**option)
