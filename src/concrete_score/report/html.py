"""What a page is made of: markup, numbers, tables, notes and findings. Every text is escaped here, nowhere else."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, isnan, log10
from typing import Any, NamedTuple

from concrete_score.errors import printable

NAME, TOOLTIP = 28, 500
"""Characters shown of a column's name or value, and of it in the tooltip."""
MINUS, NONE = "−", "–"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_VOID = frozenset({"meta", "br", "img"})


class Html(str):
    """Text that is markup already. Only `tag` and `join` make it; joined with plain text it is plain text again."""

    __slots__ = ()


def text(value: object) -> Html:
    r"""Anything as text: control characters shown, not obeyed, and nothing left that could be markup.

    >>> text("<b>\x1b'")
    '&lt;b&gt;\\x1b&#x27;'
    """
    return value if isinstance(value, Html) else Html(escape(printable(str(value)), quote=True))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element; children and values of attributes are escaped unless they are markup.

    Args:
        name: of the element.
        children: texts, markup, or collections of them; None is left out.
        attributes: ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None and False are left out.

    >>> tag("p", "1 < 2", tag("b", "!"), class_="a\\"b")
    '<p class="a&quot;b">1 &lt; 2<b>!</b></p>'
    """
    pieces = [_name(name)]
    for key, value in attributes.items():
        if value is not None and value is not False:
            pieces.append(f'{_name(key.rstrip("_").replace("_", "-"))}="{text("" if value is True else value)}"')
    opened = f"<{' '.join(pieces)}>"
    return Html(opened if name in _VOID else f"{opened}{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Texts and markup, and collections of them, one after the other.

    >>> join(["a & b", [tag("i", "c")], None])
    'a &amp; b<i>c</i>'
    """
    return Html("".join(_flat(parts)))


def _flat(parts: Iterable[object]) -> Iterable[str]:
    for part in parts:
        if isinstance(part, str):
            yield text(part)
        elif isinstance(part, Iterable):
            yield join(part)
        elif part is not None:
            yield text(part)


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"no name of an element or attribute: {name!r}")
    return name


def shortened(value: str, most: int) -> str:
    """The beginning of a text that is too long.

    >>> shortened("dyspnoea", 5)
    'dysp…'
    """
    return value if len(value) <= most else value[: most - 1] + "…"


def number(value: float | int | None, digits: int = 4, sign: bool = False) -> str:
    """A number with a true minus sign; a dash for None.

    >>> number(-2.22704), number(0.5, 2, sign=True), number(None), number(float("-inf")), number(12_000)
    ('−2.2270', '+0.50', '–', '−∞', '12,000')
    """
    if value is None or isnan(value):
        return NONE
    if not isfinite(value):
        return f"{MINUS if value < 0 else ''}∞"
    shown = f"{abs(value):,}" if isinstance(value, int) else f"{abs(value):,.{digits}f}"
    zero = not any(digit in "123456789" for digit in shown)
    return f"{MINUS if value < 0 and not zero else '+' if sign and not zero else ''}{shown}"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{number(100 * share, digits)} %"


def significant(value: float | None, digits: int = 3) -> str:
    """A number to so many significant digits.

    >>> significant(0.00123456), significant(-1234.5), significant(2.0)
    ('0.00123', '−1,234', '2')
    """
    if value is None or not isfinite(value) or value == 0:
        return "0" if value == 0 else number(value)
    places = digits - 1 - floor(log10(abs(value)))
    if places > 12:
        return f"{value:.{digits - 1}e}".replace("-", MINUS)
    shown = number(float(value), max(0, places))
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def count(many: int, one: str, more: str | None = None) -> str:
    """A number and its noun, singular or plural.

    >>> count(1, "column"), count(1200, "column")
    ('1 column', '1,200 columns')
    """
    return f"{number(many)} {one if many == 1 else more or one + 's'}"


@dataclass(frozen=True)
class Finding:
    """One sentence for the overview; ``good`` is None where nothing can be said."""

    good: bool | None
    text: str


class Tile(NamedTuple):
    """A large number for the overview, with its unit or error as a note."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Section:
    """A part of the page under its own heading."""

    title: str
    body: Html
    findings: tuple[Finding, ...] = ()
    """Shown in the overview, like the tiles."""
    tiles: tuple[Tile, ...] = ()

    @property
    def anchor(self) -> str:
        """The title as the ``id`` that links lead to."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.title.lower()).split())


MakeSection = Callable[[Any], Section | None]
"""From what is reported on to a section; None where it has no place in this report."""


def paragraph(*content: object, kind: str | None = None) -> Html:
    """Running text; ``kind`` is a class of the style sheet: lead, note or missing."""
    return tag("p", content, class_=kind)


def missing(title: str, why: str) -> Section:
    """A section that says why it is empty."""
    return Section(title, paragraph(why, kind="missing"))


def named(name: str, most: int = NAME) -> Html:
    """An untrusted name or value, cut where it is long, more of it in its tooltip; an empty one is called blank."""
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
        label: what the table is, for screen readers.
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
    """Content that is hidden until its summary is clicked."""
    return tag("details", tag("summary", summary), body)


def side_by_side(*parts: object) -> Html:
    """Side by side on a wide screen, one under the other on a narrow one."""
    return tag("div", [tag("div", part) for part in parts if part is not None], class_="pair")


def legend(*items: tuple[str, str]) -> Html:
    """What each color stands for: ``(kind, label)``."""
    return tag("ul", [tag("li", tag("i", class_=f"key {kind}"), label) for kind, label in items], class_="legend")


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


def finding_list(findings: Iterable[Finding]) -> Html:
    """Findings as a list, each with a sign, and a word for it for screen readers."""
    signs = {True: ("good", "✓", "good"), False: ("bad", "!", "look here"), None: ("open", "–", "not known")}

    def line(finding: Finding) -> Html:
        kind, sign, word = signs[finding.good]
        mark = tag("span", tag("span", sign, aria_hidden="true"), tag("span", word, class_="unseen"), class_="sign")
        return tag("li", mark, tag("span", finding.text), class_=kind)

    return tag("ul", [line(finding) for finding in findings], class_="verdicts")


def tile_list(facts: Sequence[Tile]) -> Html:
    """Large numbers side by side."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", name), tag("dd", tag("b", value), tag("small", note)), class_="tile")
            for name, value, note in facts
        ],
        class_="tiles",
    )


def stacked(*parts: object) -> Html:
    """`join` of arguments: one part after the other."""
    return join(parts)
