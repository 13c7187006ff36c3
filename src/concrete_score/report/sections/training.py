"""How the training went: the loss, and what held-out rows said on the way."""

from typing import Any, NamedTuple

from concrete_score.report.charts import Line, Mark, line_chart
from concrete_score.report.html import Html
from concrete_score.report.numbers import number
from concrete_score.report.parts import (
    Section,
    Tile,
    Verdict,
    folded,
    legend,
    missing,
    paragraph,
    side_by_side,
    stacked,
    table,
)
from concrete_score.report.subject import Subject
from concrete_score.training.validation import has_likelihood

LISTED = 60


class Curves(NamedTuple):
    """What ``metrics.jsonl`` holds, by step."""

    loss: list[tuple[float, float]]
    valid: list[tuple[float, float]]
    went_back: list[tuple[float, str]]
    best_step: int
    steps: int


def read_curves(subject: Subject) -> Curves:
    """The measurements of the run."""
    lines = subject.run.journal.read()
    loss, valid, back = [], [], []
    for line in lines:
        step = float(line["step"])
        if "went_back_to" in line:
            back.append((step, str(line.get("why", ""))))
        if _is_number(line.get("loss")):
            loss.append((step, float(line["loss"])))
        if _is_number(line.get("valid")):
            valid.append((step, float(line["valid"])))
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
        " falls again the model begins to learn its rows by heart: the best step, marked, is the one that was kept.",
        kind="lead",
    )
    marks = [Mark(curves.best_step, f"best step {curves.best_step:,}", "best")]
    marks += [Mark(step, f"the guard went back: {why}", "back") for step, why in curves.went_back]
    pictures = side_by_side(
        _chart(curves.loss, "training loss", "data", "training loss", marks),
        _chart(curves.valid, judged, "model", "held-out value", marks),
    )
    body = stacked(lead, _legend(curves), pictures, folded("The numbers", _table(curves)))
    best = Tile("Best step", number(curves.best_step), f"of {number(curves.steps)}")
    return Section("Training", body, (_verdict(curves, likelihood),), (best,))


def _chart(points: list[tuple[float, float]], label: str, kind: str, title: str, marks: list[Mark]) -> Html | None:
    if not points:
        return None
    first, last = points[0], points[-1]
    words = f"From {number(first[1])} at step {first[0]:,.0f} to {number(last[1])} at step {last[0]:,.0f}."
    return line_chart([Line(kind, points)], x_label="step", y_label=label, title=title, words=words, marks=marks)


def _legend(curves: Curves) -> Html:
    items = [("data", "training loss"), ("model", "held-out value"), ("best", f"best step, {curves.best_step:,}")]
    return legend(*items, *([("back", "the guard went back")] if curves.went_back else []))


def _table(curves: Curves) -> Html:
    losses = dict(curves.loss)
    rows = [[f"{step:,.0f}", number(losses.get(step)), number(value)] for step, value in curves.valid]
    every = -(-len(rows) // LISTED)
    return table(["step", "loss", "held-out value"], rows[:: max(1, every)], numbers=(0, 1, 2), label="Training")


def _verdict(curves: Curves, likelihood: bool) -> Verdict:
    best = dict(curves.valid).get(float(curves.best_step))
    if curves.went_back:
        times = len(curves.went_back)
        said = f"The guard went back {times} time{'s' if times > 1 else ''}: the training was unstable"
        return Verdict(False, f"{said}; take a smaller --lr, or another objective.")
    if curves.best_step == curves.steps and curves.steps:
        return Verdict(None, f"The last step, {curves.steps:,}, was the best: more steps may still help.")
    value = "" if best is None or not likelihood else f", at {number(best)} nats a row"
    return Verdict(True, f"Training levelled off: of {curves.steps:,} steps, {curves.best_step:,} was the best{value}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
