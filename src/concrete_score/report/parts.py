"""What sections are made of besides charts: tables, bars beside each other, legends, notes and verdicts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from concrete_score.report.html import Html, join, shortened, tag

NAME = 28
"""Letters of a column's name or value that are shown."""
TOOLTIP = 500
"""Letters of it in the tooltip."""


@dataclass(frozen=True)
class Verdict:
    """One sentence for the overview; ``good`` is None where nothing can be said."""

    good: bool | None
    words: str


class Tile(NamedTuple):
    """A large number for the overview."""

    name: str
    value: str
    words: str


@dataclass(frozen=True)
class Section:
    """A part of the page under its own heading."""

    title: str
    body: Html
    verdicts: tuple[Verdict, ...] = ()
    """For the overview."""
    tiles: tuple[Tile, ...] = ()
    """Likewise."""

    @property
    def anchor(self) -> str:
        """Where links lead."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


MakeSection = Callable[[Any], Section | None]
"""From what is reported on to a section; None where it has no place in this report."""


def paragraph(*words: object, kind: str | None = None) -> Html:
    """Running text."""
    return tag("p", words, class_=kind)


def missing(title: str, why: str) -> Section:
    """A section that says why it is empty."""
    return Section(title, paragraph(why, kind="missing"))


def named(name: str, most: int = NAME) -> Html:
    """A stranger's word, cut where it is long, whole in its tooltip; an empty one is called blank."""
    if not name:
        return tag("span", "(blank)", class_="muted")
    short = shortened(name, most)
    return tag("span", short, title=shortened(name, TOOLTIP) if short != name else None, class_="name")


def table(
    head: Sequence[object], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = (), label: str = ""
) -> Html:
    """A table that scrolls sideways where it is too wide.

    Args:
        head: one heading a column.
        rows: their cells, the first of which is the row's heading.
        numbers: columns of numbers, set to the right.
        label: what the table is, for those who do not see it.
    """

    def kind(place: int) -> str | None:
        return "number" if place in numbers else None

    def line(cells: Sequence[object]) -> Html:
        first = tag("th", cells[0], scope="row", class_=kind(0))
        return tag("tr", first, [tag("td", cell, class_=kind(k)) for k, cell in enumerate(cells[1:], 1)])

    top = tag("tr", [tag("th", each, scope="col", class_=kind(k)) for k, each in enumerate(head)])
    body = tag("table", tag("thead", top), tag("tbody", [line(row) for row in rows]))
    return scroll(body, label or " ".join(str(each) for each in head[:1]))


def scroll(body: Html, label: str) -> Html:
    """What may be wider than the screen; reached and moved by the keyboard too."""
    return tag("div", body, class_="scroll", tabindex="0", role="region", aria_label=label)


def folded(summary: str, *body: object) -> Html:
    """What is there for those who want it."""
    return tag("details", tag("summary", summary), body)


def side_by_side(*parts: object) -> Html:
    """Two on a desk, one under the other on a phone."""
    return tag("div", [tag("div", part) for part in parts if part is not None], class_="pair")


def legend(*items: tuple[str, str]) -> Html:
    """Words beside the colors they stand for: ``(kind, words)``."""
    return tag("ul", [tag("li", tag("i", class_=f"key {kind}"), words) for kind, words in items], class_="legend")


def bar_pair(first: float, second: float, most: float = 1.0) -> Html:
    """Two bars one above the other, data above and draws below, of shares of ``most``."""
    scale = 100 / most if most > 0 else 0.0
    return tag(
        "svg",
        tag("rect", class_="data", x=0, y=0, width=f"{first * scale:.2f}", height=5),
        tag("rect", class_="model", x=0, y=6, width=f"{second * scale:.2f}", height=5),
        class_="bars",
        viewBox="0 0 100 11",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def sentences(verdicts: Iterable[Verdict]) -> Html:
    """Verdicts as a list, each with a sign and a word for what it is."""
    signs = {True: ("good", "✓", "good"), False: ("bad", "!", "look here"), None: ("open", "–", "not known")}

    def line(verdict: Verdict) -> Html:
        kind, sign, word = signs[verdict.good]
        mark = tag("span", tag("span", sign, aria_hidden="true"), tag("span", word, class_="unseen"), class_="sign")
        return tag("li", mark, tag("span", verdict.words), class_=kind)

    return tag("ul", [line(verdict) for verdict in verdicts], class_="verdicts")


def tiles(facts: Sequence[Tile]) -> Html:
    """Large numbers side by side."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", name), tag("dd", tag("b", value), tag("small", words)), class_="tile")
            for name, value, words in facts
        ],
        class_="tiles",
    )


def stacked(*parts: object) -> Html:
    """One after the other."""
    return join(parts)
