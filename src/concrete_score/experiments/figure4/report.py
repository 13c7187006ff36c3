"""Figure 4 for reading: a table of quality against network passes, and four plots."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from concrete_score.experiments.drawing import ACCENT, INK, QUIET, png
from concrete_score.experiments.figure4.units import SAMPLERS, Figure4Size, best_of, lower_half, unpacked
from concrete_score.experiments.result import table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Found = Mapping[str, Mapping[str, Any]]
BASELINES = {
    "floor": "test images (the floor)",
    "independent": "independent pixels",
    "mixture": "mixture of Bernoullis",
    "made": "MADE, maximum likelihood",
}
_COLUMNS = (
    "samples of",
    "network passes",
    "Fréchet",
    "Fréchet, 128 samples",
    "rarest, commonest class",
    "confidence",
    "nearest training image",
    "near, copies",
)
_WHY = """
What the numbers say, and what they do not:

- **One network, every sampler.** The U-Net learns each pixel's clean value by cross-entropy at levels drawn uniformly;
  its head turns that into the ratios of every level. The paper's seven σ are among the levels, so its sampler runs on
  the same weights as ours, from the same noise.
- **The reverse chain** draws every pixel at each level, from the noise that leads to the next weaker one. Its levels go
  on to a correlation of 0.01, where uniform noise is the right start. Pixels drawn together do not see each other:
  it is unadjusted, the more so the fewer the levels. The final pass draws the clean pixels.
- **Fréchet distances** are between Gaussians of the classifier's features; few samples make them larger, so the column
  of 128 samples is to be read downwards only, and it is coarse: there test images themselves may come out behind
  samples, within error. Errors are bootstraps over both sides.
- **Our best sampler** is the one of least distance over the same samples that are then judged. Where others lie within
  its error the choice between them is luck.
- **The baselines** were fitted in one setting each, which was not tuned; neither was that of the network.
- **Memorization**: distances are in pixels to the nearest training image; *near* is the distance within which one in
  a hundred test images lies. Samples pass if no more than three times as many of them as of test images are near.
- **In-painting** is unadjusted: observed pixels are corrupted anew at each level, and a chain sees them only so. The
  marginals are what the head says at the last level reached, averaged over the draws; the mixture's are exact. The
  levels and steps of these chains are the best of five settings tried on 40 validation images of MNIST while the
  network was still in training; the mixture's number of components was not varied.
"""


def text(found: Found, painting: Mapping[str, Any], size: Figure4Size) -> str:
    """The Markdown under the checks."""
    rows = [_row(title, found[name]) for name, title in BASELINES.items()]
    rows += [_row(f"ours: {how.title}", found[name]) for name, how in SAMPLERS.items()]
    head, net = found["floor"], found["network"]
    about = (
        f"Images of `{size.network.dataset}`, bits above one half. The classifier names {head['accuracy']:.2%} of the "
        f"test images; distances are to {size.reference:,} training images, of {size.samples:,} samples. "
        f"The U-Net has {net['parameters']:,} weights and was trained for {net['steps']:,} steps in "
        f"{net['seconds'] / 60:.0f} minutes of wall clock. Our best sampler is: {SAMPLERS[best_of(found)].title}."
    )
    parts = ["## Quality against network passes", about, table(_COLUMNS, rows)]
    return "\n\n".join(
        [*parts, _reached(found), _likelihoods(found, size.bound_rows), _painted(painting), _WHY.strip()]
    )


def _reached(found: Found) -> str:
    """Which samplers of ours are as good as the paper's, on the samples that all of them drew."""
    paper, ours = found["paper"], {name: how for name, how in SAMPLERS.items() if how.ours}
    named: dict[bool, list[str]] = {True: [], False: []}
    for name, how in ours.items():
        named[found[name]["frechet_few"] <= paper["frechet_few"]].append(f"{how.title} ({found[name]['passes']:,})")
    accepted = ", ".join(f"{share:.2f}" for share in paper["acceptance"])
    return (
        f"On 128 samples from the same noise the paper's sampler takes {paper['passes']:,} passes. As good or better, "
        f"with their passes: {'; '.join(named[True]) or 'none'}. Not as good: {'; '.join(named[False]) or 'none'}. "
        f"The paper's sampler proposes one pixel a pass and, as the paper has it, ends without a denoising; it accepts "
        f"{accepted} of its proposals, level by level, and leaves {paper['mean_pixel']:.3f} of the pixels white where "
        f"test images have {found['floor']['mean_pixel']:.3f}. How much of its distance is due to the missing "
        "denoising and how much to too few steps was not taken apart."
    )


def _row(title: str, cell: Mapping[str, Any]) -> list[str]:
    near = cell["memorization"]
    return [
        title,
        f"{cell['passes']:,}" if "passes" in cell else "",
        _estimate(cell["frechet"], cell["frechet_stderr"]),
        _estimate(cell["frechet_few"], cell["frechet_few_stderr"]),
        f"{min(cell['shares']):.1%}, {max(cell['shares']):.1%}",
        f"{cell['confidence']:.3f}",
        f"{near['sample_distance']:.1f} ± {near['sample_distance_stderr']:.1f}",
        f"{near['near']:.1%}, {near['copies']:.1%}",
    ]


def _estimate(value: float | None, stderr: float | None) -> str:
    return "" if value is None or stderr is None else f"{value:.2f} ± {stderr:.2f}"


def _likelihoods(found: Found, rows: int) -> str:
    lines = [
        f"{BASELINES[name]} {found[name]['log_likelihood']:.2f} ± {found[name]['log_likelihood_stderr']:.2f}"
        for name in ("independent", "mixture", "made")
    ]
    net = found["network"]
    return (
        f"Test log-likelihood, nats an image: {'; '.join(lines)}; ours, a lower bound by the reverse chain "
        f"(variational), {net['lower']:.2f} ± {net['lower_stderr']:.2f} on the first {rows:,} test images."
    )


def _painted(painting: Mapping[str, Any]) -> str:
    return (
        f"In-painting the lower half of {painting['pictures']} test images, nats a hidden pixel: ours "
        f"{painting['log_loss']:.4f}, the mixture's exact conditional {painting['mixture_log_loss']:.4f}, difference "
        f"{painting['difference']:.4f} ± {painting['difference_stderr']:.4f} over images "
        f"({painting['passes']} passes a draw)."
    )


TITLES = {
    "floor": "test images",
    "independent": "independent pixels",
    "mixture": "mixture of Bernoullis",
    "made": "MADE, maximum likelihood",
    "paper": "ours, the paper's annealed MH",
}
PAINTED = 10
"""Images of the in-painting that are shown."""
STEPS = 10
"""Moments of a way that are shown."""
_GREY = 0.55


def plots(found: Found, painting: Sequence[Mapping[str, Any]], shape: tuple[int, int]) -> dict[str, bytes]:
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
        cell = found[name]
        passes = f", {cell['passes']:,} passes" if "passes" in cell else ""
        _tiles(axes, [_images(cell["grid"], shape)[i : i + 8] for i in range(0, 64, 8)])
        axes.set_title(title, fontsize=10.5, color=INK)
        axes.set_xlabel(_distance(cell) + passes, fontsize=9, color=INK)
    return png(figure)


def _distance(cell: Mapping[str, Any]) -> str:
    if cell["frechet"] is None:
        return f"Fréchet {cell['frechet_few']:.3g} ± {cell['frechet_few_stderr']:.2g} (128 samples)"
    return f"Fréchet {cell['frechet']:.3g} ± {cell['frechet_stderr']:.2g}"


def _quality(found: Found) -> bytes:
    """The distance of 128 samples, which every sampler drew from the same noise, against passes."""
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    figure = _figure(7.6, 4.6)
    axes = figure.subplots()
    for number, (name, how) in enumerate(SAMPLERS.items()):
        cell, color = found[name], ACCENT if how.ours else INK
        place = cell["passes"], cell["frechet_few"]
        axes.errorbar(*place, cell["frechet_few_stderr"], fmt=_SHAPES[number], ms=7, color=color, label=how.title)
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
        ways = [_images(way, shape) for way in found[name]["ways"]]
        count = min(STEPS, len(ways))
        moments = [ways[round(i * (len(ways) - 1) / (count - 1))] for i in range(count)]
        _tiles(axes, [[moment[chain] for moment in moments] for chain in range(len(moments[0]))])
        axes.set_title(f"{SAMPLERS[name].title}, {found[name]['passes']:,} passes", fontsize=10.5, color=INK)
        axes.set_xlabel("from uniform noise, level by level, to the sample", fontsize=9, color=INK)
    return png(figure)


def _painting(part: Mapping[str, Any], shape: tuple[int, int]) -> bytes:
    """What was observed, some completions, and the truth, each in a line."""
    hidden = lower_half(shape).reshape(shape)
    truth = _images(part["rows"], shape)[:PAINTED]
    observed = [torch.where(hidden, _GREY, image.double()) for image in truth]
    lines = [observed, *(_images(draw, shape)[:PAINTED] for draw in part["draws"]), truth]
    figure = _figure(9.0, 9.0 * len(lines) / len(truth) + 0.4)
    axes = figure.subplots()
    _tiles(axes, lines)
    axes.set_title("The upper half is observed; completions; below them the truth", fontsize=10.5, color=INK)
    return png(figure)


def _images(text: str, shape: tuple[int, int]) -> list[Any]:
    return list(unpacked(text, shape[0] * shape[1]).reshape(-1, *shape))


def _tiles(axes: "Axes", lines: Sequence[Sequence[Any]]) -> None:
    """Images in lines, a thin line between them, white on black."""
    tall, wide = lines[0][0].shape
    sheet = torch.full((len(lines) * (tall + 1) - 1, len(lines[0]) * (wide + 1) - 1), _GREY, dtype=torch.float64)
    for i, line in enumerate(lines):
        for j, image in enumerate(line):
            sheet[i * (tall + 1) : i * (tall + 1) + tall, j * (wide + 1) : j * (wide + 1) + wide] = image
    axes.imshow(sheet.numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")
