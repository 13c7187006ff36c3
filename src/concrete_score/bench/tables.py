"""How long a large mixed CSV takes from file to states, against pandas merely reading it."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from concrete_score.bench.checks import Check
from concrete_score.bench.timing import ratio_of_minima
from concrete_score.data import TableCodec, TableOptions, read_file
from concrete_score.errors import InputError

_CONTINUOUS = (13, 33)


def load_over_pandas(rows: int = 1_000_000, columns: int = 50, repeats: int = 12) -> Check:
    """Read and encode words, integers, truth values and a few fractions; the yardstick is ``pandas.read_csv``.

    Both keep every core and much memory busy, so single runs differ by a third: it takes a dozen turns to find either's
    shortest.
    """
    if find_spec("pandas") is None:
        raise InputError("pandas, the yardstick", "none installed", fix="pip install pandas, or name other figures")
    pandas: Any = import_module("pandas")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.csv"
        mixed_table(rows, columns).write_csv(path)
        options = TableOptions(bins={f"c{d}": 10 for d in _CONTINUOUS if d < columns})

        def load() -> object:
            frame = read_file(path)
            return TableCodec.fit(frame, options).encode(frame)

        value = ratio_of_minima(load, lambda: pandas.read_csv(path), repeats)
    return Check.at_most(f"load and encode {rows} x {columns} CSV / pandas read_csv", value, 1.5)


def mixed_table(rows: int, columns: int) -> pl.DataFrame:
    """Columns of 2 to 100 words, integers or truth values, and two of fractions.

    >>> mixed_table(3, 4).columns
    ['c0', 'c1', 'c2', 'c3']
    """
    rng = np.random.default_rng(0)
    sizes = (2, 3, 5, 8, 20, 100)
    found = []
    for d in range(columns):
        codes = rng.integers(0, sizes[d % len(sizes)], rows)
        words = (
            pl.Series(codes),
            pl.Series([f"value {k}" for k in range(100)]).gather(pl.Series(codes)),
            pl.Series(codes % 2 == 0),
        )
        fractions = pl.Series(rng.normal(size=rows) if d in _CONTINUOUS else [], dtype=pl.Float64)
        found.append((fractions if d in _CONTINUOUS else words[d % 3]).alias(f"c{d}"))
    return pl.DataFrame(found)
