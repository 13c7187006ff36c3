"""The estimators' variances as bars, each over that of independent draws; a dot is the typical row's."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from concrete_score.experiments.graph_pictures import ACCENT, INK, QUIET

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Stages = Mapping[str, Mapping[str, Mapping[str, Any]]]
COLORS = (QUIET, ACCENT, "#3d7ea6", "#e9a23b", "#7a9e5f")
TITLES = {"start": "a model as it starts", "trained": "after some maximum likelihood"}


def picture(stages: Stages, ways: Sequence[str]) -> "Figure":
    """A row of panels for each stage: the loss on the left, its gradient on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 3.4 * len(stages)), layout="constrained", facecolor="white")
    panels = figure.subplots(len(stages), 2, squeeze=False)
    for (stage, found), row in zip(stages.items(), panels, strict=True):
        for what, axes in zip(("loss", "gradient"), row, strict=True):
            _bars(axes, found, ways, what)
            axes.set_title(f"variance of the {what}: {TITLES.get(stage, stage)}", fontsize=10.5, color=INK)
    handles, labels = panels[0][0].get_legend_handles_labels()
    title = "bars: ratio of means over rows, ± bootstrap error; dots: ratio at a typical row (geometric mean)"
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(ways),
        frameon=False,
        title=title,
        fontsize=9,
        title_fontsize=9,
    )
    return figure


def _bars(axes: "Axes", found: Mapping[str, Mapping[str, Any]], ways: Sequence[str], what: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    divergences = [key.removesuffix(f", {ways[0]}") for key in found if key.endswith(f", {ways[0]}")]
    width = 0.8 / len(ways)
    for i, way in enumerate(ways):
        values = [found[f"{f}, {way}"][f"{what}_ratio"] for f in divergences]
        errors = [found[f"{f}, {way}"][f"{what}_ratio_error"] for f in divergences]
        places = [at + (i - (len(ways) - 1) / 2) * width for at in range(len(divergences))]
        color = COLORS[i % len(COLORS)]
        typical = [found[f"{f}, {way}"][f"{what}_ratio_typical"] for f in divergences]
        axes.bar(places, values, 0.92 * width, yerr=errors, color=color, ecolor=INK, capsize=2, label=way)
        axes.plot(places, typical, "o", ms=3.5, mfc="white", mec=INK, mew=0.8)
    axes.axhline(1, color=INK, lw=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(range(len(divergences)), divergences)
    axes.set_ylabel("over independent draws'", fontsize=8.5, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8.5)
