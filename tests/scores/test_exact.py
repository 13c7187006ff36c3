"""Exact scores are pmf ratios, on every neighborhood, chunked or not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.neighborhoods import cycle, hamming
from concrete_score.scores import concrete_scores, log_ratios, pmf_log_ratios
from concrete_score.spaces import Space
from concrete_score.targets import Pmf, pmf
from tests.strategies import neighborhoods, pmfs


@given(data=st.data(), chunk=st.sampled_from([1, 7, 2**18]))
def test_scores_are_pmf_ratios_minus_one(data, chunk):
    n = data.draw(neighborhoods())
    p = data.draw(pmfs(n.space))
    states = n.space.enumerate()
    score = concrete_scores(Pmf(n.space, p.log()), n, states, chunk=chunk)
    table = pmf_log_ratios(p, n)
    for i, k in n.valid(states).nonzero().tolist():
        y = n.space.index(n.neighbor(states[i], torch.tensor(k)))
        assert float(score[i, k]) == pytest.approx(float(p[y] / p[i] - 1), rel=1e-12, abs=1e-12)
        assert float(table[i, k]) == pytest.approx(float(score[i, k].log1p()), rel=1e-9, abs=1e-12)
    assert (score[~n.valid(states)] == 0).all()
    assert (table[~n.valid(states)] == 0).all()


class CountingDensity:
    """Counts the rows it evaluates."""

    normalized = False

    def __init__(self, space):
        self.space, self.rows, self.calls, self.largest = space, 0, 0, 0

    def log_density(self, x):
        self.rows, self.calls, self.largest = self.rows + len(x), self.calls + 1, max(self.largest, len(x))
        return x.double().sum(-1)


def test_each_row_and_each_valid_neighbor_is_evaluated_once_and_memory_is_bounded():
    density = CountingDensity(Space((2,) * 50))
    x = density.space.uniform(40, torch.Generator().manual_seed(0))
    log_ratios(density, hamming(density.space), x, chunk=50 * 100)
    assert density.rows == 40 * 51
    assert density.largest <= 100 + 1


def test_gradients_flow_to_the_density():
    logits = torch.randn(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)

    class Logits:
        space, normalized = Space((2, 3)), False

        def log_density(self, x):
            return logits[self.space.index(x)]

    n = hamming(Logits.space)
    weight = torch.randn((6, n.num_slots), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (log_ratios(Logits(), n, n.space.enumerate(), chunk=8) * weight).sum().backward()
    expected = -weight.sum(1)
    target = n.space.index(n.neighbors(n.space.enumerate()))
    expected.index_add_(0, target.flatten(), weight.flatten())
    assert torch.allclose(logits.grad, expected, atol=1e-12)


def test_zero_probability_is_legal_ahead_and_an_error_underfoot():
    p = pmf([0.5, 0.0, 0.5])
    n = cycle(p.space)
    assert log_ratios(p, n, torch.tensor([[0]])).item() == -torch.inf
    assert concrete_scores(p, n, torch.tensor([[0]])).item() == -1
    with pytest.raises(InputError, match=r"the state \[1\] of probability zero"):
        log_ratios(p, n, torch.tensor([[0], [1]]))
    with pytest.raises(InputError, match=r"a strictly positive pmf, got 0.0 at \[1\]"):
        pmf_log_ratios(p.probabilities, n)


def test_density_and_neighborhood_must_share_a_space():
    with pytest.raises(InputError, match="density and neighborhood on the same space"):
        log_ratios(pmf([0.5, 0.5]), cycle(Space((3,))), torch.tensor([[0]]))


def test_no_rows_give_no_ratios():
    p = pmf([0.5, 0.5])
    assert log_ratios(p, cycle(p.space), torch.empty((0, 1), dtype=torch.int64)).shape == (0, 1)
