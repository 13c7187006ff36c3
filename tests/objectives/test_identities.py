"""The paper's theorems on its objectives, and the identities between them, by enumeration in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.models import Table, mlp
from concrete_score.neighborhoods import IndependenceProposal, explicit, grid, hamming
from concrete_score.noise import categorical
from concrete_score.objectives import (
    AllEdges,
    BregmanObjective,
    Denoising,
    MaximumLikelihood,
    SelfProposalEdges,
    SelfWeighedEdges,
    build,
    discrete_marginalization,
    discrete_marginalization_uncorrected,
    divergences,
    ratio_matching_multiclass,
    ratio_matching_uncorrected,
)
from concrete_score.scores import pmf_log_ratios
from concrete_score.spaces import Space
from tests.strategies import connected_neighborhoods, generators, neighborhoods, pmfs, spaces

DIVERGENCES = [registry.load("divergences", name) for name in registry.names("divergences")]
every_f = pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)


class FreeRatios:
    """A saturated score model: one free log-ratio for each edge."""

    def __init__(self, neighborhood, log_ratios):
        self.neighborhood, self.table = neighborhood, log_ratios

    def log_ratios(self, x):
        return torch.where(self.neighborhood.valid(x), self.table[self.neighborhood.space.index(x)], 0)


def random_table(space, generator, normalized=False):
    return Table(space, generator=generator, normalized=normalized, dtype=torch.float64)


def small(n):
    return n.space.num_states <= 24 and n.num_slots > 0


@given(data=st.data())
def test_squared_error_and_its_tractable_form_differ_by_a_constant(data):
    """Theorem 3: L - J = Σ p ‖c‖² whatever the model, with J as the paper writes it (J1 of c² + 2c, J2 of 2c)."""
    n = data.draw(neighborhoods().filter(small))
    p = data.draw(pmfs(n.space))
    states = n.space.enumerate()
    valid, true = n.valid(states), pmf_log_ratios(p, n).expm1()
    edges = n.degree(states).double()
    into = n.reverse_degree(states).double()
    constant = (p[:, None] * torch.where(valid, true.square(), 0)).sum().item()
    for _ in range(3):
        generator = data.draw(generators())
        c = torch.randn(true.shape, generator=generator, dtype=torch.float64).expm1()
        error = (p[:, None] * torch.where(valid, (c - true).square(), 0)).sum().item()
        objective = BregmanObjective(divergences.csm, AllEdges(n)).exact(FreeRatios(n, c.log1p()), p).item()
        paper = objective - (p @ edges).item() + 2 * (p @ into).item()
        assert error - paper == pytest.approx(constant, rel=1e-9, abs=1e-9)


@every_f
@given(data=st.data(), weighted=st.booleans())
def test_true_ratios_are_stationary_with_positive_curvature(divergence, data, weighted):
    """Directed and weighted edges included."""
    n = data.draw(neighborhoods().filter(small))
    p = data.draw(pmfs(n.space))
    weight = None
    if weighted:
        w = 0.2 + torch.rand((n.space.num_states, n.num_slots), generator=data.draw(generators()), dtype=torch.float64)
        weight = lambda source, slot: w[n.space.index(source), slot]  # noqa: E731
    objective = BregmanObjective(divergence, AllEdges(n, weight=weight))
    valid = n.valid(n.space.enumerate())
    true = pmf_log_ratios(p, n)

    def value(flat):
        return objective.exact(FreeRatios(n, torch.zeros_like(true).masked_scatter(valid, flat)), p)

    at = true[valid]
    gradient = torch.autograd.functional.jacobian(value, at)
    hessian = torch.autograd.functional.hessian(value, at)
    assert gradient.abs().max() < 1e-9 * (1 + hessian.abs().max())
    # Each free ratio has its own edge: the Hessian is diagonal and positive.
    assert (hessian.diagonal() > 0).all()
    assert (hessian - hessian.diagonal().diag()).abs().max() < 1e-9


@every_f
@given(data=st.data())
def test_a_log_density_is_determined_up_to_its_constant(divergence, data):
    n = data.draw(connected_neighborhoods().filter(lambda n: 2 <= n.space.num_states <= 12 and n.num_slots > 0))
    p = data.draw(pmfs(n.space))
    model = Table(n.space, normalized=False, dtype=torch.float64)
    objective = BregmanObjective(divergence, AllEdges(n))

    def value(logits):
        return objective.exact(_WithLogits(model, logits), p)

    gradient = torch.autograd.functional.jacobian(value, p.log())
    eigenvalues = torch.linalg.eigvalsh(torch.autograd.functional.hessian(value, p.log()))
    assert gradient.abs().max() < 1e-9 * (1 + eigenvalues[-1])
    assert abs(eigenvalues[0]) < 1e-9 * (1 + eigenvalues[-1]), "adding a constant changes nothing"
    assert eigenvalues[1] > 0, "any other change is seen"


class _WithLogits:
    normalized = False

    def __init__(self, table, logits):
        self.space, self.logits = table.space, logits

    def log_density(self, x):
        return self.logits[self.space.index(x)]


# --- the binary identities


def bits(data):
    space = Space.bits(data.draw(st.integers(1, 4)))
    return space, random_table(space, data.draw(generators())), data.draw(pmfs(space))


def own_conditionals(model):
    """``q_d = q(x_d | rest)`` at every state ``(S, D)``, by hand."""
    space = model.space
    x = space.enumerate()
    density = model.log_density(x).detach()
    flipped = torch.stack(
        [density[space.index(x ^ torch.eye(space.num_sites, dtype=torch.int64)[d])] for d in range(space.num_sites)], 1
    )
    return torch.sigmoid(density[:, None] - flipped)


@given(data=st.data())
def test_logistic_on_flips_is_twice_the_negative_log_pseudo_likelihood(data):
    space, model, p = bits(data)
    objective = BregmanObjective(divergences.logistic, AllEdges(hamming(space))).exact(model, p).item()
    pseudo = (p[:, None] * own_conditionals(model).log()).sum().item()
    assert objective == pytest.approx(-2 * pseudo, rel=1e-10)


@given(data=st.data())
def test_ratio_matching_divergence_on_flips_is_ratio_matching(data):
    space, model, p = bits(data)
    objective = BregmanObjective(divergences.ratio_matching, AllEdges(hamming(space))).exact(model, p).item()
    by_hand = (p[:, None] * 2 * (1 - own_conditionals(model)).square()).sum().item() - space.num_sites
    assert objective == pytest.approx(by_hand, rel=1e-10, abs=1e-12)
    multiclass = ratio_matching_multiclass(space).exact(model, p).item()
    assert objective == pytest.approx(multiclass - space.num_sites, rel=1e-10, abs=1e-12)


@given(data=st.data())
def test_discrete_marginalization_on_bits_is_csm_plus_a_constant(data):
    space, model, p = bits(data)
    csm = BregmanObjective(divergences.csm, AllEdges(hamming(space))).exact(model, p).item()
    marginal = discrete_marginalization(space).exact(model, p).item()
    assert marginal == pytest.approx(csm - 3 * space.num_sites, rel=1e-9, abs=1e-9)


def test_with_more_values_the_two_differ():
    space = Space((3,))
    p = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    gap = []
    for seed in (0, 1):
        model = random_table(space, torch.Generator().manual_seed(seed))
        csm = BregmanObjective(divergences.csm, AllEdges(hamming(space))).exact(model, p)
        gap.append((discrete_marginalization(space).exact(model, p) - csm).item())
    assert abs(gap[0] - gap[1]) > 0.1


# --- the corrected and uncorrected multi-class objectives


@pytest.mark.parametrize("make", [ratio_matching_multiclass, discrete_marginalization])
@given(data=st.data())
def test_corrected_objectives_are_minimized_at_the_truth(make, data):
    space = data.draw(spaces(max_states=12).filter(lambda s: s.num_states > 1))
    p = data.draw(pmfs(space))
    objective, model = make(space), Table(space, normalized=False, dtype=torch.float64)

    def value(logits):
        return objective.exact(_WithLogits(model, logits), p)

    gradient = torch.autograd.functional.jacobian(value, p.log())
    eigenvalues = torch.linalg.eigvalsh(torch.autograd.functional.hessian(value, p.log()))
    assert gradient.abs().max() < 1e-9 * (1 + eigenvalues[-1])
    assert eigenvalues[0] > -1e-9 * (1 + eigenvalues[-1])
    assert eigenvalues[1] > 0


@pytest.mark.parametrize("make", [ratio_matching_uncorrected, discrete_marginalization_uncorrected])
@given(data=st.data())
def test_uncorrected_objectives_are_stationary_at_uniform_conditionals_whatever_the_data(make, data):
    """Each term depends on q(. | rest) alone: the uniform table is stationary for every p, and p itself is not."""
    space = data.draw(spaces(max_states=12).filter(lambda s: max(s.sizes) > 2 or s.num_states > 2))
    p = data.draw(pmfs(space))
    objective, model = make(space), Table(space, normalized=False, dtype=torch.float64)

    def value(logits):
        return objective.exact(_WithLogits(model, logits), p)

    uniform = torch.zeros(space.num_states, dtype=torch.float64)
    gradient = torch.autograd.functional.jacobian(value, uniform)
    eigenvalues = torch.linalg.eigvalsh(torch.autograd.functional.hessian(value, uniform))
    scale = 1 + eigenvalues.abs().max()
    assert gradient.abs().max() < 1e-9 * scale, "uniform is stationary"
    assert eigenvalues[0] > -1e-9 * scale, "and a minimum"
    assert torch.autograd.functional.jacobian(value, p.log()).abs().max() > 1e-6, "the data is not"


@given(data=st.data())
def test_sampled_sites_are_unbiased(data):
    space = data.draw(spaces(min_sites=2, max_states=24))
    model, p = random_table(space, data.draw(generators())), data.draw(pmfs(space))
    make = data.draw(st.sampled_from([ratio_matching_multiclass, discrete_marginalization]))
    x = space.enumerate()
    exact = make(space).exact(model, p).item()
    some = make(space, sites=1)
    mean = 0.0
    for site in range(space.num_sites):
        draws = some.draw(x, torch.Generator().manual_seed(0))._replace(site=torch.full((len(x), 1), site))
        mean += (p @ some.loss(model, draws)).item() / space.num_sites
    assert mean == pytest.approx(exact, rel=1e-9)


# --- denoising


@every_f
@given(data=st.data())
def test_denoising_is_minimized_at_the_noisy_distributions_scores(divergence, data):
    n = data.draw(neighborhoods().filter(lambda n: 2 <= n.space.num_states <= 10 and n.num_slots > 0))
    p = data.draw(pmfs(n.space))
    noise = categorical(n.space, (data.draw(st.sampled_from([0.3, 0.6, 0.9])),))
    objective = Denoising(divergence, noise, n)
    noisy = noise.noisy_pmf(p, 0)
    valid, true = n.valid(n.space.enumerate()), pmf_log_ratios(noisy, n)

    def value(flat):
        return objective.exact(FreeRatios(n, torch.zeros_like(true).masked_scatter(valid, flat)), p)

    gradient = torch.autograd.functional.jacobian(value, true[valid])
    hessian = torch.autograd.functional.hessian(value, true[valid])
    assert gradient.abs().max() < 1e-9 * (1 + hessian.abs().max())
    assert (hessian.diagonal() > 0).all()
    model = random_table(n.space, data.draw(generators()))
    assert objective.exact(model, p).item() >= value(true[valid]).item() - 1e-12


@given(data=st.data())
def test_denoising_with_csm_is_the_papers_squared_error(data):
    n = data.draw(neighborhoods().filter(lambda n: 2 <= n.space.num_states <= 10 and n.num_slots > 0))
    p, model = data.draw(pmfs(n.space)), random_table(n.space, data.draw(generators()))
    noise = categorical(n.space, (0.8, 0.5))
    states = n.space.enumerate()
    valid, c = n.valid(states), (pmf_log_ratios(model.log_density(states).detach().softmax(0), n)).expm1()
    total = 0.0
    for i, clean in enumerate(states):
        row = clean.expand(len(states), -1)
        target = noise.log_ratios(states, row, 1, n).expm1()
        q = noise.log_prob(states, row, 1).exp()
        total += (p[i] * q @ torch.where(valid, (c - target).square(), 0).sum(-1)).item()
    assert Denoising(divergences.csm, noise, n, levels=(1,)).exact(model, p).item() == pytest.approx(total, rel=1e-9)


def test_denoising_draws_agree_with_the_enumeration():
    space = Space((3, 2))
    n, noise, generator = hamming(space), categorical(space, (0.8, 0.5)), torch.Generator().manual_seed(0)
    p = torch.rand(6, generator=generator, dtype=torch.float64).softmax(0)
    model = mlp(n, "log_ratio", noise, generator=generator, hidden=8, dtype=torch.float64)
    for divergence in DIVERGENCES:
        objective = Denoising(divergence, noise, n)
        x = space.state(torch.multinomial(p, 20_000, replacement=True, generator=generator))
        loss = objective.loss(model, objective.draw(x, generator))
        z = (loss.mean() - objective.exact(model, p)) / (loss.std() / len(loss) ** 0.5)
        assert abs(z.item()) < 4


# --- self-proposal and maximum likelihood


@every_f
@given(data=st.data())
def test_self_proposal_at_the_proposal_is_a_multiple_of_maximum_likelihood(divergence, data):
    """At q̄ = q the expected gradient is 2 f''(1) times the likelihood's, to 1e-10."""
    space = data.draw(spaces(max_states=24).filter(lambda s: s.num_states > 1))
    p = data.draw(pmfs(space))
    model, frozen = (Table(space, dtype=torch.float64) for _ in range(2))
    logits = torch.randn(space.num_states, generator=data.draw(generators()), dtype=torch.float64)
    model.logits.data, frozen.logits.data = logits.clone(), logits.clone()
    ratio = BregmanObjective(divergence, SelfProposalEdges(IndependenceProposal(frozen)))
    (ours,) = torch.autograd.grad(ratio.exact(model, p), model.logits)
    (likelihood,) = torch.autograd.grad(MaximumLikelihood(space).exact(model, p), model.logits)
    torch.testing.assert_close(ours, 2 * divergence.curvature * likelihood, rtol=1e-10, atol=1e-10)


@every_f
@given(data=st.data())
def test_self_weighed_at_the_copy_is_a_multiple_of_logistic(divergence, data):
    """At q̄ = q the expected gradient is f''(1) times that of `logistic` on the same neighborhood, to 1e-10."""
    n = data.draw(neighborhoods().filter(lambda n: 1 < n.space.num_states <= 16 and n.num_slots)).symmetrized()
    p = data.draw(pmfs(n.space))
    model = Table(n.space, data.draw(generators()), normalized=False, dtype=torch.float64)
    measured = BregmanObjective(divergence, SelfWeighedEdges(n, copy=model))
    logistic = BregmanObjective(divergences.logistic, AllEdges(n))
    (ours,) = torch.autograd.grad(measured.exact(model, p), model.logits)
    (known,) = torch.autograd.grad(logistic.exact(model, p), model.logits)
    torch.testing.assert_close(ours, divergence.curvature * known, rtol=1e-10, atol=1e-10)


@every_f
@given(data=st.data())
def test_self_weighed_has_its_minimum_at_the_true_ratios(divergence, data):
    """Whatever the copy: at the truth the gradient is zero, and no other model has a smaller loss."""
    space = data.draw(spaces(max_states=16).filter(lambda s: s.num_states > 1))
    p = data.draw(pmfs(space)).clamp_min(1e-3)
    p = p / p.sum()
    copy, other = (Table(space, data.draw(generators()), dtype=torch.float64) for _ in range(2))
    truth = Table.from_pmf(space, p)
    objective = BregmanObjective(divergence, SelfWeighedEdges(hamming(space), copy=copy))
    (slope,) = torch.autograd.grad(objective.exact(truth, p), truth.logits)
    torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-9, rtol=0)
    assert objective.exact(other, p) >= objective.exact(truth, p) - 1e-9


@pytest.mark.parametrize("name", registry.names("objectives"))
def test_gradients_agree_with_finite_differences(name):
    from concrete_score.objectives import build

    space = Space((3, 2))
    generator = torch.Generator().manual_seed(0)
    noise, levels = categorical(space, (0.7,)), ("noisy", "clean_value")
    options = {
        "denoising": {"noise": noise, "neighborhood": grid(space)},
        **{each: {"noise": noise} for each in levels},
    }
    objective = build(name, space, **options.get(name, {}))
    draws = objective.draw(space.uniform(5, generator), generator)
    model = Table(space, normalized=name == "maximum_likelihood", dtype=torch.float64)
    if name in levels:
        model = mlp(hamming(space), "denoising", noise, hidden=3, generator=generator, dtype=torch.float64)
    loss = _Loss(model, objective)
    names, values = zip(*loss.named_parameters(), strict=True)
    moved = [torch.randn(v.shape, generator=generator, dtype=torch.float64, requires_grad=True) for v in values]

    def value(*given):
        return torch.func.functional_call(loss, dict(zip(names, given, strict=True)), (draws,))

    assert torch.autograd.gradcheck(value, tuple(moved), atol=1e-7)


class _Loss(torch.nn.Module):
    def __init__(self, model, objective):
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, draws):
        return self.objective.loss(self.model, draws)


def test_what_never_happens_costs_nothing_even_where_the_model_knows_it():
    """The exact twins at p itself, zeros and all: entropies and limits, not 0 times infinity."""
    space, p = Space((3,)), torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    model, log2 = Table.from_pmf(space, p), torch.tensor(2.0).log().item()
    assert MaximumLikelihood(space).exact(model, p).item() == pytest.approx(log2)
    assert BregmanObjective(divergences.logistic, AllEdges(hamming(space))).exact(model, p).item() == pytest.approx(
        2 * log2
    )
    wide, q = Space((3, 2)), torch.tensor([0.5, 0.5, 0, 0, 0, 0], dtype=torch.float64)
    assert ratio_matching_multiclass(wide).exact(Table.from_pmf(wide, q), q).item() == pytest.approx(0.5)


EVERY_WAY = {
    "all": lambda space: build("csm", space, edges="all"),
    "paired": lambda space: build("csm", space, edges="paired"),
    "all, one-way": lambda space: build("csm", space, edges="all", neighborhood=explicit(space, [(0, 1), (1, 2)])),
    "independent, one-way": lambda space: build(
        "csm", space, edges="independent", neighborhood=explicit(space, [(0, 1), (1, 2)])
    ),
    "conditionals": ratio_matching_multiclass,
    "marginalization": discrete_marginalization,
    "likelihood": MaximumLikelihood,
    "self-proposal": lambda space: BregmanObjective(
        divergences.logistic, SelfProposalEdges(IndependenceProposal(Table(space)))
    ),
}


@pytest.mark.parametrize("name", EVERY_WAY)
def test_narrow_rows_are_rows_and_no_rows_have_no_loss(name):
    space = Space((3, 2))
    objective, model = EVERY_WAY[name](space), random_table(space, torch.Generator().manual_seed(0), normalized=True)
    rows = space.uniform(7, torch.Generator().manual_seed(1))
    wide, narrow = (
        objective.loss(model, objective.draw(x, torch.Generator().manual_seed(2))) for x in (rows, rows.to(torch.uint8))
    )
    assert torch.equal(wide, narrow)
    assert objective.loss(model, objective.draw(rows[:0], torch.Generator())).shape == (0,)
