"""Heads: outputs become ratios; the denoising head is exact at the exact posterior."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.models import DenoisingHead, Head, LogRatioHead, RawHead
from concrete_score.neighborhoods import chain_two_way, explicit, grid, hamming, moore
from concrete_score.noise import FactorizedNoise, binarized_gaussian, categorical
from concrete_score.protocols import Neighborhood
from concrete_score.scores import pmf_log_ratios
from concrete_score.spaces import Space
from tests.strategies import generators, neighborhoods, pmfs, products, spaces

WEIGHTS = (0.95, 0.6)


def posterior_outputs(noise, pmf, level):
    """The exact clean posterior of each site at every noisy state, as the outputs a head reads ``(S, Σ sizes)``."""
    states = noise.space.enumerate()
    log_joint = pmf.log() + noise.log_prob(states[:, None], states, level)  # [noisy, clean]
    clean = log_joint.softmax(-1)
    columns = [clean[:, states[:, d] == v].sum(-1) for d, size in enumerate(noise.space.sizes) for v in range(size)]
    return torch.stack(columns, -1).log()


@given(products(), st.data())
def test_the_exact_posterior_gives_the_log_ratios_of_the_noisy_distribution(neighborhood, data):
    """Property 1 with the denoising head, at every level."""
    space = neighborhood.space
    noise, pmf, states = categorical(space, WEIGHTS), data.draw(pmfs(space)), space.enumerate()
    head = DenoisingHead(noise, neighborhood)
    for level in range(noise.num_levels):
        outputs = posterior_outputs(noise, pmf, level)
        found = head.log_ratios(outputs, states, level)
        torch.testing.assert_close(found, pmf_log_ratios(noise.noisy_pmf(pmf, level), neighborhood))
    at_last = head.log_ratios(outputs, states, torch.full((len(states),), level))
    assert torch.equal(at_last, found)


@given(spaces(max_sites=2), generators())
def test_noise_that_is_not_symmetric_and_known_by_its_protocol_alone_is_as_exact(space, generator):
    noise, pmf = Foreign.draw(space, generator), torch.rand(space.num_states, generator=generator).double()
    pmf, neighborhood = pmf / pmf.sum(), hamming(space)
    twin = FactorizedNoise(space, noise.table())
    found = DenoisingHead(noise, neighborhood).log_ratios(posterior_outputs(twin, pmf, 0), space.enumerate(), 0)
    torch.testing.assert_close(found, pmf_log_ratios(twin.noisy_pmf(pmf, 0), neighborhood))


@given(products(), generators())
def test_denoised_ratios_are_bounded_by_the_noises_own_whatever_the_outputs(neighborhood, generator):
    space = neighborhood.space
    noise, states = categorical(space, WEIGHTS), space.enumerate()
    head = DenoisingHead(noise, neighborhood)
    outputs = 20 * torch.randn(len(states), head.out_features, generator=generator, dtype=torch.float64)
    level = torch.randint(2, (len(states),), generator=generator)
    bounds = noise.log_ratios(states[:, None], states[None], level[:, None], neighborhood)  # [noisy, clean, slot]
    found = head.log_ratios(outputs, states, level)
    assert (found <= bounds.amax(1) + 1e-12).all()
    assert (found >= bounds.amin(1) - 1e-12).all()


def test_levels_may_differ_by_row():
    space = Space.bits(3)
    head = DenoisingHead(binarized_gaussian(space), hamming(space))
    outputs = torch.randn(7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = space.enumerate()[:7]
    rows = [head.log_ratios(outputs[i], x[i], i) for i in range(7)]
    torch.testing.assert_close(head.log_ratios(outputs, x, torch.arange(7)), torch.stack(rows))


@pytest.mark.parametrize("name", registry.names("heads"))
@given(data=st.data())
def test_every_head_gives_zero_at_invalid_slots_and_finite_gradients(name, data):
    neighborhood = data.draw(products() if name == "denoising" else neighborhoods())
    space, generator = neighborhood.space, data.draw(generators())
    head = registry.load("heads", name).build(neighborhood, categorical(space, WEIGHTS))
    assert isinstance(head, Head)
    states = space.enumerate()
    outputs = 2 * torch.randn(len(states), head.out_features, generator=generator, dtype=torch.float64)
    outputs.requires_grad_()
    found, valid = head.log_ratios(outputs, states, 0), neighborhood.valid(states)
    assert found.shape == valid.shape
    assert (found[~valid] == 0.0).all()
    torch.where(found.isfinite(), found, 0.0).sum().backward()
    assert outputs.grad.isfinite().all()
    deep = head.log_ratios(outputs[:, None], states[:, None], 0)
    assert torch.equal(deep[:, 0], found)


@given(neighborhoods(), generators())
def test_log_ratio_and_raw_heads_agree_where_the_score_is_above_minus_one(neighborhood, generator):
    states = neighborhood.space.enumerate()
    valid = neighborhood.valid(states)
    outputs = torch.randn(valid.shape, generator=generator, dtype=torch.float64)
    log_ratio, raw = LogRatioHead(neighborhood), RawHead(neighborhood)
    torch.testing.assert_close(raw.log_ratios(outputs.expm1(), states), log_ratio.log_ratios(outputs, states))
    assert raw.share_below(outputs.expm1(), states) == 0
    assert torch.equal(raw.concrete_scores(outputs, states)[valid], outputs[valid])


def test_a_raw_head_counts_how_many_ratios_are_not_positive():
    neighborhood = chain_two_way(Space((3,)))
    head, x = RawHead(neighborhood), torch.tensor([[0], [1], [2]])
    scores = torch.tensor([[-1.5, -9.0], [-1.0, 0.5], [-9.0, -0.5]], dtype=torch.float64)  # -9 where invalid
    expected = torch.tensor([[-torch.inf, 0.0], [-torch.inf, 1.5], [0.0, 0.5]], dtype=torch.float64)
    expected[1:, 1] = expected[1:, 1].log()
    torch.testing.assert_close(head.log_ratios(scores, x), expected)
    assert head.share_below(scores, x) == 2 / 4
    scores.requires_grad_()
    found = head.log_ratios(scores, x)
    found[found.isfinite()].sum().backward()  # a score of exactly -1 must not make a NaN of it
    slope = torch.tensor([[0.0, 0.0], [0.0, 1 / 1.5], [0.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(scores.grad, slope)
    lonely = RawHead(explicit(Space((2,)), []))
    assert lonely.share_below(torch.zeros(2, 0), torch.tensor([[0], [1]])) == 0


@pytest.mark.parametrize("name", registry.names("heads"))
def test_gradients_equal_finite_differences(name):
    space = Space((3, 2))
    head = registry.load("heads", name).build(grid(space), categorical(space, WEIGHTS))
    outputs = 0.3 * torch.randn(6, head.out_features, generator=torch.Generator().manual_seed(0)).double()
    states, level = space.enumerate(), torch.arange(6) % 2
    assert torch.autograd.gradcheck(lambda o: head.log_ratios(o, states, level), outputs.requires_grad_())


def test_many_bits_need_no_quadratic_memory():
    space = Space.bits(784)
    head = DenoisingHead(binarized_gaussian(space), hamming(space))
    x = space.uniform(4, torch.Generator().manual_seed(0))
    outputs = torch.zeros(4, head.out_features)
    found = head.log_ratios(outputs, x, 6)
    # An undecided posterior weighs both directions of a flip alike: (r + 1/r) / 2.
    odds = head.noise.site_log_prob(6, 0)[0, 1] - head.noise.site_log_prob(6, 0)[0, 0]
    torch.testing.assert_close(found, torch.full((4, 784), odds.cosh().log().item()))


def test_mistakes_are_refused():
    space = Space((3, 2))
    noise = categorical(space, 0.9)
    with pytest.raises(InputError, match=r"edges change one site, got Moore; use `hamming`"):
        DenoisingHead(noise, moore(space))
    with pytest.raises(InputError, match="noise and neighborhood on the same space"):
        DenoisingHead(noise, hamming(Space((3, 3))))
    with pytest.raises(InputError, match="noise: expected a noise, got none"):
        DenoisingHead.build(hamming(space))
    with pytest.raises(InputError, match="did you mean 'log_ratio'"):
        registry.load("heads", "log-ratio")
    with pytest.raises(InputError, match="a positive probability"):
        DenoisingHead(Foreign(Space((2,)), (torch.eye(2, dtype=torch.float64).log(),)), hamming(Space((2,))))


@dataclass(frozen=True, eq=False)
class Foreign:
    """Someone else's noise: one level, an arbitrary kernel a site, nothing but the protocol."""

    space: Space
    kernels: tuple[torch.Tensor, ...]
    num_levels: int = 1

    @classmethod
    def draw(cls, space, generator):
        kernels = [torch.randn(size, size, generator=generator).double().log_softmax(-1) for size in space.sizes]
        return cls(space, tuple(kernels))

    def corrupt(self, x: torch.Tensor, level: int | torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        raise AssertionError("a head draws nothing")

    def site_log_prob(self, level: int, site: int) -> torch.Tensor:
        return self.kernels[site]

    def log_ratios(
        self, noisy: torch.Tensor, clean: torch.Tensor, level: int | torch.Tensor, neighborhood: Neighborhood
    ) -> torch.Tensor:
        raise AssertionError("a head needs the kernels only")

    def table(self):
        largest = max(self.space.sizes)
        table = torch.full((1, self.space.num_sites, largest, largest), -torch.inf, dtype=torch.float64)
        for d, size in enumerate(self.space.sizes):
            table[0, d, :size, :size] = self.kernels[d]
        return table
