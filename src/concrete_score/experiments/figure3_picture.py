"""Figure 3 in two pictures: samples by every method, and the way of the methods that have no lower bound."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from concrete_score.experiments.graph_pictures import ACCENT, INK, QUIET, png
from concrete_score.experiments.plane_pictures import depth, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = (
    "ratio",
    "ratio_fixed",
    "marginal",
    "marginal_fixed",
    "csm",
    "marginal_fixed_mixed",
    "csm_mixed",
    "ours",
)
WAYS = {
    "marginal_fixed": ("#e9a23b", "-"),
    "csm": (ACCENT, "-"),
    "marginal_fixed_mixed": ("#e9a23b", "--"),
    "csm_mixed": (ACCENT, "--"),
    "ratio_fixed": (QUIET, "-"),
    "ours": ("#3d7ea6", "-"),
}
STOPPED = ("marginal_fixed", "csm")
_TICKS = (0.5, 1, 2, 5, 10)

Found = Mapping[str, Mapping[str, Any]]


def pictures(found: Found, toys: Sequence[str], titles: Mapping[str, str], bins: int) -> dict[str, bytes]:
    """The figure, and the divergence beside it."""
    return {
        "figure3": _samples(found, toys, titles, bins),
        "figure3-divergence": _divergence(found, toys, titles, bins),
    }


def _samples(found: Found, toys: Sequence[str], titles: Mapping[str, str], bins: int) -> bytes:
    from matplotlib.figure import Figure

    size = (1.75 * (1 + len(COLUMNS)), 2.0 * len(toys) + 0.5)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    panels = figure.subplots(len(toys), 1 + len(COLUMNS), squeeze=False)
    for number, (row, toy) in enumerate(zip(panels, toys, strict=True)):
        data = found[toy]
        deep = depth(data["samples"], bins)
        heads = {name: "" if number else title for name, title in titles.items()}
        panel(
            row[0],
            data["samples"],
            bins,
            deep,
            "" if number else "Data",
            f"TV {data['histogram_total_variation']:.3f}",
        )
        row[0].set_ylabel(toy, fontsize=10, color=INK)
        for axes, name in zip(row[1:], COLUMNS, strict=True):
            told = found[f"{toy}-{name}"]
            panel(axes, told["samples"], bins, deep, heads[name], f"{told['ratio']:.3g} × the data's")
    return png(figure)


def _divergence(found: Found, toys: Sequence[str], titles: Mapping[str, str], bins: int) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 3.1 * len(toys)), layout="constrained", facecolor="white")
    panels = figure.subplots(len(toys), 1 + len(STOPPED), squeeze=False, width_ratios=(2.4, *[1] * len(STOPPED)))
    for row, toy in zip(panels, toys, strict=True):
        _ways(row[0], found, toy, titles)
        deep = depth(found[toy]["samples"], bins)
        for axes, name in zip(row[1:], STOPPED, strict=True):
            told = found[f"{toy}-{name}"]
            note = f"{told['last']['ratio']:.3g} × the data's"
            title = f"{titles[name].splitlines()[0]}, step {told['steps']:,}"
            panel(axes, told["samples_last"], bins, deep, title, note)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return png(figure)


def _ways(axes: "Axes", found: Found, toy: str, titles: Mapping[str, str]) -> None:
    for name, (color, style) in WAYS.items():
        told = found[f"{toy}-{name}"]
        steps, values = zip(*told["path"], strict=True)
        axes.plot(steps, values, style, color=color, lw=1.5, label=titles[name].replace("\n", " "))
        if name in STOPPED:
            axes.plot(told["kept_step"], told["ratio"], "o", ms=6, mfc="white", mec=color, mew=1.5)
        if told["ended"] == "diverged":
            axes.plot(steps[-1], values[-1], "X", ms=8, color=color)
    axes.axhline(1, color=INK, lw=0.8)
    axes.set_yscale("log")
    axes.set_yticks(_TICKS, labels=[f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.set_ylabel(f"{toy}: total variation\nover the histogram's", fontsize=9, color=INK)
    axes.set_xlabel("step (o: kept on held-out draws, X: stopped by the guard)", fontsize=8.5, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8.5)
