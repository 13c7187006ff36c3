"""Structures at sizes no table could hold, in chunks, in narrow storage; and their refusals."""

import pytest
import torch
from hypothesis import given

from concrete_score.errors import InputError
from concrete_score.neighborhoods import (
    Chain,
    Product,
    Star,
    chain,
    complete,
    cycle,
    grid,
    grid_bounded,
    hamming,
    moore,
    star,
)
from concrete_score.neighborhoods import base as base_module
from concrete_score.spaces import Space
from tests.strategies import generators, neighborhoods


@pytest.mark.parametrize("make", [grid, grid_bounded, hamming])
def test_a_hundred_thousand_sites_need_no_table(make):
    space = Space((2, 3, 1, 5) * 25_000)
    n = make(space)
    generator = torch.Generator().manual_seed(0)
    x = space.uniform(3, generator)
    slot = n.draw(x, generator)
    y = n.neighbor(x, slot)
    assert ((x != y).sum(-1) == 1).all()
    assert torch.equal(n.neighbor(y, n.back_slot(x, slot)), x)
    source, k = n.reverse_neighbor(y, n.reverse_degree(y) - 1)
    assert torch.equal(n.neighbor(source, k), y)


def test_moore_slots_are_arithmetic_up_to_39_sites():
    space = Space((5,) * 39)
    n = moore(space)
    assert n.num_slots == 3**39 - 1
    x = space.uniform(4, torch.Generator().manual_seed(0))
    slot = torch.tensor([0, 1, 3**38, 3**39 - 2])
    assert torch.equal(n.neighbor(n.neighbor(x, slot), n.back_slot(x, slot)), x)
    with pytest.raises(InputError, match="at most 39 sites"):
        moore(Space((5,) * 40))


@given(n=neighborhoods(), generator=generators())
def test_chunks_change_nothing(n, generator):
    x = n.space.uniform(17, generator)
    whole, state = n.neighbors(x), generator.get_state()
    drawn = n.draw(x, generator)
    generator.set_state(state)
    old = base_module.CHUNK
    try:
        base_module.CHUNK = 3
        assert torch.equal(n.neighbors(x), whole)
        assert torch.equal(n.draw(x, generator), drawn)
    finally:
        base_module.CHUNK = old


@given(n=neighborhoods(), generator=generators())
def test_narrow_storage_is_kept_and_agrees(n, generator):
    x = n.space.uniform(9, generator)
    narrow = n.neighbors(x.to(torch.uint8))
    assert narrow.dtype == torch.uint8
    assert torch.equal(narrow.long(), n.neighbors(x))


def test_neighborhoods_are_values():
    assert grid(Space((3, 4))) == grid(Space((3, 4)))
    assert len({hamming(Space((3,))), hamming(Space((3,))), complete(Space((3,)))}) == 1
    assert moore(Space((3,)), wrap=False) != moore(Space((3,)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: chain(Space((2, 2))), "a space of one site, got 2 sites; use `grid_bounded`"),
        (lambda: cycle(Space((2, 2))), "use `grid`"),
        (lambda: complete(Space((2, 2))), "use `hamming`"),
        (lambda: star(Space((3,)), center=3), "center: expected a center from 0 to 2, got 3"),
        (lambda: cycle(Space((3,)), order=(0, 1, 1)), "an order that names each of 0..2 once"),
        (lambda: Product(Space((3, 3)), (Chain(),)), "one rule for each of 2 sites, got 1"),
        (lambda: Product.of(Space((3, 2)), Star(2)), "a center from 0 to 1, got 2"),
    ],
)
def test_misfits_are_refused_at_construction(call, words):
    with pytest.raises(InputError, match=words):
        call()
