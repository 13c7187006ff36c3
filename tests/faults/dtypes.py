"""Tables of every type through the Python interface: what was not blank comes back as it went in."""

import datetime as dt
import random
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from concrete_score.errors import InputError
from tests.faults.plan import Family, Fault

ROWS = 5


def _columns() -> dict[str, Any]:
    """A maker of cells for every type; they are given a source of randomness."""
    whole = ("int8", "int64", "uint8", "uint64", "float32", "float64")
    found: dict[str, Any] = {
        kind: lambda rng, kind=kind: pd.Series([rng.randrange(100) for _ in range(ROWS)], dtype=kind) for kind in whole
    }
    makers: dict[str, Any] = {
        "Int64": lambda rng: pd.array([rng.choice((2**53 + 1, 2**62 + 3, None)) for _ in range(ROWS)], dtype="Int64"),
        "boolean": lambda rng: pd.array([rng.choice((True, False, None)) for _ in range(ROWS)], dtype="boolean"),
        "string": lambda rng: pd.array([rng.choice(("a", "", None)) for _ in range(ROWS)], dtype="string"),
        "object": lambda rng: pd.Series([rng.choice(("", "é", 1, None, b"x", 2.5)) for _ in range(ROWS)], dtype=object),
        "bytes": lambda rng: pd.Series([bytes([rng.randrange(256)]) for _ in range(ROWS)], dtype=object),
        "date": lambda rng: pd.Series([dt.date(2020, 1, rng.randint(1, 28)) for _ in range(ROWS)], dtype=object),
        "time": lambda rng: pd.Series(pd.to_datetime([f"2020-01-{rng.randint(10, 28)}" for _ in range(ROWS)])),
        "zone": lambda rng: pd.Series(pd.to_datetime(["2020-01-01T00:00Z"] * ROWS)),
        "delta": lambda rng: pd.Series(pd.to_timedelta([rng.randrange(9) for _ in range(ROWS)], unit="D")),
        "decimal": lambda rng: pd.Series([Decimal(rng.randrange(100)) / 8 for _ in range(ROWS)], dtype=object),
        "category": lambda rng: pd.Categorical([rng.choice("pqr") for _ in range(ROWS)]),
        "list": lambda rng: pd.Series([[rng.randrange(3)] for _ in range(ROWS)], dtype=object),
        "complex": lambda rng: pd.Series([complex(rng.random(), 1) for _ in range(ROWS)]),
    }
    return {**found, **makers}


def fitted(folder: Path) -> Any:
    """A model of two columns."""
    from concrete_score import ConcreteScoreEstimator

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.choice(["x", "y"], 60), "b": rng.choice([1, 2, 3], 60)})
    return ConcreteScoreEstimator(steps=5).fit(rows)


def impute(rng: random.Random, folder: Path, model: Any) -> str:
    """A frame with columns of random types beside those that the model knows, filled."""
    makers = _columns()
    kinds = rng.sample(sorted(makers), rng.randint(1, 4))
    rows = pd.DataFrame({"a": [rng.choice(("x", "y", None)) for _ in range(ROWS)]})
    rows["b"] = pd.array([rng.choice((1, 2, 3, None)) for _ in range(ROWS)], dtype="Int64")
    for kind in kinds:
        rows[kind] = makers[kind](rng)
    rows.index = pd.Index([f"r{n}" for n in range(ROWS)])
    before, draws = rows.copy(deep=True), rng.choice((None, None, 2))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.impute(rows, draws)
    except InputError as error:
        return f"refused: {str(error)[:40]}"
    except Exception as error:
        raise Fault(f"{kinds}: {type(error).__name__}: {error}") from None
    for copy in [found] if draws is None else [part.drop(columns="draw") for _, part in found.groupby("draw")]:
        for kind in kinds:
            if copy[kind].dtype != before[kind].dtype or not _same(copy[kind].to_list(), before[kind].to_list()):
                raise Fault(f"{kind}: {before[kind].to_list()} came back as {copy[kind].to_list()}")
        for name in "ab":
            known = before[name].notna().to_numpy()
            if not _same(copy[name][known].to_list(), before[name][known].to_list()) or copy[name].isna().any():
                raise Fault(f"{name}: {before[name].to_list()} was filled as {copy[name].to_list()}")
    if not _same(rows.to_numpy().tolist(), before.to_numpy().tolist()):
        raise Fault("the frame that was given changed")
    return "filled"


def into_polars(rng: random.Random, folder: Path, model: Any) -> str:
    """The same for polars, whose types are others."""
    others = {
        "bytes": pl.Series([b"a", None, b""]),
        "date": pl.Series([dt.date(2020, 1, 1), None, dt.date(2021, 1, 1)]),
        "duration": pl.Series([dt.timedelta(1), None, dt.timedelta(2)]),
        "decimal": pl.Series([Decimal("1.10"), None, Decimal("2.25")]),
        "list": pl.Series([[1], None, []], dtype=pl.List(pl.Int64)),
        "struct": pl.Series([{"k": 1}, None, {"k": 2}]),
        "unsigned": pl.Series([2**64 - 1, None, 0], dtype=pl.UInt64),
        "empty": pl.Series(["", None, ""]),
    }
    names = rng.sample(sorted(others), rng.randint(1, 5))
    rows = pl.DataFrame(
        {
            "a": pl.Series([rng.choice(("x", "y", None)) for _ in range(3)], dtype=pl.String),
            "b": [1, 2, 3],
            **{name: others[name] for name in names},
        }
    )
    try:
        found = model.impute(rows)
    except InputError as error:
        return f"refused: {str(error)[:40]}"
    except Exception as error:
        raise Fault(f"{names}: {type(error).__name__}: {error}") from None
    if found.schema != rows.schema or found.select(names).rows() != rows.select(names).rows():
        raise Fault(f"{names}: {rows.schema} came back as {found.schema}")
    return "filled"


def _same(a: list[Any], b: list[Any]) -> bool:
    return [(type(x), repr(x)) for x in a] == [(type(y), repr(y)) for y in b]


FAMILIES = (
    Family("types-pandas", impute, 40, 600, 100, prepare=fitted),
    Family("types-polars", into_polars, 20, 600, 100, prepare=fitted),
)
