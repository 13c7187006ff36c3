"""Compositions follow their matrix; tempering crosses what a cold chain cannot; annealing is a loop over kernels."""

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.models.score import DensityScore
from concrete_score.neighborhoods import cycle_two_way, hamming
from concrete_score.noise import categorical
from concrete_score.samplers import (
    Composition,
    Gibbs,
    Informed,
    MetropolisHastings,
    MultiSite,
    Tempering,
    carry,
    run,
)
from concrete_score.targets import Ising, pmf
from tests.samplers.checks import assert_counts_follow, assert_keeps, stationary, step_counts


def two_modes():
    """Two peaks with a valley of e**-8 between them, on a cycle of ten."""
    logits = torch.full((10,), -8.0, dtype=torch.float64)
    logits[[0, 5]] = 0.0
    return pmf(logits.softmax(0))


def moves_on_the_cycle(density):
    return MetropolisHastings(density, cycle_two_way(density.space), laziness=0.1)


def test_a_composition_of_kernels_with_memory_follows_its_matrix():
    model, g = Ising((1, 3), 0.7), torch.Generator().manual_seed(0)
    both = Composition((MetropolisHastings(model), Informed(model), Gibbs(model)))
    assert_keeps(both.transition_matrix(), stationary(model), reversible=False)
    counts = step_counts(both, model.space.enumerate(), 2000, g)
    assert_counts_follow(counts, both.transition_matrix())


def test_the_cold_copy_crosses_where_the_plain_chain_cannot():
    p, g = two_modes(), torch.Generator().manual_seed(0)

    def share_across(kernel):
        last = run(kernel, torch.zeros(400, 1, dtype=torch.int64), steps=400, generator=g, diagnose=False, keep=False)
        return (last.state.x == 5).double().mean().item()

    assert share_across(moves_on_the_cycle(p)) < 0.1
    warm = Tempering(p, (1.0, 0.5, 0.2, 0.05), moves_on_the_cycle)
    assert abs(share_across(warm) - 0.5) < 0.12


def test_any_kernel_can_be_tempered_exactly():
    model, g = Ising((1, 2), 0.8, field=0.3), torch.Generator().manual_seed(0)
    pi = stationary(model)
    joint = torch.kron(pi, (0.4 * pi.log()).softmax(0))
    for build in (Informed, Gibbs, MultiSite):
        kernel = Tempering(model, (1.0, 0.4), build)
        assert_keeps(kernel.transition_matrix(), joint, reversible=False)
        counts = step_counts(kernel, kernel.product_space.enumerate(), 2000, g)
        assert_counts_follow(counts, kernel.transition_matrix())


def test_impossible_states_stay_out_of_all_copies():
    p, g = pmf([0.3, 0.0, 0.7]), torch.Generator().manual_seed(0)
    kernel = Tempering(p, (1.0, 0.5))
    state = kernel.init(torch.zeros(500, 1, dtype=torch.int64))
    for _ in range(20):
        state, _ = kernel.step(state, g)
        assert (state.memory.x != 1).all()


def test_annealing_over_noise_levels_ends_at_the_last_models_distribution():
    p, g = two_modes(), torch.Generator().manual_seed(0)
    noise = categorical(p.space, [0.95, 0.6, 0.2])
    levels = range(noise.num_levels)
    noisy = [pmf(p.probabilities @ noise.site_log_prob(level, 0).exp()) for level in levels]
    kernels = [moves_on_the_cycle(each) for each in reversed(noisy)]
    x = carry(kernels, p.space.uniform(4000, g), 60, g).x
    share = (x == 5).double().mean().item()
    wanted = noisy[0].probabilities[5].item()
    assert abs(share - wanted) < 5 * (wanted * (1 - wanted) / 4000) ** 0.5


def test_bad_pieces_are_refused_before_any_work():
    p = pmf([0.5, 0.5])
    with pytest.raises(InputError, match="needs log_density"):
        Tempering(DensityScore(p, hamming(p.space)))
    for temperatures in ((), (0.9, 0.5), (1.0, 1.0), (1.0, 0.5, 0.7), (1.0, 0.0)):
        with pytest.raises(InputError, match="inverse"):
            Tempering(p, temperatures)
    with pytest.raises(InputError, match="inner_steps"):
        Tempering(p, inner_steps=0)
    kernel = Tempering(pmf([[0.25, 0.25], [0.25, 0.25]]), (1.0, 0.5))
    with pytest.raises(InputError, match="agree on clamped sites"):
        kernel.start(torch.tensor([[[0, 0], [1, 0]]]), torch.tensor([True, False]))
    with pytest.raises(InputError, match="positive probability"):
        Tempering(pmf([1.0, 0.0])).init([[1]])
    with pytest.raises(InputError, match="at least one kernel"):
        carry([], [[0]], 1, torch.Generator())
    with pytest.raises(InputError, match="same space"):
        Composition((Gibbs(pmf([0.2, 0.3, 0.5])), Gibbs(pmf([0.5, 0.5]))))
