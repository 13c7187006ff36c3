"""Objectives on noise levels against the exact scores of 2×3-pixel pictures, enumerated in full."""

import pytest
import torch
from torch import nn

from concrete_score import objectives
from concrete_score.errors import InputError
from concrete_score.models import mlp
from concrete_score.models.ideal import IdealDenoiser
from concrete_score.models.unet import unet
from concrete_score.neighborhoods import grid, hamming
from concrete_score.noise import binarized_gaussian, categorical
from concrete_score.objectives import divergences
from concrete_score.objectives.bregman import BregmanObjective
from concrete_score.objectives.denoising import CleanValue, Denoising, Noisy, clean_value, noisy
from concrete_score.objectives.estimators import AllEdges, IndependentEdges, PairedEdges
from concrete_score.spaces import Space

SPACE = Space.bits(6)
NOISE = binarized_gaussian(SPACE, (0.3, 0.5))
HAMMING = hamming(SPACE)
EVERY_F = [divergences.csm, divergences.score_entropy, divergences.logistic, divergences.ratio_matching]
every_f = pytest.mark.parametrize("f", EVERY_F, ids=lambda f: f.name)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


PMF = (1.5 * torch.randn(64, generator=seeded(), dtype=torch.float64)).softmax(0)
IDEAL = IdealDenoiser.of(PMF, NOISE, HAMMING)


class Free(nn.Module):
    """A saturated model: one free log-ratio for every level, state and slot, and one free logit for clean values."""

    def __init__(self, ratios, logits):
        super().__init__()
        self.ratios, self.logits = nn.Parameter(ratios), nn.Parameter(logits)
        self.noise = NOISE

    def at(self, level):
        return _At(self, level)

    def clean_log_probs(self, x, level):
        return self.logits[level, SPACE.index(x)].log_softmax(-1)


class _At:
    def __init__(self, free, level):
        self.free, self.level, self.neighborhood = free, level, HAMMING

    def log_ratios(self, x):
        return self.free.ratios[self.level, SPACE.index(x)]


def exact_tables():
    states = SPACE.enumerate()
    ratios = torch.stack([IDEAL.at(level).log_ratios(states) for level in range(2)])
    logits = torch.stack([IDEAL.clean_log_probs(states, level) for level in range(2)])
    return ratios, logits


def random_model(seed):
    ratios, logits = exact_tables()
    moved = [torch.randn(t.shape, generator=seeded(seed), dtype=torch.float64) for t in (ratios, logits)]
    return Free(ratios + 0.5 * moved[0], logits + 0.5 * moved[1])


def denoising(f):
    return Denoising(f, NOISE, HAMMING)


def on_samples(f):
    return Noisy(BregmanObjective(f, IndependentEdges(HAMMING, full_source=True)), NOISE)


@every_f
@pytest.mark.parametrize("objective", [denoising, on_samples])
def test_the_exact_noisy_scores_are_the_minimum(objective, f):
    """Zero gradient there, and more loss everywhere around."""
    best = Free(*exact_tables())
    value = objective(f).exact(best, PMF)
    (slope,) = torch.autograd.grad(value, best.ratios)
    assert slope.abs().max() < 1e-12
    assert all(objective(f).exact(random_model(seed), PMF) > value + 1e-4 for seed in range(5))


@every_f
def test_denoising_and_samples_are_one_objective_up_to_a_constant(f):
    """``D-CSM - J_f(noisy)`` is the same number for any model (theorem 3 at every level)."""
    gaps = [denoising(f).exact(m, PMF) - on_samples(f).exact(m, PMF) for m in map(random_model, range(5))]
    torch.testing.assert_close(torch.stack(gaps), gaps[0].expand(5), rtol=1e-10, atol=1e-10)


def test_the_true_posterior_is_the_minimum_of_the_clean_values_cross_entropy():
    best = Free(*exact_tables())
    value = CleanValue(NOISE).exact(best, PMF)
    (slope,) = torch.autograd.grad(value, best.logits)
    assert slope.abs().max() < 1e-12
    assert all(CleanValue(NOISE).exact(random_model(seed), PMF) > value + 1e-3 for seed in range(5))


def test_its_minimum_gives_the_exact_ratios_through_a_denoising_head():
    """Property 1: the head of `unet` at the true posterior has the noisy distribution's ratios."""
    model = unet(HAMMING, noise=NOISE, shape=(2, 3), width=4, depth=1, generator=seeded(), dtype=torch.float64)
    states = SPACE.enumerate()
    for level in range(2):
        posterior = IDEAL.clean_log_probs(states, level).flatten(1)
        torch.testing.assert_close(
            model.head.log_ratios(posterior, states, level), IDEAL.at(level).log_ratios(states), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(
    "edges", [IndependentEdges(HAMMING), IndependentEdges(HAMMING, full_source=True), PairedEdges(HAMMING)]
)
@every_f
def test_drawn_losses_are_unbiased(edges, f):
    objective = Noisy(BregmanObjective(f, edges), NOISE)
    model, n = random_model(7), 40_000
    rows = SPACE.state(torch.multinomial(PMF, n, True, generator=seeded(1)))
    losses = objective.loss(model, objective.draw(rows, seeded(2))).detach()
    z = (losses.mean() - objective.exact(model, PMF).detach()) / (losses.std() / n**0.5)
    assert abs(z) < 4


@pytest.mark.parametrize("levels", [None, (1,)])
def test_drawn_cross_entropies_are_unbiased(levels):
    objective, model, n = CleanValue(NOISE, levels), random_model(8), 40_000
    rows = SPACE.state(torch.multinomial(PMF, n, True, generator=seeded(1)))
    draws = objective.draw(rows, seeded(2))
    losses = objective.loss(model, draws).detach()
    assert abs(losses.mean() - objective.exact(model, PMF).detach()) < 4 * losses.std() / n**0.5
    assert torch.equal(losses[3:9], objective.loss(model, draws.rows(slice(3, 9))).detach())


def test_a_slice_of_the_draws_has_its_own_losses():
    objective, model = on_samples(divergences.csm), random_model(9)
    draws = objective.draw(SPACE.enumerate(), seeded(2))
    losses = objective.loss(model, draws)
    torch.testing.assert_close(objective.loss(model, draws.rows(slice(5, 20))), losses[5:20])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clean_value", "denoising", "noisy"])
def test_a_small_u_net_learns_the_exact_noisy_scores(name):
    """Full-sum gradients, so that nothing is left to chance but the first weights."""
    model = unet(HAMMING, noise=NOISE, shape=(2, 3), width=16, depth=1, generator=seeded(), dtype=torch.float64)
    level, steps = 1, 150
    objective = {
        "clean_value": CleanValue(NOISE, (level,)),
        "denoising": Denoising(divergences.score_entropy, NOISE, HAMMING, (level,)),
        "noisy": Noisy(BregmanObjective(divergences.score_entropy, IndependentEdges(HAMMING)), NOISE, (level,)),
    }[name]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / steps)
        optimizer.zero_grad()
        objective.exact(model, PMF).backward()
        optimizer.step()
    states, weight = SPACE.enumerate(), NOISE.noisy_pmf(PMF, level)
    exact = IDEAL.at(level).log_ratios(states)
    gap = (model.at(level).log_ratios(states) - exact).square().mean(-1)
    assert (weight @ gap).sqrt() < 0.1 * (weight @ exact.square().mean(-1)).sqrt()


def test_builders_and_their_names():
    assert clean_value(SPACE, noise=NOISE, levels=(1,)).chosen_levels == (1,)
    built = noisy(SPACE, noise=NOISE, neighborhood=grid(SPACE), f="logistic", edges="paired", m=2)
    assert built.objective.edges.m == 2
    assert noisy(SPACE, noise=NOISE).objective.edges.full_source
    assert isinstance(built, objectives.BregmanObjective) is False


def test_refusals():
    plain = mlp(HAMMING, generator=seeded())
    ratios = mlp(HAMMING, noise=NOISE, generator=seeded())
    raw = mlp(HAMMING, "raw", NOISE, generator=seeded())
    with pytest.raises(InputError, match="a noise-conditional model"):
        on_samples(divergences.csm).check(plain)
    with pytest.raises(InputError, match="denoising head"):
        CleanValue(NOISE).check(plain)
    with pytest.raises(InputError, match="denoising head"):
        CleanValue(NOISE).check(ratios)
    with pytest.raises(InputError, match="ratios that stay positive"):
        on_samples(divergences.logistic).check(raw)
    on_samples(divergences.csm).check(raw)
    with pytest.raises(InputError, match="edges that are drawn"):
        Noisy(BregmanObjective(divergences.csm, AllEdges(HAMMING)), NOISE).draw(SPACE.enumerate(), seeded())
    for build in (clean_value, noisy):
        with pytest.raises(InputError, match="noise"):
            build(SPACE)
        with pytest.raises(InputError, match="levels from 0 to 1"):
            build(SPACE, noise=NOISE, levels=(2,))
    with pytest.raises(InputError, match="space"):
        clean_value(Space.bits(3), noise=NOISE)
    with pytest.raises(InputError, match="space"):
        Noisy(BregmanObjective(divergences.csm, PairedEdges(HAMMING)), categorical(Space.bits(3), [0.9]))
