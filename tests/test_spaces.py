"""Spaces: the enumeration, its inverse, uniform draws and refusals."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import InputError, Space
from tests.strategies import spaces


@given(space=spaces())
def test_enumeration_is_itertools_product(space):
    expected = list(itertools.product(*(range(size) for size in space.sizes)))
    assert list(map(tuple, space.enumerate().tolist())) == expected
    assert space.num_states == len(expected)


@given(space=spaces())
def test_index_and_state_are_inverse(space):
    i = torch.arange(space.num_states)
    assert torch.equal(space.index(space.state(i)), i)
    assert torch.equal(space.index(space.enumerate().to(torch.uint8)), i)


def test_huge_spaces_count_exactly():
    assert Space((2,) * 784).num_states == 2**784
    assert Space((91,) * 1000).num_states == 91**1000


@pytest.mark.parametrize("sizes", [(3, 3), (2, 3, 4)])
def test_uniform_draws_are_uniform(sizes):
    space = Space(sizes)
    n = 20_000
    count = torch.bincount(space.index(space.uniform(n, torch.Generator().manual_seed(0))), minlength=space.num_states)
    p = 1 / space.num_states
    z = (count - n * p) / (n * p * (1 - p)) ** 0.5
    assert z.abs().max() < 4.5
    assert z.abs().max() > 0.1


@pytest.mark.parametrize("x", [[[0, 1]], np.array([[1, 2]], dtype=np.int16), torch.tensor([[1, 0]], dtype=torch.uint8)])
def test_check_accepts_integers_of_any_width(x):
    assert Space((2, 3)).check(x).dtype == torch.int64


def unchecked_space(sizes):
    """What a user without beartype gets: only the space's own check."""
    space = object.__new__(Space)
    object.__setattr__(space, "sizes", sizes)
    space.__post_init__()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Space(()), "at least one site"),
        (lambda: Space((2, 0)), r"sizes\[1\]: expected a whole number of at least 1, got 0"),
        (lambda: Space((2, -3)), "got -3"),
        (lambda: unchecked_space((2, 2.5)), "got 2.5"),
        (lambda: Space((True,)), "got True"),
        (lambda: Space((2, 3)).check([[0.5, 1]]), "expected integer states, got torch.float32"),
        (lambda: Space((2, 3)).check([[0, -1]]), r"x\[0, 1\]: expected a value from 0 to 2 at site 1, got -1"),
        (lambda: Space((2, 3)).check([[0, 0], [2, 0]], "rows"), r"rows\[1, 0\]: expected a value from 0 to 1"),
        (lambda: Space((2, 3)).check([0, 0, 0]), r"states of 2 sites, shape \(..., 2\), got shape \(3,\)"),
        (lambda: Space((2, 3)).check("word"), "expected an array of numbers, got str"),
        (lambda: Space((2, 3)).check([[0], [0, 1]]), "expected an array of numbers, got list"),
        (lambda: Space.bits(30).enumerate(), "at most 4194304 states to enumerate, got about 2\\*\\*30"),
        (lambda: Space.bits(4).enumerate(limit=8), "at most 8 states to enumerate, got 16 states"),
        (lambda: Space.bits(64).index(torch.zeros(64, dtype=torch.int64)), "fit a 64-bit index"),
    ],
)
def test_bad_input_is_one_line_that_teaches(call, words):
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@given(st.text())
def test_error_lines_hold_no_control_codes(text):
    assert str(InputError("a", text, where=text, fix=text)).isprintable()
