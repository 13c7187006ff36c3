"""Figure 2: sixteen categories sampled through a learned Concrete score (paper, section 5.2, A.3 and C.1).

A network learns the ratios of a cycle from samples, as the paper trains it: three layers of 100 tanh units that give
the score itself, Adam at 0.001, 100,000 iterations (with a cosine decay, without which the last digits stay noisy).
Metropolis-Hastings then draws categories from its ratios alone. The same ratios give the Stein score of the data under
triangular noise, along which MALA (exact) and unadjusted Langevin (as in the paper, biased) draw points between the
categories; the closed-form posterior brings them back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.bench.checks import Check
from concrete_score.experiments.drawing import ACCENT, INK, QUIET, SOFT, png
from concrete_score.experiments.one_dimensional import HELD_OUT, ROWS
from concrete_score.experiments.result import Findings, Settings
from concrete_score.metrics import histogram, total_variation
from concrete_score.neighborhoods import cycle
from concrete_score.noise import Triangular
from concrete_score.objectives import build
from concrete_score.protocols import Kernel
from concrete_score.randomness import generator
from concrete_score.samplers import MALA, Langevin, MetropolisHastings
from concrete_score.samplers import run as run_chains
from concrete_score.scores import recover
from concrete_score.targets import Pmf, pmf, sixteen_categories
from concrete_score.training import Enumerated, TrainingSettings, fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS = 4
"""Cells a unit in which points between the states are counted."""
PAPER = {
    "layers": 3,
    "hidden units": 100,
    "activation": "tanh",
    "neighborhood": "cycle",
    "optimizer": "Adam",
    "learning rate": 1e-3,
    "iterations": 100_000,
}


@dataclass(frozen=True)
class Figure2Size:
    """How long everything takes. Chains start uniformly and run until they have forgotten it."""

    enumerated: bool = False
    """Train on the objective summed over the truth instead of on samples."""
    iterations: int = 100_000
    batch: int = 128
    draws: int = 100_000
    """Parallel chains, one draw each."""
    mh_steps: int = 250
    mala: tuple[float, int] = (2.0, 300)
    """Step size and steps."""
    langevin: Mapping[float, int] = field(default_factory=lambda: {0.5: 600, 0.1: 3_000})
    """Steps for each step size: their product is how long the noise acts."""
    langevin_draws: int = 50_000
    bound: float = 0.01


QUICK = Figure2Size(True, 2_000, 16, 5_000, 150, (8.0, 60), {0.5: 120}, 5_000, 0.05)
"""The summed objective learns in seconds; five thousand draws are on their own 0.019 off."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """What each sampler drew, beside the truth."""

    truth: Pmf
    learned: Pmf
    mh: Pmf
    """Of the draws."""
    points: Mapping[str, Tensor]
    """Between the categories ``(N, 1)``, by kernel."""
    denoised: Mapping[str, Pmf]


def run(settings: Settings) -> Findings:
    """Train, sample four ways, compare; and hold both score formulas of A.3 against autograd in two dimensions."""

    size = QUICK if settings.quick else Figure2Size()
    truth = sixteen_categories()
    _say(settings, f"training {size.iterations:,} iterations")
    model, ended = learn(truth, size, settings)
    sampled = sample(truth, model, size, settings)
    plane = score_errors()
    ours = {
        **PAPER,
        "iterations": size.iterations,
        "schedule": "cosine",
        "trained on": "the summed objective" if size.enumerated else f"{ROWS:,} samples, {size.batch} an iteration",
        "diverged": ended.diverged,
        "draws": size.draws,
        "recovered from the scores": total_variation(sampled.learned, truth),
        "exact draws, as many": total_variation(histogram(_exact(truth, size, settings), truth.space), truth),
        "mh": total_variation(sampled.mh, truth),
        "noisy points": {name: noisy_distance(points, truth) for name, points in sampled.points.items()},
        "denoised": {name: total_variation(found, truth) for name, found in sampled.denoised.items()},
        "score formulas": plane,
    }
    return Findings(PAPER, ours, _checks(ours, size, plane), {"figure2": plot(sampled)})


def learn(truth: Pmf, size: Figure2Size, settings: Settings) -> tuple[Any, Any]:
    """The paper's score network on a cycle, and how its training ended."""
    neighborhood = cycle(truth.space)
    model = registry.load("models", "mlp")(neighborhood, "raw", generator=generator(settings.seed, "weights"))
    objective: Any = build("csm", truth.space, neighborhood=neighborhood, edges="independent")
    if size.enumerated:
        rows = valid = truth.space.enumerate()
        objective = Enumerated(objective, truth.probabilities)
    else:
        rows, valid = (truth.sample(n, generator(settings.seed, "rows", n)).to(torch.uint8) for n in (ROWS, HELD_OUT))
    how = TrainingSettings(
        steps=size.iterations,
        batch_size=size.batch,
        lr=1e-3,
        schedule="cosine",
        valid_every=size.iterations // 4,
        seed=settings.seed,
    )
    ended = fit(model, objective, rows, how, valid=valid, device=settings.device)
    return model.cpu().requires_grad_(False), ended


def sample(truth: Pmf, model: Any, size: Figure2Size, settings: Settings) -> Sampled:
    """Categories by Metropolis-Hastings; points by Langevin, adjusted and not; and those points brought back."""
    space = truth.space
    learned = Pmf(space, recover(model.log_ratios(space.enumerate()), model.neighborhood).log_pmf)
    noisy = Triangular.of(learned)
    step, steps = size.mala
    kernels: dict[str, tuple[Kernel, int, int]] = {
        "mh": (MetropolisHastings(model), size.draws, size.mh_steps),
        "mala": (MALA(noisy, step), size.draws, steps),
        **{f"langevin, step {e:g}": (Langevin(noisy, e), size.langevin_draws, n) for e, n in size.langevin.items()},
    }
    ends = {name: _ends(name, *how, settings) for name, how in kernels.items()}
    categories = ends.pop("mh")
    clean = {name: noisy.denoise(x, generator(settings.seed, f"denoise {name}")) for name, x in ends.items()}
    denoised = {name: histogram(x, space) for name, x in clean.items()}
    return Sampled(truth, learned, histogram(categories, space), ends, denoised)


def noisy_distance(points: Tensor, truth: Pmf) -> float:
    """Total variation between points ``(N, 1)`` and the true noisy density, in cells of a quarter."""
    lower, mass = cells(truth)
    seen = torch.bincount(((points[:, 0] - lower[0]) * CELLS).floor().long(), minlength=len(mass))
    return total_variation(seen.double() / len(points), mass)


def cells(truth: Pmf) -> tuple[Tensor, Tensor]:
    """Where cells begin, and their share under the noisy density ``(n,)`` each.

    It is linear between the categories, so that the middle of a cell gives its share exactly.

    >>> lower, mass = cells(sixteen_categories())
    >>> lower[0].item(), round(float(mass.sum()), 12)
    (-1.0, 1.0)
    """
    lower = torch.arange(-CELLS, truth.space.sizes[0] * CELLS, dtype=torch.float64) / CELLS
    middle = (lower + 0.5 / CELLS)[:, None]
    return lower, Triangular.of(truth).log_density(middle).exp() / CELLS


def score_errors(points: int = 2_000) -> dict[str, float]:
    """How far the corner sum and the paper's per-coordinate formula are from ``∇ log p̃`` by autograd, at worst.

    On two dependent sites, and for the paper's formula also on two independent ones, where it is exact.
    """
    table = sixteen_categories().probabilities
    k = torch.arange(len(table))
    near = (-((k[:, None] - k) ** 2) / 8.0).exp()
    dependent = Triangular.of(pmf(table[:, None] * near / (table[:, None] * near).sum()))
    product = Triangular.of(pmf(table[:, None] * table))
    unit = torch.rand((points, 2), generator=generator(0, "plane"), dtype=torch.float64)
    x = unit * (len(table) + 1) - 1
    return {
        "corner sum, dependent sites": _worst(dependent, dependent.stein_score(x), x),
        "per coordinate, dependent sites": _worst(dependent, dependent.per_coordinate_score(x), x),
        "per coordinate, independent sites": _worst(product, product.per_coordinate_score(x), x),
    }


def _worst(noise: Triangular, score: Tensor, points: Tensor) -> float:
    """The largest error of a score in units of ``max(1, |∇ log p̃|)``."""
    x = points.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(noise.log_density(x).sum(), x)
    return float(((score - gradient).abs() / gradient.abs().clamp_min(1)).max())


def _checks(ours: Mapping[str, Any], size: Figure2Size, plane: Mapping[str, float]) -> tuple[Check, ...]:
    draws = f"of {size.draws:,} draws"
    return (
        Check.at_most(f"total variation {draws}, mh", ours["mh"], size.bound),
        Check.at_most(f"total variation {draws}, denoised mala", ours["denoised"]["mala"], size.bound),
        *(
            Check.at_most(f"{name}: error against autograd", plane[name], 1e-9)
            for name in ("corner sum, dependent sites", "per coordinate, independent sites")
        ),
        Check.at_least(
            "per coordinate, dependent sites: error against autograd", plane["per coordinate, dependent sites"], 0.1
        ),
    )


def _ends(name: str, kernel: Kernel, draws: int, steps: int, settings: Settings) -> Tensor:
    _say(settings, f"{name}: {draws:,} chains, {steps:,} steps")
    gen = generator(settings.seed, name)
    return run_chains(kernel, draws, steps=steps, generator=gen, diagnose=False, keep=False).state.x


def _exact(truth: Pmf, size: Figure2Size, settings: Settings) -> Tensor:
    return truth.sample(size.draws, generator(settings.seed, "exact"))


def _say(settings: Settings, line: str) -> None:
    if settings.say is not None:
        settings.say(line)


_STYLES = (("-", ACCENT), (":", INK), ("--", INK))


def plot(found: Sampled) -> bytes:
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
