"""Rows drawn from the model beside the data: how often values occur, and how much columns tell of each other."""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from concrete_score.baselines.chow_liu import mutual_information
from concrete_score.baselines.counts import site_counts
from concrete_score.report.charts import Dot, heat_map, scatter
from concrete_score.report.html import (
    Finding,
    Html,
    Section,
    bar_pair,
    count,
    folded,
    legend,
    missing,
    named,
    number,
    paragraph,
    percent,
    side_by_side,
    significant,
    stacked,
    table,
    tag,
)
from concrete_score.report.subject import Missing, Subject, most_telling
from concrete_score.spaces import Space

BAR_COLUMNS, BAR_VALUES, VALUE_DOTS = 8, 6, 500
"""Shown at most of the marginals: columns with bars, values of each, points."""
SMALL_GAP, CLEAR = 0.02, 4.0
"""A gap too small to report, and standard errors from which one is no accident."""

WIDTH = 2048
"""Values of all columns together whose pairs are counted."""
WIDEST = 512
"""Values of a column beyond which it is left out."""
HEAT_COLUMNS, PAIR_DOTS, LISTED = 16, 400, 20
"""Shown at most of the dependence: columns of the heat map, points, and lines of the table."""
LEVELS = 7
SMALL_NATS = 0.01
"""A typical gap too small to report."""


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
    shown = most_telling(found.distance.tolist(), BAR_COLUMNS)
    left = len(subject.names) - len(shown)
    note = paragraph(
        f"Bars: the {len(shown)} that differ most; {count(left, 'other is', 'others are')} in the chart alone."
        if left
        else "Bars: every column.",
        kind="note",
    )
    warnings = [paragraph(warning, kind="missing") for warning in drawn.warnings]
    keys = legend(("data", "data"), ("model", "drawn from the model"))
    bars = tag("div", [_bars(subject, found, site) for site in shown], class_="grid")
    body = stacked(
        lead, warnings, side_by_side(_value_scatter(subject, found), _worst_gaps(subject, found)), keys, note, bars
    )
    finding = Finding(None, drawn.warnings[0]) if drawn.warnings else _marginals_finding(subject, found)
    return Section("Marginals", body, (finding,))


def _cells(found: Marginals, subject: Subject) -> list[tuple[float, int, int]]:
    """``(gap, site, value)`` of the largest gaps, in descending order; of two values one says it all."""
    valid = torch.tensor(
        [[v < s and not (s == 2 and v == 0) for v in range(found.gap.shape[1])] for s in subject.space.sizes]
    )
    places = valid.nonzero()
    gaps = found.gap[valid]
    order = gaps.argsort(descending=True, stable=True)[:VALUE_DOTS]
    return [(float(gaps[k]), int(places[k, 0]), int(places[k, 1])) for k in order.tolist()]


def _value_scatter(subject: Subject, found: Marginals) -> Html:
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
    description = f"{len(dots)} values; the largest gap is {percent(cells[0][0] if cells else 0.0)}."
    return scatter(
        dots,
        x_label="share in the data",
        y_label="share among draws",
        title="Shares of values, data against draws",
        description=description,
        band=lambda share: 2 * found.error(share),
    )


def _worst_gaps(subject: Subject, found: Marginals) -> Html:
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
    shown = most_telling(torch.maximum(data, sampled)[:size].tolist(), BAR_VALUES)
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
    head = [tag("th", title, scope="col", class_="unseen") for title in ("value", "both", "data", "drawn")]
    caption = tag("caption", named(subject.names[site]))
    return tag("table", caption, tag("thead", tag("tr", head)), tag("tbody", rows), class_="small")


def _marginals_finding(subject: Subject, found: Marginals) -> Finding:
    cells = _cells(found, subject)
    if not cells:
        return Finding(None, "Every column has a single value.")
    gap, site, value = cells[0]
    where = f"{subject.names[site][:40]} = {subject.label(site, value)[:40]}"
    error = found.error((float(found.data[site, value]) + float(found.sampled[site, value])) / 2)
    text = f"the largest gap in how often a value occurs is {number(100 * gap, 1)} percentage points ({where})"
    if gap <= SMALL_GAP or gap <= CLEAR * error:
        return Finding(True, f"Draws look like the data one column at a time: {text}.")
    return Finding(False, f"Draws differ from the data: {text}.")


@dataclass(frozen=True, eq=False)
class Dependence:
    """Mutual information in nats between the columns ``sites``, from equally many rows each."""

    sites: list[int]
    data: Tensor
    sampled: Tensor
    floor: float | None
    """The typical difference between two halves of the data, which is what chance gives; None without enough rows."""
    rows: int

    @property
    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """The pairs of places and how much they differ, each pair once."""
        one, other = torch.triu_indices(len(self.sites), len(self.sites), 1)
        return one, other, (self.data - self.sampled).abs()[one, other]

    @property
    def typical(self) -> float:
        """The root mean square difference."""
        return float(self.pairs[2].square().mean().sqrt())


def measure_dependence(subject: Subject, draws: Tensor) -> Dependence | Missing:
    """Of the columns that vary most, as many as can be counted; fewer rows make more of chance, so they are equal."""
    sites = _varied_columns(subject)
    if len(sites) < 2:
        return Missing("There are no two columns that vary and have few enough values to be held against each other.")
    halves = len(subject.train) >= 2 * min(len(draws), 200)
    count = min(len(draws), len(subject.train) // 2 if halves else len(subject.train))
    order = torch.randperm(len(subject.train), generator=subject.generator("halves"), device=subject.train.device)
    space = Space(tuple(subject.space.sizes[site] for site in sites))
    at = torch.tensor(sites, device=subject.train.device)

    def information(rows: Tensor) -> Tensor:
        return mutual_information(rows[:, at].long(), space, 0.0).cpu()

    data, sampled = information(subject.train[order[:count]]), information(draws[:count])
    floor = None
    if halves:
        one, other = torch.triu_indices(len(sites), len(sites), 1)
        again = information(subject.train[order[count : 2 * count]])
        floor = float((data - again)[one, other].square().mean().sqrt())
    return Dependence(sites, data, sampled, floor, count)


def dependence_section(subject: Subject) -> Section:
    """A heat map of the most telling columns, and all pairs against the diagonal."""
    title = "Pairwise dependence"
    drawn = subject.draws
    if isinstance(drawn, Missing):
        return missing(title, drawn.why)
    found = measure_dependence(subject, drawn.states)
    if isinstance(found, Missing):
        return missing(title, found.why)
    lead = paragraph(
        "How much one column tells of another: mutual information in nats, 0 where they are independent. The upper"
        " right half is the data, the lower left the draws: a good model is its own mirror image, and its points lie on"
        " the diagonal.",
        kind="lead",
    )
    left = len(subject.names) - len(found.sites)
    notes = [f"Both from {number(found.rows)} rows, for with fewer rows chance makes more dependence."]
    if left:
        what = "the one that varies least" if left == 1 else "those that vary least"
        notes.append(f"{count(left, 'column is', 'columns are')} left out: {what}, or with very many values.")
    warnings = [paragraph(warning, kind="missing") for warning in drawn.warnings]
    charts = side_by_side(_heat(subject, found), _pair_scatter(subject, found))
    body = stacked(
        lead,
        warnings,
        charts,
        paragraph(" ".join(notes), kind="note"),
        folded("The numbers", _pair_table(subject, found)),
    )
    # Draws with warnings say nothing of the model; the section on marginals says so for both.
    return Section(title, body, () if drawn.warnings else (_dependence_finding(subject, found),))


def _varied_columns(subject: Subject) -> list[int]:
    """The columns that vary most, by entropy, as far as their values fit."""
    shares = site_counts(subject.train, subject.space) / len(subject.train)
    entropy = -torch.xlogy(shares, shares).sum(-1)
    chosen, width = [], 0
    for site in entropy.argsort(descending=True, stable=True).tolist():
        size = subject.space.sizes[site]
        if entropy[site] > 0 and size <= WIDEST and width + size <= WIDTH:
            chosen.append(site)
            width += size
    return sorted(chosen)


def _heat(subject: Subject, found: Dependence) -> Html:
    off = found.data - found.data.diag().diag()
    shown = most_telling(off.amax(-1).tolist(), HEAT_COLUMNS)
    names = [subject.names[found.sites[place]] for place in shown]
    top = max(1e-9, *(float(found.data[a, b]) for a in shown for b in shown if a != b))

    def cell(row: int, column: int) -> tuple[int, str] | None:
        a, b = shown[row], shown[column]
        if a == b:
            return None
        value = float((found.data if row < column else found.sampled)[a, b])
        both = f"data {_nats(found.data[a, b])}, drawn {_nats(found.sampled[a, b])}"
        return min(LEVELS, round(LEVELS * value / top)), f"{_pair(subject, found, a, b)}: {both}"

    cells = [[cell(row, column) for column in range(len(shown))] for row in range(len(shown))]
    chart = heat_map(names, cells, "Mutual information", "Upper right: the data. Lower left: the draws.")
    scale = tag(
        "div",
        tag("span", "0"),
        [tag("i", class_=f"q{level}") for level in range(LEVELS + 1)],
        tag("span", f"{significant(top, 2)} nats"),
        class_="scale",
    )
    left = len(found.sites) - len(shown)
    note = (
        f"The {len(shown)} columns that depend most on another; {count(left, 'other is', 'others are')} not drawn."
        if left
        else None
    )
    return stacked(chart, scale, None if note is None else paragraph(note, kind="note"))


def _pair_scatter(subject: Subject, found: Dependence) -> Html:
    one, other, gap = found.pairs
    data, sampled = found.data[one, other], found.sampled[one, other]
    # The strongest pairs, and those that differ most.
    worth = torch.maximum(data, sampled)
    chosen = {
        *worth.argsort(descending=True)[:PAIR_DOTS].tolist(),
        *gap.argsort(descending=True)[: PAIR_DOTS // 4].tolist(),
    }
    dots = [
        Dot(
            float(data[k]),
            float(sampled[k]),
            f"{_pair(subject, found, int(one[k]), int(other[k]))}: data {_nats(data[k])}, drawn {_nats(sampled[k])}",
        )
        for k in sorted(chosen)
    ]
    most = max(1e-6, float(worth.max())) * 1.05
    description = f"{len(dots)} of {len(one)} pairs; the typical gap is {significant(found.typical)} nats."
    chart = scatter(
        dots,
        x_label="nats in the data",
        y_label="nats among draws",
        title="Mutual information of pairs",
        description=description,
        most=most,
    )
    if len(dots) == len(one):
        return chart
    return stacked(
        chart,
        paragraph(f"The {number(len(dots))} strongest and most different of {number(len(one))} pairs.", kind="note"),
    )


def _pair_table(subject: Subject, found: Dependence) -> Html:
    one, other, gap = found.pairs
    rows = [
        [
            _pair(subject, found, int(one[k]), int(other[k])),
            significant(float(found.data[one[k], other[k]])),
            significant(float(found.sampled[one[k], other[k]])),
            significant(float(gap[k])),
        ]
        for k in gap.argsort(descending=True)[:LISTED].tolist()
    ]
    return table(["columns that differ most", "data", "drawn", "gap"], rows, numbers=(1, 2, 3), label="Dependence")


def _pair(subject: Subject, found: Dependence, one: int, other: int) -> str:
    return " and ".join(subject.names[found.sites[place]][:40] for place in (one, other))


def _nats(value: Tensor) -> str:
    return significant(float(value))


def _dependence_finding(subject: Subject, found: Dependence) -> Finding:
    one, other, gap = found.pairs
    worst = int(gap.argmax())
    text = (
        f"a pair's mutual information typically differs by {significant(found.typical, 2)} nats, at most by"
        f" {significant(float(gap[worst]), 2)} ({_pair(subject, found, int(one[worst]), int(other[worst]))})"
    )
    chance = "" if found.floor is None else f"; between two halves of the data it is {significant(found.floor, 2)}"
    good = found.typical <= SMALL_NATS or (found.floor is not None and found.typical <= 2 * found.floor)
    if good:
        return Finding(True, f"Draws look like the data two columns at a time: {text}{chance}.")
    return Finding(False, f"Draws miss some dependence: {text}{chance}.")
