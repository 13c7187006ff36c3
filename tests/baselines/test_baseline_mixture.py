"""EM never goes down, ends at a maximum of what it says it climbs, and one component is no mixture."""

import pytest
import torch

from concrete_score.baselines import Independent, Mixture
from concrete_score.errors import InputError
from concrete_score.randomness import generator
from concrete_score.spaces import Space

MIXED = Space((2, 3, 1, 4))


def random_rows(space, n, seed):
    g = generator(seed, "rows")
    weights = torch.empty(space.num_states, dtype=torch.float64).exponential_(generator=g) ** 2
    return space.state(torch.multinomial(weights, n, replacement=True, generator=g))


def objective(model, rows, pseudo_count):
    """Nats per row, written out: log-likelihood plus the log-prior of the pseudo-rows dealt to each component."""
    prior = 0.0
    for k in range(len(model.log_weights)):
        prior += model.log_weights[k].item()
        for d, size in enumerate(model.space.sizes):
            prior += model.log_tables[k, d, :size].mean().item()
    prior *= pseudo_count / len(model.log_weights)
    return (model.log_density(rows).sum().item() + prior) / len(rows)


@pytest.mark.parametrize("pseudo_count", [0, 0.5, 4])
@pytest.mark.parametrize("seed", range(6))
def test_no_step_goes_down(seed, pseudo_count):
    rows = random_rows(MIXED, 100, seed)
    options = {"components": 4, "pseudo_count": pseudo_count, "tolerance": 0.0, "steps": 60}
    model = Mixture.fit(rows, MIXED, generator=generator(seed, "em"), **options)
    trace = torch.tensor(model.trace, dtype=torch.float64)
    assert len(trace) > 5
    assert trace.diff().min() > -1e-12
    assert trace[-1] - trace[0] > 1e-3
    if pseudo_count:
        assert abs(objective(model, rows, pseudo_count) - trace.max().item()) < 1e-12
    else:
        assert abs(model.log_density(rows).mean().item() - trace.max().item()) < 1e-12


@pytest.mark.parametrize("pseudo_count", [0.5, 4])
def test_no_mixture_nearby_is_better(pseudo_count):
    rows, g = random_rows(MIXED, 100, 1), generator(1, "em")
    model = Mixture.fit(
        rows, MIXED, generator=g, components=3, pseudo_count=pseudo_count, steps=20_000, tolerance=1e-15
    )
    top = objective(model, rows, pseudo_count)
    for size in (1e-2, 1e-3):
        for _ in range(20):
            weights = model.log_weights + size * torch.randn(3, dtype=torch.float64, generator=g)
            tables = model.log_tables + size * torch.randn(3, 4, 4, dtype=torch.float64, generator=g)
            near = Mixture(MIXED, weights.log_softmax(-1), tables.log_softmax(-1))
            assert objective(near, rows, pseudo_count) < top


@pytest.mark.parametrize("pseudo_count", [0, 4])
def test_one_component_is_independent(pseudo_count):
    rows = random_rows(MIXED, 30, 2)
    one = Mixture.fit(rows, MIXED, generator=generator(0), components=1, pseudo_count=pseudo_count)
    alone = Independent.fit(rows, MIXED, pseudo_count=pseudo_count)
    torch.testing.assert_close(one.log_tables[0], alone.log_table, rtol=1e-12, atol=1e-12)
    assert one.log_weights.abs().max() < 1e-12
    # The first step already is the maximum; the second finds nothing to gain.
    assert len(one.trace) == 3


def test_two_distinct_groups_are_found():
    space, g = Space((3,) * 8), generator(3, "groups")
    tables = torch.tensor([[0.8, 0.15, 0.05], [0.1, 0.1, 0.8]], dtype=torch.float64).log()
    truth = Mixture(space, torch.tensor([0.3, 0.7], dtype=torch.float64).log(), tables[:, None].repeat(1, 8, 1))
    found = Mixture.fit(truth.sample(20_000, g), space, generator=g, components=2, pseudo_count=0)
    order = found.log_weights.argsort()
    torch.testing.assert_close(found.log_weights[order].exp(), truth.log_weights.exp(), rtol=0, atol=0.02)
    torch.testing.assert_close(found.log_tables[order].exp(), truth.log_tables.exp(), rtol=0, atol=0.03)


def test_a_mixture_sees_what_independents_cannot():
    rows = torch.tensor([[0] * 6, [1] * 6]).repeat(50, 1)
    space = Space.bits(6)
    alone = Independent.fit(rows, space).log_density(rows).mean()
    mixed = Mixture.fit(rows, space, generator=generator(0), components=2).log_density(rows).mean()
    assert mixed > alone + 3


def test_the_generator_decides_the_fit():
    rows, x = random_rows(MIXED, 100, 4), MIXED.enumerate()
    fits = [Mixture.fit(rows, MIXED, generator=generator(seed), steps=3).log_density(x) for seed in (0, 0, 1)]
    assert fits[0].equal(fits[1])
    assert not fits[0].equal(fits[2])


def test_steps_and_tolerance_bound_the_work():
    rows = random_rows(MIXED, 100, 5)
    few = Mixture.fit(rows, MIXED, generator=generator(0), steps=3, tolerance=0.0)
    assert len(few.trace) == 4
    loose = Mixture.fit(rows, MIXED, generator=generator(0), tolerance=1e-2)
    tight = Mixture.fit(rows, MIXED, generator=generator(0), tolerance=1e-6)
    assert len(loose.trace) < len(tight.trace)
    assert loose.trace[-1] - loose.trace[-2] < 1e-2 <= loose.trace[-2] - loose.trace[-3]


@pytest.mark.parametrize("options", [{"components": 0}, {"components": -2}, {"steps": 0}])
def test_a_mixture_of_nothing_is_refused(options):
    with pytest.raises(InputError, match=r"(components|steps): expected a whole number of at least 1"):
        Mixture.fit([[0, 0]], Space.bits(2), generator=generator(0), **options)
