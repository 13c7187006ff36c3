"""Figure 2 in one picture: categories by Metropolis-Hastings, points between them, and points brought back."""

from typing import TYPE_CHECKING

import torch

from concrete_score.experiments.figure2 import CELLS, Sampled, cells
from concrete_score.experiments.graph_pictures import ACCENT, INK, QUIET, SOFT, png
from concrete_score.metrics import total_variation
from concrete_score.noise import Triangular

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = (("-", ACCENT), (":", INK), ("--", INK))


def picture(found: Sampled) -> bytes:
    """Three panels, as the bytes of a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 3.6), layout="constrained", facecolor="white")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.25, 1), sharey=True)
    _categories(left, found)
    _points(middle, found)
    _denoised(right, found)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=8.5)
        axes.title.set(fontsize=10.5, color=INK)
        axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    left.set_ylabel("probability", color=INK, fontsize=9)
    return png(figure)


def _categories(axes: "Axes", found: Sampled) -> None:
    _truth(axes, found)
    axes.plot(
        found.mh.probabilities.numpy(), "o", ms=5, color=ACCENT, label=_label("Metropolis-Hastings", found.mh, found)
    )
    axes.set(title="Categories drawn through the learned score", xlabel="category")


def _points(axes: "Axes", found: Sampled) -> None:
    edge = torch.arange(-1, found.truth.space.sizes[0] + 1, dtype=torch.float64)
    density = Triangular.of(found.truth).log_density(edge[:, None]).exp()
    axes.fill_between(edge.numpy(), density.numpy(), color=SOFT, lw=0, label="data under triangular noise")
    lower, _ = cells(found.truth)
    for (name, points), (line, color) in zip(found.points.items(), _STYLES, strict=False):
        seen = torch.bincount(((points[:, 0] - lower[0]) * CELLS).floor().long(), minlength=len(lower))
        height = seen.double() / len(points) * CELLS
        axes.plot((lower + 0.5 / CELLS).numpy(), height.numpy(), line, lw=1.2, color=color, label=name)
    axes.set(title="Points drawn along its Stein score", xlabel="between the categories")


def _denoised(axes: "Axes", found: Sampled) -> None:
    _truth(axes, found)
    shapes = ("o", "x", "+")
    for (name, share), shape, (_, color) in zip(found.denoised.items(), shapes, _STYLES, strict=False):
        axes.plot(share.probabilities.numpy(), shape, ms=5, color=color, label=_label(name, share, found))
    axes.set(title="The same points, denoised", xlabel="category")


def _truth(axes: "Axes", found: Sampled) -> None:
    axes.bar(
        range(found.truth.space.num_states), found.truth.probabilities.numpy(), color=QUIET, width=0.7, label="truth"
    )


def _label(name: str, share: object, found: Sampled) -> str:
    return f"{name} (TV {total_variation(share, found.truth):.3f})"
