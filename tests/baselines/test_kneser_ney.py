"""Kneser–Ney: normalized at every context, by hand on a few letters, and no better than what it has seen."""

import pytest
import torch

from concrete_score import InputError, Space
from concrete_score.baselines.kneser_ney import KneserNey


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_it_is_a_distribution_over_sequences(order):
    space = Space((3,) * 5)
    rows = space.uniform(40, torch.Generator().manual_seed(order))
    model = KneserNey.fit(rows, space, order)
    assert float(model.log_density(space.enumerate()).exp().sum()) == pytest.approx(1.0, abs=1e-10)


def test_two_symbols_by_hand():
    # Pairs: ^a a b | ^a a a | ^b b a; two of them occur once or twice as counted here.
    rows = torch.tensor([[0, 1], [0, 0], [1, 0]])
    model = KneserNey.fit(rows, Space((2, 2)), order=2)
    # once: ab, aa, ^b, ba; twice: ^a. δ₂ = 4 / 6. Continuations: a after ^, a, b (3); b after ^, a (2).
    discount = 4 / 6
    lower = 3 / 5  # δ₁ of counts 3 and 2: none once, so 1/2; (3 - .5 + .5·2·½) / 5
    expected = (2 - discount + discount * 2 * lower) / 3
    assert float(model.site_log_probs(rows[:1]).exp()[0, 0]) == pytest.approx(expected)


def test_sites_of_several_sizes_are_refused():
    with pytest.raises(InputError, match="sites of one size"):
        KneserNey.fit(torch.tensor([[0, 1]]), Space((2, 3)))
