"""What a page may ask of a model, each a function of the model and of plain JSON: the numbers are `Model`'s own.

Conditional distributions are `Model.conditionals` where every column that is set has one value, and otherwise shares of
`Model.sample_parts`; probabilities `Model.probability`, changes `Model.explanation`, maps `Model.log_ratios`. The same
question has the same answer, for the randomness is the model's seed.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from concrete_score.answers import Given
from concrete_score.codecs.columns import as_text
from concrete_score.data.frame import Array
from concrete_score.defaults import TOP
from concrete_score.errors import InputError
from concrete_score.explorer.asking import SKIN, Asked, count_of, text_of
from concrete_score.model import Model
from concrete_score.samplers.annealed import Stage

SHOWN = 24
"""Values of a column that are shown; of more, the most probable."""
DRAWS = 1024
"""Rows drawn for distributions given conditions that leave several values."""
REPEATS = 4
"""Answers with other randomness by which the error of a distribution is judged."""
EXAMPLES, MOST_EXAMPLES = 8, 64
CHANGES = 2 * TOP
PAINTED, MOST_PAINTED = 9, 36
"""Images that are filled in side by side."""
PASSES, MOST_PASSES = 60, 1000
"""Network passes from noise to an image: fewer than by default, for somebody waits."""
LARGEST_MAP = 2**17
"""Changes of a map at most."""
UNKNOWN = "this model does not know it; csm evaluate bounds the mean of many, where it can"
"""Why there is no probability."""
EXACT = frozenset({"closed_form", "enumeration", "none"})
"""Ways to distributions that leave nothing to chance."""

Tell = Callable[[Mapping[str, Any]], None]
"""Takes parts of an answer while it is made."""


class Shares(NamedTuple):
    """The distributions of some columns, and how they were found."""

    probs: dict[int, Array]
    """By site ``(V,)``."""
    method: str
    exact: bool
    draws: int | None = None
    """How many rows they were counted in, where that is how."""
    warnings: tuple[str, ...] = ()


def conditionals(model: Model, value: Mapping[str, Any], tell: Tell | None = None) -> dict[str, Any]:
    """The distribution of every column that is not set to one value, given those that are set.

    What is set of a number may lie within one value of the model, a range: its smaller ranges are told all the same.
    """
    asked = Asked.of(model.codec, value)
    found = shares(model, asked)
    within = {
        site: evidence.softmax(-1).numpy(force=True)
        for site, evidence in asked.evidence.items()
        if site not in found.probs and model.codec.histogram(site, asked.conditions) is not None
    }
    return {
        "columns": [_column(model, asked, site, probs) for site, probs in sorted({**found.probs, **within}.items())],
        "method": found.method,
        "exact": found.exact,
        "draws": found.draws,
        "warnings": list(found.warnings),
    }


def doubt(model: Model, value: Mapping[str, Any], tell: Tell | None = None) -> dict[str, Any]:
    """The Monte Carlo error of `conditionals`: the largest standard deviation of a column's bars over repetitions."""
    asked = Asked.of(model.codec, value)
    first = shares(model, asked)
    if first.exact:
        return {"columns": [], "repeats": 0}
    answers = [shares(model, asked, model.seed + 1 + k) for k in range(REPEATS)]
    columns = []
    for site in first.probs:
        bars = np.stack([_bars(model, asked, site, each.probs[site]) for each in answers])
        columns.append({"column": model.codec.names[site], "error": float(bars.std(0, ddof=1).max())})
    return {"columns": columns, "repeats": REPEATS}


def shares(model: Model, asked: Asked, seed: int | None = None) -> Shares:
    """The distributions of all columns but those with one value."""
    if asked.fixed is not None:
        found = model.conditionals(asked.row, random_state=seed)
        if found is None:
            return Shares({}, "none", True)
        sizes = model.codec.space.sizes
        probs = zip(found.cells.site.tolist(), found.cells.log_probs.exp().numpy(force=True), strict=True)
        exact = set(found.method.split(", ")) <= EXACT
        return Shares({site: row[: sizes[site]] for site, row in probs}, found.method, exact, warnings=found.warnings)
    parts = list(model.sample_parts(DRAWS, asked.conditions, random_state=seed))
    states = torch.cat([part.states for part in parts]).cpu()
    left = [d for d, evidence in asked.evidence.items() if int((evidence > -torch.inf).sum()) > 1]
    wanted = [d for d in range(len(model.codec.names)) if d in left or d not in asked.evidence]
    counts = {d: torch.bincount(states[:, d], minlength=model.codec.space.sizes[d]).numpy() for d in wanted}
    probs_of = {d: count / len(states) for d, count in counts.items()}
    return Shares(probs_of, parts[0].method, False, len(states), parts[0].warnings)


def draws(model: Model, value: Mapping[str, Any], tell: Tell | None = None) -> dict[str, Any]:
    """Example rows that meet what is set, as texts."""
    asked = Asked.of(model.codec, value)
    count = count_of(value, EXAMPLES, MOST_EXAMPLES)
    parts = list(model.sample_parts(count, asked.conditions))
    data = next(model.decoded([torch.cat([part.states for part in parts]).cpu()], asked.conditions)).frame()
    rows = [[as_text(cell) for cell in row] for row in data.rows()]
    found = {"columns": list(data.names), "rows": rows, "method": parts[0].method}
    return {**found, "warnings": list(parts[0].warnings)}


def row(model: Model, value: Mapping[str, Any], tell: Tell | None = None) -> dict[str, Any]:
    """The log-probability of what is set, and the single changes that raise it most; or why there is none."""
    asked = Asked.of(model.codec, value)
    found = model.probability(asked.conditions) if asked.conditions else None
    known = None if found is None else {"log_value": found.log_value, "relative_error": found.relative_error}
    unknown = UNKNOWN if asked.conditions and found is None else None
    return {"complete": asked.complete, "probability": known, "unknown": unknown, **_changes(model, asked)}


def effects(model: Model, value: Mapping[str, Any], tell: Tell | None = None) -> dict[str, Any]:
    """The log-ratio of every single change of one example ``(D, V)``, of sites that have the first one's values."""
    codec, text = model.codec, text_of(value)
    given = Asked.of(codec, value).row if text is None else model.read([text], unknown="refuse", filling=True)
    labels = codec.labels(0)
    sites = [d for d in range(len(codec.names)) if codec.labels(d) == labels]
    if len(codec.names) * len(labels) > LARGEST_MAP:
        raise InputError(f"at most {LARGEST_MAP:,} changes to map", f"{len(codec.names) * len(labels):,}")
    first = Given(given.data, given.rows._replace(**_first(given)))
    ratios = _by_site(model, model.log_ratios(first)[0])
    states, observed = first.rows.states[0].tolist(), first.rows.observed[0].tolist()
    set_to = [codec.labels(d)[states[d]] if observed[d] else None for d in range(len(codec.names))]
    return {
        "sites": [codec.names[d] for d in sites],
        "labels": list(labels),
        "values": [set_to[d] for d in sites],
        "given": [_as_set(name, label) for name, label in zip(codec.names, set_to, strict=True) if label is not None],
        "log_ratios": [ratios[d].tolist() for d in sites],
    }


def fill(model: Model, value: Mapping[str, Any], tell: Tell | None = None) -> dict[str, Any]:
    """Examples that meet what is set, as levels of their sites; where they come from noise, ``tell`` sees the way."""
    asked = Asked.of(model.codec, value)
    count = count_of(value, PAINTED, MOST_PAINTED)

    def watch(stage: Stage) -> None:
        if tell is not None:
            tell({"images": _levels(stage.x[:count])})

    passes = count_of(value, PASSES, MOST_PASSES, "passes")
    noise: dict[str, Any] = {"watch": watch, "passes": passes} if model.fitted.draws_from_noise else {}
    parts = list(model.sample_parts(count, asked.conditions, **noise))
    states = torch.cat([part.states for part in parts]).cpu()
    mean = states.double().mean(0) / (max(model.codec.space.sizes) - 1)
    found = {"images": _levels(states), "mean": mean.tolist(), "method": parts[0].method}
    return {**found, "warnings": list(parts[0].warnings)}


QUESTIONS: Mapping[str, Callable[[Model, Mapping[str, Any], Tell | None], dict[str, Any]]] = {
    "conditionals": conditionals,
    "doubt": doubt,
    "draws": draws,
    "row": row,
    "effects": effects,
    "fill": fill,
}


def _bars(model: Model, asked: Asked, site: int, probs: Array) -> Array:
    """The probabilities that are shown of a column ``(B,)``: of its ranges, or of its values."""
    ranges = model.codec.histogram(site, asked.conditions)
    found: Array = probs if ranges is None else ranges.shares @ probs
    return found


def _column(model: Model, asked: Asked, site: int, probs: Array) -> dict[str, Any]:
    """One column's distribution: ranges of a number, or values, of many the most probable."""
    codec, ranges = model.codec, model.codec.histogram(site, asked.conditions)
    if ranges is None:
        order = range(len(probs)) if len(probs) <= SHOWN else np.argsort(-probs, kind="stable")[:SHOWN].tolist()
        labels = codec.labels(site)
        bars = [_bar(labels[at], probs[at], [("=", labels[at])]) for at in order]
        hidden = len(probs) - len(bars)
    else:
        bars = [_bar(*each) for each in zip(ranges.labels, ranges.shares @ probs, ranges.conditions, strict=True)]
        hidden = 0
    rest = max(0.0, 1.0 - sum(bar["probability"] for bar in bars))
    return {"column": codec.names[site], "ranges": ranges is not None, "bars": bars, "hidden": hidden, "rest": rest}


def _bar(label: str, probability: Any, conditions: Any) -> dict[str, Any]:
    told = [{"operator": operator, "values": [text]} for operator, text in conditions]
    return {"label": label, "probability": float(probability), "conditions": told}


def _changes(model: Model, asked: Asked) -> dict[str, Any]:
    """The best single changes of the cells that are set, or the reason why none are listed."""
    if not asked.conditions:
        return {"changes": [], "reason": "nothing is set yet"}
    if asked.fixed is None:
        return {"changes": [], "reason": "a condition leaves several values: set single ones"}
    if model.fitted.draws_from_noise and not asked.complete:
        return {"changes": [], "reason": f"set all {model.codec.site_noun}"}
    try:
        found = model.explanation(asked.row, CHANGES)
    except InputError as error:
        return {"changes": [], "reason": error.render(SKIN)}
    lines = zip(found.column, found.before, found.after, found.log_ratio, strict=True)
    told = [{"column": c, "from": as_text(a), "to": as_text(b), "log_ratio": ratio} for c, a, b, ratio in lines]
    return {"changes": told, "reason": None}


def _first(given: Given) -> dict[str, Any]:
    """Of data that were read, the fields of the first example alone."""
    rows = given.rows
    return {"states": rows.states[:1], "observed": rows.observed[:1], "kept": rows.kept[:1], "unseen": None}


def _by_site(model: Model, ratios: Array) -> list[Array]:
    """``(Σ sizes,)`` cut into the sites' own."""
    return np.split(ratios, np.cumsum(model.codec.space.sizes)[:-1])


def _as_set(name: str, label: str) -> dict[str, Any]:
    """A column set to one value, as a page sets it."""
    return {"column": name, "operator": "=", "values": [label]}


def _levels(states: Tensor) -> list[str]:
    """Each example's values as bytes, in base 64."""
    return [b64encode(bytes(each)).decode() for each in states.to(torch.uint8).cpu().numpy()]
