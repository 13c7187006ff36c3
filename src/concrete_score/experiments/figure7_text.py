"""Figure 7 in words."""

from collections.abc import Mapping
from typing import Any

from concrete_score.experiments.figure_text import number, table

_WHY = """
Agrees in the mean: with the noise integrated out, and the rows with it, the learned table is the noisy distribution at
every w; the paper's claim, here with a number. (Through finitely many rows one sees their own noisy histogram.)

Does not agree as it would be trained. Sampled, denoising CSM has the same mean gradient (the checks *against the exact
one*), and so much variance that {corruptions:,} corruptions in batches of {batch} hardly move the table from its
start, while a plain histogram of as many (*their histogram*) is near the truth. Where the noise changed a site and a
neighbor holds the clean value, the target ratio is 90 w / (1 - w), from 39 at w = 0.3 to 810 at w = 0.9; that is met
rarely, and the variance holds its square. *Noise over signal* is the variance of a batch's gradient over the squared
length of the mean gradient, {least} to {most}: a batch would have to be as many times larger to see the mean at all.
The paper shows pictures that match, and gives neither batch nor steps.
"""
_CLAIM = """
The paper (B.3): "samples from our models match the ground truth perturbed data samples across different values of w"
(pictures only; its w are not given). Grid, softmax logits from a uniform start, Adam, noise that keeps a site with
probability w. Total variation and KL are exact, to the exact noisy distribution.
"""


def text(ours: Mapping[str, Mapping[str, Any]], batch: int) -> str:
    """The Markdown under the checks."""
    parts = ["## The paper and ours", _CLAIM.strip()]
    seen = next(iter(next(iter(ours.values())).values()))["sampled"]["corruptions_seen"]
    for toy, found in ours.items():
        parts += [f"### {toy}", table(_COLUMNS, [_row(weight, told) for weight, told in found.items()])]
        parts.append(table(_NOISE, [_noise(weight, told) for weight, told in found.items()]))
    noise = [told["variance"]["start"]["noise_to_signal"] for found in ours.values() for told in found.values()]
    least, most = (f"{end(noise):,.0f}" for end in (min, max))
    return "\n\n".join([*parts, _WHY.format(corruptions=seen, batch=batch, least=least, most=most).strip()])


_COLUMNS = [
    "",
    "uniform start",
    "noise integrated out",
    "share of the start's",
    "KL",
    "noise sampled",
    "their histogram",
]
_NOISE = ["one example's gradient", "variance at the start", "noise over signal, a batch", "variance at the solution"]


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
