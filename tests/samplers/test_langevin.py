"""Between the states: MALA keeps the triangular-noise density; unadjusted Langevin is biased, less by small steps."""

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.noise import Triangular
from concrete_score.samplers import MALA, Langevin
from concrete_score.targets import pmf, sixteen_categories

CHAINS = 100_000


def noisy_points(density, count, generator):
    noise = Triangular.of(density)
    return noise.corrupt(density.sample(count, generator), generator)


def after(kernel, points, steps, generator):
    state = kernel.init(points)
    for _ in range(steps):
        state, _ = kernel.step(state, generator)
    return state.x


def total_variation(density, points, generator):
    """Between the clean distribution and the denoised points."""
    states = Triangular.of(density).denoise(points, generator)
    share = torch.bincount(density.space.index(states), minlength=density.space.num_states) / len(states)
    return (share - density.probabilities).abs().sum().item() / 2


def cell_z(density, points, cells=4):
    """The worst z-score among counts in cells of width 1/cells along site 0, against the exact triangular mixture."""
    lower = torch.arange(-cells, density.space.sizes[0] * cells, dtype=torch.float64) / cells
    marginal = Triangular.of(density.marginal([0]))
    # The density is linear between states, so the middle of a cell gives its mass exactly.
    mass = marginal.log_density((lower + 0.5 / cells)[:, None]).exp() / cells
    assert mass.sum().item() == pytest.approx(1)
    seen = torch.bincount(((points[:, 0] - lower[0]) * cells).floor().long(), minlength=len(mass)).double()
    return ((seen - len(points) * mass) / (len(points) * mass * (1 - mass)).sqrt()).abs().max().item()


@pytest.mark.parametrize("max_drift", [0.0, 1.0, 100.0])
def test_mala_keeps_the_noisy_density(max_drift):
    p, g = sixteen_categories(), torch.Generator().manual_seed(0)
    kernel = MALA(Triangular.of(p), step_size=0.5, max_drift=max_drift)
    points = after(kernel, noisy_points(p, CHAINS, g), 20, g)
    assert cell_z(p, points) < 4.5  # 68 cells
    assert total_variation(p, points, g) < 0.01


def test_mala_keeps_a_dependent_density_in_two_dimensions():
    p, g = pmf([[0.4, 0.1, 0.02], [0.03, 0.05, 0.4]]), torch.Generator().manual_seed(0)
    points = after(MALA(Triangular.of(p), step_size=0.2), noisy_points(p, 40_000, g), 15, g)
    assert cell_z(p, points) < 4.5
    assert total_variation(p, points, g) < 0.01


@pytest.mark.parametrize(("step_size", "steps"), [(2.0, 300), (8.0, 80)])
def test_mala_forgets_an_even_start_over_the_whole_support(step_size, steps):
    p, g = sixteen_categories(), torch.Generator().manual_seed(0)
    start = 17 * torch.rand(20_000, 1, generator=g, dtype=torch.float64) - 1
    assert cell_z(p, start) > 20
    kernel = MALA(Triangular.of(p), step_size)
    points = after(kernel, start, steps, g)
    assert cell_z(p, points) < 4.5
    assert total_variation(p, points, g) < 0.018  # exact draws, as many, are 0.009 off on average


def test_mala_brings_chains_from_one_corner_to_the_other_mode():
    p, g = sixteen_categories(), torch.Generator().manual_seed(1)
    points = after(MALA(Triangular.of(p), 4.0), torch.full((10_000, 1), 15.9, dtype=torch.float64), 200, g)
    assert cell_z(p, points) < 4.5


def test_an_unbounded_drift_catches_points_at_the_edge_and_a_bounded_one_does_not():
    p, g = sixteen_categories(), torch.Generator().manual_seed(0)
    start, size = noisy_points(p, 5_000, g), 0.5

    def caught(max_drift):
        shares = []
        state = (kernel := Langevin(Triangular.of(p), size, max_drift)).init(start)
        for _ in range(2):
            for _ in range(80):
                state, _ = kernel.step(state, g)
            # Nearer to the edge than this, a full drift leads beyond the other one.
            shares.append((torch.minimum(state.x + 1, 16 - state.x) < size / 17).double().mean().item())
        return shares

    early, late = caught(float("inf"))
    assert late > 1.5 * early > 0.015
    assert max(caught(1.0)) < 0.003


def test_unadjusted_langevin_is_biased_and_less_so_with_smaller_steps():
    p, g = sixteen_categories(), torch.Generator().manual_seed(0)
    start = noisy_points(p, 20_000, g)
    # The same time for each step size, so that what differs is the bias of the step: about 0.06 times the step.
    ends = [after(Langevin(Triangular.of(p), size), start, round(16 / size), g) for size in (2.0, 0.5, 0.125)]
    bias = [total_variation(p, end, g) for end in ends]
    assert bias[0] > 0.08
    assert bias[1] < bias[0] / 2
    assert bias[2] < bias[1] / 1.5
    assert cell_z(p, ends[1]) > 5  # small, and there: the same test that MALA passes finds it


def test_points_never_leave_the_support_and_clamped_ones_stay():
    p, g = pmf([[0.4, 0.1, 0.02], [0.03, 0.05, 0.4]]), torch.Generator().manual_seed(0)
    noise = Triangular.of(p)
    start = noisy_points(p, 500, g)
    clamped = torch.rand(500, 2, generator=g) < 0.5
    for kernel in (Langevin(noise, 0.5), MALA(noise, 0.5)):
        state = kernel.init(start, clamped)
        for _ in range(20):
            state, info = kernel.step(state, g)
        assert (noise.log_density(state.x) > -torch.inf).all()
        assert torch.equal(state.x[clamped], start[clamped])
        assert (state.x != start)[~clamped].double().mean() > 0.9
        assert info.accepted.shape == (500,)


def test_bad_pieces_are_refused_before_any_work():
    p = pmf([0.5, 0.5])
    for build in (Langevin, MALA):
        with pytest.raises(InputError, match="triangular-noise density"):
            build(p)
        with pytest.raises(InputError, match="step_size"):
            build(Triangular.of(p), step_size=-1.0)
        with pytest.raises(InputError, match="max_drift"):
            build(Triangular.of(p), max_drift=-1.0)
        with pytest.raises(InputError, match="positive probability"):
            build(Triangular.of(p)).init([[3.0]])
        with pytest.raises(InputError, match="shape"):
            build(Triangular.of(p)).init([0.5])
        with pytest.raises(InputError, match="clamped"):
            build(Triangular.of(p)).init([[0.5]], torch.tensor([[1]]))
        with pytest.raises(InputError, match="NaN"):
            build(Triangular.of(p)).init([[torch.nan]])
