"""One contract for every registered divergence: its two functions are those of its convex f."""

import pytest
import torch

from concrete_score import registry

every = pytest.mark.parametrize("divergence", [registry.load("divergences", n) for n in registry.names("divergences")])
L = torch.linspace(-6, 6, 25, dtype=torch.float64)


def derivatives(divergence, l):
    """f, f' and f'' at r = exp(l), by automatic differentiation in r."""
    r = l.exp().requires_grad_()
    f = divergence.f(r.log())
    (first,) = torch.autograd.grad(f.sum(), r, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), r)
    return f.detach(), first.detach(), second


@every
def test_a_and_b_belong_to_f(divergence):
    f, first, _ = derivatives(divergence, L)
    torch.testing.assert_close(divergence.b(L), first, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(divergence.a(L), L.exp() * first - f, rtol=1e-9, atol=1e-10)


@every
def test_f_is_strictly_convex_with_its_stated_curvature(divergence):
    assert (derivatives(divergence, L)[2] > 0).all()
    assert derivatives(divergence, torch.zeros(1, dtype=torch.float64))[2].item() == pytest.approx(divergence.curvature)


@every
def test_boundedness_is_as_stated(divergence):
    far = divergence.b(torch.tensor([20.0, 40.0], dtype=torch.float64))
    assert divergence.bounded == bool(far[1] - far[0] < 1)


@every
def test_gradients_are_finite_far_out(divergence):
    l = torch.tensor([-60.0, 60.0], dtype=torch.float64, requires_grad=True)
    (divergence.a(l) - divergence.b(l)).sum().backward()
    assert l.grad.isfinite().all()


@every
def test_raw_forms_extend_the_positive_ones(divergence):
    if divergence.raw is None:
        assert divergence.name != "csm"
        return
    a, b = divergence.raw
    torch.testing.assert_close(a(L.expm1()), divergence.a(L))
    torch.testing.assert_close(b(L.expm1()), divergence.b(L))
    assert a(torch.tensor(-3.0)).isfinite()
