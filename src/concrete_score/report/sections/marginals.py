"""How often each value of each column occurs, in the data and in rows drawn from the model."""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from concrete_score.baselines.counts import site_counts
from concrete_score.report.charts import Dot, scatter
from concrete_score.report.html import Html, tag
from concrete_score.report.numbers import count, number, percent
from concrete_score.report.parts import (
    Section,
    Verdict,
    bar_pair,
    legend,
    missing,
    named,
    paragraph,
    side_by_side,
    stacked,
    table,
)
from concrete_score.report.subject import Missing, Subject, most_telling

COLUMNS, VALUES, DOTS = 8, 6, 500
"""Shown at most: columns with bars, values of each, points."""
SMALL, CLEAR = 0.02, 4.0
"""A gap that is worth no word, and standard errors from which one is no accident."""


@dataclass(frozen=True, eq=False)
class Marginals:
    """Shares of each value ``(D, V)``, of rows and of draws."""

    data: Tensor
    sampled: Tensor
    rows: int
    draws: int

    @property
    def gap(self) -> Tensor:
        """``|data - sampled|`` ``(D, V)``."""
        return (self.data - self.sampled).abs()

    def error(self, share: float) -> float:
        """The standard error of a gap if there were none, where the share is this."""
        return sqrt(max(0.0, share * (1 - share)) * (1 / self.rows + 1 / self.draws))

    @property
    def distance(self) -> Tensor:
        """The total variation of each column ``(D,)``."""
        return self.gap.sum(-1) / 2


def measure_marginals(subject: Subject, draws: Tensor) -> Marginals:
    """All training rows beside the draws."""
    data, sampled = (site_counts(rows, subject.space) / len(rows) for rows in (subject.train, draws))
    return Marginals(data.cpu(), sampled.cpu(), len(subject.train), len(draws))


def marginals_section(subject: Subject) -> Section:
    """Points against the diagonal, and bars of the columns that differ most."""
    drawn = subject.draws
    if isinstance(drawn, Missing):
        return missing("Marginals", drawn.why)
    found = measure_marginals(subject, drawn.states)
    lead = paragraph(
        f"How often each value occurs among the {number(found.rows)} training rows, and among {number(found.draws)}"
        " rows drawn from the model. Points on the diagonal agree; within the grey band chance alone explains the gap.",
        kind="lead",
    )
    shown = most_telling(found.distance.tolist(), COLUMNS)
    left = len(subject.names) - len(shown)
    note = paragraph(
        f"Bars: the {len(shown)} that differ most; {count(left, 'other is', 'others are')} in the picture alone."
        if left
        else "Bars: every column.",
        kind="note",
    )
    doubts = [paragraph(words, kind="missing") for words in drawn.warnings]
    keys = legend(("data", "data"), ("model", "drawn from the model"))
    bars = tag("div", [_bars(subject, found, site) for site in shown], class_="grid")
    body = stacked(lead, doubts, side_by_side(_scatter(subject, found), _worst(subject, found)), keys, note, bars)
    verdict = Verdict(None, drawn.warnings[0]) if drawn.warnings else _verdict(subject, found)
    return Section("Marginals", body, (verdict,))


def _cells(found: Marginals, subject: Subject) -> list[tuple[float, int, int]]:
    """``(gap, site, value)`` of all that are worth a point, the largest first; of two values one says it all."""
    valid = torch.tensor(
        [[v < s and not (s == 2 and v == 0) for v in range(found.gap.shape[1])] for s in _sizes(subject)]
    )
    places = valid.nonzero()
    gaps = found.gap[valid]
    order = gaps.argsort(descending=True, stable=True)[:DOTS]
    return [(float(gaps[k]), int(places[k, 0]), int(places[k, 1])) for k in order.tolist()]


def _sizes(subject: Subject) -> tuple[int, ...]:
    return subject.space.sizes


def _scatter(subject: Subject, found: Marginals) -> Html:
    cells = _cells(found, subject)
    dots = [
        Dot(
            float(found.data[site, value]),
            float(found.sampled[site, value]),
            f"{subject.names[site][:40]} = {subject.label(site, value)[:40]}:"
            f" data {percent(float(found.data[site, value]))}, drawn {percent(float(found.sampled[site, value]))}",
        )
        for _, site, value in cells
    ]
    words = f"{len(dots)} values; the largest gap is {percent(cells[0][0] if cells else 0.0)}."
    return scatter(
        dots,
        x_label="share in the data",
        y_label="share among draws",
        title="Shares of values, data against draws",
        words=words,
        band=lambda share: 2 * found.error(share),
    )


def _worst(subject: Subject, found: Marginals) -> Html:
    rows = []
    for gap, site, value in _cells(found, subject)[:10]:
        data, sampled = float(found.data[site, value]), float(found.sampled[site, value])
        rows.append(
            [
                named(subject.names[site]),
                named(subject.label(site, value)),
                percent(data),
                percent(sampled),
                percent(gap),
            ]
        )
    head = ["largest gaps", "value", "data", "drawn", "gap"]
    return table(head, rows, numbers=(2, 3, 4), label="The largest gaps")


def _bars(subject: Subject, found: Marginals, site: int) -> Html:
    data, sampled = found.data[site], found.sampled[site]
    size = subject.space.sizes[site]
    shown = most_telling(torch.maximum(data, sampled)[:size].tolist(), VALUES)
    rows = [
        tag(
            "tr",
            tag("th", named(subject.label(site, value), 16), scope="row"),
            tag("td", bar_pair(float(data[value]), float(sampled[value])), class_="bar"),
            tag("td", tag("span", percent(float(data[value]))), class_="number"),
            tag("td", tag("span", percent(float(sampled[value]))), class_="number"),
        )
        for value in shown
    ]
    if size > len(shown):
        rows.append(tag("tr", tag("th", f"{size - len(shown):,} more values", scope="row", colspan=4, class_="muted")))
    head = [tag("th", word, scope="col", class_="unseen") for word in ("value", "both", "data", "drawn")]
    caption = tag("caption", named(subject.names[site]))
    return tag("table", caption, tag("thead", tag("tr", head)), tag("tbody", rows), class_="small")


def _verdict(subject: Subject, found: Marginals) -> Verdict:
    cells = _cells(found, subject)
    if not cells:
        return Verdict(None, "Every column has a single value.")
    gap, site, value = cells[0]
    where = f"{subject.names[site][:40]} = {subject.label(site, value)[:40]}"
    error = found.error((float(found.data[site, value]) + float(found.sampled[site, value])) / 2)
    told = f"the largest gap in how often a value occurs is {number(100 * gap, 1)} percentage points ({where})"
    if gap <= SMALL or gap <= CLEAR * error:
        return Verdict(True, f"Draws look like the data one column at a time: {told}.")
    return Verdict(False, f"Draws differ from the data: {told}.")
