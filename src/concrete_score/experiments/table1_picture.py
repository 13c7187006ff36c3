"""Table 1 as a picture: how far every method stays below our own maximum likelihood."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from concrete_score.experiments.graph_pictures import ACCENT, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from concrete_score.experiments.table1_tables import Table

MARKS = {
    "independent": ("s", QUIET),
    "chow_liu": ("D", QUIET),
    "ratio_matching": ("o", "#e9a23b"),
    "discrete_marginalization": ("o", "#7a9e5f"),
    "csm": ("o", "#3d7ea6"),
    "maximum_likelihood": ("P", INK),
    "maximum_likelihood_averaged": ("P", QUIET),
    "logistic": ("^", "#8e6c8a"),
    "self_proposal_csm": ("v", ACCENT),
    "self_proposal_logistic": ("*", ACCENT),
}
"""Shape and color of each method; the paper's own numbers are hollow."""
LINEAR = 0.1
"""Nats on each side of zero that are drawn to scale; beyond, the axis is logarithmic."""


def picture(table: "Table", shown: Sequence[str]) -> "Figure":
    """A line for each data set; to the right is better."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 1.2 + 0.62 * len(table.datasets)), layout="constrained", facecolor="white")
    axes = figure.subplots()
    _points(axes, table, shown)
    axes.axvline(0, color=INK, lw=0.8)
    axes.axvspan(-LINEAR, LINEAR, color=QUIET, alpha=0.18, lw=0)
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.0)
    ticks = [-30, -10, -3, -1, -0.3, -0.1, 0, 0.1]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks(range(len(table.datasets)), table.datasets)
    axes.set_ylim(len(table.datasets) - 0.5, -0.5)  # the first on top
    axes.set_xlabel("test log-likelihood less that of our maximum likelihood, nats a row", fontsize=9, color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(axis="y", color=QUIET, lw=0.5, alpha=0.6)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8.5)
    return figure


def _points(axes: "Axes", table: "Table", shown: Sequence[str]) -> None:
    from concrete_score.experiments.table1_tables import PAPER

    likelihood = table.likelihood()
    zero = [table.mean(name, likelihood) for name in table.datasets]
    places = list(range(len(table.datasets)))
    for method, (shape, color) in MARKS.items():
        ours = [table.mean(name, method) - at for name, at in zip(table.datasets, zero, strict=True)]
        axes.plot(ours, places, shape, color=color, ms=8, label=method.replace("_", " "), zorder=3)
        if method in shown:
            paper = [PAPER[method][name] - at for name, at in zip(table.datasets, zero, strict=True)]
            label = f"paper: {method.replace('_', ' ')}"
            axes.plot(paper, places, shape, mfc="none", mec=color, color=color, ms=8, label=label, zorder=2, ls="")
