"""What a page must know of a run before it asks: its columns, its images' shape, its alphabet, and where to start."""

from collections.abc import Callable, Mapping
from typing import Any

from concrete_score import __version__
from concrete_score.answers import Given
from concrete_score.codecs.columns import as_text
from concrete_score.codecs.conditions import IN, OPERATORS
from concrete_score.model import Model

LISTED = 200
"""Values of a column that are offered to choose from; of more, one is typed."""


def describe(model: Model, start: Given | None = None) -> dict[str, Any]:
    """Plain values; how data are looked at depends on their kind, and what is not known is looked at as a table."""
    codec = model.codec
    name = "" if model.run is None else "/".join(model.run.path.resolve().parts[-2:])
    view = codec.kind if codec.kind in VIEWS else "table"
    return {
        "view": view,
        "run": name,
        "noun": codec.noun,
        "sites": len(codec.names),
        "site_noun": codec.site_noun,
        "model": type(model.fitted.model).__name__ if model.run is None else model.run.config["recipe"]["model"],
        "from_noise": model.fitted.draws_from_noise,
        "version": __version__,
        "operators": [*OPERATORS, IN],
        "start": [] if start is None else starting(model, start),
        **VIEWS[view](model),
    }


def starting(model: Model, start: Given) -> list[dict[str, Any]]:
    """The first example of data as conditions; its cells as they stand there, where they mean the same value."""
    codec = model.codec
    states, observed = start.rows.states[0].tolist(), start.rows.observed[0].tolist()
    table = getattr(start.data, "table", None)
    found = []
    for site, name in enumerate(codec.names):
        if not observed[site]:
            continue
        label = codec.labels(site)[states[site]]
        cell = label if table is None or name not in table.columns else as_text(table[name][int(start.rows.kept[0])])
        text = cell if codec.place(site, cell) == states[site] else label
        found.append({"column": name, "operator": "=", "values": [text]})
    return found


def _table(model: Model) -> dict[str, Any]:
    """Every column with its kind and values."""
    codec = model.codec
    columns = []
    for site, name in enumerate(codec.names):
        labels, ranges = codec.labels(site), codec.histogram(site) is not None
        listed = list(labels) if not ranges and len(labels) <= LISTED else None
        columns.append({"name": name, "kind": codec.site_kind(site), "ranges": ranges, "values": listed})
    return {"columns": columns}


def _image(model: Model) -> dict[str, Any]:
    """Height, width and the grey values of the levels."""
    codec: Any = model.codec
    return {"shape": list(codec.shape), "greys": list(codec.labels(0))}


def _sequence(model: Model) -> dict[str, Any]:
    """The alphabet, what counts as blank, and further columns beside the letters."""
    codec: Any = model.codec
    extra = [{"name": name, "values": list(values)} for name, values in codec.extra]
    return {
        "labels": list(codec.symbols),
        "names": list(codec.names),
        "blanks": codec.blanks,
        "words": codec.tokens == "words",
        "extra": extra,
    }


VIEWS: Mapping[str, Callable[[Model], dict[str, Any]]] = {"table": _table, "image": _image, "sequence": _sequence}
"""How each kind of data is looked at."""
