"""Held-out rows and digests: what a run needs to know its data by."""

import polars as pl
import pytest
import torch

from concrete_score.cli.console import SKIN
from concrete_score.errors import InputError
from concrete_score.fitting import Request, hold_out, load_splits, prepare, states_digest


def test_every_row_is_in_one_part_and_the_seed_decides_which():
    states = torch.arange(300, dtype=torch.int32).reshape(100, 3)
    train, valid = hold_out(states, 0.25, seed=0)
    assert (len(train), len(valid)) == (75, 25)
    assert sorted(map(tuple, torch.cat([train, valid]).tolist())) == sorted(map(tuple, states.tolist()))
    assert torch.equal(valid, hold_out(states, 0.25, seed=0)[1])
    assert not torch.equal(valid, hold_out(states, 0.25, seed=1)[1])


def test_something_is_left_to_learn_from():
    for rows in (1, 2, 3):
        train, valid = hold_out(torch.zeros((rows, 2)), 0.99, seed=0)
        assert len(train) == 1
        assert len(valid) == rows - 1


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_no_other_shares(fraction):
    with pytest.raises(InputError, match="valid_fraction: expected a share between 0 and 1") as caught:
        hold_out(torch.zeros((4, 2)), fraction, seed=0)
    assert caught.value.render(SKIN).startswith("--valid-fraction: ")


def test_digests_tell_values_shapes_and_kinds_apart():
    one = torch.tensor([[0, 1], [1, 0]], dtype=torch.uint8)
    assert states_digest(one) == states_digest(one.clone())
    assert states_digest(one) == states_digest(one.T.contiguous().T)  # however it lies in memory
    assert (
        len({states_digest(one), states_digest(one.reshape(1, 4)), states_digest(1 - one), states_digest(one.int())})
        == 4
    )


@pytest.mark.parametrize("ranges", [False, True])
def test_ranges_of_numbers_are_told_of_only_where_there_are_some(ranges):
    columns = {"x": ["foo", "bar", "baz", "foo", "bar", "foo"], "y": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]}
    said = []
    prepare(Request(pl.DataFrame(columns if ranges else {"x": columns["x"]})), say=lambda text: said.append(str(text)))
    (told,) = [text for text in said if text.startswith("validation counts")]
    assert ("ranges of numbers" in told) is ranges


def test_the_parts_of_a_named_set_share_one_codec(data_dir):
    splits = load_splits("gifts")
    assert [len(part) for part in splits[1:]] == [2777, 397, 794]
    assert splits.space.sizes == (2,) * 16
