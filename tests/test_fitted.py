"""One fitted model, many questions: every answer against enumeration."""

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.errors import InputError
from concrete_score.fitted import Fitted, most_probable
from concrete_score.likelihood import Budget
from concrete_score.models import MADE, DensityScore, Energy, Table, mlp
from concrete_score.neighborhoods import complete, cycle, grid, grid_bounded, hamming, moore
from concrete_score.noise import categorical
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.targets import Ising, asia, pmf, random_network
from tests.samplers.test_conditional import (
    MIXED,
    assert_draws_follow,
    exact_cells,
    exact_conditional,
    query,
    random_made,
    tables_with_blanks,
)
from tests.strategies import pmfs, spaces


def models(space):
    """One of each kind, with the distribution each of them has on the space ``(S,)``."""
    truth = pmf(torch.randn(space.num_states, generator=generator(0), dtype=torch.float64).softmax(0), space)
    rows = truth.sample(300, generator(1))
    found = {
        "table": Table.from_pmf(space, truth.probabilities),
        "made": random_made(space, 0),
        "energy": Energy(space, hidden=(6,), generator=generator(0), dtype=torch.float64).requires_grad_(False),
        "chow_liu": ChowLiu.fit(rows, space),
        "score": DensityScore(truth, hamming(space)),
        "score on a grid": DensityScore(truth, grid_bounded(space)),
        "score on moore": DensityScore(truth, moore(space)),
    }
    states = space.enumerate()
    return {
        name: (
            model,
            truth.probabilities if "score" in name else model.log_density(states).detach().double().softmax(0),
        )
        for name, model in found.items()
    }


SMALL = Space((2, 3, 2, 2))


@pytest.mark.parametrize("name", list(models(SMALL)))
def test_every_kind_of_model_answers_every_question_exactly_on_a_small_space(name):
    model, p = models(SMALL)[name]
    fitted, states = Fitted(model, SMALL), SMALL.enumerate()
    torch.testing.assert_close(fitted.row_log_likelihoods(states), p.log(), atol=1e-9, rtol=0)
    result = fitted.evaluate(states, generator(0))
    assert result.log_likelihood == pytest.approx(float(p.log().mean()), abs=1e-9)
    assert result.method == ("exact" if name in ("table", "made", "chow_liu") else "enumeration")
    exact = DensityScore(pmf(p, SMALL), hamming(SMALL)).log_ratios(states)
    torch.testing.assert_close(fitted.log_ratios(states).double(), exact, atol=1e-9, rtol=0)
    drawn = fitted.sample(3000, generator(0, "sample"))
    assert drawn.method in ("ancestral", "enumeration")
    assert drawn.warnings == ()
    assert_draws_follow(drawn.states, p, SMALL)
    given_ = {1: 2, 3: 0}
    drawn = fitted.sample(3000, generator(1, "given"), given=given_)
    assert drawn.method in ("closed_form", "enumeration")
    assert_draws_follow(drawn.states, exact_conditional(pmf(p, SMALL), *query(SMALL, given_)), SMALL)
    observed = torch.rand(states.shape, generator=generator(2)) > 0.5
    cells = fitted.conditional_probs(states, observed, generator(0))
    assert [cells.row.tolist(), cells.site.tolist()] == (~observed).nonzero().T.tolist()
    wanted = torch.cat([exact_cells(pmf(p, SMALL), states[r], observed[r]) for r in range(24) if not observed[r].all()])
    torch.testing.assert_close(cells.log_probs.exp(), wanted, atol=1e-10, rtol=0)
    imputed = fitted.impute(states, observed, generator(0))
    assert torch.equal(imputed.states[~observed], wanted.argmax(-1))
    assert torch.equal(imputed.states[observed], states[observed])


@settings(max_examples=40)
@given(tables_with_blanks())
def test_imputing_a_table_is_imputing_its_rows(drawn):
    model, x, observed = drawn
    imputed = Fitted(model, model.space).impute(x, observed, generator(0))
    filled = x.clone()
    for row in range(len(x)):
        if not observed[row].all():
            filled[row, ~observed[row]] = most_probable(exact_cells(model, x[row], observed[row]).log())
    assert torch.equal(imputed.states, filled)
    assert imputed.method == ("none" if observed.all() else "enumeration")


@settings(max_examples=40)
@given(st.data())
def test_explain_gives_the_largest_exact_log_ratios(data):
    space = data.draw(spaces(max_sites=4))
    model = pmf(data.draw(pmfs(space)), space)
    top = data.draw(st.integers(1, 5))
    states = space.enumerate()
    changes, p = Fitted(model, space).explain(states, top), model.log_pmf
    count = min(top, hamming(space).num_slots)
    assert changes.row.tolist() == [row for row in range(len(states)) for _ in range(count)]
    for row, x in enumerate(states):
        mine = changes.row == row
        all_ratios = []
        for d, size in enumerate(space.sizes):
            for v in set(range(size)) - {int(x[d])}:
                y = x.clone()
                y[d] = v
                all_ratios.append(float(p[space.index(y)] - p[row]))
        best = sorted(all_ratios, reverse=True)[:top]
        assert changes.log_ratio[mine].tolist() == pytest.approx(best, abs=1e-12)
        for site, old, new, ratio in zip(
            *(
                column[mine].tolist()
                for column in (changes.site, changes.value_from, changes.value_to, changes.log_ratio)
            ),
            strict=True,
        ):
            y = x.clone()
            assert old == int(x[site]) != new
            y[site] = new
            assert ratio == pytest.approx(float(p[space.index(y)] - p[row]), abs=1e-12)


def test_explain_names_the_cell_that_was_spoiled():
    truth = asia()
    rows = truth.sample(200, generator(0))
    spoiled = rows[rows[:, 5] == 1][:1].clone()
    spoiled[0, 6] = 0  # the x-ray of a patient with `either` is positive in 98 of 100
    assert Fitted(truth, truth.space).explain(spoiled, 1).site.tolist() == [6]


def test_mixed_categories_are_imputed_as_well_as_by_the_truth_itself():
    truth = random_network((2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 2, 3), 3, generator(0, "network"), concentration=0.5)
    fitted, rows = Fitted(truth, truth.space), truth.sample(300, generator(1))
    observed = torch.ones_like(rows, dtype=torch.bool)
    observed.scatter_(1, torch.rand(rows.shape, generator=generator(2)).argsort(-1)[:, :3], False)
    cells = fitted.conditional_probs(rows, observed, generator(0))
    log_prob = cells.log_probs[torch.arange(len(cells.row)), rows[cells.row, cells.site]]
    # Under the truth, the log-loss of blanks has the entropy of their conditionals as its mean.
    entropy = torch.special.entr(cells.log_probs.exp()).sum(-1)
    difference = -log_prob - entropy
    assert abs(float(difference.mean())) < 4 * float(difference.std()) / len(difference) ** 0.5
    imputed = fitted.impute(rows, observed, generator(0))
    hit = (imputed.states == rows)[~observed].double()
    expected = cells.log_probs.exp().amax(-1)
    assert abs(float((hit - expected).mean())) < 4 * float((expected * (1 - expected)).mean() / len(hit)) ** 0.5
    assert imputed.method == "enumeration"


def test_imputing_by_draws_is_joint():
    # Two bits that are always equal: blanks filled one by one could differ.
    model = pmf([[0.5, 0.0], [0.0, 0.5]])
    x, observed = torch.zeros(4, 2, dtype=torch.int64), torch.zeros(4, 2, dtype=torch.bool)
    done = Fitted(model, model.space).impute(x, observed, generator(0), draws=200)
    assert done.states.shape == (200, 4, 2)
    assert (done.states[..., 0] == done.states[..., 1]).all()
    assert abs(float(done.states.double().mean()) - 0.5) < 4 * 0.5 / 800**0.5
    mode = Fitted(model, model.space).impute(x, observed, generator(0)).states
    assert mode.eq(0).all()  # ties go to the smallest value


def test_beyond_enumeration_a_made_still_answers():
    space = Space.bits(24)
    made = random_made(space, 0)
    fitted = Fitted(made, space)
    rows = made.sample(6, generator(0))
    observed = torch.zeros_like(rows, dtype=torch.bool)
    observed[:, ::8] = True
    done = fitted.impute(rows, observed, generator(0), draws=2)
    assert done.method == "importance"
    assert torch.equal(done.states[:, observed], rows[observed].expand(2, -1))
    drawn = fitted.sample(500, generator(0), given={23: 1})
    assert drawn.method == "importance"
    # The marginal of site 0 given the last one, by Bayes from many plain draws.
    plain = fitted.sample(20_000, generator(1)).states
    assert plain.shape == (20_000, 24)
    wanted = plain[plain[:, 23] == 1, 0].double()
    error = (0.25 * (1.25 / 500 + 1 / len(wanted))) ** 0.5
    assert abs(float(drawn.states[:, 0].double().mean() - wanted.mean())) < 4 * error


def test_a_score_model_beyond_enumeration_is_bounded_or_says_why_not():
    ising = Ising((1, 17), 0.2)
    space, rows = ising.space, ising.space.uniform(4, generator(0))
    score = Fitted(DensityScore(ising, hamming(space)), space)
    assert score.row_log_likelihoods(rows) is None
    budget = Budget(steps=8, chains=8, raise_chains=2, bound_rows=4, pilot_steps=4, pilot_chains=8)
    result = score.evaluate(rows, generator(0), budget)
    exact = float(ising.log_density(rows).mean()) - ising.log_partition()
    assert result.method == "ais"
    assert result.log_likelihood is None
    # E[upper] is above the exact value; it may fall below by its own error.
    assert -4 * result.bound_stderr < result.upper - exact < 1.0
    blind = Fitted(DensityScore(ising, moore(space)), space)
    assert blind.evaluate(rows, generator(0)).method == "none"
    assert blind.row_log_likelihoods(rows) is None
    with pytest.raises(InputError, match="score model's own neighborhood"):
        blind.log_ratios(rows)


def test_kernels_by_name_and_what_they_say_of_asia():
    truth = asia()
    fitted = Fitted(truth, truth.space)
    assert fitted.sample(10, generator(0), sampler="ancestral").method == "ancestral"
    exact = fitted.sample(2000, generator(0), sampler="exact", given={5: 1})
    assert exact.method == "enumeration"
    assert_draws_follow(exact.states, exact_conditional(truth, *query(truth.space, {5: 1})), truth.space)
    stuck = fitted.sample(200, generator(0), sampler="gibbs")
    assert stuck.method == "gibbs"
    assert any("not mixed" in word for word in stuck.warnings)


def test_a_kernel_that_mixes_is_not_warned_of():
    model = Ising((2, 3), 0.1)
    drawn = Fitted(model, model.space, limit=0).sample(2000, generator(0))
    assert drawn.method == "gibbs"
    assert drawn.warnings == ()
    assert_draws_follow(drawn.states, exact_conditional(model, *query(model.space, {})), model.space, inflation=3.0)


def test_noise_levels_and_flips_in_other_slots_are_read():
    space = Space.bits(3)
    net = mlp(hamming(space), "denoising", categorical(space, [0.9, 0.5]), generator=generator(0), dtype=torch.float64)
    fitted, states = Fitted(net.requires_grad_(False), space), space.enumerate()
    torch.testing.assert_close(fitted.log_ratios(states), net.at(0).log_ratios(states))
    truth = pmf([0.1, 0.2, 0.05, 0.15, 0.1, 0.1, 0.25, 0.05], space)
    flips = Fitted(DensityScore(truth, grid(space)), space)
    torch.testing.assert_close(flips.log_ratios(states), DensityScore(truth, hamming(space)).log_ratios(states))
    ring = Space((5,))
    five = pmf([0.1, 0.2, 0.3, 0.15, 0.25])
    around = Fitted(DensityScore(five, cycle(ring)), ring)
    torch.testing.assert_close(around.log_ratios([[3]], cycle(ring)), torch.tensor([[log(0.25 / 0.15)]]).double())
    wanted = DensityScore(five, complete(ring)).log_ratios(ring.enumerate())
    torch.testing.assert_close(around.log_ratios(ring.enumerate()), wanted)


def test_the_same_seed_gives_the_same_draws_and_progress_is_told():
    model = random_made(MIXED, 7)
    fitted, told = Fitted(model, MIXED), []
    for options in ({}, {"given": {5: 1}}, {"given": {5: 1}, "sampler": "exact"}):
        one, other = (fitted.sample(20, generator(3), **options).states for _ in range(2))
        assert torch.equal(one, other)
    fitted.sample(2**16 + 5, generator(0), progress=lambda done, total: told.append((done, total)))
    assert told == [(2**16, 2**16 + 5), (2**16 + 5, 2**16 + 5)]
    told.clear()
    rows = model.sample(30, generator(0))
    observed = torch.rand(rows.shape, generator=generator(1)) > 0.5
    fitted.impute(rows, observed, generator(0), progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (int((~observed).any(-1).sum()), 30)


def test_bad_questions_are_refused_before_any_work():
    truth = asia()
    words = Fitted(truth, truth.space, describe=lambda d, v: f"{truth.names[d]}={truth.values[d][v]}")
    with pytest.raises(InputError, match=r"given.*probability 0 for tub=yes, either=no"):
        words.sample(5, generator(0), given={1: 1, 5: 0})
    with pytest.raises(InputError, match="probability 0 for asia=no"):
        words.sample(5, generator(0), given=dict(enumerate([0, 0, 0, 0, 0, 1, 0, 0])))
    with pytest.raises(InputError, match=r"given.*value from 0 to 1 at site 5"):
        words.sample(5, generator(0), given={5: 2})
    with pytest.raises(InputError, match="site from 0 to 7"):
        words.sample(5, generator(0), given={8: 0})
    with pytest.raises(InputError, match="at least 1"):
        words.sample(0, generator(0))
    with pytest.raises(InputError, match="registered kernels"):
        words.sample(5, generator(0), sampler="metropolis")
    with pytest.raises(InputError, match=r"draws its own|own conditionals"):
        Fitted(Energy(MIXED, generator=generator(0)), MIXED).sample(5, generator(0), sampler="ancestral")
    with pytest.raises(InputError, match="density model or a score model"):
        Fitted("made", truth.space)
    with pytest.raises(InputError, match="space"):
        Fitted(truth, MIXED)
    impossible = torch.zeros(2, 8, dtype=torch.int64)
    impossible[1, 5] = 1
    with pytest.raises(InputError, match=r"row 1.*probability 0"):
        words.explain(impossible)
    assert words.row_log_likelihoods(impossible)[1] == -torch.inf
    with pytest.raises(InputError, match="whole number"):
        words.explain(impossible[:1], top=0)


@pytest.mark.parametrize("places", [[], [4], [3, 4], [0], [0, 4]])
def test_ratios_of_rows_with_blanks_are_those_of_sums_over_all_completions(places):
    space = Space((2, 3, 2, 4, 3))
    model = MADE(space, generator=generator(1), order_seed=3, dtype=torch.float64)
    blank = model.order[places].tolist()
    for parameter in model.parameters():
        parameter.data.normal_(std=0.7, generator=generator(2))
    table = model.log_density(space.enumerate()).detach().reshape(space.sizes)
    known = torch.ones(5, dtype=torch.bool)
    known[blank] = False
    marginal = table.logsumexp(blank, keepdim=True).expand(space.sizes).flatten() if blank else table.flatten()
    rows, changes = space.enumerate()[::7], hamming(space)
    found = Fitted(model, space).log_ratios(rows, observed=known.expand_as(rows))
    near = changes.neighbors(torch.where(known, rows, 0))
    wanted = marginal[space.index(near)] - marginal[space.index(rows)][:, None]
    site = torch.repeat_interleave(torch.arange(5), torch.tensor(space.sizes) - 1)
    torch.testing.assert_close(found[:, known[site]], wanted[:, known[site]], atol=1e-9, rtol=0)
    assert found[:, ~known[site]].isnan().all()


def test_equal_rows_are_explained_once_alike_and_progress_counts_them_all():
    model, done = MADE(MIXED, generator=generator(0)), []
    rows = model.sample(4, generator(3))[[2, 0, 2, 1, 0, 3, 2]]
    seen = torch.ones_like(rows, dtype=torch.bool)
    seen[:, 1] = False
    found = Fitted(model, MIXED).explain(rows, 3, observed=seen, progress=lambda *told: done.append(told))
    assert done[-1] == (7, 7)
    assert found.row.tolist() == [row for row in range(7) for _ in range(3)]
    each = found.log_ratio.reshape(7, 3)
    assert torch.equal(each[0], each[2])
    assert torch.equal(each[1], each[4])
    for row in (0, 3, 5):
        alone = Fitted(model, MIXED).explain(rows[row : row + 1], 3, observed=seen[:1])
        torch.testing.assert_close(alone.log_ratio, each[row], atol=1e-6, rtol=0)
        assert alone.site.tolist() == found.site.reshape(7, 3)[row].tolist()


def test_everything_given_is_given_back():
    model = Independent.fit([[0, 1], [1, 0]], Space((2, 2)))
    drawn = Fitted(model, model.space).sample(3, generator(0), given={0: 1, 1: 0})
    assert drawn.states.tolist() == [[1, 0]] * 3
    assert drawn.method == "none"


def test_narrow_states_and_a_single_flag_of_observed_cells_are_welcome():
    model = MADE(MIXED, generator=generator(0))
    rows = model.sample(5, generator(0)).to(torch.uint8)
    whole = torch.ones((1, 1), dtype=torch.bool).expand(5, 6)
    assert torch.equal(Fitted(model, MIXED).impute(rows, whole, generator(0)).states, rows.long())
    assert Fitted(model, MIXED).explain(rows, 2).row.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


class RawHead:
    """The exact Concrete scores of p, and anything at all where p is zero; -1 is a ratio of zero."""

    def __init__(self, p):
        self.p, self.neighborhood = p, hamming(p.space)

    def log_ratios(self, x):
        here = self.p.log_density(x).exp()[..., None]
        there = self.p.log_density(self.neighborhood.neighbors(x)).exp()
        return torch.where(here > 0, (there / here).log(), 0.4)


def test_a_score_model_with_ratios_of_zero_has_the_likelihood_of_its_support():
    p = pmf([[0.4, 0.3], [0.0, 0.3]])
    fitted = Fitted(RawHead(p), p.space)
    torch.testing.assert_close(fitted.views.normalized.probabilities, p.probabilities)
    found = fitted.evaluate([[1, 1]], torch.Generator())
    assert found.log_likelihood == pytest.approx(torch.tensor(0.3).log().item())


def test_the_likelihood_of_ratios_that_are_of_no_distribution_says_so():
    space, g = Space((3, 2, 2)), torch.Generator().manual_seed(0)
    table = 2 * torch.randn(12, hamming(space).num_slots, generator=g, dtype=torch.float64)

    class Contradicting:
        neighborhood = hamming(space)

        def log_ratios(self, x):
            return table[space.index(x)]

    (told,) = Fitted(Contradicting(), space).evaluate(space.enumerate(), g).warnings
    assert "of no one distribution" in told
    p = pmf(torch.rand(12, generator=g).double().softmax(0), space)
    assert Fitted(DensityScore(p, hamming(space)), space).evaluate(space.enumerate(), g).warnings == ()
