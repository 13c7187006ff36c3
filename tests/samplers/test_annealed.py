"""Annealed sampling on 2×3-pixel pictures with exact noisy scores: its law is what it draws, and how far it is off."""

from itertools import pairwise

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.models import mlp
from concrete_score.models.ideal import IdealDenoiser
from concrete_score.neighborhoods import cycle_two_way, hamming
from concrete_score.noise import FactorizedNoise, binarized_gaussian, categorical
from concrete_score.noise.families import log_snr
from concrete_score.protocols import Samplable
from concrete_score.samplers import Gibbs, Informed, MetropolisHastings
from concrete_score.samplers.annealed import (
    Annealed,
    annealed_heat_bath,
    annealed_informed,
    annealed_mh,
    clean_log_probs,
    reverse_chain,
)
from concrete_score.samplers.gibbs import HeatBath
from concrete_score.spaces import Space
from tests.noise.helpers import chi_square_p, mixtures
from tests.samplers.tabulated import Tabulated

SPACE = Space.bits(6)
CLAMPED = torch.tensor([True, True, True, False, False, False])
OBSERVED = torch.tensor([1, 0, 1, 0, 0, 0])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


PMF = (1.5 * torch.randn(64, generator=seeded(), dtype=torch.float64)).softmax(0)
PAPER = Tabulated(PMF, binarized_gaussian(SPACE))
RATIOS_ONLY = Tabulated(PMF, binarized_gaussian(SPACE), clean=False)


def even(count):
    return Tabulated(PMF, log_snr(SPACE, count))


def variation(p, q):
    return (p - q).abs().sum().item() / 2


def conditional(pmf):
    kept = ((SPACE.enumerate() == OBSERVED) | ~CLAMPED).all(-1)
    return torch.where(kept, pmf, 0.0) / pmf[kept].sum()


SAMPLERS = {
    "mh": Annealed(PAPER, steps=6),
    "mh_noisy": Annealed(PAPER, steps=6, finish="none", levels=(1, 4, 6)),
    "informed": Annealed(PAPER, Informed, steps=4, finish="mode"),
    "gibbs": Annealed(PAPER, Gibbs, steps=4),
    "heat_bath": Annealed(PAPER, lambda model: HeatBath(model, 0.4), steps=3),
    "reverse": reverse_chain(PAPER),
    "reverse_and_heat_bath": Annealed(PAPER, HeatBath, steps=2, descent="reverse", finish="none"),
    "ratios_only": reverse_chain(RATIOS_ONLY),
    "renoised_often": Annealed(PAPER, HeatBath, steps=5, renoise_every=2),
}
every = pytest.mark.parametrize("name", SAMPLERS)


@every
def test_draws_follow_the_law(name):
    sampler, n = SAMPLERS[name], 8_000
    assert isinstance(sampler, Samplable)
    counts = SPACE.index(sampler.sample(n, seeded(1))).bincount(minlength=64)
    law = sampler.law()
    assert law.sum().item() == pytest.approx(1, abs=1e-9)
    assert chi_square_p(counts, law.clamp_min(1e-12)) > 1e-3


@every
def test_in_painting_follows_its_law_and_keeps_what_was_observed(name):
    sampler, n = SAMPLERS[name], 8_000
    x = sampler.run(OBSERVED.expand(n, -1), seeded(2), CLAMPED).x
    assert torch.equal(x[:, CLAMPED], OBSERVED[CLAMPED].expand(n, -1))
    law = sampler.law(OBSERVED, CLAMPED)
    possible = law > 0
    counts = SPACE.index(x).bincount(minlength=64)
    assert counts[~possible].sum() == 0
    assert chi_square_p(counts[possible], law[possible] / law[possible].sum()) > 1e-3


def test_the_chi_square_test_notices_another_sampler():
    counts = SPACE.index(SAMPLERS["mh"].sample(8_000, seeded(1))).bincount(minlength=64)
    assert chi_square_p(counts, SAMPLERS["reverse"].law()) < 1e-6


def test_annealed_mh_tends_to_the_weakest_levels_noisy_distribution():
    """The paper's sampler is exact in the limit of many steps; its final noise is what is left."""
    target = PAPER.noise.noisy_pmf(PMF, 0)
    off = [variation(Annealed(PAPER, steps=steps, finish="none").law(), target) for steps in (5, 50, 500)]
    assert off[0] > 0.03
    assert off[1] < 0.02
    assert off[2] < 1e-5


def test_informed_steps_get_there_in_fewer_passes():
    target = PAPER.noise.noisy_pmf(PMF, 0)
    plain, informed = (Annealed(PAPER, kernel, 30, finish="none").law() for kernel in (MetropolisHastings, Informed))
    assert variation(informed, target) < 0.8 * variation(plain, target)


def test_the_heat_baths_bias_is_measured():
    """Unadjusted: it does not vanish with the steps, and falls with the share of sites that move at once."""
    target = PAPER.noise.noisy_pmf(PMF, 0)

    def off(share, steps):
        return variation(Annealed(PAPER, lambda m: HeatBath(m, share), steps, finish="none").law(), target)

    assert off(0.2, 400) == pytest.approx(off(0.2, 200), rel=0.01)
    assert 0.02 < off(0.2, 400) < 0.1
    assert off(0.05, 400) < 0.35 * off(0.2, 400)


def test_the_reverse_chains_bias_falls_with_the_number_of_levels():
    off = [variation(reverse_chain(even(count)).law(), PMF) for count in (8, 16, 32, 64)]
    assert off[0] > 0.05
    assert all(a / b > 1.6 for a, b in pairwise(off))


def test_in_paintings_bias_is_measured():
    """Chains know the observation through its noise only; corrupting it anew more often helps, and is not exact."""
    model, target = even(16), conditional(PMF)
    once, often = (
        variation(Annealed(model, steps=60, renoise_every=every).law(OBSERVED, CLAMPED), target) for every in (None, 1)
    )
    assert 1e-4 < often < 0.1
    assert once < 0.15
    # Without an observation there is nothing to be conditioned on: the law is the unconditional one.
    nothing = torch.zeros(6, dtype=torch.bool)
    torch.testing.assert_close(
        Annealed(model, steps=5).law(OBSERVED, nothing), Annealed(model, steps=5).law(), rtol=1e-9, atol=1e-12
    )


def test_clean_values_are_recovered_from_ratios_alone():
    states = SPACE.enumerate()
    for level in range(1, 7):
        found = clean_log_probs(RATIOS_ONLY.at(level), PAPER.noise, level, states).exp()
        torch.testing.assert_close(found, PAPER.clean_log_probs(states, level).exp(), rtol=1e-6, atol=1e-9)


def test_clean_values_are_recovered_where_sites_differ():
    space = Space((2, 3, 2))
    noise = mixtures(space, seeded(3))
    pmf = torch.randn(12, generator=seeded(4), dtype=torch.float64).softmax(0)
    model, states = Tabulated(pmf, noise, clean=False), space.enumerate()
    found = clean_log_probs(model.at(1), noise, 1, states).exp()
    torch.testing.assert_close(found, model.clean[1].exp(), rtol=1e-6, atol=1e-9)


def test_the_way_is_shown_level_by_level_and_passes_are_counted():
    stages = list(annealed_mh(PAPER, steps=7).stream(5, seeded()))
    assert [stage.level for stage in stages] == [6, 5, 4, 3, 2, 1, 0, None]
    assert [stage.passes for stage in stages] == [8, 16, 24, 32, 40, 48, 56, 57]  # a look on entering each level
    assert stages[-1].clean_log_probs.shape == (5, 6, 2)
    assert stages[-2].clean_log_probs is None
    assert 0 < stages[0].acceptance <= 1
    assert reverse_chain(PAPER).run(5, seeded()).passes == 7
    assert annealed_heat_bath(PAPER, steps=3).run(5, seeded()).passes == 7 * 3 + 1
    assert annealed_informed(PAPER, steps=3, finish="none").run(5, seeded()).passes == 7 * 4


def test_chains_may_start_somewhere():
    start = torch.ones(4, 6, dtype=torch.int64)
    first = next(iter(Annealed(PAPER, steps=1, levels=(0,)).stream(start, seeded())))
    assert (first.x != start).sum(-1).max() <= 1


def test_it_says_what_is_not_exact():
    assert Annealed(PAPER, finish="none").notes == ()
    assert any("final denoising" in note for note in annealed_mh(PAPER).notes)
    assert any("move at once" in note for note in annealed_heat_bath(PAPER, finish="none").notes)
    assert any("reverse chain" in note for note in reverse_chain(PAPER, finish="none").notes)


def test_refusals():
    plain = mlp(hamming(SPACE), generator=seeded())
    line = IdealDenoiser.of(torch.ones(4), categorical(Space((4,)), [0.9, 0.5]), cycle_two_way(Space((4,))))
    rows = [[[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]], [[0.5, 0.1, 0.4], [0.4, 0.5, 0.1], [0.1, 0.4, 0.5]]]
    apart = FactorizedNoise(Space((3,)), torch.tensor(rows, dtype=torch.float64).log()[:, None])
    for build, message in [
        (lambda: Annealed(plain), "model: expected a noise-conditional model"),
        (lambda: Annealed(PAPER, steps=0), "steps: expected a whole number of at least 1"),
        (lambda: Annealed(PAPER, renoise_every=0), "renoise_every: expected a whole number"),
        (lambda: Annealed(PAPER, levels=(7,)), "levels: expected levels from 0 to 6"),
        (lambda: Annealed(PAPER, levels=()), "levels: expected levels from 0 to 6"),
        (lambda: Annealed(PAPER, descent="jump"), "descent: expected one of keep, reverse"),
        (lambda: Annealed(PAPER, finish="guess"), "finish: expected one of none, draw, mode"),
        (lambda: Annealed(PAPER, None), "kernel: expected moves within the levels or between them"),
        (lambda: annealed_heat_bath(line), "every value of a site"),
        (lambda: reverse_chain(IdealDenoiser.of(torch.ones(3), apart, hamming(Space((3,))))), "levels that compose"),
        (lambda: Annealed(PAPER).run(OBSERVED[None], seeded(), OBSERVED), "clamped"),
        (lambda: Annealed(PAPER).law(None, CLAMPED), "observed: expected the observed state"),
    ]:
        with pytest.raises(InputError, match=message):
            build()
