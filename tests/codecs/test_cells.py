"""A column is the same whatever its cells were stored as, and its distinct values are found in order."""

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.codecs import TableCodec, TableOptions
from concrete_score.codecs.cells import _SPAN, Column, spelled
from concrete_score.codecs.columns import BLANK, UNKNOWN, Bins, Categories, column_from_json, quantile_edges
from concrete_score.codecs.numbers import Number
from concrete_score.data import as_frame
from concrete_score.errors import InputError

cells = st.lists(st.none() | st.integers(-128, 127), max_size=40)


def kinds(texts):
    words = sorted({text for text in texts if text is not None} | {""})
    yield pl.String
    yield pl.Enum(words)
    yield pl.Categorical(pl.Categories.random(physical=pl.UInt16))


def whole(column):
    """Every cell by the distinct values and their codes."""
    return [*column.distinct.to_list(), None], column.codes


def cells_of(column):
    values, codes = whole(column)
    return [values[code] for code in codes]


@given(cells)
def test_storage_of_text_does_not_matter(numbers):
    texts = [None if number is None else str(number) for number in numbers]
    known = sorted({text for text in texts if text is not None})
    for kind in kinds(texts):
        column = Column(pl.Series("a", texts, dtype=pl.String).cast(kind))
        assert cells_of(column) == texts
        assert column.blanks == texts.count(None)
        if kind == pl.String or isinstance(kind, pl.Categorical):
            assert column.distinct.to_list() == known
            assert column.values == tuple(sorted(set(numbers) - {None}))


@given(cells)
def test_storage_of_numbers_does_not_matter(numbers):
    known = sorted(set(numbers) - {None})
    for kind in (pl.Int8, pl.Int32, pl.Int64, pl.Float32, pl.Float64, pl.Decimal(10, 2)):
        column = Column(pl.Series("a", numbers, dtype=pl.Int64).cast(kind))
        assert column.distinct.to_list() == known
        assert cells_of(column) == numbers
        assert column.kind == "integer"
        assert column.values == tuple(known)
        np.testing.assert_array_equal(column.numbers, [np.nan if cell is None else cell for cell in numbers])


@pytest.mark.parametrize("far", [_SPAN - 1, _SPAN, -_SPAN, 2**31 - 1, -(2**31), 2**62])
def test_counting_finds_what_sorting_finds(far):
    numbers = [200_000 + k % 7 for k in range(100)] + [None, 200_000 + far]
    column = Column(pl.Series("a", numbers, dtype=pl.Int64))
    assert column.distinct.to_list() == sorted(set(numbers) - {None})
    assert cells_of(column) == numbers


@given(st.lists(st.none() | st.booleans(), max_size=6))
def test_booleans(cells):
    column = Column(pl.Series("a", cells, dtype=pl.Boolean))
    assert cells_of(column) == cells
    assert column.values == tuple(sorted(set(cells) - {None}))
    assert column.kind == "boolean"


@given(st.lists(st.none() | st.text(st.characters(blacklist_categories=["Cs"]), max_size=3), max_size=12))
def test_texts_are_in_the_order_of_code_points_and_the_empty_one_is_blank(texts):
    column = Column(pl.Series("a", texts, dtype=pl.String), typed=True)
    assert column.values == tuple(sorted({text for text in texts if text}))
    assert cells_of(column) == [text or None for text in texts]


def test_declared_values_count_though_unseen():
    column = Column(pl.Series("a", ["1", None, "1"], dtype=pl.Enum(["0", "1"])))
    assert (column.kind, column.values, column.blanks) == ("integer", (0, 1), 1)


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["10", "9", "-0"], "integer", (0, 9, 10)),
        (["1.0", "2.", "2"], "integer", (1, 2)),
        (["1e1", "2"], "integer", (2, 10)),
        (["007", "7"], "text", ("007", "7")),
        (["1.5", "2"], "number", ()),
        (["1.5", "x"], "text", ("1.5", "x")),
        (["True", "False"], "text", ("False", "True")),
        (["99999999999999999999", "1"], "text", ("1", "99999999999999999999")),
        (["1e400", "1"], "text", ("1", "1e400")),
        (["nan", "1.5"], "text", ("1.5", "nan")),
        (["٣", "1"], "text", ("1", "٣")),
        ([" 7", "7"], "text", (" 7", "7")),
        ([None, None], "text", ()),
    ],
)
def test_what_texts_mean(texts, kind, values):
    column = Column(pl.Series("a", texts, dtype=pl.String))
    assert (column.kind, column.values) == (kind, values)
    typed = Column(pl.Series("a", texts, dtype=pl.String), typed=True)
    assert typed.kind == "text"
    assert typed.values == tuple(sorted(text for text in texts if text is not None))


@pytest.mark.parametrize("cells", [["1.5", "NA", None, "2.5"], [1.5, -9.0, None, 2.5], ["1.5", "-9.0", "", "2.5"]])
def test_declared_blanks_of_every_storage(cells):
    column = Column(pl.Series("a", cells), na=("NA", "-9", "-9.0"))
    assert column.blanks == 2
    assert column.kind == "number"
    np.testing.assert_array_equal(column.numbers, [1.5, np.nan, np.nan, 2.5])


def test_wide_columns_of_fractions_are_numbers_and_wide_names_stay_text():
    numbers = Column(pl.Series("a", [f"{i / 7}" for i in range(3000)]))
    assert numbers.kind == "number"
    assert numbers.numbers.tolist() == [float(f"{i / 7}") for i in range(3000)]
    names = Column(pl.Series("b", [f"{i:05d}" for i in range(3000)]))
    assert (names.kind, names.values[7]) == ("text", "00007")


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30),
    st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=9, unique=True),
)
def test_numbers_fall_into_half_open_ranges_and_beyond_the_ends_into_the_end_bins(numbers, edges):
    edges = sorted(edges)
    values = [*numbers, *edges]
    column = Bins("a", tuple(edges))
    found = column.encode(Column(pl.Series("a", values)))
    assert found.tolist() == [sum(value >= edge for edge in edges[1:-1]) for value in values]


def test_many_edges():
    column = Bins("a", tuple(float(edge) for edge in range(301)))
    assert column.encode(Column(pl.Series("a", np.arange(300) + 0.5))).tolist() == list(range(300))
    assert [column.place(label) for label in column.labels] == list(range(300))


@given(st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=60), st.integers(2, 12))
def test_quantile_edges_ascend_and_enclose(numbers, count):
    if len(set(numbers)) < 2:
        with pytest.raises(InputError, match="two different numbers or more, got 1; drop the column"):
            quantile_edges(np.array(numbers), count, "a")
        return
    edges = quantile_edges(np.array(numbers), count, "a")
    assert list(edges) == sorted(edges)
    assert len(set(edges[:-1])) == len(edges) - 1
    assert edges[0] <= min(numbers)
    assert edges[-1] >= max(numbers)
    assert 2 <= len(edges) - 1 <= count
    codes = Bins("a", edges).encode(Column(pl.Series("a", numbers, dtype=pl.Float64)))
    assert set(codes.tolist()) == set(range(len(edges) - 1))  # no range is empty
    assert column_from_json(Bins("a", edges).to_json(), "c") == Bins("a", edges)


def test_values_of_any_storage_and_unknown_and_blank_ones():
    column = Categories("a", "integer", (1, 2))
    for series in (
        pl.Series("a", ["2", "1.0", "3", "x", None, ""]),
        pl.Series("a", [2.0, 1.0, 3.0, 1.5, None, None]),
    ):
        assert column.encode(Column(series, typed=True)).tolist() == [1, 0, UNKNOWN, UNKNOWN, BLANK, BLANK]
    assert Categories("a", "integer", (1, 2), True).encode(Column(pl.Series("a", [None, 1]))).tolist() == [2, 0]
    truth = Categories("a", "boolean", (False, True))
    for series in (pl.Series("a", ["TRUE", "false", "1", "maybe"]), pl.Series("a", [1, 0, 1, 7])):
        assert truth.encode(Column(series)).tolist() == [1, 0, 1, UNKNOWN]
    words = Categories("a", "text", ("False", "True"))
    assert words.encode(Column(pl.Series("a", [True, False]))).tolist() == [1, 0]


def test_a_number_longer_than_any_is_unknown_and_not_an_error():
    assert spelled(pl.Series(["9" * 5000, "1." + "0" * 5000, "-" + "9" * 21]), "integer") == [None, 1, None]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "a",
        {},
        {"name": 3},
        {"name": "a", "blank": 1},
        {"name": "a", "kind": "os:system"},
        {"name": "a", "kind": ["text"]},
    ],
)
def test_a_column_of_unknown_json_is_refused(value):
    with pytest.raises(InputError, match=r"^run: column"):
        column_from_json(value, "run: column")


def test_rows_of_a_large_table_are_turned_over_whole():
    table = np.random.default_rng(0).integers(0, 300, (100_001, 3))
    codec = TableCodec.fit(table, TableOptions(max_categories=300))
    states = codec.encode(table).states
    assert states.is_contiguous()
    assert torch.equal(states.long(), torch.from_numpy(table))


QUICK = {
    "texts": pl.Series("a", ["x", "y", "z", "y"] * 40),
    "codes": pl.Series("a", [3, -1, 7, 3] * 40),
    "booleans": pl.Series("a", [True, False, False] * 40),
    "counts": pl.Series("a", np.random.default_rng(0).poisson(30, 900)),
    "tens": pl.Series("a", np.random.default_rng(0).integers(0, 400, 900) * 100),
    "decimals": pl.Series("a", np.random.default_rng(0).normal(0, 5, 900).round(2)),
    "measurements": pl.Series("a", np.random.default_rng(0).normal(1e6, 5, 900)),
    "wide": pl.Series("a", np.random.default_rng(0).integers(-(2**60), 2**60, 900)),
    "days": pl.Series("a", np.datetime64("2020-01-01") + np.random.default_rng(0).integers(0, 900, 900)),
}


@pytest.mark.parametrize("name", QUICK)
def test_the_quick_way_gives_what_the_general_one_does(name):
    known = QUICK[name]
    (kind,) = TableCodec.fit(as_frame(pl.DataFrame({"a": known, "b": [0, 1] * (len(known) // 2)}))).columns[:1]
    others = [known, known.reverse()]
    if known.dtype.is_numeric() and kind.kind == "number":
        # Beyond the training range on both sides, and between grid points.
        far = pl.Series("a", [float(known.min()) - 1e5, float(known.max()) * 3 + 7.25, 0.4, 1e9, -1e9])
        others += [far, far.cast(pl.Int64)]
    for cells in others:
        found, column = kind.quick(cells), Column(cells, (), True)
        if found is None:  # so far out that floats do not tell neighbors apart
            assert cells is not known
            continue
        assert found.codes.tolist() == kind.encode(column).tolist()
        slow = kind.log_inside(column)
        assert (found.log_inside is None) == (slow is None)
        assert slow is None or np.array_equal(found.log_inside, slow)
    assert kind.quick(known.extend_constant(None, 1)) is None  # blanks take the general way


def test_the_quick_way_leaves_what_it_does_not_know():
    codes, texts = Categories("a", "integer", (1, 5)), Categories("a", "text", ("x", "y"))
    for kind, cells in ((codes, [1, 2]), (codes, [-9]), (codes, [10**12]), (texts, ["x", "w"])):
        assert kind.quick(pl.Series("a", cells)) is None
    number = Number.fit("a", np.arange(50))
    for cells in ([float("nan"), 1.0], [float("inf")], [1e300]):
        assert number.quick(pl.Series("a", cells)) is None
