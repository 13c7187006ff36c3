"""Figure 7: denoising CSM on two toys under categorical noise of several strengths (paper, section 4.3 and B.3).

A table of logits learns the noisy distribution ``p̃(x̃) = Σ_x p(x) q(x̃ | x)``, whose bin probabilities are known exactly.
Once with the noise integrated out: the mean over ``x`` of the noise's ratios at ``x̃`` is the noisy distribution's own
(property 1), so that the expectation over rows and corruptions is one sum over the edges of the grid. Once as the
paper would train it: rows drawn, corrupted, and compared on minibatches of 128. The variance of the sampled gradient is
measured beside it, for it is what tells the two apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from concrete_score.bench.checks import Check
from concrete_score.experiments.drawing import INK, png
from concrete_score.experiments.full_batch import EveryEdge
from concrete_score.experiments.plane import Plane, depth, packed_samples, panel
from concrete_score.experiments.result import Findings, Settings, number, table, without
from concrete_score.experiments.runner import Unit, complete
from concrete_score.metrics import histogram, kl, total_variation
from concrete_score.models import Table
from concrete_score.neighborhoods import grid
from concrete_score.noise import FactorizedNoise, categorical
from concrete_score.objectives import Bregman, Denoising, divergences
from concrete_score.randomness import generator
from concrete_score.scores import log_ratios
from concrete_score.shapes import PerSlot, PerStateTable
from concrete_score.targets.pmf import Pmf
from concrete_score.training import TrainingSettings, fit

TOYS = ("8gaussians", "2spirals")
WEIGHTS = (0.3, 0.5, 0.7, 0.9)
"""The paper's w: the probability that a site keeps its value."""
BATCH = 128
_CHUNK = 2**15
PLOTTED = ("samples", "samples_exact", "samples_clean")


@dataclass(frozen=True)
class Figure7Size:
    """How large a plane, how long a training, how many corruptions to measure the gradient on, and the bounds."""

    bins: int = 91
    rows: int = 100_000
    steps: int = 15_000
    sampled_steps: int = 10_000
    lr: float = 5e-4
    measured: int = 400_000
    bound: float = 0.005
    share_bound: float = 0.05


FULL, QUICK = Figure7Size(), Figure7Size(31, 20_000, 800, 200, 1e-2, 10_000, 0.03, 0.1)

PAPER = {
    "claim": "samples from models trained with D-CSM match the ground truth noisy samples across different values of w",
    "settings": "91 × 91 bins, grid, softmax logits, Adam 5e-4; the values of w are not given",
}


def run(settings: Settings) -> Findings:
    """Every toy at every strength: integrated, sampled, and the gradient's variance."""
    works = {"integrated": integrated, "sampled": sampled, "variance": variance}
    units = [
        Unit(f"{toy}-{kind}-{weight}", work, {"toy": toy, "weight": weight})
        for toy in TOYS
        for kind, work in works.items()
        for weight in WEIGHTS
    ]
    found = complete(units, settings)
    ours = {
        toy: {f"w = {w}": {kind: without(found[f"{toy}-{kind}-{w}"], *PLOTTED) for kind in works} for w in WEIGHTS}
        for toy in TOYS
    }
    checks = tuple(check for toy in TOYS for w in WEIGHTS for check in _checks(toy, w, ours[toy][f"w = {w}"], settings))

    size = QUICK if settings.quick else FULL
    return Findings(PAPER, ours, checks, {"figure7": plot(found, TOYS, WEIGHTS, size.bins)}, text=text(ours, BATCH))


def _checks(toy: str, weight: float, found: Mapping[str, Any], settings: Settings) -> list[Check]:
    size, cell = QUICK if settings.quick else FULL, found["integrated"]
    name = f"{toy}, w = {weight}, noise integrated out: total variation"
    return [
        Check.at_most(name, cell["total_variation"], size.bound),
        Check.at_most(f"{name} / the uniform start's", cell["share_of_start"], size.share_bound),
        Check.at_most(
            f"{toy}, w = {weight}: mean sampled gradient against the exact one, |z|", found["variance"]["z"], 5.0
        ),
    ]


@dataclass(frozen=True, eq=False)
class NoisyToy:
    """A toy, its noise and its exact noisy distribution."""

    plane: Plane
    noise: FactorizedNoise
    noisy: Pmf

    @classmethod
    def of(cls, toy: str, weight: float, settings: Settings) -> "NoisyToy":
        """The scene of a unit."""
        size = QUICK if settings.quick else FULL
        plane = Plane(toy, size.bins, size.rows, settings.seed)
        noise = categorical(plane.space, weight)
        return cls(plane, noise, Pmf(plane.space, noise.noisy_pmf(plane.truth.probabilities, 0).log()))

    def distance(self, logits: PerStateTable) -> dict[str, Any]:
        """Exact total variation and KL to the noisy distribution, beside the uniform start's."""
        model = Pmf(self.plane.space, logits.double().log_softmax(0))
        uniform = Pmf(self.plane.space, torch.zeros_like(model.log_pmf).log_softmax(0))
        distance, start = total_variation(model, self.noisy), total_variation(uniform, self.noisy)
        return {
            "total_variation": distance,
            "start": start,
            "share_of_start": distance / start,
            "kl": kl(self.noisy, model),
        }

    def shown(self, pmf: Pmf, what: str) -> str:
        """Samples for a plot."""
        return packed_samples(pmf, generator(self.plane.seed, f"{self.plane.name} {what} shown"))


def integrated(settings: Settings, toy: str, weight: float) -> dict[str, Any]:
    """D-CSM with rows and noise integrated out: CSM of the exact noisy distribution, every edge once."""
    scene, size = NoisyToy.of(toy, weight, settings), QUICK if settings.quick else FULL
    space = scene.plane.space
    model, objective = Table(space), EveryEdge(divergences.csm, grid(space), scene.noisy.probabilities)
    how = TrainingSettings(
        steps=size.steps, batch_size=1, lr=size.lr, schedule="constant", valid_every=size.steps, seed=settings.seed
    )
    # One look, at the end: these are the last weights, not those closest to the truth on the way.
    ended = fit(model, objective, space.enumerate()[:1], how, valid=scene.noisy.sample(size.rows, _gen(settings)))
    logits = model.logits.detach()
    return {
        **scene.distance(logits),
        "steps": ended.step,
        "seconds": round(ended.seconds, 1),
        "samples": scene.shown(Pmf(space, logits.double().log_softmax(0)), f"integrated {weight}"),
        "samples_exact": scene.shown(scene.noisy, f"exact {weight}"),
        "samples_clean": scene.shown(scene.plane.truth, "clean"),
    }


def sampled(settings: Settings, toy: str, weight: float) -> dict[str, Any]:
    """D-CSM on drawn rows and drawn noise, and a histogram of as many corrupted draws as a yardstick."""
    scene, size = NoisyToy.of(toy, weight, settings), QUICK if settings.quick else FULL
    plane = scene.plane
    rows = plane.toy.sample(plane.rows, generator(settings.seed, f"{toy} rows"))
    model, objective = Table(plane.space), Denoising(divergences.csm, scene.noise, grid(plane.space))
    how = TrainingSettings(
        steps=size.sampled_steps,
        batch_size=BATCH,
        lr=size.lr,
        schedule="constant",
        valid_every=size.sampled_steps,
        seed=settings.seed,
        retries=0,
    )
    ended = fit(model, objective, rows.to(torch.uint8), how, valid=scene.noisy.sample(size.rows, _gen(settings)))
    logits = model.logits.detach()
    seen = rows[torch.randint(len(rows), (BATCH * size.sampled_steps,), generator=_gen(settings))]
    counted = histogram(scene.noise.corrupt(seen, 0, _gen(settings)), plane.space)
    return {
        **scene.distance(logits),
        "steps": ended.step,
        "ended": ended.why,
        "corruptions_seen": BATCH * ended.step,
        "their_histogram": total_variation(counted, scene.noisy),
        "seconds": round(ended.seconds, 1),
        "samples": scene.shown(Pmf(plane.space, logits.double().log_softmax(0)), f"sampled {weight}"),
    }


def variance(settings: Settings, toy: str, weight: float) -> dict[str, Any]:
    """The trace of the covariance of one example's sampled gradient, at the uniform start and at the solution.

    Beside it the squared norm of the mean gradient, exact; ``noise_to_signal`` is what a batch of 128 has of both.
    """
    scene, size = NoisyToy.of(toy, weight, settings), QUICK if settings.quick else FULL
    space = scene.plane.space
    around = grid(space)
    exact = EveryEdge(divergences.csm, around, scene.noisy.probabilities)
    found: dict[str, Any] = {"measured_on": size.measured}
    for where, log_pmf in (("start", torch.zeros(space.num_states).double()), ("solution", scene.noisy.log_pmf)):
        model = Table.from_pmf(space, log_pmf.softmax(0))
        mean = torch.autograd.grad(exact.value(model), model.logits)[0]
        squared, along = measure(scene, Denoising(divergences.csm, scene.noise, around), model, mean, size, settings)
        signal = float(mean.square().sum())
        trace = float(squared.mean()) - signal
        found[where] = {
            "trace": trace,
            "trace_error": float(squared.std()) / sqrt(len(squared)),
            "signal": signal,
            "noise_to_signal": trace / BATCH / signal if where == "start" else None,
        }
        if where == "start":  # the mean of <g, ḡ> is |ḡ|²: is the estimator unbiased?
            found["z"] = abs(float(along.mean()) - signal) / (float(along.std()) / sqrt(len(along)))
    return found


def measure(
    scene: NoisyToy, objective: Denoising, model: Table, mean: Tensor, size: Figure7Size, settings: Settings
) -> tuple[Tensor, Tensor]:
    """Of many examples' gradients in the logits: squared norms, and inner products with the mean gradient."""
    squared, along = [], []
    for start in range(0, size.measured, _CHUNK):
        count = min(_CHUNK, size.measured - start)
        gen = generator(settings.seed, "gradients", start)
        noisy, _, target = objective.draw(scene.plane.truth.sample(count, gen), gen)
        with torch.no_grad():
            slope = slopes(objective.divergence, log_ratios(model, objective.neighborhood, noisy), target.exp())
        # A log-ratio's gradient is +1 at the neighbor's logit and -1 at the state's own; all of them are different.
        squared.append(slope.square().sum(-1) + slope.sum(-1).square())
        near = mean[scene.plane.space.index(objective.neighborhood.neighbors(noisy))]
        along.append((slope * (near - mean[scene.plane.space.index(noisy)][:, None])).sum(-1))
    return torch.cat(squared), torch.cat(along)


def slopes(divergence: Bregman, log_ratio: PerSlot, ratio: PerSlot) -> PerSlot:
    """The derivative of ``h(s) - r f'(s)`` in ``log s``.

    >>> slopes(divergences.csm, torch.zeros(1, 1), torch.full((1, 1), 3.0)).tolist()  # 2s² - 2rs
    [[-4.0]]
    """
    with torch.enable_grad():
        at = log_ratio.detach().requires_grad_()
        value = divergence.a(at) - ratio * divergence.b(at)
        found: Tensor = torch.autograd.grad(value.sum(), at)[0]
    return found


def _gen(settings: Settings) -> torch.Generator:
    return generator(settings.seed, "yardstick")


ROWS = (
    ("integrated", "samples_exact", "exact noisy", None),
    ("integrated", "samples", "D-CSM,\nnoise integrated out", "total_variation"),
    ("sampled", "samples", "D-CSM,\nnoise sampled", "total_variation"),
)


def plot(found: Mapping[str, Mapping[str, Any]], toys: Sequence[str], weights: Sequence[float], bins: int) -> bytes:
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
                cell = found[f"{toy}-{kind}-{weight}"]
                note = "" if measured is None else f"TV {cell[measured]:.2g}"
                title = f"w = {weight}" if measured is None else ""
                panel(row[column], cell[key], bins, deep, title, note)
                if column == 1:
                    row[column].set_ylabel(label, fontsize=9, color=INK)
    return png(figure)


_WHY = """
Agrees in the mean: with the noise integrated out, and the rows with it, the learned table is the noisy distribution at
every w; the paper's claim, here with a number. (Through finitely many rows one sees their own noisy histogram.)

Does not agree as it would be trained. Sampled, denoising CSM has the same mean gradient (the checks *against the exact
one*), and so much variance that {corruptions:,} corruptions in batches of {batch} hardly move the table from its
start, while a plain histogram of as many (*their histogram*) is near the truth. Where the noise changed a site and a
neighbor holds the clean value, the target ratio is 90 w / (1 - w), from 39 at w = 0.3 to 810 at w = 0.9; that is met
rarely, and the variance holds its square. *Noise over signal* is the variance of a batch's gradient over the squared
length of the mean gradient, {least} to {most}: a batch would have to be as many times larger to see the mean at all.
The paper shows plots that match, and gives neither batch nor steps.
"""
_CLAIM = """
The paper (B.3): "samples from our models match the ground truth perturbed data samples across different values of w"
(plots only; its w are not given). Grid, softmax logits from a uniform start, Adam, noise that keeps a site with
probability w. Total variation and KL are exact, to the exact noisy distribution.
"""


def text(ours: Mapping[str, Mapping[str, Any]], batch: int) -> str:
    """The Markdown under the checks."""
    parts = ["## The paper and ours", _CLAIM.strip()]
    seen = next(iter(next(iter(ours.values())).values()))["sampled"]["corruptions_seen"]
    for toy, found in ours.items():
        parts += [f"### {toy}", table(_COLUMNS, [_row(weight, cell) for weight, cell in found.items()])]
        parts.append(table(_NOISE, [_noise(weight, cell) for weight, cell in found.items()]))
    noise = [cell["variance"]["start"]["noise_to_signal"] for found in ours.values() for cell in found.values()]
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


def _row(weight: str, cell: Mapping[str, Any]) -> list[str]:
    exact, drawn = cell["integrated"], cell["sampled"]
    return [
        weight,
        number(exact["start"]),
        number(exact["total_variation"]),
        f"{100 * exact['share_of_start']:.2g} %",
        number(exact["kl"]),
        number(drawn["total_variation"]),
        number(drawn["their_histogram"]),
    ]


def _noise(weight: str, cell: Mapping[str, Any]) -> list[str]:
    start, solution = cell["variance"]["start"], cell["variance"]["solution"]
    return [
        weight,
        f"{number(start['trace'])} ± {number(start['trace_error'], 2)}",
        number(start["noise_to_signal"]),
        f"{number(solution['trace'])} ± {number(solution['trace_error'], 2)}",
    ]
