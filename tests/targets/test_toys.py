"""The toys: tables equal their formulas, bins share out all the mass, draws follow them."""

import math

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.spaces import Space
from concrete_score.targets import TOYS, Toy, low_density, pmf, sine, sixteen_categories, toy
from concrete_score.targets import toys as toys_module
from concrete_score.targets.plane import NoisyArcs, bin_edges

FINER = {NoisyArcs: {"fineness": 2}, type(TOYS["pinwheel"]): {"order": 32}}


@pytest.mark.parametrize("name", TOYS)
def test_bins_share_out_all_the_mass(name):
    target = toy(name)
    assert isinstance(target, DensityModel)
    assert isinstance(target, Samplable)
    assert target.space == Space((91, 91))
    assert abs(target.law.bin_masses(bin_edges(91)).sum().item() - 1) < 1e-10
    table = target.pmf().probabilities
    assert math.isclose(table.sum().item(), 1, abs_tol=1e-13)
    assert target.pmf() is toy(name).pmf(), "computed once"
    assert torch.equal(target.log_density(target.space.enumerate()), target.pmf().log_pmf)


@pytest.mark.parametrize("name", [n for n in TOYS if n != "checkerboard"])
def test_doubling_the_nodes_changes_nothing_and_no_bin_is_impossible(name):
    law = TOYS[name]
    coarse, fine = law.bin_masses(bin_edges(91)), law.bin_masses(bin_edges(91), **FINER[type(law)])
    assert (coarse - fine).abs().sum() / 2 < 1e-10
    assert (coarse > 0).all()


@pytest.mark.parametrize("name", TOYS)
def test_quantized_points_follow_the_bins(goodness_of_fit, generator, name):
    target = toy(name)
    drawn = target.space.index(target.sample(200_000, generator))
    table = target.pmf().probabilities
    assert goodness_of_fit(drawn, table) > 1e-3
    # The same test sees an error of 5 % in the mass of every second column.
    tilted = table.reshape(91, 91) * torch.tensor([1.05, 0.95], dtype=torch.float64).repeat(46)[:91, None]
    assert goodness_of_fit(drawn, (tilted / tilted.sum()).reshape(-1)) < 1e-6


def literal_points(name: str, n: int, seed: int) -> torch.Tensor:
    """The toys as the literature writes them, drawn point by point; evenly spaced angles replaced by uniform ones."""
    g = torch.Generator().manual_seed(seed)

    def u(*shape):
        return torch.rand(*shape, dtype=torch.float64, generator=g)

    def z(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=g)

    def pick(k):
        return torch.randint(k, (n,), generator=g)

    if name == "8gaussians":
        angle = pick(8) * math.pi / 4
        return (4 * torch.stack([angle.cos(), angle.sin()], -1) + 0.5 * z(n, 2)) / 1.414
    if name == "checkerboard":
        x = 4 * u(n) - 2
        return 2 * torch.stack([x, u(n) - 2 * pick(2) + x.floor() % 2], -1)
    if name == "2spirals":
        a = u(n).sqrt() * 540 * 2 * math.pi / 360
        d = torch.stack([-a.cos() * a + 0.5 * u(n), a.sin() * a + 0.5 * u(n)], -1)
        return (2 * pick(2)[:, None] - 1) * d / 3 + 0.1 * z(n, 2)
    if name in ("circles", "rings"):
        angle = 2 * math.pi * u(n)
        radius, noise = ((pick(2) + 1) / 2, 0.08) if name == "circles" else ((pick(4) + 1) / 4, 0.08 / 3)
        return 3 * (radius[:, None] * torch.stack([angle.cos(), angle.sin()], -1) + noise * z(n, 2))
    if name == "moons":
        angle, inner = math.pi * u(n), pick(2)[:, None].double()
        outer = torch.stack([angle.cos(), angle.sin()], -1)
        both = (1 - inner) * outer + inner * (torch.tensor([1.0, 0.5]) - outer)
        return 2 * (both + 0.1 * z(n, 2)) + torch.tensor([-1, -0.2])
    if name == "swissroll":
        t = 1.5 * math.pi * (1 + 2 * u(n))
        return (torch.stack([t * t.cos(), t * t.sin()], -1) + z(n, 2)) / 5
    features = z(n, 2) * torch.tensor([0.3, 0.1]) + torch.tensor([1.0, 0.0])
    angle = 2 * math.pi / 5 * pick(5) + 0.25 * features[:, 0].exp()
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).reshape(-1, 2, 2)
    return 2 * torch.einsum("ti,tij->tj", features, turn)


@pytest.mark.parametrize("name", TOYS)
def test_the_toys_are_the_ones_everybody_uses(goodness_of_fit, name):
    target = toy(name, bins=41)
    points = literal_points(name, 200_000, seed=5)
    cells = ((points + 4) / 8 * 41).floor().long().clamp(0, 40)
    assert goodness_of_fit(cells[:, 0] * 41 + cells[:, 1], target.pmf().probabilities) > 1e-3


MIRRORS = {
    "left-right": lambda t: t.flip(0),
    "up-down": lambda t: t.flip(1),
    "diagonal": lambda t: t.T,
    "half turn": lambda t: t.flip(0, 1),
}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("8gaussians", set(MIRRORS)),
        ("circles", set(MIRRORS)),
        ("rings", set(MIRRORS)),
        ("checkerboard", {"diagonal", "half turn"}),
        ("2spirals", {"half turn"}),
        ("moons", set()),
        ("swissroll", set()),
        ("pinwheel", set()),
    ],
)
def test_symmetries_are_these_and_no_others(name, kept):
    table = toy(name).pmf().probabilities.reshape(91, 91)
    found = {mirror for mirror, apply in MIRRORS.items() if (apply(table) - table).abs().max() < 1e-12}
    assert found == kept


def test_site_0_is_horizontal():
    # The moons' upper arch opens downwards around (-1, -0.2): its top is left of the middle and above it.
    x, y = (toy("moons").pmf().marginal([site]).probabilities for site in (0, 1))
    bins = torch.arange(91, dtype=torch.float64)
    assert abs((x * bins).sum().item() - 45) < 0.01, "symmetric from left to right as a marginal"
    mean_y = (y * bins).sum().item() * 8 / 91 - 4 + 4 / 91
    assert abs(mean_y - 0.3) < 0.01, "the half turn that swaps the moons is around (0, 0.3)"


def test_impossible_bins_of_the_checkerboard_stay_impossible():
    table = toy("checkerboard", bins=8).pmf()
    board = table.probabilities.reshape(8, 8)
    squares = torch.arange(8) // 2
    filled = (squares[:, None] + squares) % 2 == 0
    assert torch.equal(board > 0, filled)
    assert torch.allclose(board[filled], torch.full((32,), 1 / 32, dtype=torch.float64), rtol=1e-14, atol=0)
    assert table.log_pmf.min().item() == -math.inf


@pytest.mark.parametrize("bins", [2, 3, 16])
@pytest.mark.parametrize("name", TOYS)
def test_any_number_of_bins_works(goodness_of_fit, generator, name, bins):
    target = toy(name, bins)
    drawn = target.space.index(target.sample(20_000, generator))
    assert goodness_of_fit(drawn, target.pmf().probabilities) > 1e-4


def test_every_toy_has_its_own_builder():
    builders = {
        "8gaussians": "eight_gaussians",
        "2spirals": "two_spirals",
    }
    for name in TOYS:
        assert getattr(toys_module, builders.get(name, name))(bins=5) == toy(name, 5)


def test_bad_toys_are_refused():
    with pytest.raises(InputError, match="did you mean 'moons'"):
        toy("moon")
    with pytest.raises(InputError, match="bins: expected a whole number of at least 2"):
        toy("moons", bins=1)

    class Leaking:
        def bin_masses(self, edges):
            return torch.full((3, 3), 0.1, dtype=torch.float64)

        def sample_points(self, n, generator):
            return torch.zeros(n, 2, dtype=torch.float64)

    with pytest.raises(InputError, match=r"bin masses of Leaking: expected a sum of 1, got 0\.9"):
        Toy("leaking", Leaking(), 3).pmf()


def test_a_toys_table_is_a_checked_table():
    table = toy("rings", 15).pmf()
    assert torch.allclose(pmf(table.probabilities, table.space).log_pmf, table.log_pmf, atol=1e-12)


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
