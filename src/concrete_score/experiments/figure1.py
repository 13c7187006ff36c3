"""Figure 1: the paper's common neighborhoods, and every other registered one, as directed graphs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from concrete_score.bench.checks import Check
from concrete_score.errors import InputError
from concrete_score.experiments.drawing import ACCENT, INK, QUIET, SOFT, Drawing, Edge, circle, hub, lattice, line, png
from concrete_score.experiments.result import Findings, Settings
from concrete_score.registry import load, names
from concrete_score.spaces import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from concrete_score.protocols import Neighborhood

COLUMNS = 4
PAPERS_FIVE = ("grid", "cycle", "chain", "star", "complete")
_LIST = ((0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 2), (4, 5), (5, 4))


@dataclass(frozen=True)
class Example:
    """A small instance of a neighborhood: how it is drawn and what its graph must be."""

    drawing: Drawing
    edges: int | None = None
    """How many edges the structure has by formula; None where no formula is known."""
    symmetric: bool | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


def _on_lattice(side: int, chosen: int, **how: Any) -> Drawing:
    return Drawing(Space((side, side)), lattice, chosen, labels=False, **how)


_SIX = Space((6,))
EXAMPLES = {
    "chain": Example(Drawing(_SIX, line), 6 - 1, False),
    "chain_two_way": Example(Drawing(_SIX, line), 2 * (6 - 1), True),
    "cycle": Example(Drawing(_SIX, circle), 6, False),
    "cycle_two_way": Example(Drawing(_SIX, circle), 2 * 6, True),
    "star": Example(Drawing(_SIX, hub), 6 - 1, False),
    "complete": Example(Drawing(_SIX, circle), 6 * (6 - 1), True),
    "grid": Example(_on_lattice(4, 1, wraps=True), 2 * 2 * 4 * 4, True),
    "grid_bounded": Example(_on_lattice(4, 1), 2 * 2 * 4 * (4 - 1), True),
    "hamming": Example(_on_lattice(3, 1, bend=0.3), 2 * (3 - 1) * 3 * 3, True),
    "moore": Example(_on_lattice(4, 5, wraps=True), (3**2 - 1) * 4 * 4, True),
    "explicit": Example(Drawing(_SIX, circle, 4), len(_LIST), False, {"edges": _LIST}),
}
UNKNOWN = (Example(_on_lattice(4, 5, wraps=True)), Example(Drawing(_SIX, circle)))
"""What a neighborhood registered by another package is tried on, in turn."""


@dataclass(frozen=True)
class Graph:
    """One neighborhood with its edges as pairs of state indices."""

    name: str
    example: Example
    neighborhood: "Neighborhood"
    edges: tuple[Edge, ...]

    def facts(self) -> dict[str, Any]:
        """What the figure reports of it; connectivity is found by networkx, not taken from the neighborhood."""
        import networkx as nx

        graph = nx.DiGraph(self.edges)
        graph.add_nodes_from(range(self.neighborhood.space.num_states))
        return {
            "states": self.neighborhood.space.num_states,
            "edges": len(self.edges),
            "symmetric": all(edge[::-1] in graph.edges for edge in self.edges),
            "weakly_connected": nx.is_weakly_connected(graph),
        }


def run(settings: Settings) -> Findings:
    """Build, count, check and draw every registered neighborhood; nothing here is random or slow."""
    graphs = [graph for name in names("neighborhoods") if (graph := build(name)) is not None]
    return Findings(
        paper={name: {"weakly_connected": True} for name in PAPERS_FIVE},
        ours={graph.name: graph.facts() for graph in graphs},
        checks=tuple(check for graph in graphs for check in checks(graph)),
        images={"figure1": png(plot(graphs))},
    )


def build(name: str) -> Graph | None:
    """The example of a registered neighborhood; None where it needs more than a space to be built."""
    factory = load("neighborhoods", name)
    for example in (EXAMPLES[name],) if name in EXAMPLES else UNKNOWN:
        try:
            neighborhood = factory(example.drawing.space, **example.arguments)
        except (InputError, TypeError):
            if name in EXAMPLES:
                raise
            continue
        source, target = neighborhood.adjacency().nonzero()
        return Graph(name, example, neighborhood, tuple(zip(source.tolist(), target.tolist(), strict=True)))
    return None


def checks(graph: Graph) -> list[Check]:
    """Edges by formula, flags as declared, and the paper's claim for its five."""
    facts, expected = graph.facts(), graph.example
    degrees = int(graph.neighborhood.degree(graph.neighborhood.space.enumerate()).sum())
    symmetric = graph.neighborhood.symmetric if expected.symmetric is None else expected.symmetric
    connected = graph.name in PAPERS_FIVE or graph.neighborhood.connected()
    return [
        Check.equal(f"{graph.name}: edges", facts["edges"], degrees if expected.edges is None else expected.edges),
        Check.equal(f"{graph.name}: symmetric", facts["symmetric"], symmetric),
        Check.equal(f"{graph.name}: symmetric flag", graph.neighborhood.symmetric, facts["symmetric"]),
        Check.equal(f"{graph.name}: weakly connected", facts["weakly_connected"], connected),
        Check.equal(f"{graph.name}: connected()", graph.neighborhood.connected(), facts["weakly_connected"]),
    ]


def plot(graphs: list[Graph]) -> "Figure":
    """One panel a graph, and a key."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rows = -(-(len(graphs) + 1) // COLUMNS)
    room = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.12)
    figure = Figure(figsize=(2.9 * COLUMNS, 3.15 * rows), layout=room, facecolor="white")
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flatten().tolist()
    for graph, axes in zip(graphs, panels, strict=False):
        graph.example.drawing.draw(axes, graph.edges)
        facts = graph.facts()
        weight = "bold" if graph.name in PAPERS_FIVE else "normal"
        axes.set_title(graph.name, fontsize=12, color=INK, fontweight=weight, pad=14)
        kind = "two-way" if facts["symmetric"] else "directed"
        note = f"{facts['states']} states, {facts['edges']} edges, {kind}"
        axes.text(0.5, 1.0, note, transform=axes.transAxes, ha="center", va="bottom", fontsize=8.5, color="#6b7a90")
    for axes in panels[len(graphs) :]:
        axes.set_axis_off()
    _key(panels[len(graphs)])
    return figure


def _key(axes: "Axes") -> None:
    lines = [
        ("o", ACCENT, "a state x"),
        ("o", SOFT, "its neighbors N(x)"),
        ("-|>", ACCENT, "from x to a neighbor"),
        ("<|-|>", QUIET, "each the other's neighbor"),
        ("-|>", QUIET, "leaving a lattice: goes on\nat the opposite side"),
    ]
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for row, (mark, color, text) in enumerate(lines):
        y = 0.8 - 0.13 * row
        if mark == "o":
            axes.plot(0.1, y, "o", ms=11, mfc=color, mec=INK, mew=1.1)
        else:
            look = {"arrowstyle": mark, "color": color, "lw": 1.3, "mutation_scale": 9}
            axes.annotate("", (0.18, y), (0.02, y), arrowprops=look)
        axes.text(0.24, y, text, va="center", fontsize=9, color=INK)
    axes.text(0.02, 0.12, "Bold: the paper's five.", fontsize=9, color=INK, fontweight="bold")
