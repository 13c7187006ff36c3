import math

import pytest
import torch

from concrete_score.spaces import Space
from concrete_score.targets import low_density, sine, sixteen_categories


def bumps(k: int) -> float:
    return math.exp(-((k - 3) ** 2) / 4) + 0.6 * math.exp(-((k - 11) ** 2) / 6) + 0.1


def wave(k: int) -> float:
    return 1 + 0.8 * math.sin(2 * math.pi * k / 16)


def plateaus(k: int) -> float:
    return 1.0 if k in (2, 3, 4, 10, 11, 12) else 1e-4


@pytest.mark.parametrize(
    ("target", "weight"), [(sixteen_categories(), bumps), (sine(), wave), (low_density(), plateaus)]
)
def test_tables_are_their_formulas(target, weight):
    weights = torch.tensor([weight(k) for k in range(16)], dtype=torch.float64)
    assert target.space == Space((16,))
    assert torch.allclose(target.probabilities, weights / weights.sum(), rtol=1e-13, atol=0)
    assert math.isclose(target.probabilities.sum().item(), 1, abs_tol=1e-14)


def test_the_wave_sums_to_its_mean_and_is_mirrored():
    table = sine().probabilities
    assert torch.allclose(table[1:8] + table[9:].flip(0), torch.full((7,), 1 / 8, dtype=torch.float64), atol=1e-15)


def test_almost_all_of_the_plateaus_mass_is_on_six_categories():
    table = low_density().probabilities
    assert math.isclose(table[[2, 3, 4, 10, 11, 12]].sum().item(), 6 / 6.001, rel_tol=1e-13)
