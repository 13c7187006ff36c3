"""Directed graphs as plots: where the states of a space sit, how edges are drawn, and the colors of all plots."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from math import cos, hypot, pi, sin
from typing import TYPE_CHECKING

from concrete_score.spaces import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
Edge = tuple[int, int]
Positions = Callable[[Space], list[Point]]

INK, QUIET, ACCENT, SOFT = "#33415c", "#a3b0c4", "#d1495b", "#f7c9c4"
"""Outlines, plain edges, the chosen state with its edges, and its neighbors."""


def line(space: Space) -> list[Point]:
    """All states from left to right, up and down in turn to leave room between them."""
    last = max(space.num_states - 1, 1)
    return [(2.3 * i / last - 1.15, 0.28 * (-1) ** i) for i in range(space.num_states)]


def circle(space: Space) -> list[Point]:
    """All states on a circle, clockwise from the top."""
    turn = 2 * pi / space.num_states
    return [(sin(turn * i), cos(turn * i)) for i in range(space.num_states)]


def hub(space: Space) -> list[Point]:
    """State 0 in the middle, the others on a circle around it."""
    return [(0.0, 0.0), *circle(Space((max(space.num_states - 1, 1),)))][: space.num_states]


def lattice(space: Space) -> list[Point]:
    """Two sites as rows (site 0, downwards) and columns (site 1)."""
    rows, columns = space.sizes
    unit = 2 / max(rows - 1, columns - 1, 1)
    return [(unit * (c - (columns - 1) / 2), unit * ((rows - 1) / 2 - r)) for r in range(rows) for c in range(columns)]


@dataclass(frozen=True)
class Drawing:
    """How one graph is drawn.

    ``wraps`` shows an edge across the border of a lattice as a short arrow that leaves it; ``bend`` curves edges that
    would run over the states between their ends.
    """

    space: Space
    layout: Positions
    chosen: int = 1
    wraps: bool = False
    bend: float = 0.0
    labels: bool = True

    def draw(self, axes: "Axes", edges: Iterable[Edge]) -> None:
        """Draw the graph on ``axes``: the chosen state, its edges and neighbors in color."""
        points, known = self.layout(self.space), set(edges)
        near = {j for i, j in known if i == self.chosen}
        # Colored edges last, on top of the others.
        for edge in sorted(known, key=lambda edge: (edge[0] == self.chosen or self._pair(edge, known), edge)):
            self._draw_edge(axes, points, edge, known)
        for i, (x, y) in enumerate(points):
            fill = ACCENT if i == self.chosen else SOFT if i in near else "white"
            axes.plot(x, y, "o", ms=15 if self.labels else 9, mfc=fill, mec=INK, mew=1.1, zorder=3)
            if self.labels:
                color = "white" if i == self.chosen else INK
                axes.text(x, y - 0.008, str(i), ha="center", va="center", fontsize=8, color=color, zorder=4)
        axes.set(xlim=(-1.42, 1.42), ylim=(-1.42, 1.42), aspect="equal")
        axes.set_axis_off()

    def _pair(self, edge: Edge, known: set[Edge]) -> bool:
        return edge[1] == self.chosen and edge[::-1] in known

    def _draw_edge(self, axes: "Axes", points: list[Point], edge: Edge, known: set[Edge]) -> None:
        i, j = edge
        start, end, inside = points[i], points[j], True
        if self.wraps:
            end = self._unwrapped_end(i, j, start)
            inside = hypot(end[0] - points[j][0], end[1] - points[j][1]) < 1e-9
        two_way = (j, i) in known
        if inside and two_way and i > j:
            return  # one two-headed arrow stands for both
        colored = i == self.chosen or (inside and self._pair(edge, known))
        if not inside:
            # Less than half the way out: clearly leaving, and clear of the arrow that leaves next to it.
            end = (start[0] + 0.46 * (end[0] - start[0]), start[1] + 0.46 * (end[1] - start[1]))
        self._arrow(axes, start, end, "<|-|>" if inside and two_way else "-|>", colored, inside)

    def _arrow(self, axes: "Axes", start: Point, end: Point, style: str, colored: bool, inside: bool) -> None:
        from matplotlib.patches import FancyArrowPatch

        gap = 9.0 if self.labels else 6.0
        unit = 2 / max(max(self.space.sizes) - 1, 1)
        over = hypot(end[0] - start[0], end[1] - start[1]) > 1.5 * unit
        arrow = FancyArrowPatch(
            start,
            end,
            arrowstyle=style,
            connectionstyle=f"arc3,rad={self.bend if over else 0.0}",
            mutation_scale=9 if self.labels else 7,
            shrinkA=gap,
            shrinkB=gap if inside else 0.0,
            color=ACCENT if colored else QUIET,
            lw=1.5 if colored else 1.0,
            zorder=2 if colored else 1,
            joinstyle="miter",
        )
        axes.add_patch(arrow)

    def _unwrapped_end(self, i: int, j: int, start: Point) -> Point:
        """Where the target would sit if the lattice went on beyond its border."""
        columns = self.space.sizes[1]
        rows, unit = self.space.sizes[0], 2 / max(max(self.space.sizes) - 1, 1)
        down = _shortest(j // columns - i // columns, rows)
        right = _shortest(j % columns - i % columns, columns)
        return start[0] + unit * right, start[1] - unit * down


def _shortest(move: int, size: int) -> int:
    return (move + size // 2) % size - size // 2 if size > 2 else move


def png(figure: "Figure", dpi: int = 160) -> bytes:
    """The figure as the bytes of a PNG, with no date inside: equal figures give equal bytes."""
    page = BytesIO()
    figure.savefig(page, format="png", dpi=dpi, metadata={"Software": None})
    return page.getvalue()
