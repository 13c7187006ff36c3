"""Tables larger than memory: how much memory and time a streamed fit takes, and that it learns what one in memory does.

- *memory*: the most anonymous memory (``RssAnon``) that ``csm fit`` of many rows ever holds.
- *speed*: writing the cache against polars scanning the same files into a sum, on the same threads.
- *weights*: of a fit from the disk and one in memory, given the same codec.
- *curves*: seconds and memory against rows and against columns, and their slopes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from concrete_score.bench.checks import Check
from concrete_score.experiments.drawing import ACCENT, INK, png
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.runner import Unit, complete
from concrete_score.experiments.scale.measures import fit_cost, same_weights, write_speed

MEMORY = 1.5e9
"""Bytes of anonymous memory that a streamed fit of any number of rows may hold."""
FULL: Mapping[str, Any] = {
    "memory": {"rows": 20_000_000, "columns": 50, "files": 10, "steps": 2000},
    "speed": {"rows": 2_000_000, "columns": 50, "files": 4},
    "weights": {"rows": 2_000_000, "columns": 50, "files": 4, "steps": 200},
    "rows": (10_000, 100_000, 1_000_000, 10_000_000),
    "columns": (10, 100, 1000, 3000),
    "beside": {"columns": 20, "rows": 20_000, "steps": 100},
}
QUICK: Mapping[str, Any] = {
    "memory": {"rows": 20_000, "columns": 12, "files": 3, "steps": 20},
    "speed": {"rows": 40_000, "columns": 12, "files": 2},
    "weights": {"rows": 6_000, "columns": 8, "files": 3, "steps": 20},
    "rows": (2_000, 8_000),
    "columns": (4, 8),
    "beside": {"columns": 6, "rows": 2_000, "steps": 10},
}


def run(settings: Settings) -> Findings:
    """All units, the curves last."""
    size = QUICK if settings.quick else FULL
    beside = size["beside"]
    by_rows = [{"rows": rows, "columns": beside["columns"]} for rows in size["rows"]]
    by_columns = [{"rows": beside["rows"], "columns": columns} for columns in size["columns"]]
    points = [{**each, "files": 2, "steps": beside["steps"]} for each in (*by_rows, *by_columns)]
    units = [
        Unit("memory", fit_cost, size["memory"]),
        Unit("speed", write_speed, size["speed"]),
        Unit("weights", same_weights, size["weights"]),
        *(Unit(f"{each['rows']} rows of {each['columns']} columns", fit_cost, each) for each in points),
    ]
    found = complete(units, settings)
    rows, columns = (
        [found[f"{e['rows']} rows of {e['columns']} columns"] for e in each] for each in (by_rows, by_columns)
    )
    slopes = {
        "seconds_a_million_rows": 1e6 * slope(size["rows"], [each["seconds"] for each in rows]),
        "cpu_seconds_a_million_rows": 1e6 * slope(size["rows"], [each["cpu_seconds"] for each in rows]),
        "bytes_a_million_rows": 1e6 * slope(size["rows"], [each["peak_anonymous"] for each in rows]),
        "cache_bytes_a_cell": rows[-1]["cache_bytes"] / (size["rows"][-1] * beside["columns"]),
        "seconds_a_thousand_columns": 1e3 * slope(size["columns"], [each["seconds"] for each in columns]),
        "cpu_seconds_a_thousand_columns": 1e3 * slope(size["columns"], [each["cpu_seconds"] for each in columns]),
        "bytes_a_thousand_columns": 1e3 * slope(size["columns"], [each["peak_anonymous"] for each in columns]),
    }
    return Findings(
        {}, {**found, "slopes": slopes}, _checks(found, settings.quick), {"curves": _figure(size, rows, columns)}
    )


def slope(x: Sequence[float | int], y: Sequence[float | int]) -> float:
    """Of the line through points that are best by squares.

    >>> slope([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    2.0
    """
    return float(np.polyfit(np.array(x, dtype=float), np.array(y, dtype=float), 1)[0].round(12))


def _checks(found: Mapping[str, Any], quick: bool) -> tuple[Check, ...]:
    memory, speed, weights = found["memory"], found["speed"], found["weights"]
    return (
        Check.at_most("bytes of anonymous memory of csm fit", float(memory["peak_anonymous"]), MEMORY),
        # At a few thousand rows a second is spent on starting, whatever it is spent on.
        Check.at_least("speed of writing the cache / polars' scan", speed["ratio"], 0.0 if quick else 0.5),
        Check.equal("weights from the disk are those from memory", weights["equal"], True),
    )


def _figure(size: Mapping[str, Any], rows: Sequence[Any], columns: Sequence[Any]) -> bytes:
    """Seconds and memory, against rows on the left and columns on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for at, (what, found) in enumerate((("rows", rows), ("columns", columns))):
        axes = figure.add_subplot(1, 2, at + 1)
        axes.loglog(size[what], [each["seconds"] for each in found], "o-", color=INK, label="seconds")
        other = axes.twinx()
        gigabytes = [each["peak_anonymous"] / 1e9 for each in found]
        other.semilogx(size[what], gigabytes, "s--", color=ACCENT, label="GB of anonymous memory")
        other.set_ylim(0, 1.2 * max(*gigabytes, MEMORY / 1e9))
        axes.set_xlabel(what)
        axes.set_ylabel("seconds", color=INK)
        other.set_ylabel("GB", color=ACCENT)
    return png(figure)
