"""The variational bound against the exact density of the reverse chain, on spaces enumerated in full."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.likelihood.variational import ReverseChain, variational
from concrete_score.models import Table, mlp
from concrete_score.models.ideal import IdealDenoiser
from concrete_score.models.unet import unet
from concrete_score.neighborhoods import hamming
from concrete_score.noise import FactorizedNoise, binarized_gaussian, categorical
from concrete_score.noise.families import log_snr
from concrete_score.samplers.annealed import reverse_chain
from concrete_score.spaces import Space
from tests.noise.helpers import mixtures
from tests.samplers.tabulated import Tabulated
from tests.strategies import generators, pmfs, spaces

SPACE = Space.bits(6)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


PMF = (1.5 * torch.randn(64, generator=seeded(), dtype=torch.float64)).softmax(0)


def u_net(noise, seed=0):
    return unet(
        hamming(SPACE), noise=noise, shape=(2, 3), width=8, depth=1, generator=seeded(seed), dtype=torch.float64
    )


MODELS = {
    "u_net": lambda: u_net(binarized_gaussian(SPACE)),
    "u_net_even": lambda: u_net(log_snr(SPACE, 5), 1),
    "ideal": lambda: Tabulated(PMF, binarized_gaussian(SPACE)),
    "ideal_even": lambda: Tabulated(PMF, log_snr(SPACE, 12)),
}
every = pytest.mark.parametrize("name", MODELS)


@every
def test_the_bound_is_below_the_chains_exact_log_likelihood(name):
    chain = ReverseChain(MODELS[name]())
    bound, density = chain.exact_bound(), chain.log_density()
    assert density.exp().sum().item() == pytest.approx(1, abs=1e-9)
    assert (bound <= density + 1e-9).all()
    assert (density - bound).max() > 1e-3, "a bound that is never loose here is no bound of this chain"


@settings(max_examples=15)
@given(st.data())
def test_the_bound_holds_on_any_space_for_any_network(data):
    space = data.draw(spaces(max_states=12).filter(lambda s: s.num_states > 1))
    noise = mixtures(space, data.draw(generators()), one_target=True)
    model = mlp(hamming(space), "denoising", noise, generator=data.draw(generators()), dtype=torch.float64, hidden=8)
    chain = ReverseChain(model)
    assert chain.log_density().exp().sum().item() == pytest.approx(1, abs=1e-9)
    assert (chain.exact_bound() <= chain.log_density() + 1e-9).all()


def test_the_chains_density_is_the_law_of_its_sampler():
    model = u_net(log_snr(SPACE, 5))
    torch.testing.assert_close(ReverseChain(model).log_density().exp(), reverse_chain(model).law())


@given(st.data())
def test_one_site_and_the_true_posterior_leave_only_the_priors_gap(data):
    """Then sites are not torn apart, and ``E bound = -H(p) - KL(p̃_top ‖ uniform)`` exactly."""
    size = data.draw(st.integers(2, 5))
    space = Space((size,))
    pmf = data.draw(pmfs(space))
    noise = mixtures(space, data.draw(generators()), one_target=True)
    chain = ReverseChain(IdealDenoiser.of(pmf, noise, hamming(space)))
    top = noise.noisy_pmf(pmf, noise.num_levels - 1)
    expected = pmf @ pmf.log() - top @ (top * size).log()
    assert (pmf @ chain.exact_bound()).item() == pytest.approx(expected.item(), abs=1e-9)


def test_more_levels_bring_the_ideal_bound_to_the_entropy():
    entropy = -(PMF @ PMF.log())
    gap = [(-entropy - PMF @ ReverseChain(Tabulated(PMF, log_snr(SPACE, n))).exact_bound()).item() for n in (4, 8, 16)]
    assert all(b < a for a, b in pairwise(gap))
    assert 0 < gap[-1] < 0.25


@pytest.mark.parametrize("draws", [1, 3])
def test_estimates_are_unbiased_row_by_row(draws):
    chain = ReverseChain(u_net(binarized_gaussian(SPACE)))
    rows, copies = SPACE.enumerate()[:8], 600
    found = chain.estimate(rows.repeat_interleave(copies, 0), seeded(3), draws).reshape(8, copies)
    z = (found.mean(1) - chain.exact_bound()[:8]) / (found.std(1) / copies**0.5)
    assert z.abs().max() < 4
    assert z.abs().min() > 0


def test_the_result_is_a_lower_bound_with_an_honest_error():
    model = Tabulated(PMF, log_snr(SPACE, 5))
    exact = ReverseChain(model).exact_bound().mean().item()
    results = [variational(model, SPACE.enumerate(), seeded(seed), draws=4) for seed in range(30)]
    z = torch.tensor([(r.lower - exact) / r.bound_stderr for r in results])
    assert abs(z.mean()) < 4 / 30**0.5
    assert 0.65 < z.std() < 1.4
    first = results[0]
    assert (first.method, first.upper, first.log_likelihood, first.rows, first.sites) == (
        "variational",
        None,
        None,
        64,
        6,
    )
    assert first.to_json()["upper"] is None


def test_what_has_no_bound_says_why():
    noise = binarized_gaussian(SPACE)
    rows = SPACE.enumerate()[:5]
    weak = [[0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]]
    strong = [[0.5, 0.1, 0.4], [0.4, 0.5, 0.1], [0.1, 0.4, 0.5]]
    apart = FactorizedNoise(Space((3,)), torch.tensor([weak, strong], dtype=torch.float64).log()[:, None])
    cases = [
        (mlp(hamming(SPACE), "log_ratio", noise, generator=seeded()), rows, "only a denoising head"),
        (mlp(hamming(SPACE), "raw", noise, generator=seeded()), rows, "only a denoising head"),
        (Table(SPACE), rows, "no noise levels"),
        (IdealDenoiser.of(torch.ones(3), apart, hamming(Space((3,)))), [[0], [1]], "do not compose"),
    ]
    for model, some, words in cases:
        result = variational(model, some, seeded())
        assert (result.method, result.lower, result.upper, result.rows) == ("none", None, None, len(some))
        assert words in result.warnings[0]
        with pytest.raises(InputError, match="a denoising head on levels that compose"):
            ReverseChain(model)


def test_refusals():
    model = IdealDenoiser.of(PMF, categorical(SPACE, [0.9]), hamming(SPACE))
    for draws in (0, 1, 3):
        with pytest.raises(InputError, match="draws: expected an even number"):
            variational(model, SPACE.enumerate(), seeded(), draws)
    with pytest.raises(InputError, match="rows"):
        variational(model, [[0, 1]], seeded())
