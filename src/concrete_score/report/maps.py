"""Pictures of sequence models: the effects of all single changes, and which sites are coupled."""

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from concrete_score.data.frame import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

A_LINE = 100
"""Sites beside one another before the heat map goes on below."""


def heat_map(effect: Array, names: Sequence[str], letters: Sequence[str], own: Sequence[int]) -> bytes:
    """Log-ratios of all single changes as a PNG, sites across and letters down; dots mark what is there.

    Args:
        effect: ``(D, V)``, NaN where there is none.
        names: of the sites ``(D,)``.
        letters: the values ``(V,)``.
        own: the value of each site ``(D,)``.
    """
    from matplotlib.figure import Figure

    parts = range(0, len(names), A_LINE)
    width, height = 2.0 + 0.15 * min(len(names), A_LINE), (0.7 + 0.15 * len(letters)) * len(parts)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(len(parts), squeeze=False)[:, 0]
    most = float(np.nanmax(np.abs(effect))) or 1.0
    for axis, start in zip(axes, parts, strict=True):
        some = slice(start, start + A_LINE)
        image = axis.imshow(effect[some].T, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        axis.scatter(range(len(names[some])), own[some], s=3, color="black")
        shown = range(0, len(names[some]), 10)
        axis.set_xticks(shown, [names[some][place] for place in shown], fontsize=6)
        axis.set_yticks(range(len(letters)), letters, fontsize=5)
    figure.colorbar(image, ax=list(axes), label="log-ratio", shrink=0.6)
    return _png(figure)


def contact_map(strengths: Tensor, names: Sequence[str]) -> bytes:
    """Corrected coupling strengths of all pairs of sites ``(D, D)`` as a PNG; negative ones count as none."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5.4), layout="constrained")
    axis = figure.subplots()
    table = strengths.clamp_min(0).numpy(force=True)
    most = float(np.quantile(table, 0.999)) or None
    image = axis.imshow(table, cmap="Greys", vmin=0, vmax=most, interpolation="nearest")
    step = max(1, len(names) // 10)
    for ticks in (axis.set_xticks, axis.set_yticks):
        ticks(range(0, len(names), step), [names[place] for place in range(0, len(names), step)], fontsize=7)
    figure.colorbar(image, ax=axis, label="coupling, average-product-corrected", shrink=0.8)
    return _png(figure)


def _png(figure: "Figure") -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=120, metadata={"Software": None})
    return file.getvalue()
