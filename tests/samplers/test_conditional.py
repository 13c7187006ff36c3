"""Conditional draws and blank cells: every method against the enumerated conditional."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.baselines import ChowLiu, Independent, Mixture
from concrete_score.errors import InputError
from concrete_score.models import MADE, Energy, Table, mlp
from concrete_score.neighborhoods import grid_bounded, hamming
from concrete_score.randomness import generator
from concrete_score.samplers import clamped, methods
from concrete_score.samplers.completions import Completions, Impossible, count_completions
from concrete_score.samplers.conditional import Conditioner
from concrete_score.samplers.resampling import ENOUGH, resample
from concrete_score.spaces import Space
from concrete_score.targets import Ising, asia, pmf, random_network
from tests.likelihood.helpers import Unnormalized
from tests.strategies import generators, pmfs, spaces

MIXED = Space((2, 3, 4, 2, 3, 2))
CONDITIONS = ({5: 1}, {5: 0, 6: 1}, {1: 0, 7: 1, 6: 1})
"""Of Asia: `either` (which no single flip enters or leaves), its absence despite the x-ray, and two symptoms."""


def query(space, given_):
    x, observed = torch.zeros(1, space.num_sites, dtype=torch.int64), torch.zeros(1, space.num_sites, dtype=torch.bool)
    for site, value in given_.items():
        x[0, site], observed[0, site] = value, True
    return x, observed


def exact_conditional(model, x, observed):
    """``q(· | observed)`` of one row over the whole space, by comparing every state ``(S,)``."""
    states = model.space.enumerate()
    alike = ((states == x) | ~observed).all(-1)
    log_q = model.log_density(states).detach().double()
    return torch.where(alike, log_q, -torch.inf).softmax(0)


def exact_cells(model, x, observed):
    """Marginals of the blanks of one row ``(b, V)``, by the same comparison."""
    p, states = exact_conditional(model, x, observed), model.space.enumerate()
    values = torch.arange(max(model.space.sizes))
    sites = (~observed).nonzero().squeeze(-1).tolist()
    return torch.stack([((states[:, d, None] == values).double() * p[:, None]).sum(0) for d in sites])


def assert_draws_follow(draws, p, space, worst=4.5, inflation=1.0):
    """z-scores of every single and pairwise marginal; nothing of probability zero is ever drawn."""
    index = space.index(draws)
    assert (p[index] > 0).all()
    states = space.enumerate()
    features = torch.nn.functional.one_hot(states, max(space.sizes)).flatten(1).double()
    pairs = (features[:, :, None] * features[:, None]).flatten(1)
    mean = p @ pairs
    variance = (mean * (1 - mean)).clamp_min(0)
    found = pairs[index].mean(0)
    used = variance > 1e-12
    z = (found - mean)[used] / (inflation * variance[used] / len(draws)).sqrt()
    # Rare pairs are skewed; they are counted where at least five are expected.
    common = torch.minimum(mean, 1 - mean)[used] * len(draws) > 5
    assert (z[common].abs() < worst).all()
    torch.testing.assert_close(found[~used], mean[~used], atol=1e-9, rtol=0)


def random_made(space, seed, order_seed=None):
    model = MADE(space, hidden=24, order_seed=order_seed, generator=generator(seed), dtype=torch.float64)
    # Twice the first weights: conditionals then depend on the other sites.
    return model.requires_grad_(False).load_state_dict({k: 3 * v for k, v in model.state_dict().items()}) and model


@pytest.mark.parametrize("given_", CONDITIONS)
def test_asia_given_what_flips_cannot_reach(given_):
    truth = asia()
    for model in (Table.from_pmf(truth.space, truth.joint().probabilities), truth):
        x, observed = query(truth.space, given_)
        done = Conditioner(model).draw(x, observed, 4000, generator(1, "asia"))
        assert done.method == "enumeration"
        assert done.warnings == ()
        assert_draws_follow(done.states[:, 0], exact_conditional(truth, x, observed), truth.space)


@pytest.mark.parametrize("given_", [{0: 1}, {0: 0, 1: 2}, {}])
def test_a_made_draws_in_its_order(given_):
    model = random_made(MIXED, 0)
    x, observed = query(MIXED, given_)
    done = Conditioner(model).draw(x, observed, 6000, generator(2, "order"))
    assert done.method == "order"
    assert_draws_follow(done.states[:, 0], exact_conditional(model, x, observed), MIXED)


@pytest.mark.parametrize("given_", [{5: 1}, {2: 3, 4: 0}, {1: 2, 3: 1, 5: 0}])
@pytest.mark.parametrize("order_seed", [None, 3])
def test_a_made_draws_against_its_order(given_, order_seed):
    model = random_made(MIXED, 1, order_seed)
    x, observed = query(MIXED, given_)
    p = exact_conditional(model, x, observed)
    done = Conditioner(model).draw(x, observed, 6000, generator(3, "enumeration"))
    assert done.method == "enumeration"
    assert_draws_follow(done.states[:, 0], p, MIXED)
    done = Conditioner(model, limit=0).draw(x, observed, 3000, generator(3, "importance"))
    assert done.method == "importance"
    assert done.warnings == ()
    # At least four effective proposals for each draw: the variance is at most 1 + 1/4 of that of independent draws.
    found = resample(model.propose_given, x, observed, 3000, generator(3, "importance"))
    assert float(found.effective) >= ENOUGH * 3000
    assert_draws_follow(done.states[:, 0], p, MIXED, inflation=1.25)


@dataclass(frozen=True, eq=False)
class AncestralAsia:
    """The network as an autoregressive model that offers proposals of its own, zeros and all."""

    network: Any

    space = property(lambda self: self.network.space)
    normalized = True

    def log_density(self, x):
        return self.network.log_density(x)

    def propose_given(self, x, observed, g):
        x, weight = x.clone(), torch.zeros(len(x), dtype=torch.float64)
        for d in range(8):  # parents come before their children
            parents = [x[:, p] for p in self.network.parents[d]]
            table = self.network.tables[d][tuple(parents)] if parents else self.network.tables[d].expand(len(x), -1)
            drawn = (torch.rand(len(x), generator=g, dtype=torch.float64) >= table[:, 0]).long()
            x[:, d] = torch.where(observed[:, d], x[:, d], drawn)
            weight += torch.where(observed[:, d], table.gather(1, x[:, d : d + 1]).squeeze(1).log(), 0.0)
        return x, weight


@pytest.mark.parametrize("given_", CONDITIONS)
def test_importance_and_moves_reach_what_flips_cannot(given_):
    truth = asia()
    x, observed = query(truth.space, given_)
    done = Conditioner(AncestralAsia(truth), limit=0).draw(x, observed, 2000, generator(3, "importance"))
    assert done.method == "importance"
    assert done.warnings == ()
    found = resample(AncestralAsia(truth).propose_given, x, observed, 2000, generator(3, "importance"))
    assert 100 < float(found.effective) < float(found.proposed)
    # Draws from a pool of E effective ones: their mean has the variance of 1/n + 1/E independent ones.
    inflation = 1 + 2000 / float(found.effective)
    p = exact_conditional(truth, x, observed)
    assert_draws_follow(done.states[:, 0], p, truth.space, inflation=inflation)
    assert_draws_follow(found.states[:, 0], p, truth.space, inflation=inflation)
    marginal = truth_marginal(truth, x, observed)
    assert abs(float(found.log_marginal) - float(marginal.log())) < 4.5 / float(found.effective) ** 0.5


@pytest.fixture(scope="module")
def asia_made():
    """A MADE of Asia to a KL of 0.001: nearly as hard for flips as the truth, and without its zeros."""
    truth = asia()
    model = MADE(truth.space, hidden=32, blocks=1, generator=generator(5), dtype=torch.float64)
    states, p = truth.space.enumerate(), truth.joint().probabilities
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(500):
        optimizer.zero_grad()
        (-(p @ model.log_density(states))).backward()
        optimizer.step()
    possible = p > 0
    assert float((p * (p.log() - model.log_density(states).detach()))[possible].sum()) < 1e-3
    return model.requires_grad_(False)


@pytest.mark.parametrize("given_", CONDITIONS)
@pytest.mark.parametrize("always_move", [False, True])
def test_a_made_of_asia_by_every_way(asia_made, given_, always_move, monkeypatch):
    x, observed = query(asia_made.space, given_)
    p = exact_conditional(asia_made, x, observed)
    exact = Conditioner(asia_made).draw(x, observed, 2000, generator(0, "exact"))
    assert exact.method == "enumeration"
    assert_draws_follow(exact.states[:, 0], p, asia_made.space)
    swept = []
    monkeypatch.setattr(methods, "sweep", lambda *arguments: swept.append(1) or clamped.sweep(*arguments))
    if always_move:  # moves are for rows whose proposals count for too few; here none ever counts for enough
        monkeypatch.setattr(methods, "ENOUGH", 10**9)
    found = resample(asia_made.propose_given, x, observed, 2000, generator(1, "importance"))
    done = Conditioner(asia_made, limit=0).draw(x, observed, 2000, generator(1, "importance"))
    assert done.method == "importance"
    assert done.warnings == ()
    assert bool(swept) == (always_move or float(found.effective) < 8000)
    assert_draws_follow(done.states[:, 0], p, asia_made.space, inflation=1 + 2000 / float(found.effective))


def truth_marginal(model, x, observed):
    states = model.space.enumerate()
    return model.log_density(states)[((states == x) | ~observed).all(-1)].exp().sum()


def test_a_condition_that_no_proposal_meets_is_refused():
    x, observed = query(asia().space, {1: 1, 5: 0})
    with pytest.raises(Impossible, match="none of 4,096 ancestral draws"):
        Conditioner(AncestralAsia(asia()), limit=0).draw(x, observed, 10, generator(0))


def test_many_conditions_at_once_equal_their_own_distributions():
    model = random_made(MIXED, 2)
    rows = model.sample(40, generator(0, "rows"))
    observed = torch.rand(40, 6, generator=generator(0, "observed")) > 0.4
    for limit, inflation in ((None, 1.0), (0, 1.25)):
        done = Conditioner(model, limit=limit).draw(rows, observed, 400, generator(1, "draws"))
        assert done.states.shape == (400, 40, 6)
        assert (done.states[:, observed] == rows[observed]).all()
        # Σ over rows of the log-probability of each row's draws has the mean and variance of the exact conditionals.
        conditionals = [exact_conditional(model, x, known) for x, known in zip(rows, observed, strict=True)]
        for d in range(6):
            value = done.states[:, :, d].double().mean(0)
            wanted = torch.stack([(p * MIXED.enumerate()[:, d]).sum() for p in conditionals])
            square = torch.stack([(p * MIXED.enumerate()[:, d] ** 2).sum() for p in conditionals])
            variance = (square - wanted**2).clamp_min(0)
            blank = variance > 1e-9
            z = (value - wanted)[blank] / (inflation * variance[blank] / 400).sqrt()
            assert z.abs().max() < 4.5
            assert abs(float(z.sum()) / len(z) ** 0.5) < 4


@pytest.mark.parametrize("name", ["independent", "chow_liu", "mixture"])
def test_baselines_answer_in_closed_form(name):
    network = random_network(MIXED.sizes, 2, generator(0, "network"))
    rows = network.sample(500, generator(0, "rows"))
    model = {
        "independent": lambda: Independent.fit(rows, MIXED),
        "chow_liu": lambda: ChowLiu.fit(rows, MIXED),
        "mixture": lambda: Mixture.fit(rows, MIXED, components=3, generator=generator(0, "mixture")),
    }[name]()
    for given_ in ({5: 1}, {2: 3, 4: 0}, {0: 1, 1: 1, 5: 0}):
        x, observed = query(MIXED, given_)
        done = Conditioner(model).draw(x, observed, 4000, generator(4, name))
        assert done.method == "closed_form"
        assert_draws_follow(done.states[:, 0], exact_conditional(model, x, observed), MIXED)
        cells = torch.cat([found.cells.log_probs for found in Conditioner(model).cells(x, observed, generator(0))])
        torch.testing.assert_close(cells.exp(), exact_cells(model, x[0], observed[0]), atol=1e-10, rtol=0)


@st.composite
def tables_with_blanks(draw):
    space = draw(spaces(max_sites=4, max_states=60))
    model = pmf(draw(pmfs(space)), space)
    rows = draw(st.integers(1, 12))
    g = draw(generators())
    x, share = space.uniform(rows, g), draw(st.sampled_from([0.0, 0.3, 0.6, 1.0]))
    return model, x, torch.rand(x.shape, generator=g) >= share


@settings(max_examples=60)
@given(tables_with_blanks())
def test_rows_of_all_patterns_together_are_each_row_alone(drawn):
    model, x, observed = drawn
    count = count_completions(model.space, observed)
    found = {}
    for rows, cells in Completions(model, x, observed).cells():
        assert len(set(count[rows].tolist())) == 1
        for row, site, log_probs in zip(cells.row.tolist(), cells.site.tolist(), cells.log_probs, strict=True):
            assert (row, site) not in found
            found[row, site] = log_probs.exp()
    assert set(found) == {tuple(cell) for cell in (~observed).nonzero().tolist()}
    for row in range(len(x)):
        blank = (~observed[row]).nonzero().squeeze(-1).tolist()
        if blank:
            alone = exact_cells(model, x[row], observed[row])
            together = torch.stack([found[row, d] for d in blank])
            torch.testing.assert_close(together, alone, atol=1e-10, rtol=0)


@settings(max_examples=20)
@given(tables_with_blanks(), generators())
def test_enumerated_draws_keep_what_is_observed_and_may_be_anything_else(drawn, g):
    model, x, observed = drawn
    space = model.space
    done = Conditioner(model).draw(x, observed, 300, g)
    assert (done.states[:, observed] == x[observed]).all()
    counts = torch.stack(
        [torch.bincount(space.index(done.states[:, r]), minlength=space.num_states) for r in range(len(x))]
    )
    wanted = torch.stack([exact_conditional(model, x[r], observed[r]) for r in range(len(x))])
    variance = 300 * wanted * (1 - wanted)
    common = 300 * wanted > 5
    z = ((counts - 300 * wanted) / variance.sqrt())[common & (variance > 1e-9)]
    assert not len(z) or z.abs().max() < 5.5
    assert (counts[wanted == 0] == 0).all()


def test_blanks_beyond_enumeration_are_averaged_over_draws():
    model = random_made(MIXED, 3)
    rows = model.sample(30, generator(0, "rows"))
    observed = torch.rand(30, 6, generator=generator(0, "observed")) > 0.4
    exact = torch.cat([f.cells.log_probs for f in sorted_cells(Conditioner(model), rows, observed)])
    for conditioner in (Conditioner(model, limit=0), Conditioner(model, sampler="gibbs")):
        near = torch.cat([f.cells.log_probs for f in sorted_cells(conditioner, rows, observed)])
        torch.testing.assert_close(near.exp().sum(-1), torch.ones(len(near), dtype=torch.float64))
        # 32 draws, of which only the other blanks are random: errors are far below 1/√32.
        assert (near.exp() - exact.exp()).square().mean().sqrt() < 0.06
        assert (near.exp() - exact.exp()).mean(0).abs().max() < 0.02


def sorted_cells(conditioner, rows, observed):
    """Everything found, as one piece, by row and site."""
    found = list(conditioner.cells(rows, observed, generator(0, "cells")))
    row, site, log_probs = (torch.cat(column) for column in zip(*(f.cells for f in found), strict=True))
    order = (row * rows.shape[1] + site).argsort()
    assert [row[order].tolist(), site[order].tolist()] == (~observed).nonzero().T.tolist()
    return [found[-1]._replace(cells=type(found[-1].cells)(row[order], site[order], log_probs[order]))]


def test_chains_of_energies_and_scores_agree_with_enumeration():
    space = Space((2, 3, 2, 2))
    energy = Energy(space, hidden=(8,), generator=generator(1), dtype=torch.float64).requires_grad_(False)
    score = mlp(hamming(space), hidden=8, generator=generator(2), dtype=torch.float64).requires_grad_(False)
    x, observed = query(space, {1: 2})
    done = Conditioner(energy, limit=0).draw(x, observed, 2000, generator(0, "energy"))
    assert done.method == "gibbs"
    # Draws a sweep apart are nearly independent in this small, flat model.
    assert_draws_follow(done.states[:, 0], exact_conditional(energy, x, observed), space, inflation=2.0)
    rows = torch.cat([x, x])
    both = Conditioner(score).draw(rows, observed.repeat(2, 1), 3, generator(0, "score"))
    assert both.method == "gibbs"
    assert (both.states[:, :, 1] == 2).all()
    one_way = mlp(grid_bounded(space), hidden=8, generator=generator(2), dtype=torch.float64).requires_grad_(False)
    cells = list(Conditioner(one_way).cells(rows, observed.repeat(2, 1), generator(0, "frequencies")))
    torch.testing.assert_close(cells[0].cells.log_probs.exp().sum(-1), torch.ones(6, dtype=torch.float64))


def test_low_effective_numbers_are_said_in_one_sentence():
    # The last bit is set if all twelve others are, and hardly ever else: ancestral proposals seldom guess that.
    space = Space.bits(13)
    model = MADE(space, hidden=13, blocks=0, activation="relu", generator=generator(0), dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.read.weight.fill_(1.0)
        model.write.weight[12] = 4.0
        model.write.bias[12] = -316.0
    x, observed = query(space, {12: 1})
    done = Conditioner(model.requires_grad_(False), limit=0).draw(x, observed, 100, generator(0, "low"))
    assert len(done.warnings) == 1
    assert "effective" in done.warnings[0]
    assert "do not trust" in done.warnings[0]
    assert "row 0" in done.warnings[0]


def test_the_same_seed_gives_the_same_draws():
    model = random_made(MIXED, 4)
    rows, observed = model.sample(4, generator(0)), torch.ones(4, 6, dtype=torch.bool)
    observed[range(4), range(4)] = False
    for options in ({}, {"limit": 0}, {"sampler": "mh"}):
        one, other = (Conditioner(model, **options).draw(rows, observed, 3, generator(9)).states for _ in range(2))
        assert torch.equal(one, other)


@pytest.mark.parametrize("sampler", [None, "mh"])
def test_an_impossible_row_is_called_by_its_place_among_all_rows(sampler, monkeypatch):
    """Rows without blanks are left out and the others served one at a time: the row is still number 3, line 5."""
    monkeypatch.setattr(methods, "PART", 1)
    monkeypatch.setattr(methods, "SIDE_BY_SIDE", 1)
    rows = torch.zeros(4, 8, dtype=torch.int64)
    rows[3, 1], observed = 1, torch.ones(4, 8, dtype=torch.bool)
    observed[1:, 0] = False  # row 3: tuberculosis, but neither tuberculosis nor cancer
    asked = Conditioner(AncestralAsia(asia()), limit=0, sampler=sampler, subject=lambda row: f"line {row + 2}")
    with pytest.raises(Impossible, match=r"^line 5: .* none of 4,096 ancestral draws") as refused:
        asked.draw(rows, observed, 1, generator(0))
    assert refused.value.row == 3
    with pytest.raises(Impossible, match=r"^line 5: "):
        list(asked.cells(rows, observed, generator(0)))


def test_a_broken_density_names_the_row():
    values = torch.zeros(8, dtype=torch.float64)
    values[4] = torch.nan  # [1, 0, 0]
    asked = Conditioner(Unnormalized(Space.bits(3), values), subject=lambda row: f"line {row + 2}")
    rows = torch.tensor([[0, 0, 0], [0, 1, 0], [1, 0, 0]])
    observed = torch.tensor([[True, True, True], [True, True, False], [True, True, False]])
    with pytest.raises(InputError, match=r"^line 4: .*below infinity"):
        asked.draw(rows, observed, 1, generator(0))


def test_rows_without_blanks_pass_through():
    model = random_made(MIXED, 5)
    rows = model.sample(4, generator(0))
    known = torch.ones_like(rows, dtype=torch.bool)
    done = Conditioner(model).draw(rows, known, 2, generator(0))
    assert torch.equal(done.states, rows.expand(2, -1, -1))
    assert done.method == "none"
    assert [len(found.cells.row) for found in Conditioner(model).cells(rows, known, generator(0))] == [0]


def test_bad_samplers_and_impossible_rows_are_refused():
    truth = asia()
    rows = torch.zeros(3, 8, dtype=torch.int64)
    rows[2, 1], observed = 1, torch.ones(3, 8, dtype=torch.bool)
    observed[2, 0] = False  # tuberculosis, but neither tuberculosis nor cancer
    observed[0, 3] = False
    for model in (truth, ChowLiu.fit(truth.sample(2000, generator(0)), truth.space, pseudo_count=0)):
        with pytest.raises(Impossible, match="row 2") as refused:
            Conditioner(model).draw(rows, observed, 1, generator(0))
        assert refused.value.row == 2
    with pytest.raises(InputError, match=r"sampler 'langevin'.*triangular"):
        Conditioner(truth, sampler="langevin")
    with pytest.raises(InputError, match="registered kernels"):
        Conditioner(truth, sampler="gibs")
    with pytest.raises(InputError, match=r"sampler 'ancestral'.*own conditionals"):
        Conditioner(Ising((2, 2), 0.3), sampler="ancestral")
    with pytest.raises(InputError, match=r"sampler 'exact'.*enumerate"):
        Conditioner(mlp(hamming(MIXED), generator=generator(0)), sampler="exact")
    made = random_made(MIXED, 0)
    with pytest.raises(InputError, match="come first"):
        Conditioner(made, sampler="ancestral").draw(*query(MIXED, {5: 1}), 1, generator(0))
    big = Space.bits(40)
    with pytest.raises(InputError, match="completions to enumerate"):
        Conditioner(MADE(big, generator=generator(0)), sampler="exact").draw(*query(big, {5: 1}), 1, generator(0))
    with pytest.raises(InputError, match="booleans"):
        Conditioner(truth).draw(rows, observed.long(), 1, generator(0))
