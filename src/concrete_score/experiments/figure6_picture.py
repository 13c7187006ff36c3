"""Figure 6: what each neighborhood learned, and how far it stayed below the bound on the way."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from concrete_score.experiments.graph_pictures import ACCENT, INK, QUIET, png
from concrete_score.experiments.neighborhood_pictures import AMBER, BLUE, picture
from concrete_score.experiments.one_dimensional_cases import TITLES
from concrete_score.targets.one_dimensional import low_density

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = dict(zip(TITLES, (ACCENT, BLUE, AMBER, QUIET), strict=True))
STYLES = {"uniform": "-", "normal": "--"}
FLOOR = 1e-4
"""Nats below the bound: less is drawn as this much."""


def pictures(
    found: Mapping[str, Mapping[str, Any]], rows: tuple[int, ...], tolerance: float, ways: Mapping[str, str]
) -> dict[str, bytes]:
    """Graphs with what was learned, as written and under annealed noise; and the ways there."""
    titles = {f"{rows[0]}-uniform": f"CSM as written, {rows[0]:,} draws"}
    titles |= {way: f"denoising, {title}" for way, title in ways.items() if way.endswith("annealed")}
    shown = {name: {title: found[f"{name}-{key}"]["probabilities"] for key, title in titles.items()} for name in TITLES}
    notes = {name: "below the bound: " + ", ".join(_short(found[f"{name}-{key}"]) for key in titles) for name in TITLES}
    return {"figure6": picture(low_density(), shown, notes), "figure6-ways": _ways(found, rows, tolerance)}


def _short(told: Mapping[str, Any]) -> str:
    return "∞" if told["below_bound"] is None else f"{told['below_bound']:.2g}"


def _ways(found: Mapping[str, Mapping[str, Any]], rows: tuple[int, ...], tolerance: float) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0 * len(rows), 3.8), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(rows), squeeze=False, sharey=True)[0]
    for axes, count in zip(panels, rows, strict=True):
        for name, title in TITLES.items():
            for start, style in STYLES.items():
                told = found[f"{name}-{count}-{start}"]
                _way(axes, told, COLORS[name], style, f"{title}, {start} start")
        axes.axhline(tolerance, color=INK, lw=0.8, ls=":")
        axes.set_yscale("log")
        empty = found[f"natural-{count}-uniform"]["empty"]
        axes.set_title(f"CSM as written, {count:,} draws, {empty} categories empty", fontsize=10.5, color=INK)
        axes.set_xlabel("step (X: stopped by the guard)", fontsize=9, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=8.5)
    panels[0].set_ylabel("nats below the bound", fontsize=9, color=INK)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    return png(figure)


def _way(axes: "Axes", told: Mapping[str, Any], color: str, style: str, label: str) -> None:
    steps, values = zip(*((step, max(value, FLOOR)) for step, value in told["path"] if value is not None), strict=True)
    axes.plot(steps, values, style, color=color, lw=1.5, label=label)
    if told["ended"] == "diverged":
        axes.plot(steps[-1], values[-1], "X", ms=8, color=color)
