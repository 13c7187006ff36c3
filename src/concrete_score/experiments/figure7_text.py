"""Figure 7 in words."""

from collections.abc import Mapping
from typing import Any

from concrete_score.experiments.figure_text import number, table

_WHY = """
Agrees: with the noise integrated out the learned table is the noisy distribution, at every w; the paper's claim, here
with a number. Sampled, denoising CSM has the same mean gradient (the checks *against the exact one*) and a variance
that grows steeply with w: where the noise changed a site, the target ratio back to the clean value is
w / ((1 - w) / 90), 810 at w = 0.9; it is met rarely, and squared error squares it. *Noise over signal* is what a batch
of 128 has of it at the start, relative to the squared length of the mean gradient. A rare large pull that Adam divides
by its size moves a table little, so the sampled ones are still far from the truth after {corruptions:,} corruptions; a
plain histogram of as many (*their histogram*) is the yardstick. More steps, a larger batch or a divergence that does
not
not square ratios is what helps there.
"""
_CLAIM = """
The paper (B.3): "samples from our models match the ground truth perturbed data samples across different values of w"
(pictures only; its w are not given). Grid, softmax logits from a uniform start, Adam, noise that keeps a site with
probability w. Total variation and KL are exact, to the exact noisy distribution.
"""


def text(ours: Mapping[str, Mapping[str, Any]]) -> str:
    """The Markdown under the checks."""
    parts = ["## The paper and ours", _CLAIM.strip()]
    seen = next(iter(next(iter(ours.values())).values()))["sampled"]["corruptions_seen"]
    for toy, found in ours.items():
        parts += [f"### {toy}", table(_COLUMNS, [_row(weight, told) for weight, told in found.items()])]
        parts.append(table(_NOISE, [_noise(weight, told) for weight, told in found.items()]))
    return "\n\n".join([*parts, _WHY.format(corruptions=seen).strip()])


_COLUMNS = [
    "",
    "uniform start",
    "noise integrated out",
    "share of the start's",
    "KL",
    "noise sampled",
    "their histogram",
]
_NOISE = ["one example's gradient", "trace at the start", "noise over signal, batch 128", "trace at the solution"]


def _row(weight: str, told: Mapping[str, Any]) -> list[str]:
    exact, drawn = told["integrated"], told["sampled"]
    return [
        weight,
        number(exact["start"]),
        number(exact["total_variation"]),
        f"{100 * exact['share_of_start']:.2g} %",
        number(exact["kl"]),
        number(drawn["total_variation"]),
        number(drawn["their_histogram"]),
    ]


def _noise(weight: str, told: Mapping[str, Any]) -> list[str]:
    start, solution = told["variance"]["start"], told["variance"]["solution"]
    return [
        weight,
        f"{number(start['trace'])} ± {number(start['trace_error'], 2)}",
        number(start["noise_to_signal"]),
        f"{number(solution['trace'])} ± {number(solution['trace_error'], 2)}",
    ]
