import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from concrete_score.targets.plane import (
    Arc,
    NoisyArcs,
    Pinwheel,
    Tiles,
    bin_edges,
    gauss_legendre,
    interval_mass,
    quantize,
)


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("std", "blur"), [(1.0, 0.0), (0.1, 0.0), (0.3, 0.5), (0.1, 0.08), (0.5, 0.01)])
def test_interval_masses_equal_integrals_with_all_digits_far_out(std, blur):
    for low, high in [(-0.1, 0.2), (-3.0, 0.0), (0.7, 0.8), (-1.5, -1.2), (2.0, 2.5)]:

        def density(shift, low=low, high=high):
            a, b = (low - shift) / std, (high - shift) / std
            return norm.cdf(b) - norm.cdf(a) if a < 0 else norm.sf(a) - norm.sf(b)

        expected = density(0.0) if blur == 0 else quad(density, -blur, blur, epsabs=0, epsrel=1e-12)[0] / (2 * blur)
        found = interval_mass(double(low), double(high), std, blur).item()
        assert math.isclose(found, expected, rel_tol=1e-8), (low, high)


@pytest.mark.parametrize("blur", [0.0, 0.3])
def test_interval_masses_over_the_line_sum_to_one_and_mirror(blur):
    edges = double(-math.inf, -1.0, -0.2, 0.2, 1.0, math.inf)
    masses = interval_mass(edges[:-1], edges[1:], 0.4, blur)
    assert math.isclose(masses.sum().item(), 1, abs_tol=1e-15)
    assert torch.allclose(masses, masses.flip(0), rtol=1e-13, atol=0)


def test_gauss_legendre_is_exact_to_its_degree():
    nodes, weights = gauss_legendre(3, 4)
    for degree in range(8):
        assert math.isclose((weights * nodes**degree).sum().item(), 1 / (degree + 1), rel_tol=1e-13)
    assert not math.isclose((weights * nodes**8).sum().item(), 1 / 9, rel_tol=1e-12)


def test_points_belong_to_the_bin_whose_edges_hold_them():
    points = 3 * torch.randn(5000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for bins in (2, 7, 91):
        edges, cells = bin_edges(bins), quantize(points, bins)
        assert ((edges[cells] <= points) & (points < edges[cells + 1])).all()


def test_an_arc_is_integrated_as_by_adaptive_quadrature():
    arc = Arc((0.3, -0.2), radius=(0.5, 2.0), angle=(0.4, 4.0))
    law = NoisyArcs((arc,), std=0.3, growth=2)
    edges = bin_edges(10)
    masses = law.bin_masses(edges)
    for i, j in [(5, 5), (0, 0), (9, 4), (3, 6), (4, 3)]:

        def integrand(t, i=i, j=j):
            r, a = 0.5 + 1.5 * t, 0.4 + 3.6 * t
            x = norm.cdf((edges[[i, i + 1]].numpy() - 0.3 - r * np.cos(a)) / 0.3)
            y = norm.cdf((edges[[j, j + 1]].numpy() + 0.2 - r * np.sin(a)) / 0.3)
            return 2 * t * (x[1] - x[0]) * (y[1] - y[0])

        expected = quad(integrand, 0, 1, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
        assert math.isclose(masses[i, j].item(), expected, rel_tol=1e-9, abs_tol=1e-12)


def test_arcs_are_no_longer_than_said():
    arc = Arc(radius=(0.5, 2.0), angle=(0.0, 5.0))
    steps = arc.at(torch.linspace(0, 1, 2001, dtype=torch.float64)).diff(dim=0).norm(dim=1).sum().item()
    assert 0.8 * arc.length < steps <= arc.length
    assert Arc().length == 0


def test_a_tile_on_whole_bins_fills_them_evenly():
    masses = Tiles(((-2.0, 0.0),), side=2.0).bin_masses(bin_edges(8))
    expected = torch.zeros(8, 8, dtype=torch.float64)
    expected[2:4, 4:6] = 0.25
    assert torch.equal(masses, expected)


def test_a_pinwheel_that_does_not_bend_is_a_rotated_gaussian():
    # One straight blade along x: independent normals, whose bins are products.
    straight = Pinwheel(arms=1, rate=1e-13, radial_std=0.4, tangential_std=0.3, scale=1.5)
    edges = bin_edges(20)
    along_x = interval_mass(edges[:-1] - 1.5, edges[1:] - 1.5, 0.6)
    along_y = interval_mass(edges[:-1], edges[1:], 0.45)
    assert (straight.bin_masses(edges) - along_x[:, None] * along_y).abs().max() < 1e-11


def test_coarse_bins_are_sums_of_fine_ones():
    law = Pinwheel()
    fine = law.bin_masses(bin_edges(48)).reshape(6, 8, 6, 8).sum((1, 3))
    assert (fine - law.bin_masses(bin_edges(6))).abs().max() < 1e-10
