"""The verdict tells a support that is really divided from one that is only thinly sampled."""

import numpy as np
import polars as pl
import pytest
import torch

from concrete_score.codecs import TableCodec
from concrete_score.data import load
from concrete_score.diagnostics import diagnose_rows
from concrete_score.errors import InputError
from concrete_score.randomness import generator
from concrete_score.targets import asia


def diagnosed(table, neighborhood="hamming"):
    codec = TableCodec.fit(table)
    return diagnose_rows(codec.encode(table).states, codec.space, neighborhood)


def test_asia_is_found_to_be_split_with_the_masses_of_its_pieces():
    network = asia()
    x = network.sample(20_000, generator(0, "diagnosis"))
    words = np.array(["no", "yes"])[x.numpy()]
    found = diagnosed(pl.DataFrame(words, schema=list(network.names), orient="row"))
    assert found.verdict == "split"
    large, small = found.support.component_shares[:2]
    error = (0.064828 * 0.935172 / 20_000) ** 0.5
    assert abs(small - 0.064828) < 4 * error + 0.001
    assert abs(large - 0.935172) < 4 * error + 0.001
    assert "cannot say how much each piece weighs" in found.message


def test_the_whole_cube_is_one_piece():
    found = diagnosed(torch.cartesian_prod(*[torch.arange(2)] * 4).numpy())
    assert (found.verdict, found.support.observed_edge_share, found.alone) == ("connected", 1.0, 0.0)


def test_a_thin_sample_of_a_wide_table_is_sparse_not_split():
    rng = np.random.default_rng(0)
    found = diagnosed(rng.integers(0, 2, (300, 40)))
    assert found.verdict == "sparse"
    assert found.alone > 0.99


def test_nltcs_is_nearly_one_piece(data_dir):
    frame = load("nltcs:train", data_dir=data_dir)
    found = diagnosed(frame)
    assert found.verdict == "nearly_connected"
    assert (found.support.rows, found.support.distinct) == (16181, 2671)


def test_neighborhoods_that_need_more_or_do_not_fit_are_refused():
    table = np.array([[0, 1], [1, 0]])
    for name in ("explicit", "cycle", "hammin"):
        with pytest.raises(InputError):
            diagnosed(table, name)
