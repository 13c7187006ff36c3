"""How much columns tell of each other, in the data and in rows drawn from the model."""

from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_score.baselines.counts import site_counts
from concrete_score.baselines.trees import mutual_information
from concrete_score.report.charts import Dot, heat_map, scatter
from concrete_score.report.html import Html, tag
from concrete_score.report.numbers import count, number, significant
from concrete_score.report.parts import (
    Section,
    Verdict,
    folded,
    missing,
    paragraph,
    side_by_side,
    stacked,
    table,
)
from concrete_score.report.subject import Missing, Subject, most_telling
from concrete_score.spaces import Space

WIDTH = 2048
"""Values of all columns together whose pairs are counted."""
WIDEST = 512
"""Values of a column beyond which it is left out."""
SHOWN, DOTS, LISTED = 16, 400, 20
"""Columns of the heat map, points, and lines of the table."""
LEVELS = 7
SMALL = 0.01
"""Nats: a typical gap that is worth no word."""


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
    sites = _columns(subject)
    if len(sites) < 2:
        return Missing("There are no two columns that vary and have few enough values to be held against each other.")
    halves = len(subject.train) >= 2 * min(len(draws), 200)
    count = min(len(draws), len(subject.train) // 2 if halves else len(subject.train))
    order = torch.randperm(len(subject.train), generator=subject.generator("halves"), device=subject.train.device)
    space = Space(tuple(subject.space.sizes[site] for site in sites))
    at = torch.tensor(sites, device=subject.train.device)

    def told(rows: Tensor) -> Tensor:
        return mutual_information(rows[:, at].long(), space, 0.0).cpu()

    data, sampled = told(subject.train[order[:count]]), told(draws[:count])
    floor = None
    if halves:
        one, other = torch.triu_indices(len(sites), len(sites), 1)
        again = told(subject.train[order[count : 2 * count]])
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
    doubts = [paragraph(words, kind="missing") for words in drawn.warnings]
    pictures = side_by_side(_heat(subject, found), _scatter(subject, found))
    body = stacked(
        lead, doubts, pictures, paragraph(" ".join(notes), kind="note"), folded("The numbers", _table(subject, found))
    )
    # Draws that are not the model's say nothing of it; the section on marginals says so for both.
    return Section(title, body, () if drawn.warnings else (_verdict(subject, found),))


def _columns(subject: Subject) -> list[int]:
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
    shown = most_telling(off.amax(-1).tolist(), SHOWN)
    names = [subject.names[found.sites[place]] for place in shown]
    top = max(1e-9, *(float(found.data[a, b]) for a in shown for b in shown if a != b))

    def cell(row: int, column: int) -> tuple[int, str] | None:
        a, b = shown[row], shown[column]
        if a == b:
            return None
        value = float((found.data if row < column else found.sampled)[a, b])
        told = f"data {_nats(found.data[a, b])}, drawn {_nats(found.sampled[a, b])}"
        return min(LEVELS, round(LEVELS * value / top)), f"{_pair(subject, found, a, b)}: {told}"

    cells = [[cell(row, column) for column in range(len(shown))] for row in range(len(shown))]
    picture = heat_map(names, cells, "Mutual information", "Upper right: the data. Lower left: the draws.")
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
    return stacked(picture, scale, None if note is None else paragraph(note, kind="note"))


def _scatter(subject: Subject, found: Dependence) -> Html:
    one, other, gap = found.pairs
    data, sampled = found.data[one, other], found.sampled[one, other]
    # The strongest pairs, and those that differ most.
    worth = torch.maximum(data, sampled)
    chosen = {*worth.argsort(descending=True)[:DOTS].tolist(), *gap.argsort(descending=True)[: DOTS // 4].tolist()}
    dots = [
        Dot(
            float(data[k]),
            float(sampled[k]),
            f"{_pair(subject, found, int(one[k]), int(other[k]))}: data {_nats(data[k])}, drawn {_nats(sampled[k])}",
        )
        for k in sorted(chosen)
    ]
    most = max(1e-6, float(worth.max())) * 1.05
    words = f"{len(dots)} of {len(one)} pairs; the typical gap is {significant(found.typical)} nats."
    picture = scatter(
        dots,
        x_label="nats in the data",
        y_label="nats among draws",
        title="Mutual information of pairs",
        words=words,
        most=most,
    )
    if len(dots) == len(one):
        return picture
    return stacked(
        picture,
        paragraph(f"The {number(len(dots))} strongest and most different of {number(len(one))} pairs.", kind="note"),
    )


def _table(subject: Subject, found: Dependence) -> Html:
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


def _verdict(subject: Subject, found: Dependence) -> Verdict:
    one, other, gap = found.pairs
    worst = int(gap.argmax())
    told = (
        f"a pair's mutual information typically differs by {significant(found.typical, 2)} nats, at most by"
        f" {significant(float(gap[worst]), 2)} ({_pair(subject, found, int(one[worst]), int(other[worst]))})"
    )
    chance = "" if found.floor is None else f"; between two halves of the data it is {significant(found.floor, 2)}"
    good = found.typical <= SMALL or (found.floor is not None and found.typical <= 2 * found.floor)
    if good:
        return Verdict(True, f"Draws look like the data two columns at a time: {told}{chance}.")
    return Verdict(False, f"Draws miss some dependence: {told}{chance}.")
