"""How noisy are the ways to draw edges, at equal numbers of density evaluations? (paper, section 4.2)

On rows of `plants`, with a MADE as it starts and after some maximum likelihood, every way to draw edges spends the
same number of evaluations of the model an example. Reported for every ``f``: the variance of an example's loss and
the trace of the covariance of its gradient, given the row. Both are exact (`edge_variance`), with the standard error
that the choice of rows leaves; and both are measured again on real draws, to hold the formulas, the estimators and
their unbiasedness against each other. A minibatch of B rows has these divided by B, beside what the rows themselves
vary ("rows alone").
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.baselines import ChowLiu
from concrete_score.baselines import Independent as IndependentSites
from concrete_score.bench.checks import Check
from concrete_score.errors import InputError
from concrete_score.experiments.drawing import ACCENT, INK, QUIET, png
from concrete_score.experiments.edge_variance import EdgeMethod, RowTables, gradient_terms, loss_terms, row_tables, ways
from concrete_score.experiments.result import Findings, Settings
from concrete_score.models import MADE
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import AllEdges, Bregman, BregmanObjective
from concrete_score.objectives.edges import bregman_loss, log_ratios_of
from concrete_score.protocols import DensityModel
from concrete_score.randomness import generator
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLANTS = "twenty/plants/plants.train.data.gz"
EVALUATIONS = 13
"""Of the model, an example: 6 + 6 independent neighbors, or 12 paired ones, and the row itself."""

DRAWN = {"bias_z": "losses against all neighbors", "variance_z": "losses' variance against the exact one"}


@dataclass(frozen=True)
class EstimatorsSize:
    """How much of everything."""

    rows: int = 512
    rounds: int = 64
    """Real draws of every row."""
    batch: int = 128
    batch_rounds: int = 32
    """Real draws of one minibatch's gradient."""
    steps: int = 500
    """Of maximum likelihood, Adam at 1e-3, batches of 128."""


FULL, QUICK = EstimatorsSize(), EstimatorsSize(rows=96, rounds=48, batch=32, batch_rounds=16, steps=200)


def run(settings: Settings) -> Findings:
    """Compare the registered divergences under independent, paired, stratified and importance-sampled edges."""
    size = QUICK if settings.quick else FULL
    train = read_plants().to(settings.device)
    space = Space.bits(train.shape[1])
    references: dict[str, DensityModel] = {
        "chow_liu": ChowLiu.fit(train, space),
        "independent": IndependentSites.fit(train, space),
    }
    chosen = torch.randperm(len(train), generator=generator(settings.seed, "rows"))[: size.rows]
    bench = EdgeComparison(
        settings, size, train[chosen.to(train.device)], ways(hamming(space), EVALUATIONS, references)
    )
    model = MADE(space, generator=generator(settings.seed, "model", device=settings.device), dtype=torch.float64)
    stages = {"start": bench.measure(model)}
    likelihood = fit(model, train, size.steps, settings)
    stages["trained"] = bench.measure(model)
    setting = {
        "rows": size.rows,
        "neighbors": space.num_sites,
        "evaluations": EVALUATIONS,
        "evaluations_of_all_neighbors": 1 + space.num_sites,
        "further_evaluations_of_the_reference": 1 + space.num_sites,
        "steps": size.steps,
        "log_likelihood": likelihood,
    }
    flat = {f"{stage}, {key}": value for stage, found in stages.items() for key, value in found.items()}
    return Findings(
        paper={},
        ours={"setting": setting, **flat},
        checks=tuple(checks(stages, [way.name for way in bench.ways])),
        images={"estimators": png(plot(stages, [way.name for way in bench.ways]))},
    )


def read_plants() -> Tensor:
    """The training rows of `plants` ``(17412, 69)``.

    Raises:
        InputError: the file is not there; says where to put it.
    """
    import numpy as np

    folder = os.environ.get("CONCRETE_SCORE_DATA", "")
    path = Path(folder) / PLANTS
    if not folder or not path.is_file():
        raise InputError(
            "the data set 'plants'",
            f"no file {path}" if folder else "no folder of data sets: CONCRETE_SCORE_DATA is not set",
            where=f"$CONCRETE_SCORE_DATA/{PLANTS}",
            fix="put the file there: one row a line, 0 or 1 separated by commas, compressed by gzip",
        )
    return torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.int64))


def fit(model: MADE, train: States, steps: int, settings: Settings) -> float:
    """Some maximum likelihood; returns the mean log-likelihood of the training rows, nats per row."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        chosen = torch.randint(len(train), (128,), generator=generator(settings.seed, "batch", step))
        optimizer.zero_grad()
        (-model.log_density(train[chosen.to(train.device)]).mean()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        return model.log_density(train).mean().item()


@dataclass(frozen=True, eq=False)
class EdgeComparison:
    """The rows, and the ways to be compared on them."""

    settings: Settings
    size: EstimatorsSize
    x: States
    ways: list[EdgeMethod]

    def measure(self, model: MADE) -> dict[str, dict[str, Any]]:
        """``"f, way" -> figures`` for every divergence and way, and ``"f, rows alone"``."""
        divergences = [registry.load("divergences", name) for name in registry.names("divergences")]
        tables = row_tables(model, self.ways[0].edges.neighborhood, self.x)
        found = {f"{f.name}, rows alone": self._rows_alone(model, f, tables) for f in divergences}
        exact = {way.name: {f.name: self._exact(way, f, tables) for f in divergences} for way in self.ways}
        for way in self.ways:
            residuals = self._residuals(model, way, divergences, tables)
            scales = {name: gradient[: self.size.batch].rsqrt() for name, (_, gradient) in exact[way.name].items()}
            distances = self._distances(model, way, divergences, scales)
            for f in divergences:
                (loss, gradient), yardstick = exact[way.name][f.name], exact[self.ways[0].name][f.name]
                found[f"{f.name}, {way.name}"] = {
                    **mean_with_error("loss_variance", loss),
                    **ratio_with_error("loss_ratio", loss, yardstick[0], self._generator("bootstrap", 0)),
                    **mean_with_error("gradient_variance", gradient),
                    **ratio_with_error("gradient_ratio", gradient, yardstick[1], self._generator("bootstrap", 0)),
                    **on_draws(residuals[f.name], loss),
                    **mean_with_error("gradient_drawn_over_exact", distances[f.name]),
                }
        return found

    def _exact(self, way: EdgeMethod, f: Bregman, tables: RowTables) -> tuple[PerState, PerState]:
        loss = way.variance(self.x, loss_terms(f, tables.log_ratios))
        return loss, way.variance(self.x, gradient_terms(f, tables.log_ratios), tables.gram)

    def _rows_alone(self, model: MADE, f: Bregman, tables: RowTables) -> dict[str, Any]:
        """What remains with all neighbors: the variance of the full loss, and of its gradient, between rows."""
        u = torch.stack(gradient_terms(f, tables.log_ratios)).sum(0)
        squares = torch.einsum("nk,nkj,nj->n", u, tables.gram, u)
        n = len(self.x)
        mean = self._full_gradient(model, f, self.x, torch.full_like(squares, 1 / n))
        full = torch.stack(loss_terms(f, tables.log_ratios)).sum((0, -1))
        return {
            "loss_variance": full.var().item(),
            "gradient_variance": (squares.mean() - mean.square().sum()).item() * n / (n - 1),
        }

    @torch.no_grad()
    def _residuals(self, model: MADE, way: EdgeMethod, fs: list[Bregman], tables: RowTables) -> dict[str, Tensor]:
        """Drawn losses less the full ones ``(rounds, N)``; a density does not know ``f``, so all share its passes."""
        full = {f.name: torch.stack(loss_terms(f, tables.log_ratios)).sum((0, -1)) for f in fs}
        rounds: dict[str, list[Tensor]] = {f.name: [] for f in fs}
        for step in range(self.size.rounds):
            edges = way.edges.draw(self.x, self._generator(f"edges {way.name}", step))
            drawn = log_ratios_of(model, edges)
            for f in fs:
                rounds[f.name].append(bregman_loss(f, drawn, edges) - full[f.name])
        return {name: torch.stack(values) for name, values in rounds.items()}

    def _distances(
        self, model: MADE, way: EdgeMethod, fs: list[Bregman], scales: dict[str, PerState]
    ) -> dict[str, Tensor]:
        """Squared distances of a minibatch's drawn gradients from the full one ``(rounds,)``, expected to be 1.

        Each row's loss is scaled by its gradient's exact standard deviation, so that no row rules the others.
        """
        x = self.x[: self.size.batch]
        full = {f.name: self._full_gradient(model, f, x, scales[f.name]) for f in fs}
        rounds: dict[str, list[Tensor]] = {f.name: [] for f in fs}
        for step in range(self.size.batch_rounds):
            edges = way.edges.draw(x, self._generator(f"gradient {way.name}", step))
            drawn = log_ratios_of(model, edges)
            for f in fs:
                found = flat_gradient(scales[f.name] @ bregman_loss(f, drawn, edges), model)
                rounds[f.name].append((found - full[f.name]).square().sum() / len(x))
        return {name: torch.stack(values) for name, values in rounds.items()}

    def _full_gradient(self, model: MADE, f: Bregman, x: States, scale: PerState) -> Tensor:
        objective = BregmanObjective(f, AllEdges(self.ways[0].edges.neighborhood))
        return flat_gradient(scale @ objective.loss(model, objective.draw(x, self._generator("all", 0))), model)

    def _generator(self, stream: str, step: int) -> torch.Generator:
        return generator(self.settings.seed, stream, step, self.settings.device)


def flat_gradient(value: Tensor, model: MADE) -> Tensor:
    """One long vector; what it is computed from is kept for the next ``f``."""
    parts = torch.autograd.grad(value, list(model.parameters()), retain_graph=True)
    return torch.cat([part.flatten() for part in parts])


def on_draws(residuals: Tensor, variance: PerState) -> dict[str, float]:
    """What real draws say, in units of each row's exact standard deviation: rows that dwarf all others count once.

    Args:
        residuals: drawn losses less the full ones ``(rounds, N)``.
        variance: the exact one, given the row ``(N,)``.
    """
    unit = residuals / variance.sqrt()
    return {
        "bias_z": unit.sum().item() / sqrt(unit.numel()),  # each has mean 0 and variance 1, if all is right
        "variance_z": z_score(unit.var(0), 1.0),
        "slope": slope(unit.flatten()),
    }


def checks(stages: dict[str, dict[str, dict[str, Any]]], names: list[str]) -> list[Check]:
    """For every way the value furthest off over stages and divergences; for pairing, each ratio to independent."""
    result = []
    for name in names:
        found = [values for stage in stages.values() for key, values in stage.items() if key.endswith(f", {name}")]
        worst = max((values["slope"] for values in found), key=lambda value: abs(value + 0.5))
        result.append(Check.within(f"{name}: slope of the error in the number of samples", worst, -0.55, -0.45))
        for key, what in DRAWN.items():
            z = max((values[key] for values in found), key=abs)
            result.append(Check.within(f"{name}: drawn {what}, standard errors", z, -4.0, 4.0))
        # Too few and too skewed for a z-score: the tests hold the formula against enumeration.
        off = max((values["gradient_drawn_over_exact"] for values in found), key=lambda value: abs(log(value)))
        result.append(Check.within(f"{name}: drawn gradients' variance over the exact one", off, 0.5, 2.0))
    for stage, values in stages.items():
        for key in (key for key in values if key.endswith(", paired")):
            for what in ("loss", "gradient"):
                ratio, error = values[key][f"{what}_ratio"], values[key][f"{what}_ratio_error"]
                title = f"{stage}, {key} / independent: {what} variance at equal evaluations (± {error:.2g})"
                # Where the two terms of f coincide (logistic, ratio matching) the two are equal, up to rounding.
                result.append(Check.at_most(title, ratio, 1 + 1e-6))
    return result


RESAMPLES = 1000


def mean_with_error(name: str, values: PerState) -> dict[str, float]:
    """The mean of independent values and its standard error, as ``name`` and ``name_error``.

    >>> mean_with_error("loss", torch.tensor([1.0, 1.0, 4.0], dtype=torch.float64))["loss_error"]
    1.0
    """
    return {name: values.mean().item(), f"{name}_error": values.std().item() / sqrt(len(values))}


def ratio_with_error(name: str, values: PerState, yardstick: PerState, generator: torch.Generator) -> dict[str, float]:
    """The ratio of two means over the same rows, its bootstrap error, and the same of a typical row.

    The ratio of means is what a minibatch feels; a few rows may rule it. The geometric mean of the rows' own ratios,
    ``name_typical``, is ruled by none.

    >>> found = ratio_with_error("ratio", torch.tensor([1.0, 4.0]), torch.tensor([2.0, 2.0]), torch.Generator())
    >>> found["ratio"], found["ratio_typical"]
    (1.25, 1.0)
    """
    n = len(values)
    chosen = torch.randint(n, (RESAMPLES, n), generator=generator, device=generator.device).to(values.device)
    logs = (values / yardstick).log()
    typical = logs.mean().exp().item()
    return {
        name: (values.mean() / yardstick.mean()).item(),
        f"{name}_error": (values[chosen].mean(1) / yardstick[chosen].mean(1)).std().item(),
        f"{name}_typical": typical,
        f"{name}_typical_error": typical * logs.std().item() / sqrt(n),
    }


def z_score(values: Tensor, expected: float) -> float:
    """How many standard errors the mean of independent values is off."""
    return (values.mean().item() - expected) / (values.std().item() / sqrt(len(values)))


def slope(errors: Tensor) -> float:
    """Of the log root mean square error of means of n errors, in log n: -1/2, unless a bias shows.

    A root mean square of g means is known to ``1/√(2g)`` of itself, so sizes weigh by their number of means.

    >>> noise = torch.randn(2**14, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> round(slope(noise), 2), slope(noise + 1.0) > -0.2
    (-0.5, True)
    """
    sizes = [4**power for power in range(6) if 4**power * 32 <= len(errors)]
    means = [errors[: len(errors) // n * n].reshape(-1, n).mean(1) for n in sizes]
    weight = torch.tensor([len(values) for values in means], dtype=torch.float64)
    root = torch.stack([values.double().square().mean().log() / 2 for values in means]).cpu()
    at = torch.tensor(sizes, dtype=torch.float64).log()
    at = at - (weight @ at) / weight.sum()
    return float((weight * at) @ root / (weight @ at.square()))


Stages = Mapping[str, Mapping[str, Mapping[str, Any]]]
COLORS = (QUIET, ACCENT, "#3d7ea6", "#e9a23b", "#7a9e5f")
TITLES = {"start": "a model as it starts", "trained": "after some maximum likelihood"}


def plot(stages: Stages, ways: Sequence[str]) -> "Figure":
    """A row of panels for each stage: the loss on the left, its gradient on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 3.4 * len(stages)), layout="constrained", facecolor="white")
    panels = figure.subplots(len(stages), 2, squeeze=False)
    for (stage, found), row in zip(stages.items(), panels, strict=True):
        for what, axes in zip(("loss", "gradient"), row, strict=True):
            _bars(axes, found, ways, what)
            axes.set_title(f"variance of the {what}: {TITLES.get(stage, stage)}", fontsize=10.5, color=INK)
    handles, labels = panels[0][0].get_legend_handles_labels()
    title = "bars: ratio of means over rows, ± bootstrap error; dots: ratio at a typical row (geometric mean)"
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(ways),
        frameon=False,
        title=title,
        fontsize=9,
        title_fontsize=9,
    )
    return figure


def _bars(axes: "Axes", found: Mapping[str, Mapping[str, Any]], ways: Sequence[str], what: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    divergences = [key.removesuffix(f", {ways[0]}") for key in found if key.endswith(f", {ways[0]}")]
    width = 0.8 / len(ways)
    for i, way in enumerate(ways):
        values = [found[f"{f}, {way}"][f"{what}_ratio"] for f in divergences]
        errors = [found[f"{f}, {way}"][f"{what}_ratio_error"] for f in divergences]
        places = [at + (i - (len(ways) - 1) / 2) * width for at in range(len(divergences))]
        color = COLORS[i % len(COLORS)]
        typical = [found[f"{f}, {way}"][f"{what}_ratio_typical"] for f in divergences]
        axes.bar(places, values, 0.92 * width, yerr=errors, color=color, ecolor=INK, capsize=2, label=way)
        axes.plot(places, typical, "o", ms=3.5, mfc="white", mec=INK, mew=0.8)
    axes.axhline(1, color=INK, lw=0.8)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(range(len(divergences)), divergences)
    axes.set_ylabel("over independent draws'", fontsize=8.5, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK, labelsize=8.5)
