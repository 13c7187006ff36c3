"""Figure 7: samples of the exact noisy distribution, and of tables trained by denoising CSM, for every w."""

from collections.abc import Mapping, Sequence
from typing import Any

from concrete_score.experiments.graph_pictures import INK, png
from concrete_score.experiments.plane_pictures import depth, panel

ROWS = (
    ("integrated", "samples_exact", "exact noisy", None),
    ("integrated", "samples", "D-CSM,\nnoise integrated out", "total_variation"),
    ("sampled", "samples", "D-CSM,\nnoise sampled", "total_variation"),
)


def picture(found: Mapping[str, Mapping[str, Any]], toys: Sequence[str], weights: Sequence[float], bins: int) -> bytes:
    """Three rows a toy: truth, integrated, sampled; the clean data first, then a column for each w."""
    from matplotlib.figure import Figure

    size = (2.1 * (1 + len(weights)), 2.3 * len(ROWS) * len(toys))
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    panels = figure.subplots(len(ROWS) * len(toys), 1 + len(weights), squeeze=False)
    for at, toy in enumerate(toys):
        rows = panels[at * len(ROWS) : (at + 1) * len(ROWS)]
        clean = found[f"{toy}-integrated-{weights[0]}"]["samples_clean"]
        panel(rows[0][0], clean, bins, depth(clean, bins), f"{toy}, clean")
        for row in rows[1:]:
            row[0].set_axis_off()
        for column, weight in enumerate(weights, start=1):
            exact = found[f"{toy}-integrated-{weight}"]["samples_exact"]
            deep = depth(exact, bins)
            for row, (kind, key, label, measured) in zip(rows, ROWS, strict=True):
                told = found[f"{toy}-{kind}-{weight}"]
                note = "" if measured is None else f"TV {told[measured]:.2g}"
                title = f"w = {weight}" if measured is None else ""
                panel(row[column], told[key], bins, deep, title, note)
                if column == 1:
                    row[column].set_ylabel(label, fontsize=9, color=INK)
    return png(figure)
