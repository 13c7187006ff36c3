"""Rows given evidence: every way to draw them, and the evidence's probability, against enumeration."""

from dataclasses import replace
from time import process_time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.baselines import ChowLiu, Independent, Mixture
from concrete_score.errors import InputError
from concrete_score.fitted import Fitted
from concrete_score.models import DensityScore, Energy, Table
from concrete_score.neighborhoods import grid_bounded, hamming, moore
from concrete_score.randomness import generator
from concrete_score.samplers import clamped, sources
from concrete_score.samplers.clamped import named_kernel
from concrete_score.samplers.completions import Impossible
from concrete_score.samplers.evidence import Evidence, Probability, Restricted, TiltedScore
from concrete_score.samplers.guided import Guided, effective_share, guided
from concrete_score.samplers.sources import source
from concrete_score.spaces import Space
from concrete_score.targets import asia, pmf, random_network
from tests.samplers.test_conditional import MIXED, assert_draws_follow, random_made
from tests.strategies import generators, pmfs, spaces

NEVER = -torch.inf


def some_evidence(space, g, hard=False):
    """Random weights, some values ruled out, some sites free; one value of each site is left at least."""
    table = torch.zeros(space.num_sites, max(space.sizes), dtype=torch.float64)
    soft = -torch.rand(table.shape, generator=g, dtype=torch.float64) * (0 if hard else 2)
    table += soft.masked_fill(torch.rand(table.shape, generator=g) < 0.4, NEVER)
    free = torch.rand(space.num_sites, generator=g) < 0.4
    table[free] = 0.0
    kept = (torch.rand(space.num_sites, generator=g) * space.sizes_tensor()).long()
    table[torch.arange(space.num_sites), kept] = table[torch.arange(space.num_sites), kept].clamp_min(-1.0)
    return Evidence(space, table)


def tilted(model, evidence):
    """``q(x) Π e(x_d)`` of every state in logarithms ``(S,)``, by looking each weight up."""
    states = evidence.space.enumerate()
    weight = torch.zeros(len(states), dtype=torch.float64)
    for d in range(evidence.space.num_sites):
        weight += evidence.log_weights[d, states[:, d]]
    return model.log_density(states).detach().double() + weight


def drawn(source_, n, g):
    batches = list(source_.batches(n, g))
    assert sum(len(batch.states) for batch in batches) == n
    return torch.cat([batch.states for batch in batches]), batches[0].probability, batches[0].warnings


@st.composite
def weighed(draw):
    space = draw(spaces(max_sites=4, max_states=60))
    return pmf(draw(pmfs(space)), space), some_evidence(space, draw(generators()), draw(st.booleans()))


@settings(max_examples=30)
@given(weighed())
def test_what_is_left_is_a_space_of_its_own(case):
    p, evidence = case
    every = tilted(p, evidence)
    restricted = Restricted(p, evidence)
    ranks = restricted.space.enumerate()
    states = evidence.state(ranks)
    assert len(states) == evidence.num_states == int((evidence.log_weight(p.space.enumerate()) > NEVER).sum())
    assert torch.equal(evidence.rank(states), ranks)
    torch.testing.assert_close(restricted.log_density(ranks), every[p.space.index(states)])
    score = TiltedScore(DensityScore(p, hamming(p.space)), evidence)
    if p.space.num_states > 1:
        possible = states[restricted.log_density(ranks) > NEVER]
        n = score.neighborhood
        wanted = every[p.space.index(n.neighbors(possible))] - every[p.space.index(possible)][:, None]
        torch.testing.assert_close(score.log_ratios(possible), torch.where(n.valid(possible), wanted, 0.0))


@settings(max_examples=25)
@given(weighed(), generators())
def test_listed_states_follow_the_conditional_and_sum_to_its_probability(case, g):
    p, evidence = case
    every = tilted(p, evidence)
    asked = source(p, evidence, 300)
    if (every == NEVER).all():
        with pytest.raises(Impossible):
            next(asked.batches(1, g))
        return
    states, probability, _ = drawn(asked, 300, g)
    assert probability.log_value == pytest.approx(float(every.logsumexp(0)), abs=1e-10)
    assert probability == asked.probability(g)
    assert probability.stderr == 0
    assert_draws_follow(states, every.softmax(0), p.space, worst=5.5)


@settings(max_examples=15)
@given(spaces(max_sites=4, max_states=60), generators(), st.sampled_from([0, 1.0]))
def test_baselines_stay_themselves_under_evidence(space, g, pseudo_count):
    rows, evidence = space.uniform(6, g), some_evidence(space, g)
    for model in (
        Independent.fit(rows, space, pseudo_count=pseudo_count),
        ChowLiu.fit(rows, space, pseudo_count=pseudo_count),
        Mixture.fit(rows, space, components=2, pseudo_count=pseudo_count, generator=g),
    ):
        every = tilted(model, evidence)
        if (every == NEVER).all():
            with pytest.raises(Impossible):
                next(source(model, evidence, 5).batches(5, g))
            continue
        found, log_total = model.tilted(evidence.log_weights)
        assert float(log_total) == pytest.approx(float(every.logsumexp(0)), abs=1e-10)
        states = space.enumerate()
        torch.testing.assert_close(found.log_density(states).exp(), every.softmax(0), atol=1e-12, rtol=0)
        asked = source(model, evidence, 5)
        assert asked.name == ("none" if evidence.fixed.all() else "closed_form")
        assert (every[space.index(drawn(asked, 50, g)[0])] > NEVER).all()


@settings(max_examples=12)
@given(spaces(max_sites=4, max_states=30), generators(), st.booleans())
def test_proposals_are_what_their_weights_say(space, g, ahead):
    """``r(x) = q(x) e(x) / w(x)``, by its own weights, is a distribution: that of the draws."""
    model = random_made(
        space, int(torch.randint(100, (), generator=g)), order_seed=int(torch.randint(9, (), generator=g))
    )
    evidence = some_evidence(space, g)
    factors = some_evidence(space, g).log_weights.clamp_min(-1.0) + torch.where(
        evidence.log_weights > NEVER, 0.0, NEVER
    )
    proposals = Guided(model, evidence, factors if ahead else None)
    states, log_weight = proposals.draw(6000, g)
    index, every = space.index(states), tilted(model, evidence)
    assert (every[index] > NEVER).all()
    r = torch.zeros(space.num_states, dtype=torch.float64)
    r[index] = (every[index] - log_weight).exp()
    for state in index.unique():
        mine = log_weight[index == state]
        assert mine.max() - mine.min() < 1e-9
    # What was never drawn is all that may lack.
    lacking = int(((every > NEVER) & (r == 0)).sum())
    assert 1 - lacking * 12 / 6000 - 1e-9 < float(r.sum()) < 1 + 1e-9
    assert_draws_follow(states, r / r.sum(), space, worst=5.5)
    if not ahead:
        x = torch.zeros_like(states)
        again, same = model.propose_given(x, x.bool(), torch.Generator().manual_seed(3), evidence.log_weights)
        known = r[space.index(again)] > 0
        torch.testing.assert_close(same[known], (every - r.log())[space.index(again)][known])


def test_observed_cells_and_evidence_together():
    model, evidence = random_made(MIXED, 2), some_evidence(MIXED, generator(8))
    x, observed = torch.zeros(6000, 6, dtype=torch.int64), torch.zeros(6000, 6, dtype=torch.bool)
    x[:, 3], observed[:, 3] = int(evidence.values[3, 0]), True
    states, log_weight = model.propose_given(x, observed, generator(0), evidence.log_weights)
    every = torch.where(MIXED.enumerate()[:, 3] == x[0, 3], tilted(model, evidence), NEVER)
    weight = log_weight.exp()
    assert (states[:, 3] == x[:, 3]).all()
    assert abs(float((weight.mean() - every.logsumexp(0).exp()) / weight.std())) * 6000**0.5 < 4


@pytest.mark.parametrize("seed", range(3))
def test_weighted_draws_follow_the_conditional(seed):
    model = random_made(MIXED, seed, order_seed=seed)
    evidence = some_evidence(MIXED, generator(seed, "evidence"))
    every = tilted(model, evidence)
    states, probability, warnings = drawn(sources.Weighted(model, evidence), 4000, generator(seed))
    assert warnings == ()
    # Three effective proposals for each draw or more: the variance is at most 1 + 1/3 of that of independent draws.
    assert_draws_follow(states, every.softmax(0), MIXED, inflation=4 / 3)
    for found in (probability, sources.Weighted(model, evidence).probability(generator(9))):
        assert abs(found.value - float(every.logsumexp(0).exp())) < 4.5 * found.stderr + 1e-12


LATE = Space((2, 3, 4, 2, 3, 2, 5, 2, 3, 2, 4))


def rare_and_late(seed, wanted=1e-4):
    """A model of 69,120 states, and the conjunction of its last three columns whose probability is nearest to one."""
    model = random_made(LATE, seed)
    states = LATE.enumerate()
    log_q = torch.cat([model.log_density(part) for part in states.split(2**13)])
    code = Space(LATE.sizes[-3:]).index(states[:, -3:])
    chance = torch.zeros(24, dtype=torch.float64).index_add_(0, code, log_q.exp())
    last = Space(LATE.sizes[-3:]).state((chance.log() - torch.tensor(wanted).log()).abs().argmin()).tolist()
    evidence = Evidence.of(LATE, dict(zip((8, 9, 10), last, strict=True)))
    return model, evidence, log_q + evidence.log_weight(states)


def test_a_rare_conjunction_of_late_columns_is_drawn_by_looking_ahead():
    model, evidence, every = rare_and_late(4)
    chance = float(every.logsumexp(0).exp())
    assert 1e-5 < chance < 1e-3
    plain = effective_share(Guided(model, evidence).draw(4096, generator(0))[1])
    ahead = effective_share(guided(model, evidence, generator(1)).draw(4096, generator(2))[1])
    assert ahead > 0.5 > 2.5 * plain
    asked = source(model, evidence, 4000, limit=0)
    assert asked.name == "importance"
    states, probability, warnings = drawn(asked, 4000, generator(3))
    assert warnings == ()
    assert abs(probability.value - chance) < 4.5 * probability.stderr
    assert probability.relative_error < 0.02
    p = every.softmax(0)
    for d, size in enumerate(LATE.sizes):
        exact = torch.zeros(size, dtype=torch.float64).index_add_(0, LATE.enumerate()[:, d], p)
        found = torch.bincount(states[:, d], minlength=size) / 4000
        error = ((exact * (1 - exact)).clamp_min(0) * (4 / 3) / 4000).sqrt()
        assert ((found - exact).abs() <= 4.5 * error + 1e-9).all()
        assert float((found - exact).abs().sum()) / 2 < 0.02 + 2 * float(error.max())


@pytest.mark.slow
def test_rare_rows_take_at_most_twenty_times_as_long_as_free_ones():
    """1,000 rows given an event of probability about 1e-4 on late columns, against 1,000 free rows, in one run."""
    model, evidence, every = rare_and_late(4)
    assert 5e-5 < float(every.logsumexp(0).exp()) < 2e-4

    def seconds(call):
        took = []
        for _ in range(5):
            start = process_time()
            call()
            took.append(process_time() - start)
        return min(took)

    free = seconds(lambda: model.sample(1000, generator(0)))
    rare = seconds(lambda: drawn(source(model, evidence, 1000, limit=0), 1000, generator(0)))
    assert rare < 20 * free, f"{rare / free:.1f} times"


@pytest.mark.parametrize("n", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_not_one_row_violates_its_condition(n):
    model = random_made(MIXED, 3)
    for evidence in (some_evidence(MIXED, generator(seed, "hard"), hard=True) for seed in range(2)):
        for asked in (source(model, evidence, n), sources.Weighted(model, evidence)):
            states, _, _ = drawn(asked, n, generator(0))
            assert (evidence.log_weight(states) > NEVER).all()


@pytest.mark.parametrize("kind", ["table", "made", "independent", "chow_liu", "energy"])
def test_total_variation_on_small_models(kind):
    """At most 200 states; exact draws, 100,000 of them."""
    space = Space((2, 5, 4, 5))
    rows = random_network(space.sizes, 2, generator(0, "network")).sample(500, generator(0, "rows"))
    model = {
        "table": lambda: Table(space, generator(1), dtype=torch.float64).requires_grad_(False),
        "made": lambda: random_made(space, 1),
        "independent": lambda: Independent.fit(rows, space),
        "chow_liu": lambda: ChowLiu.fit(rows, space),
        "energy": lambda: Energy(space, hidden=(8,), generator=generator(1), dtype=torch.float64).requires_grad_(False),
    }[kind]()
    evidence = some_evidence(space, generator(4))
    given_ = {site: evidence.log_weights[site, : space.sizes[site]] for site in evidence.sites}
    found = Fitted(model, space).sample(100_000, generator(2), given=given_)
    wanted = tilted(model, evidence).softmax(0)
    share = torch.bincount(space.index(found.states), minlength=200) / 100_000
    assert float((share - wanted).abs().sum()) / 2 < 0.02
    assert found.probability.stderr == 0


@pytest.mark.parametrize("name", ["mh", "informed", "gibbs", "multi_site"])
def test_kernels_among_what_is_left_keep_the_conditional(name):
    space, evidence = chained()
    energy = Energy(space, hidden=(8,), generator=generator(1), dtype=torch.float64).requires_grad_(False)
    restricted = Restricted(energy, evidence)
    p = restricted.log_density(restricted.space.enumerate()).softmax(0)
    torch.testing.assert_close(p @ named_kernel(name, restricted).transition_matrix(), p, atol=1e-10, rtol=0)


def chained():
    space = Space((2, 3, 2, 3))
    return space, Evidence.of(space, {1: torch.tensor([0.0, NEVER, -1.0]).double(), 2: 1})


@pytest.mark.parametrize("scores", [False, True])
def test_chains_run_among_what_is_left(scores, monkeypatch):
    monkeypatch.setattr(clamped, "LEAST_KEPT", 60)
    monkeypatch.setattr(clamped, "LONG_BURN_IN", 10)
    space, evidence = chained()
    energy = Energy(space, hidden=(8,), generator=generator(1), dtype=torch.float64).requires_grad_(False)
    model = DensityScore(energy, hamming(space)) if scores else energy
    asked = source(model, evidence, 900, None, 0)
    assert asked.name == "gibbs"
    states, probability, _ = drawn(asked, 900, generator(0))
    assert probability is None
    assert asked.probability(generator(0)) is None
    assert_draws_follow(states, tilted(energy, evidence).softmax(0), space, inflation=3.0)


def test_score_models_of_other_neighborhoods_and_autoregressive_ones_run_chains_too(monkeypatch):
    monkeypatch.setattr(clamped, "LEAST_KEPT", 4)
    monkeypatch.setattr(clamped, "LONG_BURN_IN", 1)
    space, evidence = chained()
    made = random_made(space, 1)
    for model in (DensityScore(made, moore(space)), DensityScore(made, grid_bounded(space)), made):
        asked = source(model, evidence, 50, None, 0, "mh")
        assert asked.name == "mh"
        states, _, _ = drawn(asked, 50, generator(0))
        assert (evidence.log_weight(states) > NEVER).all()


def test_evidence_at_the_head_of_the_order_is_exact():
    model = random_made(MIXED, 0, order_seed=3)
    first, second, third = model.order[:3].tolist()
    size = MIXED.sizes[second]
    soft = torch.zeros(size, dtype=torch.float64)
    soft[0] = NEVER
    evidence = Evidence.of(MIXED, {first: 1, second: soft})
    every = tilted(model, evidence)
    asked = source(model, evidence, 4000)
    assert asked.name == source(model, evidence, 10, sampler="ancestral").name == "order"
    states, probability, _ = drawn(asked, 4000, generator(0))
    assert probability.log_value == pytest.approx(float(every.logsumexp(0)), abs=1e-10)
    assert_draws_follow(states, every.softmax(0), MIXED)
    behind = Evidence.of(MIXED, {first: soft[: MIXED.sizes[first]], third: 1})
    assert source(model, behind, 4, limit=0).name == "importance"
    with pytest.raises(InputError, match="draws under such a condition by itself"):
        source(model, behind, 4, sampler="ancestral")


def test_too_few_effective_draws_are_refused_or_said_with_the_probability(monkeypatch):
    model, evidence = random_made(MIXED, 1), Evidence.of(MIXED, {5: 1, 4: 0})
    exact = float(tilted(model, evidence).logsumexp(0).exp())
    asked, real = sources.Weighted(model, evidence), sources.resample

    def counting(effective):
        few = torch.tensor([effective], dtype=torch.float64)
        monkeypatch.setattr(sources, "resample", lambda *words: replace(real(*words), effective=few))
        return drawn(asked, 400, generator(0))

    assert counting(500.0)[2] == ()
    assert counting(130.0)[2] == ("the 400 rows count as about 130 independent ones: the condition is rare",)
    (warning,) = counting(10.0)[2]
    assert warning.startswith("effective 10.0 of ")
    assert warning.endswith("draws given this condition: do not trust them")
    with pytest.raises(
        InputError, match=r"^given: expected a condition that some of the model's draws meet, got "
    ) as no:
        counting(2.0)
    assert f"probability {exact:.1f}" in str(no.value)
    assert "effective 2.0 of" in str(no.value)


def test_zeros_of_the_model_are_named_and_bad_evidence_is_refused():
    truth = asia()
    words = Fitted(truth, truth.space)
    assert words.probability({5: 1}, generator(0)).value == pytest.approx(0.064828)
    ruled_out = torch.tensor([NEVER, NEVER])
    for given_, match in (
        ({1: 1, 5: 0}, "probability 0 for site 1 = 1, site 5 = 0"),
        ({1: torch.tensor([NEVER, 0.0]), 5: 0}, "probability 0 for site 1, site 5 = 0"),
        ({1: ruled_out}, "a value of site 1 that is not ruled out"),
        ({1: torch.zeros(3)}, "2 log-weights"),
        ({1: torch.tensor([0.0, torch.inf])}, "below infinity"),
    ):
        with pytest.raises(InputError, match=match):
            words.sample(3, generator(0), given=given_)
    with pytest.raises(InputError, match="shape"):
        Evidence(truth.space, torch.zeros(8, 3))


def test_probabilities_are_written_with_as_many_digits_as_are_known():
    assert str(Probability(0.0)) == "1"
    assert str(Probability(-1.0, 0.1)) == "0.37 ± 0.04"
    assert str(Probability(-0.7, 4e-9)) == "0.497"
    assert str(Probability(-40.0, 0.2)) == "(4.2 ± 0.8)e-18"
    assert str(Probability(-1000.0, 0.2)) == "0"
