"""One pass over a stream: exact counts, a sample that depends on row numbers alone, and exact ends."""

import numpy as np
import polars as pl
import pytest

from concrete_score.data import stream_batches
from concrete_score.data.census import hashed, take_census


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "color": rng.choice(["red", "blue", "grey"], rows),
            "count": rng.integers(0, 40, rows),
            "price": np.round(rng.gamma(2.0, 40.0, rows), 2),
            "x": rng.normal(size=rows),
        }
    ).with_columns(pl.when(pl.col("count") > 36).then(None).otherwise(pl.col("count")).alias("count"))


def in_parts(whole, size):
    return stream_batches([whole.slice(at, size) for at in range(0, len(whole), size)])


def test_counts_are_exact_and_blanks_are_counted(monkeypatch):
    monkeypatch.setattr("concrete_score.data.census._MERGED", 100)
    whole = table(5000)
    found = take_census(in_parts(whole, 300), most=200)
    assert (len(found), found.census.rows) == (200, 5000)
    assert set(found.census.tallies) == set(whole.columns)  # 5,000 rows have fewer values than are counted
    for name, (values, counts) in found.census.tallies.items():
        exact = whole[name].value_counts(name="rows")
        assert dict(zip(values, counts.tolist(), strict=True)) == dict(exact.iter_rows())


def test_the_sample_is_the_same_however_the_rows_are_divided():
    whole = table(3000)
    one, other = (take_census(in_parts(whole, size), most=100) for size in (77, 1500))
    assert one.table.equals(other.table)
    smallest = np.sort(np.argsort(hashed(np.arange(3000, dtype=np.uint64)), kind="stable")[:100])
    assert one.table.equals(whole[smallest])


def test_a_table_of_few_rows_is_its_own_sample():
    whole = table(500)
    found = take_census(in_parts(whole, 90), most=500)
    assert found.census is None
    assert found.table.equals(whole)


def test_quantiles_of_the_sample_are_as_near_as_stated():
    rows, k = 200_000, 20_000
    x = np.random.default_rng(3).normal(size=rows)
    found = np.sort(take_census(in_parts(pl.DataFrame({"x": x}), 30_000), most=k).table["x"].to_numpy())
    below = np.searchsorted(np.sort(x), found, side="right") / rows
    off = np.abs(below - np.arange(1, k + 1) / k).max()
    assert off < np.sqrt(np.log(2 / 0.001) / (2 * k))


@pytest.mark.parametrize("as_text", [False, True])
def test_ends_and_grid_of_columns_of_many_values_are_exact(monkeypatch, as_text):
    monkeypatch.setattr("concrete_score.data.census.VALUES", 50)
    rng = np.random.default_rng(1)
    x = np.round(rng.normal(50, 5, 4000), 1)
    x[[17, 1234, 3999]] = 0.125, 999.5, -3.0
    tens = rng.integers(100, 900, 4000) * 100
    tens[2000] = 1230
    whole = pl.DataFrame({"x": x, "tens": tens})
    whole = whole.cast(pl.String) if as_text else whole
    found = take_census(in_parts(whole, 500), most=60)
    assert not found.census.tallies
    ends = {name: {float(value) for value in each} for name, each in found.census.ends.items()}
    assert {0.125, 999.5, -3.0} <= ends["x"]
    assert {1230.0, float(tens.max()), float(tens.min())} <= ends["tens"]


def test_texts_among_numbers_are_not_lost(monkeypatch):
    monkeypatch.setattr("concrete_score.data.census.VALUES", 50)
    cells = [str(k) for k in range(3000)]
    cells[2718] = "unknown"
    found = take_census(in_parts(pl.DataFrame({"n": cells}), 500), most=60)
    assert "unknown" in found.census.ends["n"]
