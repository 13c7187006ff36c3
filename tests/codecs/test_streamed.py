"""The codec of a table in parts: the in-memory one where the table fits the sample, and as good as that beyond."""

import numpy as np
import polars as pl
import pytest

from concrete_score.codecs import TableCodec
from concrete_score.data import stream_batches
from concrete_score.data.census import take_census
from concrete_score.data.frame import Form, Frame, as_frame
from tests.data.test_census import in_parts, table


def mixed(rows, seed=0):
    rng = np.random.default_rng(seed)
    whole = table(rows, seed)
    return whole.with_columns(
        pl.Series("id", np.arange(rows) + 7),
        pl.Series("city", rng.choice([f"town {k}" for k in range(300)], rows, p=zipf(300))),
        pl.Series("flag", rng.random(rows) < 0.3),
        pl.Series("land", ["NL"] * rows),
        pl.Series("day", np.datetime64("2020-01-01") + rng.integers(0, 1500, rows)),
    )


def zipf(count):
    weights = 1 / np.arange(1, count + 1)
    return weights / weights.sum()


@pytest.mark.parametrize("form", ["polars", "csv"])
def test_the_codec_of_a_table_that_fits_the_sample_is_that_of_memory(form):
    whole = mixed(3000)
    cells = whole if form == "polars" else whole.select(pl.all().cast(pl.String))
    frame = Frame(cells, Form(form), "t")
    parts = stream_batches([Frame(cells.slice(at, 700), Form(form), "t") for at in range(0, 3000, 700)])
    alone, streamed = TableCodec.fit(frame), TableCodec.fit(take_census(parts))
    assert streamed == alone
    assert streamed.to_json() == alone.to_json()


@pytest.mark.parametrize("form", ["polars", "csv"])
def test_beyond_the_sample_kinds_reasons_categories_and_ends_are_those_of_memory(form):
    whole = mixed(20_000)
    cells = whole if form == "polars" else whole.select(pl.all().cast(pl.String))
    frame = Frame(cells, Form(form), "t")
    parts = stream_batches([Frame(cells.slice(at, 3000), Form(form), "t") for at in range(0, 20_000, 3000)])
    alone, streamed = TableCodec.fit(frame), TableCodec.fit(take_census(parts, most=4000))
    assert streamed.rows == alone.rows == 20_000
    assert dict(streamed.why) == dict(alone.why)
    assert [(c.name, c.kind) for c in streamed.columns] == [(c.name, c.kind) for c in alone.columns]
    assert streamed.aside == alone.aside
    for mine, other in zip(streamed.columns, alone.columns, strict=True):
        if not hasattr(mine, "neighbors"):
            assert mine == other  # exact counts of every category, and what is reserved
        elif mine.kind == "number":
            assert (mine.digits, mine.span, mine.decimal) == (other.digits, other.span, other.decimal)
            # Laws and first cuts come from exact counts; only which ranges are joined is told by sampled rows.
            assert mine.starts == other.starts
            np.testing.assert_allclose(mine.weights, other.weights, rtol=1e-12)


def test_columns_of_very_many_values_keep_their_kinds_ends_and_grid(monkeypatch):
    whole = mixed(20_000)
    alone = TableCodec.fit(as_frame(whole))
    monkeypatch.setattr("concrete_score.data.census.VALUES", 400)
    streamed = TableCodec.fit(take_census(in_parts(whole, 3000), most=5000))
    assert [(c.name, c.kind) for c in streamed.columns] == [(c.name, c.kind) for c in alone.columns]
    assert [each.name for each in streamed.aside] == [each.name for each in alone.aside]
    for name in ("price", "x"):
        mine, other = (codec.columns[codec.names.index(name)] for codec in (streamed, alone))
        assert (mine.digits, mine.span) == (other.digits, other.span)
    assert "rows of 20,000" in dict(streamed.why)["x"]
    identifier = next(each for each in streamed.aside if each.kind == "identifier")
    assert identifier.start == 20_007
