"""What every baseline owes: a normalized density, exact conditionals and draws that follow them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from concrete_score.baselines import ChowLiu, Conditionals, Independent, Mixture, counts
from concrete_score.baselines.conditionals import draw_values
from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.randomness import generator
from concrete_score.spaces import Space, check_query


def fit_mixture(states, space, pseudo_count=counts.PSEUDO_COUNT):
    return Mixture.fit(states, space, components=3, pseudo_count=pseudo_count, steps=5, generator=generator(0, "start"))


FITS = [
    pytest.param(Independent.fit, id="independent"),
    pytest.param(ChowLiu.fit, id="chow_liu"),
    pytest.param(fit_mixture, id="mixture"),
]
every_baseline = pytest.mark.parametrize("fit", FITS)
MIXED = Space((3, 1, 2, 4))


def dependent_rows(space, n, seed):
    """Rows of a random pmf that is far from independent."""
    g = generator(seed, "rows")
    weights = torch.empty(space.num_states, dtype=torch.float64).exponential_(generator=g) ** 3
    return space.state(torch.multinomial(weights, n, replacement=True, generator=g)).to(torch.uint8)


@st.composite
def problems(draw):
    """A small mixed space, sites of one value included, with rows of it and a pseudo-count."""
    space = Space(tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))))
    rows = dependent_rows(space, draw(st.integers(1, 30)), draw(st.integers(0, 10**6)))
    return space, rows, draw(st.sampled_from([0, 0.3, 4]))


def questions(rows, seed):
    """Training rows, which are possible under any fit, with cells blanked and spoiled at random."""
    observed = torch.rand(rows.shape, generator=generator(seed, "observed")) < 0.5
    return torch.where(observed, rows.long(), -7), observed


def brute_force(model, x, observed):
    """Marginals ``(N,)`` and site conditionals ``(N, D, V)`` by summing over every state of the space."""
    states = model.space.enumerate()
    p = model.log_density(states).exp()
    match = ((states == x[:, None]) | ~observed[:, None]).all(-1) * p
    marginal = match.sum(-1)
    values = torch.nn.functional.one_hot(states, max(model.space.sizes)).double()
    return marginal, torch.einsum("ns,sdv->ndv", match, values) / marginal[:, None, None]


@every_baseline
@given(problem=problems())
def test_density_sums_to_one(fit, problem):
    space, rows, pseudo_count = problem
    model = fit(rows, space, pseudo_count=pseudo_count)
    assert abs(model.log_density(space.enumerate()).exp().sum().item() - 1) < 1e-10
    assert model.normalized
    assert isinstance(model, DensityModel)
    assert isinstance(model, Samplable)
    assert isinstance(model, Conditionals)


@every_baseline
@given(problem=problems(), seed=st.integers(0, 10**6))
def test_conditionals_and_marginals_are_those_of_the_density(fit, problem, seed):
    space, rows, pseudo_count = problem
    model = fit(rows, space, pseudo_count=pseudo_count)
    x, observed = questions(rows, seed)
    marginal, conditionals = brute_force(model, x, observed)
    torch.testing.assert_close(model.log_marginal(x, observed).exp(), marginal, rtol=1e-10, atol=0)
    ours = model.site_log_conditionals(x, observed)
    torch.testing.assert_close(ours.exp(), conditionals, rtol=1e-10, atol=1e-12)
    # Padding and point masses are exact, not merely close.
    padding = ~counts.valid_values(space).expand_as(ours)
    assert ours[padding].isneginf().all()
    own = torch.nn.functional.one_hot(rows.long(), ours.shape[-1]).bool()
    assert ours[observed].equal(torch.where(own, 0.0, -torch.inf).double()[observed])


@every_baseline
def test_samples_follow_the_density(fit):
    model = fit(dependent_rows(MIXED, 200, 1), MIXED, pseudo_count=50)
    x = model.sample(20_000, generator(2, "sample"))
    assert x.dtype == torch.int64
    assert x.shape == (20_000, 4)
    seen = MIXED.index(x).bincount(minlength=MIXED.num_states)
    expected = model.log_density(MIXED.enumerate()).exp() * len(x)
    assert expected.min() > 5
    assert chisquare(seen.numpy(), expected.numpy()).pvalue > 1e-3


@every_baseline
@pytest.mark.parametrize("pseudo_count", [0, 4])
def test_draws_given_cells_follow_the_conditional(fit, pseudo_count):
    """Several questions in one batch, each answered jointly over its blanks."""
    rows = dependent_rows(MIXED, 200, 3)
    model = fit(rows, MIXED, pseudo_count=pseudo_count)
    x, observed = questions(rows[:6], seed=4)
    n = 6_000
    drawn = model.sample_given(x.repeat(n, 1), observed.repeat(n, 1), generator(5, "given")).reshape(n, 6, 4)
    assert ((drawn == x) | ~observed).all()
    states = MIXED.enumerate()
    p = model.log_density(states).exp()
    for k in range(6):
        match = ((states == x[k]) | ~observed[k]).all(-1) * p
        seen = MIXED.index(drawn[:, k]).bincount(minlength=MIXED.num_states)
        assert not seen[match == 0].any()
        expected = match[match > 0] / match.sum() * n
        if len(expected) > 1:
            assert chisquare(seen[match > 0].numpy(), expected.numpy()).pvalue > 1e-3


@every_baseline
def test_nothing_observed_is_the_prior_and_everything_the_density(fit):
    rows = dependent_rows(MIXED, 50, 6)
    model = fit(rows, MIXED)
    x = MIXED.enumerate()
    everything = torch.ones_like(x, dtype=torch.bool)
    torch.testing.assert_close(model.log_marginal(x, everything), model.log_density(x), rtol=1e-12, atol=1e-12)
    assert model.log_marginal(x, ~everything).abs().max() < 1e-12
    assert torch.equal(model.sample_given(x, everything, generator(0)), x)


@every_baseline
def test_any_leading_axes_mean_the_same_rows(fit):
    rows = dependent_rows(MIXED, 60, 7)
    model = fit(rows, MIXED)
    x, observed = questions(rows, seed=8)
    cube, known = x.reshape(5, 12, 4), observed.reshape(5, 12, 4)
    assert model.log_density(rows.long().reshape(5, 12, 4)).equal(model.log_density(rows.long()).reshape(5, 12))
    assert model.log_marginal(cube, known).equal(model.log_marginal(x, observed).reshape(5, 12))
    both = model.site_log_conditionals(cube, known), model.site_log_conditionals(x, observed)
    assert both[0].equal(both[1].reshape(5, 12, 4, 4))
    one = model.site_log_conditionals(x[0], observed[0])
    torch.testing.assert_close(one, both[1][0], rtol=1e-12, atol=1e-12)
    drawn = [model.sample_given(a, b, generator(9)) for a, b in ((cube, known), (x, observed))]
    assert drawn[0].equal(drawn[1].reshape(5, 12, 4))
    assert model.sample(0, generator(0)).shape == (0, 4)
    assert model.site_log_conditionals(x[:0], observed[:0]).shape == (0, 4, 4)


@every_baseline
def test_chunks_do_not_change_the_answers(fit, monkeypatch):
    rows = dependent_rows(MIXED, 60, 10)
    x, observed = questions(rows, seed=11)
    whole = fit(rows, MIXED)
    expected = whole.log_marginal(x, observed), whole.site_log_conditionals(x, observed)
    monkeypatch.setattr(counts, "CHUNK_FLOATS", 70)
    chunked = fit(rows, MIXED)
    found = chunked.log_marginal(x, observed), chunked.site_log_conditionals(x, observed)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert chunked.sample(60, generator(0)).shape == (60, 4)


@every_baseline
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_storage_does_not_matter(fit, dtype):
    rows, x = dependent_rows(MIXED, 40, 12), MIXED.enumerate()
    assert fit(rows.to(dtype), MIXED).log_density(x).equal(fit(rows, MIXED).log_density(x))
    assert fit(rows.numpy(), MIXED).log_density(x).equal(fit(rows, MIXED).log_density(x))


@pytest.mark.parametrize("fit", FITS[:2])
def test_pseudo_rows_are_rows(fit):
    """A pseudo-count of S is each of the S states added once: in closed form the two fits agree."""
    rows, x = dependent_rows(MIXED, 40, 13), MIXED.enumerate()
    added = torch.cat([rows.long(), x])
    smooth = fit(rows, MIXED, pseudo_count=MIXED.num_states).log_density(x)
    torch.testing.assert_close(smooth, fit(added, MIXED, pseudo_count=0).log_density(x), rtol=1e-12, atol=1e-12)


@every_baseline
def test_same_generator_same_draws(fit):
    rows = dependent_rows(MIXED, 40, 14)
    model, again = fit(rows, MIXED), fit(rows, MIXED)
    assert model.sample(50, generator(1)).equal(again.sample(50, generator(1)))
    assert not model.sample(50, generator(1)).equal(model.sample(50, generator(2)))


@every_baseline
def test_the_impossible_cannot_be_conditioned_on(fit):
    model = fit([[0, 0], [0, 1]], Space.bits(2), pseudo_count=0)
    x, observed = torch.tensor([[0, 0], [1, 0]]), torch.tensor([[True, False], [True, False]])
    assert model.log_marginal(x, observed).tolist() == [0.0, -torch.inf]
    with pytest.raises(InputError, match=r"x\[1\].*probability 0; fit with pseudo_count above 0"):
        model.site_log_conditionals(x, observed)
    with pytest.raises(InputError, match=r"x\[1\]"):
        model.sample_given(x, observed, generator(0))


@every_baseline
@pytest.mark.parametrize(
    ("states", "options", "message"),
    [
        ([[0, 0], [0, 3]], {}, r"states\[1, 1\]: expected a value from 0 to 2 at site 1, got 3; check the encoding"),
        ([[0, -1]], {}, r"states\[0, 1\]"),
        ([[0.0, 1.0]], {}, r"integer states.*convert categories"),
        ([[0, 0, 0]], {}, r"states of 2 sites"),
        ([0, 0], {}, r"a table of shape \(N, 2\).*one row per example"),
        (torch.zeros(0, 2, dtype=torch.int64), {}, r"at least one row, got none; give the rows"),
        ([[0, 0]], {"pseudo_count": -1.0}, r"pseudo_count: .*at least 0, got -1.0; use 0 for maximum likelihood"),
        ([[0, 0]], {"pseudo_count": float("nan")}, r"pseudo_count: .*got nan"),
    ],
)
def test_bad_training_data_is_named(fit, states, options, message):
    with pytest.raises(InputError, match=message):
        fit(states, Space((2, 3)), **options)


def test_a_bad_cell_far_down_is_named_as_a_slice(monkeypatch):
    monkeypatch.setattr(counts, "CHUNK_FLOATS", 20)
    rows = torch.zeros(25, 2, dtype=torch.uint8)
    rows[23, 1] = 9
    with pytest.raises(InputError, match=r"states\[20:\]\[3, 1\]: .*got 9"):
        Independent.fit(rows, Space((2, 3)))


@every_baseline
def test_bad_questions_are_named(fit):
    model = fit([[0, 0]], Space((2, 3)))
    with pytest.raises(InputError, match=r"x\[0, 0\]: expected a value from 0 to 1"):
        model.log_density(torch.tensor([[2, 0]]))
    with pytest.raises(InputError, match=r"x\[0, 1\]"):
        model.log_marginal(torch.tensor([[2, 3]]), torch.tensor([[False, True]]))


@pytest.mark.parametrize("observed", [[[True]], [[1, 0]]])
def test_observed_must_say_yes_or_no_to_each_cell(observed):
    with pytest.raises(InputError, match=r"observed: expected booleans of the shape of x, \(1, 2\).*each blank"):
        check_query([[0, 0]], observed, Space((2, 3)))


@pytest.mark.parametrize("model", [Independent, ChowLiu, Mixture])
def test_tables_of_another_shape_are_refused(model):
    table = torch.zeros(2, 2, 2, dtype=torch.float64)
    build = {
        Independent: lambda space: Independent(space, table[0]),
        ChowLiu: lambda space: ChowLiu(space, (-1, 0), table),
        Mixture: lambda space: Mixture(space, torch.zeros(2, dtype=torch.float64), table),
    }[model]
    build(Space.bits(2))
    with pytest.raises(InputError, match=r"log_table.*expected shape"):
        build(Space((2, 3)))


@pytest.mark.parametrize("unit", [0.0, 1 - 2**-53])
def test_values_without_weight_are_never_drawn(unit, monkeypatch):
    """Not even by the least and the greatest number a generator gives."""
    weights = torch.tensor([[0.0, 3.0, 0.0, 0.7, 0.0], [0.0, 0.1, 0.2, 0.3, 0.0]], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda shape, **options: torch.full(shape, unit, dtype=torch.float64))
    assert draw_values(weights.log(), generator(0)).tolist() == ([1, 1] if unit == 0 else [3, 3])
