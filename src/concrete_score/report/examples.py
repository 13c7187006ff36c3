"""Example rows as a heat map: what the best other value of each cell would do to the row's probability."""

from dataclasses import dataclass
from math import isfinite, log

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.neighborhoods import hamming
from concrete_score.protocols import Neighborhood
from concrete_score.report.html import (
    Html,
    Section,
    count,
    folded,
    legend,
    missing,
    named,
    number,
    paragraph,
    scroll,
    stacked,
    table,
    tag,
)
from concrete_score.report.subject import Missing, Subject, most_telling
from concrete_score.samplers.base import all_edits

CANDIDATES, STRANGE, USUAL, COLUMNS = 400, 8, 4, 20
"""Rows looked at, of which the strangest and some others are shown, and columns shown."""
SECONDS = 3.0
STEPS = (-log(100), -log(10), 0.0, log(10), log(100))
"""Where the colors change, in log-ratios."""
KINDS = ("cool3", "cool2", "cool1", "hot1", "hot2", "hot3")
LABELS = (
    "over 100 times less probable",
    "10 to 100 times less",
    "less probable",
    "more probable",
    "10 to 100 times more",
    "over 100 times more probable",
)
LISTED = 12


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows ``(R, D)``, for each cell the best other value and its log-ratio ``(R, D)``, -inf where there is none."""

    rows: Tensor
    value: Tensor
    log_ratio: Tensor
    strange: int
    """How many of them, the first, are the strangest."""
    looked: int
    """Rows they were chosen from."""


@torch.no_grad()
def measure_examples(subject: Subject) -> Examples | Missing:
    """The rows that some single change would make likeliest, and a few others at random."""
    changes = hamming(subject.space)
    if not changes.num_slots:
        return Missing("No cell has another value.")
    most = subject.effort.within(SECONDS, 0, CANDIDATES, each=_states_asked(subject, changes))
    if not most:
        return Missing(
            "A row has so many single changes that this model takes long to weigh them: the explain command does."
        )
    rows = torch.unique(subject.some(subject.judged, most, "examples").long(), dim=0)
    if subject.is_density:
        rows = rows[subject.model.log_density(rows).isfinite()]
    if not len(rows):
        return Missing("Every row that was looked at is impossible under the model, so it has no ratios.")
    try:
        value, ratio = best_changes(subject, rows)
    except InputError as refusal:
        return Missing(f"The ratios of single changes could not be had: {refusal}.")
    order = ratio.amax(-1).argsort(descending=True, stable=True)
    rest = order[STRANGE:].sort().values
    rest = rest[torch.randperm(len(rest), generator=subject.generator("usual"), device=rest.device)[:USUAL]]
    chosen = torch.cat([order[:STRANGE], rest])
    return Examples(rows[chosen], value[chosen], ratio[chosen], min(STRANGE, len(order)), len(rows))


def best_changes(subject: Subject, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The other value of each cell that makes its row likeliest, and the log-ratio ``(N, D)`` each."""
    changes = hamming(subject.space)
    ratios = subject.fitted.log_ratios(rows, changes).double()
    site, value = all_edits(changes, rows)
    table = ratios.new_full((len(rows), subject.space.num_sites, max(subject.space.sizes)), -torch.inf)
    table[torch.arange(len(rows), device=rows.device)[:, None], site, value] = ratios
    best = table.max(-1)
    return best.indices, best.values


def _states_asked(subject: Subject, changes: Neighborhood) -> int:
    """How often the model is asked for a row's ratios: once, once a change, or along two paths for each change."""
    if subject.is_density:
        return changes.num_slots
    return 1 if subject.model.neighborhood == changes else 2 * changes.num_slots * subject.space.num_sites


def examples_section(subject: Subject) -> Section:
    """The rows as a colored table, and their largest ratios."""
    title = "Example rows"
    found = measure_examples(subject)
    if isinstance(found, Missing):
        return missing(title, found.why)
    shown = most_telling(found.log_ratio.amax(0).tolist(), COLUMNS)
    left = len(subject.names) - len(shown)
    usual = len(found.rows) - found.strange
    lead = paragraph(
        "Each cell is colored by what its best other value would do to the row's probability, as the explain"
        " command finds it. Blue cells fit their row; an orange one looks like a mistake, or like something new.",
        kind="lead",
    )
    note = (
        f"The {found.strange} rows that a single change would make likelier by most, of {number(found.looked)} distinct"
        f" {subject.judged_name} looked at" + (f", then {usual} others at random." if usual else ".")
    )
    if left:
        note += f" {count(left, 'column', 'columns')} with smaller ratios {'is' if left == 1 else 'are'} not shown."
    keys = legend(*zip(KINDS, LABELS, strict=True))
    body = stacked(lead, keys, _heat(subject, found, shown), paragraph(note, kind="note"))
    return Section(title, stacked(body, folded("The largest ratios", _table(subject, found))))


def kind_of(log_ratio: float) -> str | None:
    """The color of a ratio; None where a cell has no other value.

    >>> kind_of(5.0), kind_of(-0.1), kind_of(0.0)
    ('hot3', 'cool1', 'cool1')
    """
    if log_ratio == float("-inf"):
        return None
    return KINDS[sum(log_ratio > step for step in STEPS)]


def _heat(subject: Subject, found: Examples, shown: list[int]) -> Html:
    head = [tag("th", named(subject.names[site], 14), scope="col") for site in shown]
    lines = []
    for place, row in enumerate(found.rows):
        cells = [_cell(subject, found, place, site, int(row[site])) for site in shown]
        lines.append(tag("tr", tag("th", str(place + 1), scope="row"), cells))
    top = tag("tr", tag("th", "row", scope="col"), head)
    return scroll(tag("table", tag("thead", top), tag("tbody", lines), class_="heat"), "Example rows")


def _cell(subject: Subject, found: Examples, place: int, site: int, value: int) -> Html:
    ratio = float(found.log_ratio[place, site])
    change = _change(subject, found, place, site, value)
    other = None if subject.space.sizes[site] < 2 else f"{change}: log-ratio {number(ratio, 2, sign=True)}"
    # An impossible other value leaves the cell as well founded as can be.
    kind = kind_of(ratio) or ("cool3" if subject.space.sizes[site] > 1 else None)
    return tag("td", named(subject.label(site, value), 12), class_=kind, title=other)


def _change(subject: Subject, found: Examples, place: int, site: int, value: int) -> str:
    after = subject.label(site, int(found.value[place, site]))
    return f"{subject.label(site, value)[:40] or '(blank)'} → {after[:40] or '(blank)'}"


def _table(subject: Subject, found: Examples) -> Html:
    sites = subject.space.num_sites
    rows = []
    for at in found.log_ratio.flatten().argsort(descending=True, stable=True)[:LISTED].tolist():
        place, site = divmod(at, sites)
        ratio = float(found.log_ratio[place, site])
        if isfinite(ratio):
            change = _change(subject, found, place, site, int(found.rows[place, site]))
            rows.append([str(place + 1), named(subject.names[site]), change, number(ratio, 3, sign=True)])
    return table(["row", "column", "change", "log-ratio"], rows, numbers=(0, 3), label="The largest ratios")
