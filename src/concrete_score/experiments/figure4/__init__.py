"""Figure 4: binary images, from uniform noise to digits (paper, section 5.5 and appendix C.4).

The paper shows samples alone. Here they are judged by numbers too, beside baselines and beside other samplers of the
same network. Training is the longest unit; the network is a run directory in the user's cache, which goes on from
its last checkpoint and which commands open like any run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

from concrete_score.bench.checks import Check
from concrete_score.experiments.figure4.learning import learn
from concrete_score.experiments.figure4.report import plots, text
from concrete_score.experiments.figure4.units import (
    SAMPLERS,
    Figure4Size,
    best_of,
    draw,
    floor,
    independent,
    made,
    mixture,
    network,
    paint,
    size_of,
)
from concrete_score.experiments.result import Findings, Settings, without
from concrete_score.experiments.runner import Unit, complete, stored

PAPER = {
    "data": "binarized MNIST, 28 × 28",
    "levels": "bit flips by rounded Gaussian noise, σ = 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65",
    "model": "a U-Net of the Concrete score, CSM on the grid, Adam 2e-4, until convergence",
    "sampler": "annealed Metropolis-Hastings from uniform noise, 100 to 800 steps a level",
    "result": "an image of samples; no numbers",
}
BASELINES = {"floor": floor, "independent": independent, "mixture": mixture, "made": made}
"""Rows of the table that need no network; the floor are test images."""


@dataclass(frozen=True)
class Bounds:
    """What the findings are held to."""

    made: float = 1.0
    """On our Fréchet distance over that of the MADE, and so on."""
    mixture: float = 1.0
    independent: float = 1 / 3
    least: float = 0.04
    most: float = 0.18
    """Between these lies the share of every class."""
    passes: float = 0.1
    painting: float = 0.0
    """On our log-loss a pixel less the mixture's."""


FULL = Bounds()
QUICK = Bounds(mixture=5.0, independent=0.5, least=0.01, most=0.3, passes=0.2, painting=0.15)
"""On 1,199 images of 8 × 8 a network of seconds does not beat a mixture. These were set after a first quick
run, with room to spare: they say whether something broke, not how good it is."""

Found = Mapping[str, Mapping[str, Any]]


def run(settings: Settings) -> Findings:
    """All units, in the order in which they can be done; then table, grids and the way from noise to digits.

    Raises:
        InputError: the images are not here; before any work, it says which file to put where.
    """
    size = size_of(settings)
    shape = size.network.images().shape
    found = complete([Unit(name, work) for name, work in BASELINES.items()], settings)
    found |= complete([Unit("network", network)], settings)
    units = [Unit(name, draw, {"sampler": name}) for name in SAMPLERS]
    units += [Unit(f"painting-{first}", paint, {"first": first}) for first in _firsts(size)]
    if len(stored(units, settings)) < len(units):
        # A cache may have been emptied since; processes that share the units must not all train at once.
        learn(size.network, settings.say, settings.device)
    found |= complete(units, settings)
    painting = joined([found[f"painting-{first}"] for first in _firsts(size)])
    checks = checks_of(found, painting, QUICK if settings.quick else FULL)
    shown = plots(found, [found[f"painting-{first}"] for first in _firsts(size)], shape)
    ours = {name: without(cell, "grid", "ways") for name, cell in found.items() if not name.startswith("painting")}
    return Findings(PAPER, {**ours, "painting": painting}, checks, shown, text=text(found, painting, size))


def _firsts(size: Figure4Size) -> range:
    return range(0, size.painted, size.painted_at_once)


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """All painted images together: mean log-losses a pixel, and their difference with its error over images."""
    ours, theirs = ([value for part in parts for value in part[name]] for name in ("ours", "mixture"))
    gaps = [one - other for one, other in zip(ours, theirs, strict=True)]
    return {
        "pictures": len(gaps),
        "passes": parts[0]["passes"],
        "log_loss": _mean(ours),
        "mixture_log_loss": _mean(theirs),
        "difference": _mean(gaps),
        "difference_stderr": _stderr(gaps),
    }


def fewest_passes(found: Found) -> float:
    """The fewest passes of a sampler of ours whose `FEW` samples are no worse than the paper's; infinite if none is."""
    bar = found["paper"]["frechet_few"]
    reached = [
        found[name]["passes"] for name, how in SAMPLERS.items() if how.ours and found[name]["frechet_few"] <= bar
    ]
    return float(min(reached, default=inf))


def checks_of(found: Found, painting: Mapping[str, Any], bounds: Bounds = FULL) -> tuple[Check, ...]:
    """Every line of what must be shown about samples."""
    ours = found[best_of(found)]
    near = ours["memorization"]
    ratio = {name: ours["frechet"] / found[name]["frechet"] for name in ("made", "mixture", "independent")}
    gap = painting["difference"]
    return (
        Check.at_most("Fréchet distance, ours / MADE by maximum likelihood", ratio["made"], bounds.made),
        Check.at_most("Fréchet distance, ours / mixture of Bernoullis", ratio["mixture"], bounds.mixture),
        Check.at_most("Fréchet distance, ours / independent pixels", ratio["independent"], bounds.independent),
        Check.at_least("share of the rarest class", min(ours["shares"]), bounds.least),
        Check.at_most("share of the commonest class", max(ours["shares"]), bounds.most),
        Check.at_most("samples near training images / allowed", near["near"] / near_allowed(near), 1.0),
        Check.at_most("network passes to the paper's quality / the paper's", passes_ratio(found), bounds.passes),
        Check.at_most("in-painting log-loss a pixel, ours less the mixture's", gap, bounds.painting),
    )


def near_allowed(near: Mapping[str, Any]) -> float:
    """How many samples may lie near training images: three times the share of test images, within error."""
    return float(3 * near["fresh_near"] + 3 * near["near_stderr"])


def passes_ratio(found: Found) -> float:
    """Passes of our cheapest sampler that is as good, over those of the paper's."""
    return fewest_passes(found) / float(found["paper"]["passes"])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _stderr(values: list[float]) -> float:
    mean = _mean(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
