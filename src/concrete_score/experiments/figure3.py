"""Figure 3: three toys on 91 × 91 bins, learned by the baselines, by CSM and by ours (paper, sections 5.3, C.2, D).

A table of logits starts uniform and is trained by Adam at the paper's rate. As written, *CSM* and *Marginal-fixed* have
no lower bound on samples: a state without draws beside one with draws feels one of their two terms alone. They are
shown where the guard stops them and at the best point on the way, and beside them the same objectives on draws mixed
with a known tenth of uniform noise, which is subtracted exactly afterwards. Total variation and KL to the truth are
exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import TYPE_CHECKING, Any

import torch

from concrete_score.bench.checks import Check
from concrete_score.experiments.drawing import ACCENT, INK, QUIET, png
from concrete_score.experiments.full_batch import EveryEdge, EveryLine
from concrete_score.experiments.plane import (
    LearnedTable,
    Plane,
    depth,
    held_against,
    learn,
    line_departure,
    mixed,
    packed_samples,
    panel,
    sampled,
    training_settings,
)
from concrete_score.experiments.result import Findings, Settings, number, table, without
from concrete_score.experiments.runner import Unit, complete
from concrete_score.models import Table
from concrete_score.neighborhoods import grid
from concrete_score.objectives import divergences
from concrete_score.randomness import generator
from concrete_score.shapes import PerStateTable
from concrete_score.spaces import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TOYS = ("8gaussians", "checkerboard", "2spirals")
SHARE = 0.1
"""Of uniform noise mixed into the draws."""
PAPER_RATE = 5e-4
PATIENCE = 4_000
"""Steps without likelier held-out draws that end a training."""
_RAY = (0.0, 10.0, 20.0)
PLOTTED = ("path", "samples", "samples_last")


@dataclass(frozen=True)
class Figure3Size:
    """How large a plane, how many draws, and Adam's rate; a larger rate takes as many fewer steps."""

    bins: int = 91
    rows: int = 100_000
    lr: float = PAPER_RATE

    departure: float = 0.01
    """How far from uniform the objectives that ignore the data may end."""

    def steps(self, full: int) -> int:
        """The steps that move a logit as far as ``full`` steps at the paper's rate."""
        return round(full * PAPER_RATE / self.lr)


FULL, QUICK = Figure3Size(), Figure3Size(bins=31, rows=20_000, lr=2e-2, departure=0.15)
Build = Callable[[Space, PerStateTable], Any]


def csm_on_grid(space: Space, pmf: PerStateTable) -> EveryEdge:
    """The paper's objective on the paper's neighborhood."""
    return EveryEdge(divergences.csm, grid(space), pmf)


@dataclass(frozen=True)
class ToyMethod:
    """One column: an objective, how long it is trained, on what, from where, and the bounds it is held to."""

    title: str
    objective: Build
    steps: int
    share: float = 0.0
    """Of uniform noise, subtracted afterwards."""
    normal_start: bool = False
    ignores_data: bool = False
    """Its minimizer is uniform on every line with draws."""
    unbounded: bool = False
    """On draws alone it has no lower bound."""
    decline: float | None = None
    """At least how much farther from the truth than the best point it is when it is stopped, in histogram's errors."""
    bound: float | None = None
    """On total variation over the training histogram's own."""
    quick_bound: float | None = None


_RATIO = partial(EveryLine, "ratio_matching_uncorrected")
_MARGINAL = partial(EveryLine, "discrete_marginalization_uncorrected")
_MARGINAL_FIXED = partial(EveryLine, "discrete_marginalization")

METHODS: Mapping[str, ToyMethod] = {
    "ratio": ToyMethod("Ratio", _RATIO, 3_000, ignores_data=True),
    "ratio_elsewhere": ToyMethod("Ratio, random start", _RATIO, 12_000, normal_start=True, ignores_data=True),
    "ratio_fixed": ToyMethod(
        "Ratio-fixed", partial(EveryLine, "ratio_matching_multiclass"), 30_000, bound=1.15, quick_bound=1.8
    ),
    "marginal": ToyMethod("Marginal", _MARGINAL, 3_000, ignores_data=True),
    "marginal_elsewhere": ToyMethod("Marginal, random start", _MARGINAL, 30_000, normal_start=True, ignores_data=True),
    "marginal_fixed": ToyMethod("Marginal-fixed\nas written", _MARGINAL_FIXED, 20_000, unbounded=True),
    "csm": ToyMethod("CSM\nas written", csm_on_grid, 20_000, unbounded=True, decline=0.5),
    "marginal_fixed_mixed": ToyMethod(
        "Marginal-fixed\nmixed", _MARGINAL_FIXED, 20_000, share=SHARE, bound=1.05, quick_bound=1.3
    ),
    "csm_mixed": ToyMethod("CSM\nmixed", csm_on_grid, 20_000, share=SHARE, bound=1.05, quick_bound=1.3),
    "ours": ToyMethod(
        "ours: CSM,\nhamming, mixed", partial(EveryLine, "csm"), 8_000, share=SHARE, bound=1.02, quick_bound=1.2
    ),
}

PAPER = {
    "Data": "three toys on 91 × 91 bins",
    "Ratio": "cannot learn meaningful features of the data",
    "Ratio-fixed": "more reasonable than Ratio",
    "Marginal": "cannot learn meaningful representations of the data",
    "Marginal-fixed": "more reasonable than Marginal",
    "CSM": "the highest quality samples on all three",
    "settings": "logits of 91 × 91 classes, uniform start, Adam 5e-4, grid; steps, batch and draws not given",
}


def run(settings: Settings) -> Findings:
    """Every toy by every method."""
    units = [Unit(toy, describe, {"toy": toy}) for toy in TOYS]
    units += [Unit(f"{toy}-{name}", train_one, {"toy": toy, "method": name}) for toy in TOYS for name in METHODS]
    found = complete(units, settings)
    ours = {
        toy: {
            **without(found[toy], *PLOTTED),
            **{name: without(found[f"{toy}-{name}"], *PLOTTED) for name in METHODS},
        }
        for toy in TOYS
    }
    checks = tuple(check for toy in TOYS for check in checks_of(toy, ours[toy], settings))

    size = QUICK if settings.quick else FULL
    titles = {name: method.title for name, method in METHODS.items()}
    return Findings(PAPER, ours, checks, plots(found, TOYS, titles, size.bins), text=text(ours, titles))


def plane_of(toy: str, settings: Settings) -> Plane:
    """The toy of a unit with its draws."""
    size = QUICK if settings.quick else FULL
    return Plane(toy, size.bins, size.rows, settings.seed)


def describe(settings: Settings, toy: str) -> dict[str, Any]:
    """The draws themselves: how far their histogram is from the truth, and how many states are empty."""
    plane = plane_of(toy, settings)
    return {
        "draws": plane.rows,
        "histogram_total_variation": plane.error,
        "empty_states": int((plane.draws.probabilities == 0).sum()),
        "samples": packed_samples(plane.draws, generator(settings.seed, f"{toy} shown")),
    }


def train_one(settings: Settings, toy: str, method: str) -> dict[str, Any]:
    """One toy by one method."""
    plane, how = plane_of(toy, settings), METHODS[method]
    size = QUICK if settings.quick else FULL
    objective = how.objective(plane.space, mixed(plane.draws.probabilities, how.share))
    start = Table(plane.space, generator(settings.seed, "start")) if how.normal_start else None
    # What ignores the draws or has no bound must not be spared its end.
    patience = None if how.ignores_data or how.unbounded else size.steps(PATIENCE)
    training = training_settings(size.steps(how.steps), size.lr, settings.seed, retries=0, patience=patience)
    learned = learn(plane, objective, training, share=how.share, start=start)
    # An objective that ignores the draws is judged where it leads, not where held-out draws are likeliest.
    logits = learned.last if how.ignores_data else learned.kept
    found = {
        **held_against(plane, logits, how.share),
        "ratio_last": held_against(plane, learned.last, how.share)["ratio"],
        "steps": learned.ended.step,
        "kept_step": learned.ended.step if how.ignores_data else learned.ended.best_step,
        "ended": learned.ended.why,
        "seconds": round(learned.ended.seconds, 1),
        "path": learned.path,
        "samples": sampled(plane, logits, f"{toy} {method} shown", how.share),
    }
    if how.ignores_data:
        found["departure_from_uniform"] = line_departure(plane, logits)
    if how.unbounded:
        found |= _unboundedness(plane, objective, learned)
    return found


def _unboundedness(plane: Plane, objective: Any, learned: LearnedTable) -> dict[str, Any]:
    """The model where the guard stopped it, and the objective along a ray that never ends.

    From the best point on, the empty states' logits are lowered by 10 and by 20: what the draws call for, and yet the
    objective falls e¹⁰-fold each time.
    """
    empty = (plane.draws.probabilities == 0).double()
    ray = []
    for lowered in _RAY:
        model = Table(plane.space, dtype=torch.float64).requires_grad_(False)
        model.logits.copy_(learned.kept.double() - lowered * empty)
        ray.append(float(objective.value(model)))
    return {
        "last": held_against(plane, learned.last),
        "message": learned.ended.message,
        "ray": ray,
        "samples_last": sampled(plane, learned.last, "stopped"),
    }


def checks_of(toy: str, found: Mapping[str, Any], settings: Settings) -> list[Check]:
    """Every line of what must be shown, for one toy."""
    checks, size = [], QUICK if settings.quick else FULL
    for name, method in METHODS.items():
        cell, label = found[name], f"{toy}: {method.title.replace(chr(10), ' ')}"
        bound = method.quick_bound if settings.quick else method.bound
        if bound is not None:
            checks.append(Check.at_most(f"{label}: total variation / the histogram's", cell["ratio"], bound))
        if method.ignores_data:
            worst = cell["departure_from_uniform"]
            checks.append(Check.at_most(f"{label}: lines with data, total variation to uniform", worst, size.departure))
        if method.unbounded:
            fall = log(cell["ray"][2] / cell["ray"][1]) if cell["ray"][1] < 0 else 0.0
            checks.append(Check.at_least(f"{label}: log-fall of the objective over ten nats", fall, 9.0))
            checks.append(Check.equal(f"{label}: stopped by the guard", cell["ended"] == "diverged", True))
        if method.decline is not None:
            worse = cell["last"]["ratio"] - cell["ratio"]
            checks.append(
                Check.at_least(f"{label}: the stop beyond the best point, histogram's errors", worse, method.decline)
            )
    return checks


COLUMNS = (
    "ratio",
    "ratio_fixed",
    "marginal",
    "marginal_fixed",
    "csm",
    "marginal_fixed_mixed",
    "csm_mixed",
    "ours",
)
WAYS = {
    "marginal_fixed": ("#e9a23b", "-"),
    "csm": (ACCENT, "-"),
    "marginal_fixed_mixed": ("#e9a23b", "--"),
    "csm_mixed": (ACCENT, "--"),
    "ratio_fixed": (QUIET, "-"),
    "ours": ("#3d7ea6", "-"),
}
STOPPED = ("marginal_fixed", "csm")
_TICKS = (0.5, 1, 2, 5, 10)

Found = Mapping[str, Mapping[str, Any]]


def plots(found: Found, toys: Sequence[str], titles: Mapping[str, str], bins: int) -> dict[str, bytes]:
    """The figure, and the divergence beside it."""
    return {
        "figure3": _samples(found, toys, titles, bins),
        "figure3-divergence": _divergence(found, toys, titles, bins),
    }


def _samples(found: Found, toys: Sequence[str], titles: Mapping[str, str], bins: int) -> bytes:
    from matplotlib.figure import Figure

    size = (1.75 * (1 + len(COLUMNS)), 2.0 * len(toys) + 0.5)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    panels = figure.subplots(len(toys), 1 + len(COLUMNS), squeeze=False)
    for at, (row, toy) in enumerate(zip(panels, toys, strict=True)):
        data = found[toy]
        deep = depth(data["samples"], bins)
        heads = {name: "" if at else title for name, title in titles.items()}
        panel(
            row[0],
            data["samples"],
            bins,
            deep,
            "" if at else "Data",
            f"TV {data['histogram_total_variation']:.3f}",
        )
        row[0].set_ylabel(toy, fontsize=10, color=INK)
        for axes, name in zip(row[1:], COLUMNS, strict=True):
            cell = found[f"{toy}-{name}"]
            panel(axes, cell["samples"], bins, deep, heads[name], f"{cell['ratio']:.3g} × the data's")
    return png(figure)


def _divergence(found: Found, toys: Sequence[str], titles: Mapping[str, str], bins: int) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 3.1 * len(toys)), layout="constrained", facecolor="white")
    panels = figure.subplots(len(toys), 1 + len(STOPPED), squeeze=False, width_ratios=(2.4, *[1] * len(STOPPED)))
    for row, toy in zip(panels, toys, strict=True):
        _ways(row[0], found, toy, titles)
        deep = depth(found[toy]["samples"], bins)
        for axes, name in zip(row[1:], STOPPED, strict=True):
            cell = found[f"{toy}-{name}"]
            note = f"{cell['last']['ratio']:.3g} × the data's"
            title = f"{titles[name].splitlines()[0]}, step {cell['steps']:,}"
            panel(axes, cell["samples_last"], bins, deep, title, note)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return png(figure)


def _ways(axes: "Axes", found: Found, toy: str, titles: Mapping[str, str]) -> None:
    for name, (color, style) in WAYS.items():
        cell = found[f"{toy}-{name}"]
        steps, values = zip(*cell["path"], strict=True)
        axes.plot(steps, values, style, color=color, lw=1.5, label=titles[name].replace("\n", " "))
        if name in STOPPED:
            axes.plot(cell["kept_step"], cell["ratio"], "o", ms=6, mfc="white", mec=color, mew=1.5)
        if cell["ended"] == "diverged":
            axes.plot(steps[-1], values[-1], "X", ms=8, color=color)
    axes.axhline(1, color=INK, lw=0.8)
    axes.set_yscale("log")
    axes.set_yticks(_TICKS, labels=[f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.set_ylabel(f"{toy}: total variation\nover the histogram's", fontsize=9, color=INK)
    axes.set_xlabel("step (o: kept on held-out draws, X: stopped by the guard)", fontsize=8.5, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8.5)


_WHY = """
What agrees, and what cannot:

- **Ratio** and **Marginal**, as first published, learn nothing of the data, as the paper says. Nothing in them depends
  on the observed value, so on every row and column that holds draws their minimizer is uniform: a uniform start stays,
  and a random one (standard normal logits, *random start*) comes back to it. States that lie on no such line, the
  corners of 2spirals, are in none of their terms; what mass they hold is left to the drift of the common level of all
  others, and from a random start the guard ends it where that has gone too far.
- **Ratio-fixed** is bounded and recovers all three toys. It is slow where a state is empty, for its gradient there
  falls with the square of the probability left.
- **CSM** and **Marginal-fixed** exactly as written have **no lower bound on draws**: an empty state beside a filled one
  feels the term that pulls their ratio up and not the one that would hold it. The *ray* is a proof for each toy: from
  the best point on, lowering the logits of all empty states by ten nats, which is what the draws call for, lowers the
  objective e¹⁰-fold, and so without end. What goes wrong in training is the other end of those edges. In CSM the filled
  states at the border of the empty ones rise above all others, and held-out draws become less and less likely. In
  Marginal-fixed all filled states of a line are pulled alike and soon alone count, so that the table rests at a flat
  image of the support (right for the checkerboard, which is flat, and for nothing else) while the objective falls
  e²-fold with every nat. The guard stops the one where its likelihood has fallen off, the other where its loss is 10¹²
  times what it was; unguarded, the squares of its gradients overflow Adam's single precision soon after, and the
  weights freeze in a worse place without one number that is not finite. The samples show the best point on the way,
  chosen on held-out draws. The paper does not say how it avoided this.
- **Mixed**: the same two objectives on draws mixed with a known tenth of uniform noise, ε = 0.1, which is subtracted
  exactly afterwards (what falls below zero is set to zero, so that KL to the truth is infinite, as the histogram's own
  is; *mixed* compares before subtracting). No state is empty any more, both objectives are bounded,
  and their minimizer is the draws' own histogram. Kept where held-out draws are likeliest they may do better than it,
  for they learn what is common to draws before what is accidental.
- **Ours** is CSM with all changes of one site as neighbors (`hamming`) instead of the grid, on the mixed draws: a state
  is compared with its whole row and column, so that no long chain of neighbors has to agree first. It is the fastest by
  far, and not behind the histogram it learned from on any toy.
- The order of the paper's columns, CSM before Ratio-fixed and Marginal-fixed, is no property of the objectives: on
  every toy the bounded ones lead to the same distribution. It is one of how they were optimized and stopped.
"""


_CLAIM = """
The paper: "samples from CSM best capture the shape of the underlying data distributions across all three datasets",
Ratio and Marginal fail, Ratio-fixed and Marginal-fixed are "more reasonable" (shown as plots, no numbers). Model,
start, rate and neighborhood are the paper's (uniform logits, Adam 5e-4, grid); steps, batch and number of draws are not
given there. Ours sees all draws in every step, as their histogram, which is free of minibatch noise and cheaper.
Weights are kept where held-out draws (nine a state) are likeliest, and training ends when they have not become likelier
for 4,000 steps; *where it ended* is the total variation of the last weights over the histogram's, with nothing chosen.
Distances are exact.
"""
_COLUMNS = (
    "method",
    "total variation",
    "/ the histogram's",
    "where it ended",
    "KL(truth ‖ model)",
    "kept / steps",
    "ended",
)


def text(ours: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """The Markdown under the checks."""
    parts = ["## The paper and ours", _CLAIM.strip()]
    for toy, found in ours.items():
        rows = [_row(title, found[name]) for name, title in titles.items()]
        parts += [f"### {toy}", _head(found), table(_COLUMNS, rows), _rays(found, titles)]
    return "\n\n".join([*parts, _WHY.strip()])


def _head(found: Mapping[str, Any]) -> str:
    error = found["histogram_total_variation"]
    return (
        f"{found['draws']:,} draws; their histogram is at total variation {error:.4f} from the truth; "
        f"{found['empty_states']:,} states are empty."
    )


def _row(title: str, cell: Mapping[str, Any]) -> list[str]:
    endings = {"diverged": "stopped by the guard", "steps": "all steps", "patience": "no better since"}
    return [
        title.replace("\n", " "),
        number(cell["total_variation"], 4),
        number(cell["ratio"], 4),
        number(cell["ratio_last"], 4),
        number(cell["kl"]) if "kl_mixed" not in cell else f"{number(cell['kl'])} (mixed: {number(cell['kl_mixed'])})",
        f"{cell['kept_step']:,} / {cell['steps']:,}",
        endings.get(cell["ended"], cell["ended"]),
    ]


def _rays(found: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    lines = []
    for name, title in titles.items():
        if "ray" in found[name]:
            values = ", ".join(number(value) for value in found[name]["ray"])
            lines.append(
                f"- ray, {title.splitlines()[0]} as written: the objective is {values} with empty states lowered by "
                f"0, 10 and 20 nats. {_reason(found[name]['message'])}."
            )
    return "\n".join(lines)


def _reason(message: str) -> str:
    """The first part of the guard's message: what happened, without what to try.

    >>> _reason("training diverged at step 9: the loss is not a number; no retries were left")
    'Training diverged at step 9: the loss is not a number'
    """
    return message.split(";")[0].capitalize() if message else "It came to its end"
