"""Samples on a quantized plane as pictures (figures 3 and 7)."""

from typing import TYPE_CHECKING

from concrete_score.experiments.figure_text import unpack
from concrete_score.experiments.graph_pictures import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = "Blues"
_DEEP = 0.995
"""The share of filled bins whose counts are drawn in full; the few above are cut to them."""


def depth(packed: str, bins: int) -> float:
    """The count that is drawn darkest: nearly the largest, so that a few full bins leave the others visible.

    >>> depth("3x3 9", 2)
    9.0
    """
    filled = sorted(count for count in unpack(packed, bins * bins) if count)
    return float(filled[min(len(filled) - 1, int(_DEEP * len(filled)))]) if filled else 1.0


def panel(axes: "Axes", packed: str, bins: int, deepest: float, title: str = "", note: str = "") -> None:
    """Counts as an image, x to the right and y upwards, with a title above and a note below."""
    import numpy as np

    counts = np.array(unpack(packed, bins * bins)).reshape(bins, bins)
    axes.imshow(counts.T, origin="lower", cmap=COLORS, vmin=0, vmax=deepest, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=9.5, color=INK)
    axes.set_xlabel(note, fontsize=8.5, color=INK)
