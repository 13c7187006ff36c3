"""The demo in one picture: the strangest row's changes, the models, and conditional draws beside the truth."""

from math import isfinite
from typing import TYPE_CHECKING

from concrete_score.experiments.demo import Demo
from concrete_score.experiments.graph_pictures import ACCENT, INK, QUIET, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def picture(demo: Demo) -> bytes:
    """Three panels, as the bytes of a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 3.6), layout="constrained", facecolor="white")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.2, 1, 1.2))
    _changes(left, demo)
    _models(middle, demo)
    _samples(right, demo)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=8.5)
        axes.title.set(fontsize=10.5, color=INK)
    return png(figure)


def _changes(axes: "Axes", demo: Demo) -> None:
    changes = demo.explanation["changes"][::-1]
    names = [f"{c['column']}: {c['from']} → {c['to']}" for c in changes]
    lengths = [c["log_ratio"] if isfinite(c["log_ratio"]) else 0.0 for c in changes]
    axes.barh(names, lengths, color=[ACCENT if length > 0 else QUIET for length in lengths], height=0.6)
    for at, change in enumerate(changes):
        if not isfinite(change["log_ratio"]):
            axes.text(-0.06, at, "impossible", ha="right", va="center", fontsize=8.5, color=INK, style="italic")
    axes.axvline(0, color=INK, lw=0.8)
    axes.set(title="The strangest row: what would mend it", xlabel="log q(changed) − log q(row)")


def _models(axes: "Axes", demo: Demo) -> None:
    models = [model for model in demo.models if model["model"] != "truth"]
    bars = axes.bar([model["model"] for model in models], [model["kl"] for model in models], color=QUIET, width=0.55)
    axes.bar_label(bars, fmt="%.3f", fontsize=8.5, color=INK, padding=2)
    axes.margins(y=0.12)
    axes.set(title="Fitted models: KL(truth ‖ model)", ylabel="nats")


def _samples(axes: "Axes", demo: Demo) -> None:
    shares = demo.samples["shares"]
    places = range(len(shares))
    axes.bar(places, [each["truth"] for each in shares], color=QUIET, width=0.7, label="truth")
    axes.plot(places, [each["drawn"] for each in shares], "o", ms=5, color=ACCENT, label="drawn")
    axes.set_xticks(places, [each["column"] for each in shares])
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    given = ", ".join(f"{name}={value}" for name, value in demo.samples["given"].items())
    axes.set(title=f"Share of yes, given {given}")
