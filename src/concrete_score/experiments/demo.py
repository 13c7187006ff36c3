"""The main job on a truth that is known (``csm demo``): a clinic's table is learned, drawn from, filled and explained.

The rows come from the Asia network, so that every answer can be held against the exact one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import torch

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.data import as_frame, write_file
from concrete_score.estimator import ConcreteScoreEstimator
from concrete_score.experiments.drawing import ACCENT, INK, QUIET, png
from concrete_score.fitted import Fitted
from concrete_score.neighborhoods import diagnose_support, hamming
from concrete_score.protocols import DensityModel
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.targets import BayesianNetwork, Pmf, asia, from_density

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS, HELD_OUT = 20_000, 2_000
STEPS = 4_000
DRAWS = 10_000
CONDITION = {"either": "yes"}
"""Tuberculosis or cancer: no chain of possible single changes leads there from a healthy row."""
SHOWN = 5
CSV, RUN = "clinic.csv", "run"


@dataclass(frozen=True)
class Demo:
    """All that the demo finds."""

    seed: int
    rows: int
    preview: dict[str, Any]
    support: dict[str, Any]
    models: list[dict[str, Any]]
    samples: dict[str, Any]
    imputation: dict[str, Any]
    explanation: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """One object; an impossible change has the log-ratio -inf, null once written."""
        return dict(vars(self))


def run(
    seed: int = 0,
    rows: int = ROWS,
    steps: int = STEPS,
    out: Path | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Demo:
    """Draw ``rows`` rows of the Asia network, learn them, and ask everything one may ask.

    Args:
        seed: of all randomness.
        rows: of the table.
        steps: of the training.
        out: where to leave the table and the run.
        say: takes lines of progress.
    """
    network = asia()
    states = network.sample(rows, generator(seed, "demo rows"))
    held_out = network.sample(HELD_OUT, generator(seed, "demo held-out rows"))
    table = as_table(network, states)
    say(f"learning {rows:,} rows …")
    model = ConcreteScoreEstimator(steps=steps, random_state=seed).fit(table)
    say("sampling, filling blanks and explaining …")
    if out is not None:
        model.save(out / RUN, force=True)
        write_file([as_frame(table)], out / CSV, force=True)
        _leave_report(out, table)
    return Demo(
        seed=seed,
        rows=rows,
        preview={"columns": table.columns, "rows": [list(row) for row in table.head(SHOWN).rows()]},
        support=support(network, states),
        models=compared(network, states, model),
        samples=samples(network, model),
        imputation=imputation(network, held_out, model, seed),
        explanation=explanation(network, held_out, model),
    )


def _leave_report(out: Path, table: pl.DataFrame) -> None:
    """The run's page, from the same rows divided as they were for the training."""
    from concrete_score import runs
    from concrete_score.fitting import hold_out
    from concrete_score.report import write_report

    run = runs.open(out / RUN)
    states = run.codec.encode(table, missing="refuse", unknown="refuse").states
    write_report(run, *hold_out(states, run.config["valid_fraction"], run.settings.seed))


def as_table(network: BayesianNetwork, states: States) -> pl.DataFrame:
    """States as the network's column names and values.

    >>> as_table(asia(), torch.tensor([[0, 0, 1, 0, 1, 0, 0, 1]])).rows()
    [('no', 'no', 'yes', 'no', 'yes', 'no', 'no', 'yes')]
    """
    cells = states.tolist()
    return pl.DataFrame({name: [network.values[d][row[d]] for row in cells] for d, name in enumerate(network.names)})


def support(network: BayesianNetwork, states: States) -> dict[str, Any]:
    """Into how many pieces single flips divide the rows seen, and the states that are possible at all."""
    flips = hamming(network.space)
    seen = diagnose_support(states, flips)
    everything = network.space.enumerate()
    possible = diagnose_support(everything[network.log_density(everything).isfinite()], flips)
    mass = torch.zeros(possible.num_components, dtype=torch.float64)
    mass.index_add_(0, possible.component, network.log_density(possible.states).exp())
    return {
        "neighborhood": "hamming",
        "rows": seen.rows,
        "distinct": seen.distinct,
        "pieces": seen.num_components,
        "piece_shares": list(seen.component_shares),
        "observed_edge_share": seen.observed_edge_share,
        "possible_states": possible.distinct,
        "all_states": network.space.num_states,
        "possible_pieces": possible.num_components,
        "possible_piece_masses": mass.sort(descending=True).values.tolist(),
    }


def compared(network: BayesianNetwork, states: States, model: ConcreteScoreEstimator) -> list[dict[str, Any]]:
    """What was learned, beside two baselines and the truth, all by enumeration."""
    truth, space = network.joint(), network.space
    models: dict[str, DensityModel] = {
        "truth": truth,
        "ours": model.fitted_.model,
        "chow_liu": ChowLiu.fit(states, space),
        "independent": Independent.fit(states, space),
    }
    return [{"model": name, **held_against(truth, from_density(each))} for name, each in models.items()]


def held_against(truth: Pmf, model: Pmf) -> dict[str, float]:
    """Expected log-likelihood, KL divergence and the mass on what cannot happen, exactly."""
    possible = truth.log_pmf.isfinite()
    p, log_p, log_q = truth.probabilities[possible], truth.log_pmf[possible], model.log_pmf[possible]
    return {
        "log_likelihood": float((p * log_q).sum()),
        "kl": float((p * (log_p - log_q)).sum()),
        "impossible_mass": float(model.probabilities[~possible].sum()),
    }


def samples(network: BayesianNetwork, model: ConcreteScoreEstimator) -> dict[str, Any]:
    """Draws given a condition: how often each column is "yes", and how often it truly is."""
    drawn = model.sample(DRAWS, given=CONDITION)
    everything = network.space.enumerate()
    weight = network.log_density(everything).exp()
    for name, value in CONDITION.items():
        d = network.names.index(name)
        weight = weight * (everything[:, d] == network.values[d].index(value))
    share = (everything.double() * (weight / weight.sum())[:, None]).sum(0)
    return {
        "given": dict(CONDITION),
        "draws": DRAWS,
        "first": [list(row) for row in drawn.head(SHOWN).rows()],
        "shares": [
            {
                "column": name,
                "value": network.values[d][1],
                "drawn": float((drawn[name] == network.values[d][1]).mean() or 0.0),
                "truth": float(share[d]),
            }
            for d, name in enumerate(network.names)
        ],
    }


def imputation(network: BayesianNetwork, held_out: States, model: ConcreteScoreEstimator, seed: int) -> dict[str, Any]:
    """Two cells of every held-out row blanked and filled: how often rightly, and the best anyone could do."""
    gen = generator(seed, "demo blanks")
    hidden = torch.rand(held_out.shape, generator=gen).argsort(-1)[:, :2]
    observed = torch.ones_like(held_out, dtype=torch.bool).scatter_(1, hidden, False)
    table = as_table(network, held_out)
    seen = observed.numpy()
    blanked = table.with_columns(
        pl.when(pl.Series(seen[:, d])).then(pl.col(name)).alias(name) for d, name in enumerate(network.names)
    )
    filled = model.impute(blanked)
    truth = Fitted(network, network.space)
    best = truth.impute(held_out, observed, gen).states
    right = torch.stack([torch.from_numpy((filled[name] == table[name]).to_numpy()) for name in table.columns], 1)
    answers, exact = (each.conditional_probs(held_out, observed, gen) for each in (model.fitted_, truth))
    loss, least = (-float(_log_prob_of_truth(cells, held_out).mean()) for cells in (answers, exact))
    return {
        "cells": int((~observed).sum()),
        "right": float(right[~observed].double().mean()),
        "best_possible": float((best == held_out)[~observed].double().mean()),
        "log_loss": loss,
        "least_log_loss": least,
        "example": {
            "blanked": list(blanked.row(0)),
            "filled": list(filled.row(0)),
            "was": list(table.row(0)),
        },
    }


def explanation(network: BayesianNetwork, held_out: States, model: ConcreteScoreEstimator) -> dict[str, Any]:
    """The least probable held-out row, and the changes that raise its probability most; exact ratios beside ours."""
    table = as_table(network, held_out)
    scores = model.score_samples(table)
    at = int(scores.argmin())
    row = held_out[at]
    changes = []
    for change in model.explain(table[at]).to_dicts():
        d = network.names.index(change["column"])
        other = row.clone()
        other[d] = network.values[d].index(change["to"])
        exact = network.log_density(torch.stack([row, other]))
        changes.append({**change, "row": at, "exact_log_ratio": float(exact[1] - exact[0])})
    return {
        "row": at,
        "log_likelihood": float(scores[at]),
        "cells": dict(zip(table.columns, table.row(at), strict=True)),
        "changes": changes,
    }


def _log_prob_of_truth(cells: Any, rows: States) -> torch.Tensor:
    """Of every blank ``(blanks,)``."""
    return cells.log_probs.gather(1, rows[cells.row, cells.site][:, None]).squeeze(1)  # type: ignore[no-any-return]


def plot(demo: Demo) -> bytes:
    """Three panels, as the bytes of a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 3.6), layout="constrained", facecolor="white")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.2, 1, 1.2))
    _changes(left, demo)
    _models(middle, demo)
    _samples(right, demo)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=8.5)
        axes.title.set(fontsize=10.5, color=INK)
    return png(figure)


def _changes(axes: "Axes", demo: Demo) -> None:
    changes = demo.explanation["changes"][::-1]
    names = [f"{c['column']}: {c['from']} → {c['to']}" for c in changes]
    lengths = [c["log_ratio"] if isfinite(c["log_ratio"]) else 0.0 for c in changes]
    axes.barh(names, lengths, color=[ACCENT if length > 0 else QUIET for length in lengths], height=0.6)
    for at, change in enumerate(changes):
        if not isfinite(change["log_ratio"]):
            axes.text(-0.06, at, "impossible", ha="right", va="center", fontsize=8.5, color=INK, style="italic")
    axes.axvline(0, color=INK, lw=0.8)
    axes.set(title="The strangest row: what would mend it", xlabel="log q(changed) − log q(row)")


def _models(axes: "Axes", demo: Demo) -> None:
    models = [model for model in demo.models if model["model"] != "truth"]
    bars = axes.bar([model["model"] for model in models], [model["kl"] for model in models], color=QUIET, width=0.55)
    axes.bar_label(bars, fmt="%.3f", fontsize=8.5, color=INK, padding=2)
    axes.margins(y=0.12)
    axes.set(title="Fitted models: KL(truth ‖ model)", ylabel="nats")


def _samples(axes: "Axes", demo: Demo) -> None:
    shares = demo.samples["shares"]
    places = range(len(shares))
    axes.bar(places, [each["truth"] for each in shares], color=QUIET, width=0.7, label="truth")
    axes.plot(places, [each["drawn"] for each in shares], "o", ms=5, color=ACCENT, label="drawn")
    axes.set_xticks(places, [each["column"] for each in shares])
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK)
    given = ", ".join(f"{name}={value}" for name, value in demo.samples["given"].items())
    axes.set(title=f"Share of yes, given {given}")
