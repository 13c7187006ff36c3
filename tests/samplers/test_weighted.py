"""Distributions of blanks from weighted draws, against enumeration."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.randomness import generator
from concrete_score.samplers import methods, weighted
from concrete_score.samplers.completions import Impossible
from concrete_score.samplers.conditional import Conditioner
from concrete_score.samplers.methods import Enumeration
from concrete_score.samplers.weighted import DRAWS, weigh_blanks
from concrete_score.spaces import Space
from tests.samplers.test_conditional import random_made

SPACE = Space((3, 7, 2, 5, 4))


def blanked(seed, rows=40, share=0.4):
    """A random model against its order, rows of it, and which cells are known; no row without a blank."""
    model = random_made(SPACE, seed, order_seed=seed)
    x = model.sample(rows, generator(seed, "rows"))
    observed = torch.rand(x.shape, generator=generator(seed, "observed")) > share
    observed[:, seed % 5] &= ~observed.all(1)
    return model, x, observed


def exact_cells(model, x, observed):
    found = [each.cells for each in Enumeration(model, 10**6).cells(x, observed, generator(0))]
    row, site, log_probs = (torch.cat(column) for column in zip(*found, strict=True))
    order = (row * x.shape[1] + site).argsort()
    return row[order], site[order], log_probs[order].exp()


@settings(max_examples=5)
@given(st.integers(0, 50))
def test_many_weighted_draws_are_the_conditionals(seed):
    model, x, observed = blanked(seed)
    row, site, wanted = exact_cells(model, x, observed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted, "DRAWS", 4096)
        found = weigh_blanks(model, x, observed, generator(seed, "draws"))
    assert torch.equal(found.row, row)
    assert torch.equal(found.site, site)
    torch.testing.assert_close(found.log_probs.exp().sum(-1), torch.ones(len(row), dtype=torch.float64))
    assert (found.log_probs.exp() - wanted).abs().max() < 0.04


def test_evenly_spread_draws_beat_random_ones():
    """Of one blank each, the mean squared error of the mean falls faster than one over the draws."""
    squares = {}
    for name, units in (("even", weighted._Tally._units), ("random", random_units)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weighted._Tally, "_units", units)
            patch.setattr(weighted, "SMOOTHING", 0.0)
            total = 0.0
            for seed in range(4):
                model, x, _ = blanked(seed)
                observed = torch.ones_like(x, dtype=torch.bool)
                observed[torch.arange(len(x)), torch.arange(len(x)) % 5] = False
                _, _, wanted = exact_cells(model, x, observed)
                found = weigh_blanks(model, x, observed, generator(seed, "draws"))
                total += float((found.log_probs.exp() - wanted).square().sum(1).mean())
            squares[name] = total / 4
    assert squares["even"] < squares["random"] / 5


def random_units(self, rows, draws, g):
    return torch.rand(len(rows) * draws, self.x.shape[1], generator=g, dtype=torch.float64)


def test_no_value_is_impossible_because_no_draw_met_it_and_none_beyond_the_size_is_possible():
    model, x, observed = blanked(3)
    found = weigh_blanks(model, x, observed, generator(0))
    sizes = SPACE.sizes_tensor()[found.site]
    within = torch.arange(found.log_probs.shape[1]) < sizes[:, None]
    assert found.log_probs[within].isfinite().all()
    assert found.log_probs[~within].isneginf().all()


def test_rows_of_poor_weights_are_given_more_draws():
    model, x, observed = blanked(1)
    found = weigh_blanks(model, x, observed, generator(0))
    most = sum(DRAWS * weighted.MORE**k for k in range(weighted.ROUNDS))
    enough = found.effective >= weighted.EFFECTIVE
    assert enough[found.proposed < most].all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted, "EFFECTIVE", 1e9)
        every = weigh_blanks(model, x, observed, generator(0))
    assert (every.proposed == most).all()


def test_a_distribution_that_is_told_is_closer_than_one_that_fills():
    """Eight times the draws lose at most a third of the log-loss of one, also where rows choose their method."""
    lost = dict.fromkeys((1, weighted.TOLD), 0.0)
    for seed in range(4):
        model, x, observed = blanked(seed, rows=200, share=0.6)
        _, _, wanted = exact_cells(model, x, observed)
        for effort in lost:
            found = weigh_blanks(model, x, observed, generator(seed, "draws"), effort)
            lost[effort] += float((wanted * (wanted.log() - found.log_probs).nan_to_num(0.0)).sum(1).mean()) / 4
    assert 0 < lost[weighted.TOLD] < lost[1] / 3

    off = []
    for effort in lost:
        parts = [each.cells for each in Conditioner(model, limit=1).cells(x, observed, generator(0), effort=effort)]
        row, site, log_probs = (torch.cat(column) for column in zip(*parts, strict=True))
        order = (row * x.shape[1] + site).argsort()
        off.append((log_probs[order].exp() - wanted).square().sum(1).mean())
    assert 0 < off[1] < off[0] / 2


def test_a_row_that_no_draw_agrees_with_is_refused():
    class Never:
        """A model none of whose draws has any weight."""

        def __init__(self, model):
            self.model, self.space, self.order = model, model.space, model.order
            self.site_log_conditionals = model.site_log_conditionals

        def propose_given(self, *args, **options):
            states, log_weight = self.model.propose_given(*args, **options)
            return states, torch.full_like(log_weight, -torch.inf)

    model, x, observed = blanked(0)
    with pytest.raises(Impossible, match="none of 1,008 ancestral draws"):
        weigh_blanks(Never(model), x, observed, generator(0))


def test_both_ways_answer_rows_of_all_patterns(monkeypatch):
    model, x, observed = blanked(2, rows=60)
    row, site, wanted = exact_cells(model, x, observed)
    monkeypatch.setattr(methods, "PASSES", 30)  # rows of one blank are averaged, others weighed
    found = [each.cells for each in Conditioner(model, limit=0).cells(x, observed, generator(0, "cells"))]
    rows, sites, log_probs = (torch.cat(column) for column in zip(*found, strict=True))
    order = (rows * x.shape[1] + sites).argsort()
    assert torch.equal(rows[order], row)
    assert torch.equal(sites[order], site)
    assert (log_probs[order].exp() - wanted).square().mean().sqrt() < 0.05
