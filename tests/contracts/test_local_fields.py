"""One contract for every density that gives local fields, interactions or hidden units: held against the density."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.errors import InputError
from concrete_score.protocols import HiddenUnits, Interacting, LocalFields
from concrete_score.spaces import Space
from concrete_score.targets import Ising, Pairwise, disk_lattice, independent_set, potts, random_rbm, spin_glass
from tests.strategies import generators, pairwise_models, spaces


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


MODELS = {
    "ising": Ising((3, 3), 0.4, field=0.3),
    "open ising": Ising((2, 3), -0.7, periodic=False),
    "row": Ising((1, 5), 0.4),
    "rbm": random_rbm(6, 4, 1.0, seeded()),
    "spin glass": spin_glass(7, 1.3, seeded(), field=0.4),
    "potts": potts((2, 3), 3, 0.8),
    "disk": disk_lattice(3, 0.5, 0.5, 1.5, seeded()),
    "independent set": independent_set(5, [[0, 1], [3, 1], [2, 4]]),
    "one value": Pairwise(
        Space((1, 1)), torch.ones(2, 1).double(), torch.ones(1, 1, 1).double(), torch.tensor([[0, 1]])
    ),
}


def every(protocol):
    offered = {name: model for name, model in MODELS.items() if isinstance(model, protocol)}
    return pytest.mark.parametrize("model", offered.values(), ids=offered)


def by_enumeration(model, x):
    """The fields from the density at every single change ``(S, D, V-1)``."""
    width = max(model.space.sizes)
    table = torch.full((*x.shape, width), -torch.inf, dtype=torch.float64)
    for d, size in enumerate(model.space.sizes):
        for v in range(size):
            changed = x.clone()
            changed[:, d] = v
            table[:, d, v] = model.log_density(changed)
    return table[..., 1:] - table[..., :1]


def assert_fields(model):
    x = model.space.enumerate()
    torch.testing.assert_close(model.local_fields(x), by_enumeration(model, x), atol=1e-10, rtol=0)


@every(LocalFields)
def test_local_fields_are_differences_of_the_density(model):
    assert_fields(model)
    x = model.space.uniform(6, seeded()).reshape(2, 3, -1)
    torch.testing.assert_close(model.local_fields(x).flatten(0, 1), model.local_fields(x.flatten(0, 1)))


@every(Interacting)
def test_sites_that_do_not_interact_have_no_mixed_difference(model):
    pairs = {tuple(pair) for pair in model.interactions().tolist()}
    assert all(a < b for a, b in pairs)
    x = model.space.enumerate()
    fields = model.local_fields(x)
    for d in range(model.space.num_sites):
        moved = x.clone()
        moved[:, d] = (moved[:, d] + 1) % model.space.sizes[d]
        for e in range(model.space.num_sites):
            if e != d and (min(d, e), max(d, e)) not in pairs:
                torch.testing.assert_close(model.local_fields(moved)[:, e], fields[:, e])


@every(HiddenUnits)
def test_hidden_units_sum_to_the_density(model):
    x = model.space.enumerate().double()
    hidden = Space.bits(model.hidden_logits(x).shape[-1]).enumerate().double()
    joint = (
        model.visible_logits(hidden) @ x.T + (hidden * model.hidden_logits(torch.zeros_like(x[:1]))).sum(-1)[:, None]
    )
    torch.testing.assert_close(joint.logsumexp(0), model.log_density(x.long()))


@given(data=st.data())
def test_pairwise_models_of_mixed_sizes(data):
    space = data.draw(spaces(max_sites=4))
    model = data.draw(pairwise_models(space))
    assert_fields(model)
    x = space.enumerate()
    fields, couplings = model.fields, model.couplings
    wanted = fields[torch.arange(space.num_sites), x].sum(-1)
    for (a, b), table in zip(model.edges.tolist(), couplings, strict=True):
        wanted = wanted + table[x[:, a], x[:, b]]
    torch.testing.assert_close(model.log_density(x), wanted)


@settings(max_examples=10)
@given(data=st.data(), g=generators())
def test_couplings_are_multiplied_alike_as_a_matrix_and_by_neighbors(data, g):
    space = data.draw(spaces(max_sites=4).filter(lambda space: space.num_states > 1))
    model = data.draw(pairwise_models(space))
    x = model.space.uniform(20, g)
    torch.testing.assert_close(model._from_matrix(x), model._from_neighbors(x))


def test_a_sparse_model_is_the_same_as_its_definition_and_gradients_flow():
    model, g = potts((7, 7), 3, 0.6), seeded()
    assert not model.dense
    x = model.space.uniform(5, g)
    same = (x[:, model.edges[:, 0]] == x[:, model.edges[:, 1]]).sum(-1)
    torch.testing.assert_close(model.log_density(x), 0.6 * same.double())
    for sites in (4, 40):  # as a matrix, and by neighbors
        edges = torch.stack([torch.arange(sites - 1), torch.arange(1, sites)], -1)
        fields, couplings = (
            torch.randn(n, *shape, generator=g, dtype=torch.float64).requires_grad_()
            for n, shape in ((sites, (3,)), (sites - 1, (3, 3)))
        )
        model = Pairwise(Space((3,) * sites), fields, couplings, edges)
        (slope,) = torch.autograd.grad(model.log_density(torch.full((1, sites), 2)).sum(), couplings)
        wanted = torch.zeros(3, 3).double()
        wanted[2, 2] = 1
        torch.testing.assert_close(slope, wanted.expand(sites - 1, -1, -1))


def test_bad_models_are_refused():
    space, h = Space((2, 3)), torch.zeros(2, 3).double()
    one = torch.zeros(1, 3, 3).double()
    for edges in ([[0, 2]], [[1, 1]], [[-1, 0]]):
        with pytest.raises(InputError, match=r"edges\[0\]: expected two different sites"):
            Pairwise(space, h, one, torch.tensor(edges))
    with pytest.raises(InputError, match="each pair of sites once"):
        Pairwise(space, h, one.repeat(2, 1, 1), torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(InputError, match="couplings: expected shape"):
        Pairwise(space, h, one, torch.zeros(0, 2).long())
    with pytest.raises(InputError, match="finite"):
        Pairwise(space, h + torch.inf, one, torch.tensor([[0, 1]]))
    with pytest.raises(InputError, match="symmetric"):
        Pairwise.of_spins([0.0, 0.0], [[0.0, 1.0], [2.0, 0.0]])
    with pytest.raises(InputError, match="penalty above 1"):
        independent_set(2, [[0, 1]], penalty=1.0)
