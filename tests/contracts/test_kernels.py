"""One contract for every registered kernel: exact on random small spaces, targets and neighborhoods, and the real
batched step agrees with the exact matrix. A new kernel is enrolled by its registry line."""

import inspect

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.protocols import Enumerable, Kernel
from concrete_score.spaces import Space
from tests.samplers.checks import (
    assert_counts_follow,
    assert_keeps,
    assert_stochastic,
    masks,
    relaxed_targets,
    stationary,
    step_counts,
)
from tests.strategies import generators, neighborhoods, pairwise_models, rbms

EXEMPT = {
    "langevin": "lives between the states and is biased: its bias is measured in tests/samplers/test_langevin.py",
    "mala": "lives between the states: held against the density itself in tests/samplers/test_langevin.py",
    "heat_bath": "unadjusted: its exact bias is measured in tests/samplers/test_gibbs.py",
    "exact": "draws independently: its one distribution is tested in tests/samplers/test_independent.py",
    "ancestral": "draws independently: its one distribution is tested in tests/samplers/test_independent.py",
}
OPTIONS = {
    "mh": lambda draw: {"laziness": draw(st.sampled_from([0.0, 0.25]))},
    "informed": lambda draw: {"balancing": draw(st.sampled_from(["sqrt", "barker", "min", "max"]))},
    "gwg": lambda draw: {"balancing": draw(st.sampled_from(["sqrt", "barker", "min", "max"]))},
    "dlmc": lambda draw: {"step_size": draw(st.sampled_from([0.05, 0.5, 3.0]))},
    "path_auxiliary": lambda draw: {"step_size": draw(st.sampled_from([1.0, 2.0]))},
    "colored": lambda draw: {"backwards": draw(st.booleans())},
    "multi_site": lambda draw: {
        "step_size": draw(st.sampled_from([0.05, 0.5, 3.0])),
        "balancing": draw(st.sampled_from(["sqrt", "barker", "max"])),
    },
    "tempering": lambda draw: {
        "inverse_temperatures": draw(st.sampled_from([(1.0, 0.5), (1.0, 0.7, 0.2)])),
        "inner_steps": draw(st.sampled_from([1, 2])),
    },
}
MODELS = {
    "colored": pairwise_models,
    "sweep": pairwise_models,
    "auxiliary": rbms,
}
"""Kernels for models of a certain structure; all others run on any density."""
SMALL = {"tempering": 6, "path_auxiliary": 12}  # their matrices are over products of states, and over paths

every = pytest.mark.parametrize("name", [name for name in registry.names("kernels") if name not in EXEMPT])


def case(name, data):
    """A random kernel of this name, its stationary distribution and the space its matrix is over."""
    n = data.draw(neighborhoods().filter(lambda n: n.num_slots and 1 < n.space.num_states <= SMALL.get(name, 30)))
    model = data.draw(MODELS.get(name, relaxed_targets)(n.space))
    builder = registry.load("kernels", name)
    options = OPTIONS.get(name, lambda draw: {})(data.draw)
    if "neighborhood" in inspect.signature(builder).parameters:
        options["neighborhood"] = n
    kernel = builder(model, **options)
    pi, space = stationary(model), model.space
    if hasattr(kernel, "product_space"):  # independent copies at their own temperatures
        space = kernel.product_space
        assume(space.num_states <= 216)
        powers = [(beta * pi.log()).softmax(0) for beta in kernel.inverse_temperatures]
        pi = powers[0]
        for power in powers[1:]:
            pi = torch.kron(pi, power)
    return kernel, pi, space


def clamp_product(kernel, space, clamped):
    """The mask over all copies."""
    return clamped.repeat(space.num_sites // kernel.space.num_sites)


def agreeing(kernel, rows, clamped):
    """Rows whose copies agree on clamped sites; all of them where there is one copy."""
    copies = rows.reshape(len(rows), -1, kernel.space.num_sites)
    return rows[((copies == copies[:, :1]) | ~clamped).all(-1).all(-1)]


@every
@given(data=st.data())
def test_the_matrix_keeps_the_target(name, data):
    kernel, pi, _ = case(name, data)
    assert isinstance(kernel, Kernel)
    assert isinstance(kernel, Enumerable)
    matrix = kernel.transition_matrix()
    assert_stochastic(matrix)
    assert_keeps(matrix, pi, getattr(kernel, "reversible", False))


@every
@settings(max_examples=15)
@given(data=st.data())
def test_clamped_sites_never_move_and_conditionals_are_kept(name, data):
    kernel, pi, space = case(name, data)
    clamped = data.draw(masks(kernel.space))
    matrix = kernel.transition_matrix(clamped)
    assert_stochastic(matrix)
    assert_keeps(matrix, pi, getattr(kernel, "reversible", False))
    rows = agreeing(kernel, space.enumerate(), clamped)
    from_, to = rows[:, None], space.enumerate()
    moved = ((from_ != to) & clamp_product(kernel, space, clamped)).any(-1)
    assert (matrix[space.index(rows)][moved] == 0).all()
    counts = step_counts(kernel, rows, max(20, 4000 // len(rows)), data.draw(generators()), clamped)
    assert_counts_follow(counts, matrix[space.index(rows)])


@every
@settings(max_examples=15)
@given(data=st.data())
def test_real_steps_follow_the_matrix(name, data):
    kernel, _, space = case(name, data)
    rows = space.enumerate()
    counts = step_counts(kernel, rows, max(20, 10000 // len(rows)), data.draw(generators()))
    assert_counts_follow(counts, kernel.transition_matrix())


@every
@settings(max_examples=5)
@given(data=st.data())
def test_a_step_leaves_its_state_alone_and_repeats_itself(name, data):
    kernel, _, _ = case(name, data)
    seed = data.draw(st.integers(0, 1000))
    state = kernel.init(kernel.space.uniform(50, torch.Generator().manual_seed(seed)))
    before = state.x.clone()
    one, info = kernel.step(state, torch.Generator().manual_seed(seed))
    other, _ = kernel.step(state, torch.Generator().manual_seed(seed))
    assert torch.equal(state.x, before)
    assert torch.equal(one.x, other.x)
    assert info.accepted.shape == (50,)
    assert info.accepted.dtype == torch.bool
    assert info.passes >= 1


@every
@settings(max_examples=3)
@given(data=st.data())
def test_bad_starts_are_refused(name, data):
    kernel, _, _ = case(name, data)
    start = torch.zeros(2, kernel.space.num_sites, dtype=torch.int64)
    with pytest.raises(InputError, match="expected a value from 0"):
        kernel.init(start + max(kernel.space.sizes), torch.ones_like(start, dtype=torch.bool))
    with pytest.raises(InputError, match="clamped"):
        kernel.init(start, torch.ones(2, kernel.space.num_sites + 1, dtype=torch.bool))
    with pytest.raises(InputError, match="clamped"):
        kernel.init(start, torch.ones_like(start))
    with pytest.raises(InputError, match="shape"):
        kernel.init(start[0])


@every
def test_what_has_neither_density_nor_ratios_is_refused(name):
    with pytest.raises(InputError, match="model"):
        registry.load("kernels", name)(Space.bits(2))
