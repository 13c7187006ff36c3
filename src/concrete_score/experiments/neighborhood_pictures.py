"""Four neighborhoods of sixteen categories as graphs, and under each what was learned through it (figures 5 and 6)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from concrete_score.experiments.graph_pictures import ACCENT, INK, QUIET, Drawing, circle, png
from concrete_score.experiments.one_dimensional_cases import TITLES, neighborhood
from concrete_score.targets.pmf import Pmf

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, AMBER = "#3d7ea6", "#e9a23b"
MARKS = (("o", ACCENT), ("D", BLUE), ("s", AMBER))
"""Of the ways something was learned, in their order."""


def picture(truth: Pmf, learned: Mapping[str, Mapping[str, Sequence[float]]], notes: Mapping[str, str]) -> bytes:
    """A column for each neighborhood: its graph, and the truth with what each way learned.

    Args:
        truth: drawn as bars.
        learned: neighborhood -> way -> probabilities.
        notes: neighborhood -> a line above its panel.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.3 * len(TITLES), 6.3), layout="constrained", facecolor="white")
    panels = figure.subplots(2, len(TITLES), height_ratios=(1.15, 1))
    for column, name in enumerate(TITLES):
        around = neighborhood(name, truth.space)
        source, target = around.adjacency().nonzero()
        drawing = Drawing(truth.space, circle, chosen=2)
        drawing.draw(panels[0][column], list(zip(source.tolist(), target.tolist(), strict=True)))
        panels[0][column].set_title(TITLES[name], fontsize=11, color=INK)
        _bars(panels[1][column], truth, learned[name])
        panels[1][column].set_title(notes[name], fontsize=9.5, color=INK)
        panels[1][column].set_xlabel("category", fontsize=9, color=INK)
    panels[1][0].set_ylabel("probability", fontsize=9, color=INK)
    handles, labels = panels[1][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return png(figure)


def _bars(axes: "Axes", truth: Pmf, ways: Mapping[str, Sequence[float]]) -> None:
    places = range(truth.space.num_states)
    axes.bar(places, truth.probabilities.tolist(), color=QUIET, width=0.8, label="truth")
    for (label, values), (mark, color) in zip(ways.items(), MARKS, strict=False):
        axes.plot(places, values, mark, ms=4, mfc="none", mec=color, mew=1.3, label=label)
    axes.set(ylim=(0, None), xticks=range(0, truth.space.num_states, 3))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8)
