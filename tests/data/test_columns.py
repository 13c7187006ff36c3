"""A column is the same whatever its cells were read as, and counting finds what sorting finds."""

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.data import TableCodec, TableOptions, bins, columns
from concrete_score.data.columns import counted_column

cells = st.lists(st.none() | st.integers(-128, 127), max_size=40)


def kinds(texts):
    words = sorted({text for text in texts if text is not None} | {""})
    yield pl.Int8
    yield pl.Int32
    yield pl.String
    yield pl.Enum(words)
    yield pl.Categorical(pl.Categories.random(physical=pl.UInt16))


@given(cells)
def test_storage_does_not_matter(numbers):
    texts = [None if number is None else str(number) for number in numbers]
    known = sorted({text for text in texts if text is not None})
    for kind in kinds(texts):
        whole = kind in (pl.Int8, pl.Int32)
        series = pl.Series("a", numbers if whole else texts, dtype=kind if whole else pl.String).cast(kind)
        column, counts = counted_column(series)
        assert column.values.to_list() == known
        assert column.cells().to_list() == texts
        assert counts.tolist() == [texts.count(text) for text in known]
        assert column.counts()[:-1].tolist() == counts.tolist()


@pytest.mark.parametrize("rows", [2**18, 2**18 + 1])
@pytest.mark.parametrize("highest", [1, 255])
def test_counting_in_pairs(rows, highest):
    codes = np.random.default_rng(0).integers(0, highest + 1, rows).astype(np.uint8)
    assert columns._histogram(codes)[: highest + 1].tolist() == np.bincount(codes).tolist()


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30), st.lists(st.floats(-1e9, 1e9), min_size=3, unique=True))
def test_few_comparisons_find_what_a_search_finds(numbers, edges):
    edges = sorted(edges)
    values = np.array([*numbers, *edges])
    wanted = np.searchsorted(np.array(edges[1:-1]), values, side="right")
    assert bins.cut(values, tuple(edges)).tolist() == wanted.tolist()


def test_many_edges():
    edges = tuple(float(edge) for edge in range(301))
    assert bins.cut(np.arange(300) + 0.5, edges).tolist() == list(range(300))


def test_rows_of_a_large_table_are_turned_over_whole():
    table = np.random.default_rng(0).integers(0, 300, (100_001, 3))
    codec = TableCodec.fit(table, TableOptions(max_categories=300))
    states = codec.encode(table).states
    assert states.is_contiguous()
    assert torch.equal(states.long(), torch.from_numpy(table))
