"""Generators are named by (seed, stream, step): the same triple, the same numbers; any other, unrelated ones."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.randomness import generator

triples = st.tuples(st.integers(0, 2**40), st.sampled_from(["", "batch", "draws"]), st.integers(0, 10**9))


def numbers(triple):
    return torch.rand(64, generator=generator(*triple), dtype=torch.float64)


@given(one=triples, other=triples)
def test_equal_triples_agree_and_different_ones_do_not(one, other):
    assert torch.equal(numbers(one), numbers(one))
    assert torch.equal(numbers(one), numbers(other)) == (one == other)


def test_neighboring_steps_are_uncorrelated():
    rows = torch.stack([numbers((0, "batch", step)) for step in range(400)]) - 0.5
    z = (rows[1:] * rows[:-1]).sum() / (rows[1:].numel() ** 0.5 / 12)
    assert abs(z.item()) < 4


def test_a_stream_cannot_be_mistaken_for_a_seed():
    assert not torch.equal(numbers((1, "1", 1)), numbers((11, "", 1)))
