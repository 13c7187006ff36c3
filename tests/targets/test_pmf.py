import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.spaces import Space
from concrete_score.targets import Pmf, from_density, log_normalizer, pmf

small_spaces = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(lambda sizes: Space(tuple(sizes)))


class Scaled:
    """A density model made of a table and a constant, with states some of which may be impossible."""

    normalized = False

    def __init__(self, table: Pmf, shift: float) -> None:
        self.space, self.table, self.shift = table.space, table, shift

    def log_density(self, x):
        return self.table.log_density(x) + self.shift


def random_pmf(space: Space, seed: int, zeros: bool = False) -> Pmf:
    weights = torch.rand(space.num_states, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if zeros:
        weights[1::3] = 0
    return pmf(weights / weights.sum(), space)


@given(small_spaces, st.integers(0, 1000), st.booleans())
def test_look_up_returns_the_table_it_was_given(space, seed, zeros):
    target = random_pmf(space, seed, zeros)
    assert isinstance(target, DensityModel)
    assert isinstance(target, Samplable)
    looked_up = [target.log_density(torch.tensor(x)) for x in itertools.product(*map(range, space.sizes))]
    assert torch.equal(torch.stack(looked_up), target.log_pmf)
    again = pmf(target.probabilities, space)
    assert torch.allclose(again.probabilities, target.probabilities, rtol=1e-14, atol=0)
    assert torch.equal(again.probabilities == 0, target.probabilities == 0)


@given(small_spaces, st.integers(0, 1000), st.floats(-700, 700), st.integers(1, 50))
def test_normalizing_by_enumeration_undoes_any_constant_in_any_chunks(space, seed, shift, chunk):
    target = random_pmf(space, seed, zeros=True)
    model = Scaled(target, shift)
    assert math.isclose(log_normalizer(model, chunk=chunk).item(), shift, rel_tol=1e-14, abs_tol=1e-13)
    assert torch.allclose(from_density(model, chunk=chunk).probabilities, target.probabilities, rtol=1e-11, atol=0)


@given(small_spaces, st.integers(0, 1000))
def test_marginals_are_sums_of_the_table_over_the_other_sites(space, seed):
    target = random_pmf(space, seed, zeros=True)
    table = target.probabilities.reshape(space.sizes)
    for count in range(1, space.num_sites + 1):
        for sites in itertools.permutations(range(space.num_sites), count):
            others = tuple(d for d in range(space.num_sites) if d not in sites)
            summed = table.sum(others) if others else table
            order = [sorted(sites).index(d) for d in sites]
            kept = target.marginal(sites)
            assert kept.space.sizes == tuple(space.sizes[d] for d in sites)
            assert torch.allclose(kept.probabilities, summed.permute(order).reshape(-1), rtol=1e-12, atol=0)


def test_entropy_of_uniform_and_of_certainty():
    assert math.isclose(pmf(torch.full((7,), 1 / 7, dtype=torch.float64)).entropy(), math.log(7), rel_tol=1e-14)
    assert pmf([0.0, 1.0, 0.0]).entropy() == 0.0


def test_gradients_reach_a_models_parameters_through_its_normalizer():
    logits = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(3), requires_grad=True)
    space = Space((2, 3))

    class Logits:
        normalized = False

        def __init__(self) -> None:
            self.space = space

        def log_density(self, x):
            return logits[space.index(x)]

    (gradient,) = torch.autograd.grad(log_normalizer(Logits(), chunk=4), logits)
    assert torch.allclose(gradient, logits.detach().softmax(0), rtol=1e-12, atol=0)
    assert not from_density(Logits()).log_pmf.requires_grad


@pytest.mark.parametrize("zeros", [False, True])
def test_samples_follow_the_table(goodness_of_fit, generator, zeros):
    target = random_pmf(Space((3, 4, 5)), 5, zeros)
    drawn = target.space.index(target.sample(100_000, generator))
    assert goodness_of_fit(drawn, target.probabilities) > 1e-3
    wrong = target.probabilities.roll(3)
    assert goodness_of_fit(drawn, wrong) < 1e-12


def test_even_the_extreme_uniforms_never_draw_an_impossible_state(monkeypatch):
    target = pmf([0.0, 0.5, 0.0, 0.5, 0.0])
    extremes = torch.tensor([0.0, 0.5 - 2**-54, 0.5, 1 - 2**-53], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda *shape, **kind: extremes)
    assert target.sample(4, torch.Generator())[:, 0].tolist() == [1, 1, 3, 3]


def test_the_same_generator_gives_the_same_draws():
    target = random_pmf(Space((5, 5)), 1)
    first, second = (target.sample(50, torch.Generator().manual_seed(9)) for _ in range(2))
    assert torch.equal(first, second)


def test_leading_axes_are_kept():
    target = random_pmf(Space((3, 2)), 1)
    x = target.sample(24, torch.Generator().manual_seed(0))
    assert torch.equal(target.log_density(x.reshape(2, 3, 4, 2)), target.log_density(x).reshape(2, 3, 4))


BAD = {
    "nan": ([0.5, math.nan, 0.5], None, r"probabilities\[1\]: expected a nonnegative number, got nan"),
    "infinite": ([0.5, 0.5, math.inf], None, r"probabilities\[2\]: .* got inf"),
    "negative": ([0.6, -0.1, 0.5], None, r"probabilities\[1\]: .* got -0\.1"),
    "negative in a table": ([[0.6, 0.2], [-0.1, 0.3]], None, r"probabilities\[1, 0\]"),
    "sum": ([0.5, 0.6], None, r"got 1\.1; divide by it"),
    "sum a little off": ([0.5, 0.5 + 1e-7], None, r"got 1\.0000001; divide"),
    "length": ([0.5, 0.5], Space((3,)), r"3 probabilities.*got shape \(2,\)"),
    "shape": ([[0.5, 0.5]], Space((2, 1)), r"got shape \(1, 2\)"),
    "text": (["a", "b"], None, "an array of numbers"),
    "ragged": ([[0.5], [0.25, 0.25]], None, "an array of numbers"),
    "empty": ([], None, "at least 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_by_name(case):
    probabilities, space, message = BAD[case]
    with pytest.raises(InputError, match=message):
        pmf(probabilities, space)


def test_rounding_in_the_sum_is_forgiven_and_removed():
    assert math.isclose(pmf([0.5, 0.5 + 5e-9]).probabilities.sum().item(), 1.0, abs_tol=1e-15)


def test_broken_models_are_refused_with_their_state():
    table = random_pmf(Space((2, 3)), 0)
    broken = Pmf(table.space, table.log_pmf.clone())
    broken.log_pmf[4] = math.nan
    with pytest.raises(InputError, match=r"state \[1, 1\]: .* got nan"):
        from_density(broken)
    with pytest.raises(InputError, match="at least one possible state"):
        from_density(Scaled(table, -math.inf))
    with pytest.raises(InputError, match="at most 5 states"):
        from_density(table, limit=5)
    with pytest.raises(InputError, match="at most 5 states"):
        log_normalizer(table, limit=5)
    with pytest.raises(InputError, match="each of 6 states"):
        Pmf(table.space, torch.zeros(5, dtype=torch.float64))
    with pytest.raises(InputError, match="distinct sites"):
        table.marginal([0, 0])
