"""Small charts in SVG: lines over steps, intervals, points against the diagonal. Colors come from the style sheet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

from concrete_score.report.html import Html, number, shortened, tag

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 28, 44
"""Room around the chart for its numbers and labels."""
POINTS = 400
"""Points of a line at most."""
MARGIN = 0.06
"""Of the range of numbers, left free at each end."""
COORDINATE = 1
"""Decimals of a place in the chart."""


class Line(NamedTuple):
    """A line by its points ``(x, y)``, drawn as its kind is in the style sheet."""

    kind: str
    points: Sequence[tuple[float, float]]


class Mark(NamedTuple):
    """A labelled place on the x axis."""

    x: float
    label: str
    kind: str = "mark"


class Dot(NamedTuple):
    """A point whose label is shown as its tooltip."""

    x: float
    y: float
    label: str


class Interval(NamedTuple):
    """A number and how far it is certain."""

    name: str
    value: float
    error: float
    kind: str


@dataclass(frozen=True)
class Scale:
    """From numbers to places in the chart.

    >>> Scale(0.0, 2.0, 50, 350)(1.0)
    200.0
    """

    low: int | float
    high: int | float
    start: int | float
    end: int | float

    def __call__(self, value: int | float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), COORDINATE)

    @classmethod
    def around(cls, values: Sequence[float], start: int | float, end: int | float) -> "Scale":
        """A scale that shows all values, with a margin; a single value gets a range of its own."""
        low, high = min(values), max(values)
        margin = (high - low) * MARGIN or max(abs(high) * 0.05, 0.5)
        return cls(low - margin, high + margin, start, end)


def line_chart(
    lines: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    title: str,
    description: str,
    marks: Sequence[Mark] = (),
) -> Html:
    """Lines over steps.

    Args:
        lines: each with at least one point; steps count from 0.
        x_label, y_label: what the axes are.
        title, description: what the chart is and what it shows, for screen readers.
        marks: places on the x axis.
    """
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    x = Scale(0.0, max(*xs, 1.0), LEFT, WIDTH - RIGHT)
    y = Scale.around(ys, HEIGHT - BOTTOM, TOP)
    drawn: list[object] = [_axes(x, y, x_label, y_label)]
    for mark in marks:
        ends = {"x1": x(mark.x), "x2": x(mark.x), "y1": TOP, "y2": HEIGHT - BOTTOM}
        drawn.append(tag("line", tag("title", mark.label), class_=mark.kind, **ends))
    for line in lines:
        points = _thinned(line.points)
        if len(points) > 1:
            places = " ".join(f"{x(a)},{y(b)}" for a, b in points)
            drawn.append(tag("polyline", class_=f"line {line.kind}", points=places))
        if len(points) <= 40:
            drawn += [tag("circle", class_=f"knot {line.kind}", cx=x(a), cy=y(b), r=2.2) for a, b in points]
    return _svg(drawn, HEIGHT, title, description)


def interval_chart(rows: Sequence[Interval], *, x_label: str, title: str, description: str) -> Html:
    """One line a row: a dot with two standard errors to each side."""
    left, top, step = 96, 6, 34
    height = top + step * len(rows) + BOTTOM
    ends = [row.value + side * 2 * row.error for row in rows for side in (-1, 1)]
    x = Scale.around(ends, left, WIDTH - RIGHT)
    drawn = [_x_axis(x, left, height, x_label)]
    for place, row in enumerate(rows):
        at = top + step * (place + 0.5)
        drawn += [
            tag("line", class_="guide", x1=left, x2=WIDTH - RIGHT, y1=at, y2=at),
            tag("text", row.name, x=left - 10, y=at + 4, text_anchor="end", class_="label"),
            tag(
                "line",
                class_=f"whisker {row.kind}",
                x1=x(row.value - 2 * row.error),
                x2=x(row.value + 2 * row.error),
                y1=at,
                y2=at,
            ),
            tag("circle", class_=f"knot {row.kind}", cx=x(row.value), cy=at, r=5),
        ]
    return _svg(drawn, height, title, description)


def scatter(
    dots: Sequence[Dot],
    *,
    x_label: str,
    y_label: str,
    title: str,
    description: str,
    most: float = 1.0,
    band: Callable[[float], float] | None = None,
) -> Html:
    """Points against the diagonal, on a square from 0 to ``most``.

    Args:
        dots: the points.
        x_label, y_label: what the axes are.
        title, description: what the chart is and what it shows, for screen readers.
        most: where both axes end.
        band: half the height of what chance allows around the diagonal, at each x.
    """
    height = 330
    x = Scale(0.0, most, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, most, height - BOTTOM, TOP)
    drawn: list[object] = [_axes(x, y, x_label, y_label, height)]
    if band is not None:
        grid = [most * k / 40 for k in range(41)]
        upper = [f"{x(v)},{y(min(most, v + band(v)))}" for v in grid]
        lower = [f"{x(v)},{y(max(0.0, v - band(v)))}" for v in reversed(grid)]
        drawn.append(tag("polygon", class_="band", points=" ".join(upper + lower)))
    drawn.append(tag("line", class_="diagonal", x1=x(0.0), y1=y(0.0), x2=x(most), y2=y(most)))
    drawn += [
        tag("circle", tag("title", dot.label), class_="dot", cx=x(dot.x), cy=y(min(dot.y, most)), r=3.4) for dot in dots
    ]
    return _svg(drawn, height, title, description)


def heat_map(
    names: Sequence[str], levels: Sequence[Sequence[tuple[int, str] | None]], title: str, description: str
) -> Html:
    """A square of colored cells.

    Args:
        names: of rows and columns alike.
        levels: of each cell ``(level, label)``; None is left empty. Levels are classes of the style sheet.
        title, description: what the chart is and what it shows, for screen readers.
    """
    left, top, count = 84, 72, len(names)
    side = min(30.0, (WIDTH - left - 6) / max(1, count))
    drawn = []
    for place, name in enumerate(names):
        middle = round(side * (place + 0.5), COORDINATE)
        short = shortened(name or "(blank)", 11)
        drawn.append(tag("text", short, x=left - 6, y=top + middle + 4, text_anchor="end", class_="label"))
        turn = f"translate({left + middle + 3} {top - 6}) rotate(-55)"
        drawn.append(tag("text", short, transform=turn, class_="label"))
    for row, cells in enumerate(levels):
        for column, cell in enumerate(cells):
            corner = {"x": round(left + side * column, COORDINATE), "y": round(top + side * row, COORDINATE)}
            size = {"width": round(side - 1, COORDINATE), "height": round(side - 1, COORDINATE)}
            if cell is not None:
                drawn.append(tag("rect", tag("title", cell[1]), class_=f"q{cell[0]}", **corner, **size))
    return _svg(drawn, round(top + side * count + 8), title, description)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from ``low`` to ``high``.

    >>> ticks(0.0, 1.0), ticks(-2.31, -2.22, 2)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [-2.3, -2.25])
    """
    if not (isfinite(low) and isfinite(high)) or high <= low:
        return [low]
    rough = (high - low) / max(1, count)
    power = 10.0 ** floor(log10(rough))
    step = min((power * unit for unit in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def tick_text(value: float, step: float) -> str:
    """A mark's number, with the digits its neighbors differ in.

    >>> tick_text(0.25, 0.05), tick_text(2000.0, 500.0), tick_text(12000.0, 4000.0)
    ('0.25', '2,000', '12k')
    """
    if step >= 1000 and value % 1000 == 0 and abs(value) >= 10_000:
        return f"{number(round(value / 1000))}k"
    return number(round(value)) if step >= 1 else number(value, max(0, -floor(log10(step) + 1e-9)))


def _axes(x: Scale, y: Scale, x_label: str, y_label: str, height: int = HEIGHT) -> list[Html]:
    marks = ticks(y.low, y.high, 4)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    drawn = [_x_axis(x, LEFT, height, x_label)]
    for value in marks:
        drawn.append(tag("line", class_="guide", x1=LEFT, x2=WIDTH - RIGHT, y1=y(value), y2=y(value)))
        drawn.append(tag("text", tick_text(value, step), x=LEFT - 7, y=y(value) + 4, text_anchor="end", class_="tick"))
    return [*drawn, tag("text", y_label, x=0, y=12)]


def _x_axis(x: Scale, left: int, height: int, label: str) -> Html:
    marks = ticks(x.low, x.high, 4)
    step = marks[1] - marks[0] if len(marks) > 1 else 1.0
    base = height - BOTTOM
    drawn = [tag("line", class_="axis", x1=left, x2=WIDTH - RIGHT, y1=base, y2=base)]
    for value in marks:
        drawn.append(tag("line", class_="axis", x1=x(value), x2=x(value), y1=base, y2=base + 4))
        edge = "end" if x(value) > WIDTH - RIGHT - 12 else "middle"
        drawn.append(tag("text", tick_text(value, step), x=x(value), y=base + 19, text_anchor=edge, class_="tick"))
    drawn.append(tag("text", label, x=(left + WIDTH - RIGHT) / 2, y=height - 4, text_anchor="middle"))
    return tag("g", drawn)


def _svg(drawn: Sequence[object], height: int, title: str, description: str) -> Html:
    return tag(
        "svg",
        tag("desc", description),
        drawn,
        class_="chart",
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_label=title,
    )


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """At most `POINTS` of them, the last one included."""
    if len(points) <= POINTS:
        return points
    step = -(-len(points) // (POINTS - 1))
    return [*points[:-1:step], points[-1]]
