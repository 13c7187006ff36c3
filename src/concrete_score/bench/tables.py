"""How long a large mixed CSV takes to read, and rows that meet a rare condition take to draw."""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
import polars as pl

from concrete_score.bench.checks import Check, ratio_of_minima
from concrete_score.data import read_file
from concrete_score.fitted import Fitted
from concrete_score.models import MADE
from concrete_score.randomness import generator
from concrete_score.samplers.evidence import Evidence
from concrete_score.samplers.sources import source
from concrete_score.spaces import Space

_CONTINUOUS = (13, 33)


def read_over_polars(rows: int = 1_000_000, columns: int = 50, repeats: int = 12) -> Check:
    """Strings, integers, booleans and a few fractions, every cell checked; the yardstick is ``polars.read_csv``.

    Both keep every core and much memory busy, so single runs differ by a third: it takes a dozen turns to find either's
    shortest.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.csv"
        mixed_table(rows, columns).write_csv(path)
        value = ratio_of_minima(lambda: read_file(path), lambda: pl.read_csv(path), repeats)
    return Check.at_most(f"read a CSV of {rows} x {columns} / polars read_csv", value, 2.0)


def rare_rows_over_free(rows: int = 1_000, chance: float = 1e-4) -> Check:
    """Rows given the first value of the last columns, of as many as make that about ``chance``, against free rows."""
    space = Space((4, 3, 5) * 6)
    model = MADE(space, generator=generator(0, "bench")).requires_grad_(False)
    given: dict[int, int] = {}
    for site in reversed(range(space.num_sites)):
        given[site] = 0
        found = source(model, Evidence.of(space, given), rows).probability(generator(0, "bench"))
        if found is not None and found.value < 2 * chance:
            break
    fitted = Fitted(model, space)
    value = ratio_of_minima(
        lambda: fitted.sample(rows, generator(0, "bench"), given),
        lambda: fitted.sample(rows, generator(0, "bench")),
        clock=process_time,
    )
    return Check.at_most(f"{rows} rows given an event of about {chance:g} / {rows} free rows", value, 20.0)


def mixed_table(rows: int, columns: int) -> pl.DataFrame:
    """Columns of 2 to 100 strings, integers or booleans, and two of fractions.

    >>> mixed_table(3, 4).columns
    ['c0', 'c1', 'c2', 'c3']
    """
    rng = np.random.default_rng(0)
    sizes = (2, 3, 5, 8, 20, 100)
    found = []
    for d in range(columns):
        codes = rng.integers(0, sizes[d % len(sizes)], rows)
        kinds = (
            pl.Series(codes),
            pl.Series([f"value {k}" for k in range(100)]).gather(pl.Series(codes)),
            pl.Series(codes % 2 == 0),
        )
        fractions = pl.Series(rng.normal(size=rows) if d in _CONTINUOUS else [], dtype=pl.Float64)
        found.append((fractions if d in _CONTINUOUS else kinds[d % 3]).alias(f"c{d}"))
    return pl.DataFrame(found)
