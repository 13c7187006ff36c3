"""Proposition 1 measured: the scaled Concrete score approaches the Stein score at rate δ."""

import pytest
import torch

from concrete_score.scores import central_difference_score, scaled_score

DELTAS = torch.logspace(-2, -4, 9, dtype=torch.float64)


def gaussian_mixture(dimensions, generator):
    center = torch.randn((3, dimensions), generator=generator, dtype=torch.float64)
    weight = torch.rand(3, generator=generator, dtype=torch.float64).log_softmax(0)
    return lambda x: (weight - (x[..., None, :] - center).square().sum(-1)).logsumexp(-1)


def gradients(log_density, x):
    """Stein score and ∂²p/p at each point, by automatic differentiation."""
    x = x.clone().requires_grad_()
    (score,) = torch.autograd.grad(log_density(x).sum(), x, create_graph=True)
    second = torch.stack(
        [torch.autograd.grad(score[:, d].sum(), x, retain_graph=True)[0][:, d] for d in range(x.shape[1])], -1
    )
    return score.detach(), (second + score.square()).detach()


def slope(error):
    """Least-squares slope of log error in log δ."""
    a = DELTAS.log() - DELTAS.log().mean()
    return float((a @ (error.log() - error.log().mean())) / (a @ a))


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_slopes_of_the_stein_limit(dimensions):
    generator = torch.Generator().manual_seed(dimensions)
    log_density = gaussian_mixture(dimensions, generator)
    x = torch.randn((20, dimensions), generator=generator, dtype=torch.float64)
    stein, curvature = gradients(log_density, x)
    steep = curvature.abs().min(-1).values > 0.3  # where the second derivative vanishes the rate is better than 1
    x, stein, curvature = x[steep], stein[steep], curvature[steep]
    assert len(x) >= 3
    forward = torch.stack([(scaled_score(log_density, x, float(d)) - stein).norm() for d in DELTAS])
    assert slope(forward) == pytest.approx(1, abs=0.02)
    # Finite-difference score matching's form is of second order, and the two differ by δ/2 ∂²p/p.
    central = torch.stack([(central_difference_score(log_density, x, float(d)) - stein).norm() for d in DELTAS])
    assert slope(central) == pytest.approx(2, abs=0.1)
    gap = scaled_score(log_density, x, 1e-4) - central_difference_score(log_density, x, 1e-4)
    assert torch.allclose(gap / 1e-4, curvature / 2, rtol=1e-2, atol=1e-3)
