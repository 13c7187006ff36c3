"""What a run kept of its training: its settings, its measurements, and grids of images drawn on the way."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from concrete_score.files import flat
from concrete_score.previews import COUNT, kept_grids
from concrete_score.report.charts import Line, Mark, line_chart
from concrete_score.report.html import (
    Finding,
    Html,
    Section,
    Tile,
    count,
    folded,
    legend,
    missing,
    named,
    number,
    paragraph,
    shortened,
    side_by_side,
    stacked,
    table,
    tag,
)
from concrete_score.report.subject import Subject
from concrete_score.training.loop import has_likelihood

LISTED = 60
"""Lines of the table of measurements."""
COLUMNS, VALUES, SETTING = 100, 6, 120
"""Columns listed, values of each, and characters of a setting."""
LARGEST = 2**21
"""Bytes of a grid that is shown: an untrusted folder may hold anything."""


class Curves(NamedTuple):
    """What ``metrics.jsonl`` holds, by step."""

    loss: list[tuple[float, float]]
    valid: list[tuple[float, float]]
    went_back: list[tuple[float, str]]
    best_step: int
    steps: int


def read_curves(subject: Subject) -> Curves:
    """The measurements of a report's run; likelihoods of numbers count where these lie in their ranges, too."""
    lines = subject.run.journal.read()
    counted = subject.inside is not None and has_likelihood(subject.model)
    inside = float(subject.inside.mean()) if counted and subject.inside is not None else 0.0
    loss, valid, back = [], [], []
    for line in lines:
        step = float(line["step"])
        if "went_back_to" in line:
            back.append((step, str(line.get("why", ""))))
        if _is_number(line.get("loss")):
            loss.append((step, float(line["loss"])))
        if _is_number(line.get("valid")):
            valid.append((step, float(line["valid"]) + inside))
    steps = max((int(line["step"]) for line in lines), default=0)
    return Curves(loss, valid, back, subject.run.model_file().step, steps)


def training_section(subject: Subject) -> Section:
    """Loss and validation over steps."""
    curves = read_curves(subject)
    if not curves.loss and not curves.valid:
        return missing("Training", "This run holds no measurements of its training.")
    likelihood = has_likelihood(subject.model)
    judged = "held-out log-likelihood, nats per row" if likelihood else "minus the held-out objective"
    lead = paragraph(
        "The loss should fall and level off; the held-out value (higher is better) should rise and stay up. Where it"
        " falls again the model begins to overfit: the best step, marked, is the one that was kept.",
        kind="lead",
    )
    marks = [Mark(curves.best_step, f"best step {curves.best_step:,}", "best")]
    marks += [Mark(step, f"the guard went back: {why}", "back") for step, why in curves.went_back]
    charts = side_by_side(
        _chart(curves.loss, "training loss", "data", "training loss", marks),
        _chart(curves.valid, judged, "model", "held-out value", marks),
    )
    body = stacked(lead, _legend(curves), charts, folded("The numbers", _measurements(curves)))
    best = Tile("Best step", number(curves.best_step), f"of {number(curves.steps)}")
    return Section("Training", body, (_training_finding(curves, likelihood),), (best,))


def _chart(points: list[tuple[float, float]], label: str, kind: str, title: str, marks: list[Mark]) -> Html | None:
    if not points:
        return None
    first, last = points[0], points[-1]
    description = f"From {number(first[1])} at step {first[0]:,.0f} to {number(last[1])} at step {last[0]:,.0f}."
    lines = [Line(kind, points)]
    return line_chart(lines, x_label="step", y_label=label, title=title, description=description, marks=marks)


def _legend(curves: Curves) -> Html:
    items = [("data", "training loss"), ("model", "held-out value"), ("best", f"best step, {curves.best_step:,}")]
    return legend(*items, *([("back", "the guard went back")] if curves.went_back else []))


def _measurements(curves: Curves) -> Html:
    losses = dict(curves.loss)
    rows = [[f"{step:,.0f}", number(losses.get(step)), number(value)] for step, value in curves.valid]
    every = -(-len(rows) // LISTED)
    return table(["step", "loss", "held-out value"], rows[:: max(1, every)], numbers=(0, 1, 2), label="Training")


def _training_finding(curves: Curves, likelihood: bool) -> Finding:
    best = dict(curves.valid).get(float(curves.best_step))
    if curves.went_back:
        times = len(curves.went_back)
        unstable = f"The guard went back {times} time{'s' if times > 1 else ''}: the training was unstable"
        return Finding(False, f"{unstable}; take a smaller learning rate, or another objective.")
    if curves.best_step == curves.steps and curves.steps:
        return Finding(None, f"The last step, {curves.steps:,}, was the best: more steps may still help.")
    value = "" if best is None or not likelihood else f", at {number(best)} nats a row"
    return Finding(True, f"Training levelled off: of {curves.steps:,} steps, {curves.best_step:,} was the best{value}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def grids_section(subject: Subject) -> Section | None:
    """Held-out images beside draws of the kept weights, and the grids of earlier steps folded below."""
    if not subject.codec.has_grid:
        return None
    kept = [grid for grid in kept_grids(subject.run) if len(grid.png) <= LARGEST]
    title = "Images drawn"
    if not kept:
        return missing(title, "No grids were kept: this model has no quick way to draw.")
    data = subject.codec.grid(subject.judged[:COUNT].long().cpu()) or b""
    last = kept[-1]
    lead = paragraph(f"Left: {subject.judged_name}. Right: draws of the model.")
    pair = side_by_side(_figure(data, "the data"), _figure(last.png, f"draws, step {last.step:,}"))
    earlier = [_figure(grid.png, f"draws, step {grid.step:,}") for grid in kept[:-1]]
    more = folded("As the training went, from the same noise", earlier) if earlier else None
    return Section(title, stacked(lead, pair, more))


def _figure(png: bytes, caption: str) -> Html:
    image = tag("img", src=f"data:image/png;base64,{b64encode(png).decode()}", alt=f"A grid of images: {caption}")
    return tag("figure", image, tag("figcaption", caption))


def configuration_section(subject: Subject) -> Section:
    """The run, its data, its columns and every setting, from ``run.json``."""
    info, config = subject.run.info, subject.run.config
    about = [("id", info["id"]), ("created", info["created"]), ("seed", info["seed"])]
    about += [*flat(info["versions"], "versions."), *flat({**info["data"], "blanks": None}, "data.")]
    parts = {name: value for name, value in config.items() if isinstance(value, Mapping)}
    other = {name: value for name, value in config.items() if name not in parts}
    body = [paragraph("All that is needed to make this run again.", kind="lead")]
    body += [folded("Run and data", _facts(about, "Run and data"))]
    body += [folded(f"Settings: {name}", _facts(flat(value), name)) for name, value in parts.items()]
    body += [folded("Other settings", _facts(flat(other), "Other settings"))] if other else []
    return Section("Configuration", stacked(body, folded(f"Columns ({number(len(subject.names))})", _columns(subject))))


def _facts(lines: list[tuple[str, Any]], label: str) -> Html:
    return table(["setting", "value"], [(key, shortened(str(value), SETTING)) for key, value in lines], label=label)


def _columns(subject: Subject) -> Html:
    rows = []
    for name, kind, labels in subject.sites[:COLUMNS]:
        values = [shortened(label or "(blank)", 24) for label in labels[:VALUES]]
        more = ", …" if len(labels) > VALUES else ""
        rows.append([named(name), kind, number(len(labels)), ", ".join(values) + more])
    left = len(subject.sites) - len(rows)
    note = (
        paragraph(f"{count(left, 'more column')} not listed here; the show command lists all.", kind="note")
        if left
        else None
    )
    return stacked(table(["column", "kind", "size", "values"], rows, numbers=(2,), label="Columns"), note)
