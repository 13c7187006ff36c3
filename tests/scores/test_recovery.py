"""Completeness as a test: the distribution comes back from its scores."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.neighborhoods import chain, complete, cycle, cycle_two_way, explicit, grid, hamming, moore, star
from concrete_score.scores import log_ratios, pmf_log_ratios, recover, recover_support
from concrete_score.spaces import Space
from concrete_score.targets import pmf
from tests.strategies import connected_neighborhoods, generators, pmfs

both = pytest.mark.parametrize("method", ["least_squares", "tree"])


@both
@given(data=st.data())
def test_recovery_inverts_scores_on_every_connected_neighborhood(method, data):
    n = data.draw(connected_neighborhoods())
    p = data.draw(pmfs(n.space))
    recovered = recover(pmf_log_ratios(p, n), n, method=method)
    assert torch.allclose(recovered.log_pmf.exp(), p, atol=1e-10, rtol=1e-10)
    assert recovered.worst < 1e-9


@both
@pytest.mark.parametrize("make", [chain, star, cycle, complete])
def test_recovery_at_the_sizes_of_the_paper(make, method):
    space = Space((3000,)) if make is not complete else Space((300,))
    logits = torch.randn(space.num_states, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = logits.softmax(0)
    assert torch.allclose(
        recover(pmf_log_ratios(p, make(space)), make(space), method=method).log_pmf.exp(), p, atol=1e-10
    )


def test_large_systems_take_the_iterative_solver():
    space = Space((160, 160))
    p = torch.randn(space.num_states, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(0)
    recovered = recover(pmf_log_ratios(p, grid(space)), grid(space))
    assert torch.allclose(recovered.log_pmf.exp(), p, atol=1e-10)


@given(generator=generators())
def test_a_random_tree_is_a_tree_of_the_graph(generator):
    n = hamming(Space((3, 2, 2)))
    p = torch.randn(12, generator=generator, dtype=torch.float64).softmax(0)
    assert torch.allclose(recover(pmf_log_ratios(p, n), n, method="tree", generator=generator).log_pmf.exp(), p)


@both
@given(data=st.data())
def test_paths_do_not_pass_through_zero_states(method, data):
    n = complete(Space((7,)))
    p = data.draw(pmfs(n.space)) * torch.tensor([1, 0, 1, 1, 0, 1, 1])
    truth = pmf(p / p.sum())
    support = truth.probabilities.nonzero()
    recovered = recover(log_ratios(truth, n, support), n, states=support, method=method)
    assert torch.allclose(recovered.log_pmf.exp(), truth.probabilities, atol=1e-12)


def test_a_zero_state_can_cut_the_support_in_two():
    truth = pmf([0.3, 0.0, 0.3, 0.0, 0.4, 0.0])
    n = cycle_two_way(truth.space)
    support = truth.probabilities.nonzero()
    with pytest.raises(InputError, match=r"no path between the states \[0\] and \[2\]"):
        recover(log_ratios(truth, n, support), n, states=support)


def test_a_disconnected_neighborhood_names_two_states_in_different_components():
    space = Space((2, 3))
    n = explicit(space, [(0, 1), (2, 1), (3, 4), (5, 4)])
    with pytest.raises(InputError, match=r"no path between the states \[0, 0\] and \[1, 0\]"):
        recover(pmf_log_ratios(torch.full((6,), 1 / 6), n), n)


def test_inconsistent_scores_leave_their_mark():
    n = cycle(Space((3,)))
    # Going once around gains 0.3: no distribution does that. Least squares spreads it over the three edges.
    recovered = recover(torch.tensor([[0.1], [0.1], [0.1]]), n)
    assert recovered.inconsistency == pytest.approx(0.1)
    assert recovered.log_pmf.exp().tolist() == pytest.approx([1 / 3] * 3)
    assert recover(torch.tensor([[0.1], [0.1], [0.1]]), n, method="tree").worst == pytest.approx(0.3)


@pytest.mark.parametrize("make", [cycle, pytest.param(grid, marks=pytest.mark.slow)])
def test_least_squares_beats_every_one_of_a_hundred_random_trees(make):
    space = Space((16,)) if make is cycle else Space((4, 4))
    n = make(space)
    generator = torch.Generator().manual_seed(7)
    truth = torch.randn(16, generator=generator, dtype=torch.float64)
    clean = pmf_log_ratios(truth.softmax(0), n)
    noise = 0.2 * torch.randn((200, *clean.shape), generator=generator, dtype=torch.float64)

    def error(log_pmf):
        return ((log_pmf - log_pmf.mean()) - (truth - truth.mean())).square().mean().item()

    # Each tree is the same for all noise draws: its generator is seeded by the tree's number.
    def mean_error(**how):
        total = 0.0
        for draw in noise:
            generator = torch.Generator().manual_seed(how["tree"]) if "tree" in how else None
            method = "tree" if "tree" in how else "least_squares"
            total += error(recover(clean + draw, n, method=method, generator=generator).log_pmf)
        return total / len(noise)

    ours = mean_error()
    # Three trees go through `recover` draw by draw; for the rest its linearity in the ratios does the same faster.
    trees = [mean_error(tree=seed) for seed in range(3)]
    basis = torch.eye(clean.numel(), dtype=torch.float64).reshape(-1, *clean.shape)
    for seed in range(3, 100):
        linear = torch.stack(
            [recover(e, n, method="tree", generator=torch.Generator().manual_seed(seed)).log_pmf for e in basis]
        )
        linear = linear - linear.mean(-1, keepdim=True)
        trees.append((noise.reshape(200, -1) @ linear).square().mean().item())
    assert ours < min(trees)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda n: recover(torch.zeros(3, 1), n, method="magic"), "a method, got 'magic'"),
        (lambda n: recover(torch.zeros(2, 1), n), r"log-ratios of shape \(3, 1\)"),
        (lambda n: recover(torch.tensor([[0.0], [torch.nan], [0.0]]), n), r"got nan at state \[1\], slot 0"),
        (lambda n: recover(torch.tensor([[0.0], [torch.inf], [0.0]]), n), "or -inf towards a zero state, got inf"),
        (
            lambda n: recover(torch.zeros(1, 1), n, states=torch.tensor([[0]])),
            r"the state \[1\] neither given nor reached",
        ),
        (
            lambda n: recover(torch.tensor([[-torch.inf], [0.0], [0.0]]), n),
            r"the state \[1\] reached by -inf but given a row",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InputError, match=words):
        call(cycle(Space((3,))))


@given(data=st.data())
def test_a_support_is_found_whatever_its_zero_states_say(data):
    n = data.draw(st.sampled_from([hamming, moore]))(Space((3, 2, 2)))
    p = torch.rand(12, generator=data.draw(generators()), dtype=torch.float64) + 0.1
    zero = data.draw(st.lists(st.integers(1, 11), max_size=3, unique=True))
    p[zero] = 0.0
    p = p / p.sum()
    states, anything = n.space.enumerate(), torch.randn(12, n.num_slots, generator=data.draw(generators())).double()
    ratios = torch.where(p[:, None] > 0, p[n.space.index(n.neighbors(states))].log() - p[:, None].log(), anything)
    try:
        expected = recover(ratios[p > 0], n, states[p > 0]).log_pmf
    except InputError:  # the support is in pieces
        with pytest.raises(InputError):
            recover_support(ratios, n)
        return
    found = recover_support(ratios, n)
    torch.testing.assert_close(found.log_pmf.exp(), p, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(found.log_pmf, expected)


def test_a_ratio_of_zero_that_others_deny_is_read_from_its_far_end():
    n = hamming(Space((3, 2)))
    p = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.05, 0.2], dtype=torch.float64)
    ratios = pmf_log_ratios(p, n)
    ratios[0, 0] = -torch.inf
    torch.testing.assert_close(recover_support(ratios, n).log_pmf.exp(), p)
    with pytest.raises(InputError, match="towards every state"):
        recover_support(torch.full_like(ratios, -torch.inf), n)
