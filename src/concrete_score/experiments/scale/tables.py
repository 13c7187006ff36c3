"""The table of the experiment: any number of rows of mixed columns that depend on one another, in Parquet files."""

from pathlib import Path

import numpy as np
import polars as pl

COLORS = ("red", "green", "blue", "grey", "pink", "teal")
ROW_GROUP = 2**17
"""Rows of one row group of the files."""
DAYS = np.datetime64("2015-01-01")


def mixed_rows(rows: int, columns: int, seed: int) -> pl.DataFrame:
    """Texts, codes, decimals, measurements, amounts and dates by turns; all depend on a class that is not in the table.

    >>> mixed_rows(2, 6, seed=0).dtypes
    [String, Int64, Float64, Float64, Int64, Date]
    """
    rng = np.random.default_rng([0x5CA1E, seed])
    group = rng.integers(0, 4, rows)
    kinds = (
        lambda: pl.Series(COLORS, dtype=pl.String).gather(pl.Series(group + rng.integers(0, 3, rows))),
        lambda: pl.Series(group + rng.integers(0, 8, rows)),
        lambda: pl.Series(np.round(rng.normal(2.0 * group, 1.0, rows), 2)),
        lambda: pl.Series(rng.normal(group, 1.0, rows)),
        lambda: pl.Series(rng.gamma(2.0, 300.0 * (group + 1), rows).astype(np.int64)),
        lambda: pl.Series(DAYS + (700 * group + rng.integers(0, 900, rows)).astype("timedelta64[D]")),
    )
    return pl.DataFrame([kinds[d % len(kinds)]().alias(f"c{d:04}") for d in range(columns)])


def write_files(folder: Path, rows: int, columns: int, files: int, seed: int = 0) -> list[Path]:
    """The table in several Parquet files; equal arguments give equal files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"part-{number:03}.parquet" for number in range(files)]
    for number, path in enumerate(paths):
        size = rows * (number + 1) // files - rows * number // files
        if not path.exists():
            draft = path.with_suffix(".draft")
            mixed_rows(size, columns, seed + 1000 * number).write_parquet(draft, row_group_size=ROW_GROUP)
            draft.rename(path)
    return paths
