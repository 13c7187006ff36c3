"""One contract for every registered estimator: enumerating its randomness gives the full objective, for every f."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score import registry
from concrete_score.models import MADE, Table, mlp
from concrete_score.neighborhoods import IndependenceProposal, UniformProposal
from concrete_score.objectives import AllEdges, BregmanObjective, IndependentEdges
from tests.objectives.brute_force import bregman_objective, measured_objective, sampled_objective
from tests.strategies import generators, neighborhoods, pmfs, spaces

EDGES = registry.names("edges")
DIVERGENCES = [registry.load("divergences", name) for name in registry.names("divergences")]
every = pytest.mark.parametrize("name", EDGES)


def table(space, generator, scale=1.0):
    model = Table(space, generator=generator, normalized=False, dtype=torch.float64)
    model.logits.data *= scale
    return model


def edge_weight(generator, n):
    """Random positive weights of directed edges."""
    weights = 0.2 + torch.rand((n.space.num_states, n.num_slots), generator=generator, dtype=torch.float64)
    return lambda source, slot: weights[n.space.index(source), slot]


# Estimators that need more than a neighborhood; others are picked up by their name alone.
@st.composite
def estimators(draw, name):
    generator = draw(generators())
    if name == "self_proposal":
        space = draw(spaces(max_states=8))
        kernel = draw(st.sampled_from(["independence", "uniform"]))
        if kernel == "uniform":
            n = draw(neighborhoods().filter(lambda n: n.space.num_states <= 8)).symmetrized()
            return registry.load("edges", name)(UniformProposal(n), m=draw(st.integers(1, 2)))
        proposal = Table(space, generator=generator, dtype=torch.float64)
        return registry.load("edges", name)(IndependenceProposal(proposal), m=draw(st.integers(1, 2)))
    n = draw(neighborhoods().filter(lambda n: n.space.num_states <= 12 and 1 <= n.num_slots <= 6))
    options = {}
    if name not in ("all", "independent"):
        n = n.symmetrized()
    if name == "all":
        options["chunk"] = draw(st.sampled_from([60, 2**20]))
    else:
        options["m"] = draw(st.integers(1, 2 if n.num_slots <= 3 else 1))
    if name == "stratified":
        options["m"] = draw(st.integers(1, 3))
    if name == "importance" and draw(st.booleans()):
        options["reference"] = table(n.space, generator)
    if name == "self_weighed":
        options["copy"] = table(n.space, generator)
    if draw(st.booleans()):
        options["weight"] = edge_weight(generator, n)
    return registry.load("edges", name)(n, **options)


def truth(objective, model, pmf):
    """The full objective by plain loops over states and edges."""
    edges = objective.edges
    if hasattr(edges, "proposal"):
        return sampled_objective(objective.divergence, edges.proposal.log_kernel().exp(), model, pmf)
    if hasattr(edges, "copy"):
        return measured_objective(objective.divergence, edges.neighborhood, edges.copy, model, pmf, edges.weight)
    return bregman_objective(objective.divergence, edges.neighborhood, model, pmf, edges.weight)


@every
@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.name)
@settings(max_examples=15)
@given(data=st.data())
def test_expectation_over_all_outcomes_is_the_full_objective(name, divergence, data):
    estimator = data.draw(estimators(name))
    model, pmf = table(estimator.space, data.draw(generators())), data.draw(pmfs(estimator.space))
    objective = BregmanObjective(divergence, estimator)
    states, expected, total = estimator.space.enumerate(), torch.zeros((), dtype=torch.float64), 0
    for probability, edges in estimator.outcomes(states):
        expected = expected + (pmf * probability) @ objective.loss(model, edges)
        total = total + probability
    torch.testing.assert_close(total, torch.ones(len(states), dtype=torch.float64))
    exact = truth(objective, model, pmf)
    assert expected.item() == pytest.approx(exact, rel=1e-10, abs=1e-10)
    assert objective.exact(model, pmf).item() == pytest.approx(exact, rel=1e-10, abs=1e-10)


@every
@settings(max_examples=8)
@given(data=st.data())
def test_draws_have_the_moments_of_the_outcomes(name, data):
    estimator = data.draw(estimators(name))
    model, pmf = table(estimator.space, data.draw(generators()), 0.5), data.draw(pmfs(estimator.space))
    objective = BregmanObjective(registry.load("divergences", "logistic"), estimator)
    x = estimator.space.state(torch.multinomial(pmf, 4000, replacement=True, generator=data.draw(generators())))
    x = x[:400] if name == "all" else x
    loss = objective.loss(model, objective.draw(x, data.draw(generators())))
    exact = objective.exact(model, pmf).item()
    error = loss.std().item() / len(x) ** 0.5
    assert abs(loss.mean().item() - exact) <= 5 * error + 1e-9


@every
@settings(max_examples=5)
@given(data=st.data())
def test_a_process_may_take_a_slice_of_the_draws(name, data):
    estimator = data.draw(estimators(name))
    model = table(estimator.space, data.draw(generators()))
    objective = BregmanObjective(registry.load("divergences", "csm"), estimator)
    x = estimator.space.uniform(6, data.draw(generators()))
    draws = objective.draw(x, data.draw(generators()))
    whole = objective.loss(model, draws)
    parts = torch.cat([objective.loss(model, draws.rows(slice(0, 2))), objective.loss(model, draws.rows(slice(2, 6)))])
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("name", [name for name in EDGES if not name.startswith("self_")])
@pytest.mark.parametrize("head", ["log_ratio", "raw"])
@settings(max_examples=6)
@given(data=st.data())
def test_score_models_read_the_same_edges(name, head, data):
    estimator = data.draw(estimators(name))
    n = estimator.neighborhood
    model = mlp(n, head, generator=data.draw(generators()), hidden=6, dtype=torch.float64)
    pmf = data.draw(pmfs(n.space))
    objective = BregmanObjective(registry.load("divergences", "csm"), estimator)
    exact = objective.exact(model, pmf).item()
    states, expected = n.space.enumerate(), 0.0
    for probability, edges in estimator.outcomes(states):
        expected += ((pmf * probability) @ objective.loss(model, edges)).item()
    assert expected == pytest.approx(exact, rel=1e-9, abs=1e-9)


@given(data=st.data())
def test_full_source_is_free_for_score_models_and_unbiased(data):
    n = data.draw(neighborhoods().filter(lambda n: n.space.num_states <= 12 and 1 <= n.num_slots <= 6))
    model = mlp(n, generator=data.draw(generators()), hidden=6, dtype=torch.float64)
    pmf = data.draw(pmfs(n.space))
    csm = registry.load("divergences", "csm")
    full, whole = IndependentEdges(n, full_source=True), BregmanObjective(csm, AllEdges(n))
    expected = 0.0
    for probability, edges in full.outcomes(n.space.enumerate()):
        expected += ((pmf * probability) @ BregmanObjective(csm, full).loss(model, edges)).item()
        assert edges.nodes.shape[1] == 2, "one pass at x, one at the drawn source"
    assert expected == pytest.approx(whole.exact(model, pmf).item(), rel=1e-9, abs=1e-9)


def test_a_density_is_evaluated_once_per_node():
    """Paired draws cost two evaluations an example, independent ones three, all of m=4 nine."""
    from concrete_score.neighborhoods import hamming
    from concrete_score.spaces import Space

    n = hamming(Space.bits(5))
    made = MADE(n.space, generator=torch.Generator().manual_seed(0))
    x = n.space.uniform(7, torch.Generator().manual_seed(0))
    for name, options, rows in [("paired", {}, 2), ("independent", {}, 3), ("independent", {"m": 4}, 9)]:
        edges = registry.load("edges", name)(n, **options).draw(x, torch.Generator().manual_seed(1))
        assert edges.nodes.shape[:2] == (7, rows)
        assert made.log_density(edges.nodes).shape == (7, rows)
