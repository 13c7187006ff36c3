"""What all networks share: reproducible first weights, state that travels, gradients that hold, any leading axes."""

import pytest
import torch
from torch.func import functional_call

from concrete_score.models import energy, made, mlp, table
from concrete_score.neighborhoods import hamming
from concrete_score.noise import categorical
from concrete_score.spaces import Space

SPACE = Space((2, 3, 1, 2))
NOISE = categorical(SPACE, 0.8)

BUILD = {
    "table": lambda g, t: table(SPACE, g, dtype=t),
    "table_unnormalized": lambda g, t: table(SPACE, g, normalized=False, dtype=t),
    "made": lambda g, t: made(SPACE, 4, generator=g, dtype=t),
    "made_in_another_order": lambda g, t: made(SPACE, 4, 1, "silu", 2, generator=g, dtype=t),
    "energy": lambda g, t: energy(SPACE, (4, 3), generator=g, dtype=t),
    "mlp": lambda g, t: mlp(hamming(SPACE), generator=g, hidden=4, dtype=t),
    "mlp_raw": lambda g, t: mlp(hamming(SPACE), "raw", generator=g, hidden=4, dtype=t),
    "mlp_denoising": lambda g, t: OneLevel(mlp(hamming(SPACE), "denoising", NOISE, generator=g, hidden=4, dtype=t)),
}
every = pytest.mark.parametrize("name", BUILD)


class OneLevel(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x, 0)


def build(name, seed=0, dtype=torch.float64):
    return BUILD[name](torch.Generator().manual_seed(seed), dtype)


@every
def test_the_same_generator_gives_the_same_model(name):
    x = SPACE.enumerate()
    assert torch.equal(build(name, 3)(x), build(name, 3)(x))
    assert not torch.allclose(build(name, 3)(x), build(name, 4)(x))


@every
def test_the_state_travels_and_holds_parameters_only(name):
    one, two, x = build(name, 1), build(name, 2), SPACE.enumerate()
    state = one.state_dict()
    assert set(state) == {key for key, _ in one.named_parameters()}
    two.load_state_dict(state)
    assert torch.equal(one(x), two(x))


@every
def test_gradients_equal_finite_differences(name):
    model, x = build(name), SPACE.enumerate()
    names, values = zip(*model.named_parameters(), strict=True)

    def outputs(*parameters):
        found = functional_call(model, dict(zip(names, parameters, strict=True)), (x,))
        return torch.where(found.isfinite(), found, 0.0)

    assert torch.autograd.gradcheck(outputs, tuple(v.detach().clone().requires_grad_() for v in values))


@every
def test_every_parameter_learns(name):
    model, x = build(name), SPACE.enumerate()
    weight = torch.randn(model(x).shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found = model(x)
    (weight * torch.where(found.isfinite(), found, 0.0)).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    if not name.startswith("energy"):  # a constant of an energy changes no ratio, but does change its value
        assert all(p.grad.abs().max() > 0 for p in model.parameters() if p.numel())


@every
def test_float32_is_the_default_kind_of_answer_and_close_to_float64(name):
    exact, x = build(name), SPACE.enumerate()
    single = build(name, dtype=torch.float32)
    single.load_state_dict(exact.state_dict())
    assert single(x).dtype == torch.float32
    torch.testing.assert_close(single(x).double(), exact(x), rtol=1e-4, atol=1e-5)


@every
def test_any_leading_axes_and_narrow_states_are_taken(name):
    model, x = build(name), SPACE.enumerate()
    expected = model(x)
    torch.testing.assert_close(model(x.reshape(3, 1, 4, 4)).reshape(expected.shape), expected)
    torch.testing.assert_close(model(x[5]), expected[5])
    torch.testing.assert_close(model(x.to(torch.uint8)), expected)
    assert model(x[:0]).shape == (0, *expected.shape[1:])
