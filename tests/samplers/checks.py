"""What kernels are held against: exact matrices, and counts of real steps."""

import torch
from hypothesis import strategies as st

from concrete_score.samplers import Relaxed, Tempering
from tests.strategies import generators


@st.composite
def relaxed_targets(draw, space):
    """A random smooth density of site probabilities: a density, differentiable, linear in no site."""
    g = draw(generators())
    width = space.num_sites * max(space.sizes)
    read = torch.randn(width, 5, generator=g, dtype=torch.float64)
    write = 2 * torch.randn(5, generator=g, dtype=torch.float64)
    return Relaxed(space, lambda p: (p.flatten(-2) @ read).tanh() @ write)


@st.composite
def masks(draw, space):
    """Some sites clamped, perhaps none, perhaps all ``(D,)``."""
    return torch.tensor(draw(st.lists(st.booleans(), min_size=space.num_sites, max_size=space.num_sites)))


def stationary(model):
    """π ``(S,)`` of a density, by enumeration."""
    return model.log_density(model.space.enumerate()).detach().double().softmax(0)


def assert_stochastic(matrix):
    assert matrix.dtype == torch.float64
    assert (matrix >= 0).all()
    torch.testing.assert_close(matrix.sum(-1), torch.ones(len(matrix), dtype=torch.float64), atol=1e-12, rtol=0)


def assert_keeps(matrix, pi, reversible):
    """πP = π; detailed balance where claimed."""
    torch.testing.assert_close(pi @ matrix, pi, atol=1e-10, rtol=0)
    if reversible:
        flow = pi[:, None] * matrix
        torch.testing.assert_close(flow, flow.T, atol=1e-10, rtol=0)


def step_counts(kernel, rows, copies, generator, clamped=None):
    """How often one real step leads from each of ``rows`` to each state of the kernel's (product) space."""
    starts = rows.repeat_interleave(copies, 0)
    if isinstance(kernel, Tempering):
        space = kernel.product_space
        state = kernel.start(starts.reshape(len(starts), -1, kernel.space.num_sites), clamped)
        after = kernel.step(state, generator)[0].memory.x.flatten(1)
    else:
        space = kernel.space
        after = kernel.step(kernel.init(starts, clamped), generator)[0].x
    code = torch.arange(len(rows)).repeat_interleave(copies) * space.num_states + space.index(after)
    return torch.bincount(code, minlength=len(rows) * space.num_states).reshape(len(rows), -1).double()


def assert_counts_follow(counts, matrix, worst=5.0):
    """Chi-square of all rows together; cells that expect fewer than five are pooled row by row."""
    total = counts.sum(-1, keepdim=True)
    expected = total * matrix
    assert counts[matrix < 1e-14].sum() == 0
    big = expected >= 5
    seen = torch.cat([torch.where(big, counts, 0), torch.where(big, 0, counts).sum(-1, keepdim=True)], -1)
    want = torch.cat([torch.where(big, expected, 0), torch.where(big, 0, expected).sum(-1, keepdim=True)], -1)
    used = want > 0.5
    chi = ((seen - want).square() / want)[used].sum().item()
    freedom = int(used.sum()) - len(counts)
    assert chi - freedom < worst * (2 * max(1, freedom)) ** 0.5 + 3
