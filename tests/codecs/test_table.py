"""A codec is a bijection between rows and states, the same for equal data, and safe to keep as JSON."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score.codecs import Codec, TableCodec, TableOptions, codec_from_json
from concrete_score.data import as_frame
from concrete_score.data.formats import CSV
from concrete_score.errors import InputError

KINDS = {
    "text": (
        pl.String,
        st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), min_size=1, max_size=3),
    ),
    "integer": (pl.Int64, st.integers(-(2**63), 2**63 - 1)),
    "boolean": (pl.Boolean, st.booleans()),
}


def csv_frame(text):
    return CSV.read(text.encode(), "t.csv")


@st.composite
def tables(draw):
    rows = draw(st.integers(2, 12))
    columns = []
    for d in range(draw(st.integers(2, 4))):
        kind, cells = KINDS[draw(st.sampled_from(list(KINDS)))]
        values = draw(st.lists(cells, min_size=2, max_size=5, unique=True))
        picks = draw(st.lists(st.integers(0, len(values) - 1), min_size=rows - 2, max_size=rows - 2))
        columns.append(pl.Series(f"c{d}", [values[0], values[1], *(values[k] for k in picks)], dtype=kind))
    return pl.DataFrame(columns)


@given(tables())
def test_decode_undoes_encode_and_states_are_ordered_as_values(table):
    codec = TableCodec.fit(table)
    assert isinstance(codec, Codec)
    states, observed, kept, unknown, blank, *_ = codec.encode(table)
    assert observed.all()
    assert (kept.tolist(), unknown, blank) == (list(range(len(table))), 0, 0)
    assert codec.space.check(states) is not None
    assert codec.decode(states).native().equals(table)
    for d, name in enumerate(table.columns):
        by_value = table[name].rank("dense").to_numpy() - 1
        assert np.array_equal(states[:, d].numpy(), by_value)


@given(tables(), st.randoms(use_true_random=False))
def test_codec_does_not_depend_on_the_order_of_rows(table, random):
    order = list(range(table.height))
    random.shuffle(order)
    assert TableCodec.fit(table) == TableCodec.fit(table[order])


@given(tables())
def test_json_gives_an_equal_codec_and_plain_values(table):
    codec = TableCodec.fit(table)
    again = TableCodec.from_json(json.loads(json.dumps(codec.to_json())))
    assert again == codec
    assert torch.equal(again.encode(table).states, codec.encode(table).states)


@given(tables())
def test_what_is_written_as_csv_means_the_same_to_the_codec(table):
    """Sample, write, read again: the codec of the original encodes the copy to the same states."""
    codec = TableCodec.fit(table)
    copy = csv_frame(as_frame(table).to_csv())
    assert torch.equal(codec.encode(copy).states, codec.encode(table).states)


def test_kinds_of_text_cells():
    frame = csv_frame(
        "i,f,z,b,w,m,h\n10,1.0,007,True,x,1,99999999999999999999\n9,2.0,7,False,y,a,1\n-0,2,8,True,x,2.5,2\n"
    )
    codec = TableCodec.fit(frame)
    assert [column.kind for column in codec.columns] == ["integer", "integer", "text", "text", "text", "text", "text"]
    assert codec.columns[0].values == (0, 9, 10)
    assert codec.columns[1].values == (1, 2)
    assert codec.columns[2].values == ("007", "7", "8")


def test_na_is_blank_unless_said_otherwise():
    frame = csv_frame("a,b\n1,x\nNA,y\n3,x\n")
    assert TableCodec.fit(frame).columns[0].values == (1, 3)
    assert TableCodec.fit(frame, TableOptions(na=())).columns[0].values == ("1", "3", "NA")
    codec = TableCodec.fit(frame, TableOptions(na=("NA",), missing="category"))
    assert (codec.columns[0].kind, codec.columns[0].values, codec.space.sizes) == ("integer", (1, 3), (3, 2))
    assert codec.encode(frame).states[:, 0].tolist() == [0, 2, 1]
    assert codec.decode(torch.tensor([[2, 0]])).rows() == [(None, "x")]


def test_blanks_refused_dropped_kept_or_a_category():
    frame = csv_frame("a,b\n1,x\n,y\n3,\n1,y\n")
    with pytest.raises(InputError, match=r"got 2 \('a': 1, 'b': 1\)"):
        TableCodec.fit(frame, TableOptions(missing="refuse"))
    assert TableCodec.fit(frame).space.sizes == (2, 2)
    codec = TableCodec.fit(frame, TableOptions(missing="drop"))
    with pytest.raises(InputError, match="no blank cells"):
        codec.encode(frame)
    rows = codec.encode(frame, missing="drop")
    assert (rows.kept.tolist(), rows.blank, rows.unknown) == ([0, 3], 2, 0)
    states, observed, *_ = codec.encode(frame, missing="unobserved")
    assert observed.tolist() == [[True, True], [False, True], [True, False], [True, True]]
    assert states.tolist() == [[0, 0], [0, 1], [1, 0], [0, 1]]
    whole = TableCodec.fit(frame, TableOptions(missing="category"))
    assert whole.space.sizes == (3, 3)
    assert whole.decode(whole.encode(frame).states).rows() == [(1, "x"), (None, "y"), (3, None), (1, "y")]


def test_unknown_values_are_named_by_row_and_column_or_skipped():
    codec = TableCodec.fit(csv_frame("smoke,b\nno,1\nyes,2\n"))
    new = csv_frame("b,extra,smoke\n1,q,no\n2,q,maybe\n3,q,no\n")
    with pytest.raises(InputError, match=r"row 1, column 'smoke': .*\(no, yes\), got 'maybe' \(2 such cells"):
        codec.encode(new)
    rows = codec.encode(new, unknown="skip")
    assert (rows.states.tolist(), rows.kept.tolist(), rows.unknown) == ([[0, 0]], [0], 2)
    with pytest.raises(InputError, match="rows to use, got none: 2 with unknown"):
        codec.encode(new.take(np.array([1, 2])), unknown="skip")


def test_columns_are_found_by_name_or_by_place_where_there_are_no_names():
    codec = TableCodec.fit(pl.DataFrame({"a": [0, 1], "b": [5, 6]}))
    assert codec.encode(np.array([[1, 5]])).states.tolist() == [[1, 0]]
    with pytest.raises(InputError, match="none named 'b'"):
        codec.encode(pl.DataFrame({"a": [0], "c": [5]}))
    with pytest.raises(InputError, match="give 2 columns"):
        codec.encode(np.array([[1, 5, 7]]))


def test_options_choose_columns_and_name_mistakes():
    table = pl.DataFrame({"a": [0, 1], "b": [5, 6], "c": ["x", "y"]})
    assert TableCodec.fit(table, TableOptions(columns=("c", "a"))).names == ("c", "a")
    assert TableCodec.fit(table, TableOptions(drop=("b",))).names == ("a", "c")
    for options in (TableOptions(columns=("aa",)), TableOptions(drop=("aa",)), TableOptions(bins={"aa": 3})):
        with pytest.raises(InputError, match="did you mean 'a'"):
            TableCodec.fit(table, options)


def test_bins_hold_equal_shares_and_labels_lead_back():
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"x": rng.normal(size=1000), "y": rng.integers(0, 2, 1000)})
    codec = TableCodec.fit(table, TableOptions(bins={"x": 10}))
    states = codec.encode(table).states
    assert torch.bincount(states[:, 0].long()).tolist() == [100] * 10
    drawn = codec.decode(states)
    assert torch.equal(codec.encode(drawn).states, states)
    for label, number in zip(drawn.native()["x"][:50], table["x"][:50], strict=True):
        low, high = label[1:-1].split(", ")
        assert float(low) <= number <= float(high)
    assert TableCodec.from_json(json.loads(json.dumps(codec.to_json()))) == codec
    far = pl.DataFrame({"x": [-99.0, 99.0], "y": [0, 1]})
    assert codec.encode(far).states[:, 0].tolist() == [0, 9]


def test_bins_never_divide_equal_numbers_and_keep_blanks_apart():
    text = "x,y\n" + "\n".join(f"{v},{k % 2}" for k, v in enumerate(["0.5"] * 90 + ["1.5"] * 5 + ["2.5"] * 4 + [""]))
    codec = TableCodec.fit(csv_frame(text), TableOptions(bins={"x": 10}, missing="category"))
    column = codec.columns[0]
    assert column.labels[-1] == ""
    assert codec.encode(csv_frame(text)).states[:, 0].unique(return_counts=True)[1].tolist()[0] == 90


@pytest.mark.parametrize(
    "kind", ["numpy int", "numpy bool", "numpy float", "numpy text", "numpy object", "pandas", "polars"]
)
def test_same_kind_out_as_in(kind):
    ints = np.array([[3, 1], [2, 5], [3, 5]], dtype=np.int16)
    data = {
        "numpy int": ints,
        "numpy bool": ints > 2,
        "numpy float": ints.astype(np.float32),
        "numpy text": ints.astype(str),
        "numpy object": np.array([["a", 1], ["b", 2]], dtype=object),
        "pandas": pd.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, 2], "c": [True, False, True]}),
        "polars": pl.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, 2], "c": [True, False, True]}),
    }[kind]
    codec = TableCodec.fit(data)
    back = TableCodec.from_json(codec.to_json()).decode(codec.encode(data).states).native()
    assert type(back) is type(data)
    if isinstance(data, np.ndarray):
        assert back.dtype.kind == data.dtype.kind
        assert back.tolist() == data.tolist()
    else:
        assert back.equals(data)


def test_pandas_blanks_of_every_make():
    table = pd.DataFrame(
        {
            "f": [1.0, np.nan, 2.0],
            "o": ["x", None, "y"],
            "n": pd.array([1, pd.NA, 3], dtype="Int64"),
            "c": pd.Categorical(["u", None, "v"]),
            "t": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
        }
    )
    codec = TableCodec.fit(table, TableOptions(missing="drop"))
    observed = codec.encode(table, missing="unobserved").observed
    assert observed.tolist() == [[True] * 5, [False] * 5, [True] * 5]
    assert [column.kind for column in codec.columns] == ["integer", "text", "integer", "text", "date"]


def test_given_takes_the_longest_name_and_says_what_is_wrong():
    codec = TableCodec.fit(pl.DataFrame({"a": ["b=x", "z"], "a=b": ["x", "y"], "n": [1, 2]}))
    assert codec.given(["a=b=x", "n=2"]) == {1: 0, 2: 1}
    for text, match in (("n=3", "value of 'n'"), ("m=1", "name of a column"), ("n", "COLUMN=VALUE")):
        with pytest.raises(InputError, match=match):
            codec.given([text])
    with pytest.raises(InputError, match="one value for 'n'"):
        codec.given(["n=1", "n=2"])


def test_two_hundred_fifty_six_values_still_take_one_byte():
    table = np.stack([np.arange(256), np.arange(256) % 2], axis=1)
    codec = TableCodec.fit(table)
    assert codec.encode(table).states.dtype == torch.uint8
    wide = np.stack([np.arange(257), np.arange(257) % 2], axis=1)
    codec = TableCodec.fit(wide, TableOptions(max_categories=300))
    assert codec.encode(wide).states.dtype == torch.int16
    assert np.array_equal(codec.decode(codec.encode(wide).states).native(), wide)


GOOD = TableCodec.fit(
    pl.DataFrame({"a": ["x", "y"], "b": [0.5, 1.5], "c": [1, 2]}), TableOptions(bins={"b": 2})
).to_json()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("kind",), "image"),
        (("form",), None),
        (("form", "kind"), "os"),
        (("form", "dtype"), "V8"),
        (("na",), [1]),
        (("columns",), []),
        (("columns", 0), "a"),
        (("columns", 0, "name"), 3),
        (("columns", 0, "name"), "c"),
        (("columns", 0, "kind"), ["text"]),
        (("columns", 0, "values"), ["y", "x"]),
        (("columns", 0, "values"), []),
        (("columns", 0, "values"), ["x", 1]),
        (("columns", 0, "blank"), "no"),
        (("columns", 2, "values"), [1, 2**70]),
        (("columns", 2, "values"), [True, 2]),
        (("columns", 1, "edges"), [1.0, 0.5, 2.0]),
        (("columns", 1, "edges"), [0.5, float("nan"), 2.0]),
        (("columns", 1, "edges"), "abc"),
    ],
)
def test_json_is_checked_field_by_field(path, value):
    broken = json.loads(json.dumps(GOOD))
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InputError, match="codec"):
        TableCodec.from_json(broken)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda x: (
            st.lists(x)
            | st.dictionaries(st.sampled_from(["kind", "form", "columns", "name", "values", "dtype", "na"]), x)
        ),
    )
)
def test_any_json_is_refused_in_one_line(value):
    with pytest.raises(InputError):
        TableCodec.from_json(value)


@pytest.mark.parametrize(
    "bad", [np.zeros(3), np.zeros((2, 2, 2)), np.zeros((0, 2)), "text", 3, None, np.zeros((2, 2), complex)]
)
def test_what_is_no_table_is_refused(bad):
    with pytest.raises(InputError):
        as_frame(bad)


def test_states_out_of_the_space_are_refused():
    codec = TableCodec.fit(np.array([[0, 1], [1, 0]]))
    with pytest.raises(InputError, match="states"):
        codec.decode(torch.tensor([[0, 2]]))


def test_blanks_are_filled_as_the_table_spells_its_values_and_nothing_else_changes():
    codec = TableCodec.fit(pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    table = csv_frame('note,b,a\nk,x,1.0\nl,,1.0\n"m,",y,\nn,,\n')
    rows = codec.encode(table, missing="unobserved")
    filled = codec.fill(table, rows, torch.tensor([[[0, 0], [0, 1], [0, 1], [1, 0]]]), None)
    assert filled.rows() == [("k", "x", "1.0"), ("l", "y", "1.0"), ("m,", "y", "1.0"), ("n", "x", "2")]
    assert filled.names == table.names
    draws = codec.fill(table, rows, torch.tensor([[[0, 0]] * 4, [[1, 1]] * 4]), 2)
    assert draws.names == ("draw", "note", "b", "a")
    assert [row[0] for row in draws.rows()] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert draws.rows()[5] == (1, "l", "y", "1.0")
    again = codec.as_learned(filled)
    assert [row[2] for row in again.rows()] == [1, 1, 1, 2]


def test_rows_that_were_skipped_keep_their_blanks_and_a_column_of_draws_is_refused():
    codec = TableCodec.fit(pl.DataFrame({"a": ["u", "v"], "b": ["x", "y"]}))
    table = csv_frame("a,b\nu,\nw,\n,y\n")
    rows = codec.encode(table, missing="unobserved", unknown="skip")
    assert (rows.kept.tolist(), rows.unknown) == ([0, 2], 1)
    filled = codec.fill(table, rows, torch.tensor([[[0, 1], [1, 1]]]), None)
    assert filled.rows() == [("u", "y"), ("w", None), ("v", "y")]
    counted = csv_frame("a,b,draw\nu,,1\n")
    with pytest.raises(InputError, match="a table without a column 'draw'"):
        codec.fill(counted, codec.encode(counted, missing="unobserved"), torch.zeros((1, 1, 2), dtype=torch.long), 2)


def test_a_blank_that_was_a_value_is_left_as_it_is():
    valued = TableCodec.fit(csv_frame("a,b\n1,x\n,y\n"), TableOptions(missing="category"))
    assert valued.fill_notes() == ["left as they are, for blank was a value in training: a"]


def test_images_are_no_table():
    from concrete_score.data import Images

    codec = TableCodec.fit(np.array([[0, 1], [1, 0]]))
    with pytest.raises(InputError, match=r"x\.npy: expected a table, got images"):
        codec.encode(Images(np.zeros((1, 2, 2)), "x.npy"))


def test_a_model_of_images_needs_their_shape():
    codec = TableCodec.fit(np.array([[0, 1], [1, 0]]))
    with pytest.raises(InputError, match=r"an array of shape \(N, H, W\), got a table of 2 columns"):
        codec.choose({"model": "unet"}, {})
    assert codec.choose({}, {}).recipe.model == "made"


def test_parameters_infer_the_codec_again():
    table = csv_frame("x,y\n" + "".join(f"{k / 7},{'NA' if k == 3 else k % 2}\n" for k in range(50)))
    codec = TableCodec.fit(table, TableOptions(bins={"x": 5}, na=("NA",), missing="drop"))
    again = TableCodec.infer(table, {**codec.parameters(), "missing": "drop"})
    assert again == codec
    assert again.same_reading(codec)
    assert not again.same_reading(TableCodec.infer(table, {"bins": {"x": 4}, "na": ["NA"], "missing": "drop"}))


def test_the_codec_of_early_runs_is_read_as_a_table_of_whole_numbers():
    old = codec_from_json({"kind": "integers", "sizes": [2, 300]})
    assert old.space.sizes == (2, 300)
    assert (old.names, old.named) == (("x0", "x1"), False)
    assert old.encode(np.array([[1, 299]])).states.tolist() == [[1, 299]]
    assert codec_from_json(old.to_json()) == old


def test_a_column_of_weights_is_not_modelled_and_must_be_numbers_from_zero_on():
    table = csv_frame("a,b,w\n0,x,1\n1,y,2.5\n0,y,0\n")
    codec = TableCodec.fit(table, TableOptions(weight="w"))
    assert codec.names == ("a", "b")
    assert codec.encode(table).weights.tolist() == [1.0, 2.5, 0.0]
    assert codec.encode(csv_frame("a,b\n0,x\n")).weights is None
    assert codec_from_json(codec.to_json()) == codec
    for wrong in ("-1", "x", "inf", ""):
        with pytest.raises(InputError, match=r"row 0, column 'w': expected a weight"):
            codec.encode(csv_frame(f"a,b,w\n0,x,{wrong}\n"))
    with pytest.raises(InputError, match="some weight above 0"):
        codec.encode(csv_frame("a,b,w\n0,x,0\n"))
