"""Bad tables of very many columns are told in one short line, hardly later than it takes to read them."""

import csv
import io
from time import process_time

import polars as pl
import pytest

from concrete_score import ConcreteScoreEstimator
from concrete_score.errors import InputError

WIDTH = 20_000
NAMES = ",".join(f"c{d}" for d in range(WIDTH))
ONES = ",".join(["1"] * WIDTH)
TABLES = {
    "constant": [NAMES, ONES, ONES, ONES],
    "constant numbers that differ": [NAMES, *[",".join(map(str, range(WIDTH)))] * 3],
    "blank throughout": [NAMES, *["," * (WIDTH - 1)] * 3],
    "blank or one value": [NAMES, ONES.replace("1", "NA"), ONES.replace("1", "?")],
    "ragged": [NAMES, ONES, ONES[:-2], ONES],
    "one name": [",".join(["a"] * WIDTH), ONES, ONES],
    "stray quotes": [NAMES, ONES, ",".join(['"5" x"'] * WIDTH), ONES],
    "a header alone": [NAMES],
}
TIMES = 20
"""The bare read, in computing time: a second for 100,000 columns. Looking at every column closely took 800 times it."""


def bare(data: bytes) -> float:
    """Seconds of computing for reading the cells by polars and by `csv`, and no more."""
    began = process_time()
    try:
        pl.read_csv(data, infer_schema=False, has_header=False, truncate_ragged_lines=True, quote_char=None)
        for _ in csv.reader(io.StringIO(data.decode())):
            pass
    except pl.exceptions.PolarsError:
        pass
    return process_time() - began


@pytest.mark.parametrize("name", TABLES)
def test_bad_columns_without_number_are_told_at_once(csm, tmp_path, name):
    data = ("\n".join(TABLES[name]) + "\n").encode()
    path = tmp_path / "wide.csv"
    path.write_bytes(data)
    words = ("fit", str(path), "--out", str(tmp_path / "run"), "--quiet")
    csm("fit", str(tmp_path / "none.csv"), "--quiet")  # imports what the command needs
    before, began = bare(data), process_time()
    code, _, err = csm(*words)
    took = process_time() - began
    assert code == 2
    assert err.startswith(f"error: {path}")
    assert err.count("\n") == 1
    assert len(err) < 2200
    assert took < TIMES * before + 0.2, f"{took:.1f} s, where {before:.1f} s are for reading"


def test_columns_without_number_that_are_not_what_they_were_said_to_be():
    """Words where numbers were said to be: not looked at one by one when a line can name no more of them."""
    refuse(200)  # imports what a fit needs
    few, many = refuse(200), refuse(20_000)
    assert many < TIMES * few, f"{many:.1f} s for 20,000 columns, {few:.1f} s for 200"


def refuse(width: int) -> float:
    """Seconds of the processor until a table of words that were said to be numbers is refused."""
    rows = pl.DataFrame({f"c{d}": ["x", "y", "1"] for d in range(width)})
    estimator = ConcreteScoreEstimator(steps=1, column={f"c{d}": "number" for d in range(width)})
    began = process_time()
    with pytest.raises(InputError) as told:
        estimator.fit(rows)
    took = process_time() - began
    assert "'c0' (not numbers)" in str(told.value)
    assert len(str(told.value)) < 2200
    return took
