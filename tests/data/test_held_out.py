"""Held-out rows, digests and codecs built again: what a run needs to know its data by."""

import numpy as np
import pytest
import torch

from concrete_score.data import TableCodec, load_splits
from concrete_score.data.codecs import codec_from_json, integers
from concrete_score.data.held_out import digest, hold_out
from concrete_score.errors import InputError


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
    with pytest.raises(InputError, match="--valid-fraction"):
        hold_out(torch.zeros((4, 2)), fraction, seed=0)


def test_digests_tell_values_shapes_and_kinds_apart():
    one = torch.tensor([[0, 1], [1, 0]], dtype=torch.uint8)
    assert digest(one) == digest(one.clone())
    assert digest(one) == digest(one.T.contiguous().T)  # however it lies in memory
    assert len({digest(one), digest(one.reshape(1, 4)), digest(1 - one), digest(one.int())}) == 4


def test_a_codec_comes_back_equal():
    codec = TableCodec.fit(np.array([[0, 5], [1, 7], [0, 7]]))
    assert codec_from_json(codec.to_json()) == codec
    old = codec_from_json({"kind": "integers", "sizes": [2, 300]})
    assert old == integers((2, 300))
    assert old.space.sizes == (2, 300)
    assert old.encode(np.array([[1, 299]])).states.tolist() == [[1, 299]]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"kind": "os:system"},
        {"kind": "integers"},
        {"kind": "integers", "sizes": [0]},
        {"kind": "integers", "sizes": [10**9]},
    ],
)
def test_no_other_codec_is_built(value):
    with pytest.raises(InputError, match="run: codec"):
        codec_from_json(value, "run: codec")


def test_the_parts_of_a_named_set_share_one_codec(data_dir):
    splits = load_splits("gifts")
    assert [len(part) for part in splits[1:]] == [2777, 397, 794]
    assert splits.space.sizes == (2,) * 16
