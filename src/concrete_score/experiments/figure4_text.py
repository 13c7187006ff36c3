"""Figure 4 in words: one table of quality against network passes, and what is exact about it."""

from collections.abc import Mapping
from typing import Any

from concrete_score.experiments.figure4_cells import SAMPLERS, Size, best_of
from concrete_score.experiments.figure_text import table

Found = Mapping[str, Mapping[str, Any]]
BASELINES = {
    "floor": "test pictures (the floor)",
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
    "nearest training picture",
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
  of 128 samples is to be read downwards only, and it is coarse: there test pictures themselves may come out behind
  samples, within error. Errors are bootstraps over both sides.
- **Our best sampler** is the one of least distance over the same samples that are then judged. Where others lie within
  its error the choice between them is luck.
- **The baselines** were fitted in one setting each, which was not tuned; neither was that of the network.
- **Memorization**: distances are in pixels to the nearest training picture; *near* is the distance within which one in
  a hundred test pictures lies. Samples pass if no more than three times as many of them as of test pictures are near.
- **In-painting** is unadjusted: observed pixels are corrupted anew at each level, and a chain sees them only so. The
  marginals are what the head says at the last level reached, averaged over the draws; the mixture's are exact. The
  levels and steps of these chains are the best of five settings tried on 40 validation pictures of MNIST while the
  network was still in training; the mixture's number of components was not varied.
"""


def text(found: Found, painting: Mapping[str, Any], size: Size) -> str:
    """The Markdown under the checks."""
    rows = [_row(title, found[name]) for name, title in BASELINES.items()]
    rows += [_row(f"ours: {how.title}", found[name]) for name, how in SAMPLERS.items()]
    head, net = found["floor"], found["network"]
    about = (
        f"Pictures of `{size.lesson.dataset}`, bits above one half. The classifier names {head['accuracy']:.2%} of the "
        f"test pictures; distances are to {size.reference:,} training pictures, of {size.samples:,} samples. "
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
    words: dict[bool, list[str]] = {True: [], False: []}
    for name, how in ours.items():
        words[found[name]["frechet_few"] <= paper["frechet_few"]].append(f"{how.title} ({found[name]['passes']:,})")
    accepted = ", ".join(f"{share:.2f}" for share in paper["acceptance"])
    return (
        f"On 128 samples from the same noise the paper's sampler takes {paper['passes']:,} passes. As good or better, "
        f"with their passes: {'; '.join(words[True]) or 'none'}. Not as good: {'; '.join(words[False]) or 'none'}. "
        f"The paper's sampler proposes one pixel a pass and, as the paper has it, ends without a denoising; it accepts "
        f"{accepted} of its proposals, level by level, and leaves {paper['mean_pixel']:.3f} of the pixels white where "
        f"test pictures have {found['floor']['mean_pixel']:.3f}. How much of its distance is due to the missing "
        "denoising and how much to too few steps was not taken apart."
    )


def _row(title: str, told: Mapping[str, Any]) -> list[str]:
    near = told["memorization"]
    return [
        title,
        f"{told['passes']:,}" if "passes" in told else "",
        _estimate(told["frechet"], told["frechet_stderr"]),
        _estimate(told["frechet_few"], told["frechet_few_stderr"]),
        f"{min(told['shares']):.1%}, {max(told['shares']):.1%}",
        f"{told['confidence']:.3f}",
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
        f"Test log-likelihood, nats a picture: {'; '.join(lines)}; ours, a lower bound by the reverse chain "
        f"(variational), {net['lower']:.2f} ± {net['lower_stderr']:.2f} on the first {rows:,} test pictures."
    )


def _painted(painting: Mapping[str, Any]) -> str:
    return (
        f"In-painting the lower half of {painting['pictures']} test pictures, nats a hidden pixel: ours "
        f"{painting['log_loss']:.4f}, the mixture's exact conditional {painting['mixture_log_loss']:.4f}, difference "
        f"{painting['difference']:.4f} ± {painting['difference_stderr']:.4f} over pictures "
        f"({painting['passes']} passes a draw)."
    )
