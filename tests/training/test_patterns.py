"""Patterns of blanks: every column as often blank as in the rows they were learned from, and in rows like those."""

import json

import pytest
import torch

from concrete_score.spaces import Space
from concrete_score.training import patterns
from concrete_score.training.patterns import BlankPatterns

SPACE = Space((12, 3, 5, 5, 1200))
CHANCES = torch.linspace(0.002, 0.02, 12, dtype=torch.float64)[
    torch.randperm(12, generator=torch.Generator().manual_seed(3))
]


def table(rows, seed=0):
    """Rows sorted by month: columns 2 and 3 are rarely blank, in some months more; 3 sometimes alone, so is 4."""
    random = torch.Generator().manual_seed(seed)
    states = torch.stack([torch.randint(size, (rows,), generator=random) for size in SPACE.sizes], 1)
    states[:, 0] = states[:, 0].sort().values
    unit = torch.rand((rows, 3), generator=random, dtype=torch.float64)
    both = unit[:, 0] < CHANCES[states[:, 0]]
    alone = unit[:, 1] < 0.001 * (1 + states[:, 1])
    observed = torch.ones(states.shape, dtype=torch.bool)
    observed[:, 2] = ~both
    observed[:, 3] = ~(both | alone)
    observed[:, 4] = ~(unit[:, 2] < 0.0005)
    return states, observed


def z_scores(drawn, observed, weights=None):
    """Of each column that has blanks: how far the rate drawn is from that of the rows, in its standard errors."""
    each = torch.ones(len(observed), dtype=torch.float64) if weights is None else weights / weights.mean()
    rates = [(each[:, None] * ~seen).mean(0) for seen in (drawn, observed)]
    error = ((each**2).mean() * rates[1] * (1 - rates[1]) / len(observed)).sqrt()
    return ((rates[0] - rates[1]) / error)[rates[1] > 0]


@pytest.mark.parametrize("rows", [20_000, 200_000])
def test_columns_are_as_often_blank_as_in_training_and_in_the_same_months(rows):
    states, observed = table(rows)
    found = BlankPatterns.from_json(
        json.loads(json.dumps(BlankPatterns.learn(states, observed, SPACE).to_json())), SPACE
    )
    assert found.read == (0, 1)
    drawn = found.draw(states, SPACE, torch.Generator().manual_seed(1))
    assert z_scores(drawn, observed).abs().max() < 4
    if rows > patterns.ROWS:  # what the month says is learned
        for month in range(12):
            own = states[:, 0] == month
            wanted = CHANCES[month]
            # Effects are shrunk a little and learned from a part of the rows: a fifth beside the sampling error.
            error = (wanted / own.sum()).sqrt() + 0.2 * wanted
            assert ((~drawn[own, 2]).double().mean() - wanted).abs() < 4 * error
        shares = torch.stack([(~drawn[states[:, 0] == month, 2]).double().mean() for month in range(12)])
        assert torch.corrcoef(torch.stack([shares, CHANCES]))[0, 1] > 0.95


def test_rates_are_those_of_all_rows_where_blanks_begin_late():
    states, observed = table(200_000)
    observed[: 2 * patterns.ROWS] = True
    found = BlankPatterns.learn(states, observed, SPACE)
    drawn = found.draw(states, SPACE, torch.Generator().manual_seed(1))
    assert found.effects
    assert z_scores(drawn, observed).abs().max() < 4
    early = states[:, 0] < 5
    assert (~drawn[early, 2]).double().mean() < 0.2 * (~observed[~early, 2]).double().mean()


def test_rates_are_kept_where_rows_have_weights():
    states, observed = table(100_000)
    weights = 0.2 + 3.0 * (states[:, 1] == 2).double()
    found = BlankPatterns.learn(states, observed, SPACE, weights)
    drawn = found.draw(states, SPACE, torch.Generator().manual_seed(1))
    assert z_scores(drawn, observed, weights).abs().max() < 4


def test_a_pattern_that_no_row_looked_at_has_is_as_frequent_as_it_was(monkeypatch):
    monkeypatch.setattr(patterns, "ROWS", 500)
    states, observed = table(50_000)
    found = BlankPatterns.learn(states, observed, SPACE)
    looked_at = found.classes(observed[patterns._spread(len(states))])
    assert len(set(looked_at.tolist())) < len(found.effects) <= len(found.sites) + 1
    drawn = found.draw(states, SPACE, torch.Generator().manual_seed(1))
    # The months of 500 rows are not quite those of all.
    assert z_scores(drawn, observed).abs().max() < 4


def test_narrow_sites_tell_first_and_wide_ones_before_them_do_not_shut_them_out():
    space = Space((990, 7, 2, 3))
    assert patterns._narrowest([0, 1, 2, 3], space) == (1, 2, 3)
    assert patterns._narrowest([0, 2, 3], space) == (0, 2, 3)
    assert patterns._narrowest([0], Space((patterns.FEATURES + 1, 2))) == ()
