"""Figure 4 in four pictures: samples, quality against network passes, the way from noise, and in-painting."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from concrete_score.experiments.figure4_cells import SAMPLERS, best_of, unpacked
from concrete_score.experiments.figure4_painting import lower_half
from concrete_score.experiments.graph_pictures import ACCENT, INK, QUIET, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Found = Mapping[str, Mapping[str, Any]]
TITLES = {
    "floor": "test pictures",
    "independent": "independent pixels",
    "mixture": "mixture of Bernoullis",
    "made": "MADE, maximum likelihood",
    "paper": "ours, the paper's annealed MH",
}
PAINTED = 10
"""Pictures of the in-painting that are shown."""
STEPS = 10
"""Moments of a way that are shown."""
_GREY = 0.55


def pictures(found: Found, painting: Sequence[Mapping[str, Any]], shape: tuple[int, int]) -> dict[str, bytes]:
    """All four, by file name."""
    return {
        "figure4": _samples(found, shape),
        "figure4-quality": _quality(found),
        "figure4-trajectory": _ways(found, shape),
        "figure4-painting": _painting(painting[0], shape),
    }


def _samples(found: Found, shape: tuple[int, int]) -> bytes:
    best = best_of(found)
    titles = {**TITLES, best: f"ours, {SAMPLERS[best].title}"}
    figure = _figure(11.4, 8.2)
    for axes, (name, title) in zip(figure.subplots(2, 3).flat, titles.items(), strict=True):
        told = found[name]
        passes = f", {told['passes']:,} passes" if "passes" in told else ""
        _tiles(axes, [_row(told["grid"], shape)[i : i + 8] for i in range(0, 64, 8)])
        axes.set_title(title, fontsize=10.5, color=INK)
        axes.set_xlabel(_distance(told) + passes, fontsize=9, color=INK)
    return png(figure)


def _distance(told: Mapping[str, Any]) -> str:
    if told["frechet"] is None:
        return f"Fréchet {told['frechet_few']:.3g} ± {told['frechet_few_stderr']:.2g} (128 samples)"
    return f"Fréchet {told['frechet']:.3g} ± {told['frechet_stderr']:.2g}"


def _quality(found: Found) -> bytes:
    """The distance of 128 samples, which every sampler drew from the same noise, against passes."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    figure = _figure(7.6, 4.6)
    axes = figure.subplots()
    for number, (name, how) in enumerate(SAMPLERS.items()):
        told, color = found[name], ACCENT if how.ours else INK
        place = told["passes"], told["frechet_few"]
        axes.errorbar(*place, told["frechet_few_stderr"], fmt=_SHAPES[number], ms=7, color=color, label=how.title)
    for name in ("floor", "mixture", "made"):
        axes.axhline(found[name]["frechet_few"], color=QUIET, lw=1, ls=":", zorder=0)
        axes.text(0.995, found[name]["frechet_few"], TITLES[name], transform=axes.get_yaxis_transform(), **_NOTE)
    axes.set(xscale="log", yscale="log", xlabel="network passes", ylabel="Fréchet distance, 128 samples")
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(ScalarFormatter() if _narrow(found) else NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8.5, which="both")
    axes.margins(x=0.2)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5, labelcolor=INK)
    return png(figure)


def _narrow(found: Found) -> bool:
    """Whether the distances shown lie within a decade, which then has no ticks of its own."""
    shown = [found[name]["frechet_few"] for name in (*SAMPLERS, "floor", "mixture", "made")]
    return bool(max(shown) < 10 * min(shown))


_SHAPES = "oDs^v<>pP*"
_NOTE: dict[str, Any] = {"fontsize": 8, "color": INK, "ha": "right", "va": "bottom"}


def _ways(found: Found, shape: tuple[int, int]) -> bytes:
    """The same chains' starts, driven by the paper's sampler and by our best one."""
    best = best_of(found)
    figure = _figure(9.0, 11.4)
    for axes, name in zip(figure.subplots(2, 1), ("paper", best), strict=True):
        ways = [_row(way, shape) for way in found[name]["ways"]]
        count = min(STEPS, len(ways))
        moments = [ways[round(i * (len(ways) - 1) / (count - 1))] for i in range(count)]
        _tiles(axes, [[moment[chain] for moment in moments] for chain in range(len(moments[0]))])
        axes.set_title(f"{SAMPLERS[name].title}, {found[name]['passes']:,} passes", fontsize=10.5, color=INK)
        axes.set_xlabel("from uniform noise, level by level, to the sample", fontsize=9, color=INK)
    return png(figure)


def _painting(part: Mapping[str, Any], shape: tuple[int, int]) -> bytes:
    """What was observed, some completions, and the truth, each in a line."""
    hidden = lower_half(shape).reshape(shape)
    truth = _row(part["rows"], shape)[:PAINTED]
    observed = [torch.where(hidden, _GREY, picture.double()) for picture in truth]
    lines = [observed, *(_row(draw, shape)[:PAINTED] for draw in part["draws"]), truth]
    figure = _figure(9.0, 9.0 * len(lines) / len(truth) + 0.4)
    axes = figure.subplots()
    _tiles(axes, lines)
    axes.set_title("The upper half is observed; completions; below them the truth", fontsize=10.5, color=INK)
    return png(figure)


def _row(text: str, shape: tuple[int, int]) -> list[Any]:
    return list(unpacked(text, shape[0] * shape[1]).reshape(-1, *shape))


def _tiles(axes: "Axes", lines: Sequence[Sequence[Any]]) -> None:
    """Pictures in lines, a thin line between them, white on black."""
    tall, wide = lines[0][0].shape
    sheet = torch.full((len(lines) * (tall + 1) - 1, len(lines[0]) * (wide + 1) - 1), _GREY, dtype=torch.float64)
    for i, line in enumerate(lines):
        for j, picture in enumerate(line):
            sheet[i * (tall + 1) : i * (tall + 1) + tall, j * (wide + 1) : j * (wide + 1) + wide] = picture
    axes.imshow(sheet.numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")
