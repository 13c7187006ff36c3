"""Tables with a third of their cells blank: what is lost, and how far what fills them can be trusted.

Rows of known networks, their cells blanked completely at random, are learned with nothing said. The model is held
against one of the same rows unblanked, the distributions of blank cells of new rows against the network's own
posterior, and the bound of the likelihood of what is observed against its exact value.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from concrete_score.bench.checks import Check
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.runner import Unit, complete
from concrete_score.experiments.tables import NETWORKS, TEST, behind, learned, mixed_network
from concrete_score.fitted import Fitted
from concrete_score.models.completing import count_completions, list_completions
from concrete_score.randomness import generator
from concrete_score.samplers.completions import Cells
from concrete_score.targets.bayesian_network import BayesianNetwork

BLANK = 0.3
"""The share of cells that are blank."""
SETS = 0.9
"""The least probability of the sets of values whose coverage is counted."""
FILLED, FILLED_QUICK = 2_000, 300
"""New rows whose blanks are filled."""
DRAWS = (16, 32, 64, 128, 256)
"""Draws of the bound whose gap is measured."""
BOUNDED, COMPLETIONS, WEIGHTS = 40, (16, 5_000), 2**14
"""Rows the gap is measured on, how many completions each has at least and at most, and weights drawn of each."""


def run(settings: Settings) -> Findings:
    """One unit a network."""
    networks = range(1 if settings.quick else NETWORKS)
    found = complete([Unit(f"network-{k}", blanked, {"network": k}) for k in networks], settings)
    bound = {"lost": 0.3, "loss": 0.1, "coverage": 0.05} if settings.quick else _BOUNDS
    checks = []
    for k in networks:
        value = found[f"network-{k}"]
        checks += [
            Check.at_most(f"{k}: nats a complete row below the fit without blanks", value["lost"], bound["lost"]),
            Check.at_most(f"{k}: log-loss of blank cells over the exact one", value["excess_loss"], bound["loss"]),
            Check.within(
                f"{k}: coverage of 90 % sets less their stated mass",
                value["coverage"] - value["stated"],
                -bound["coverage"],
                bound["coverage"],
            ),
            Check.within(f"{k}: slope of the bound's gap in the logarithm of the draws", value["slope"], -1.15, -0.85),
        ]
    return Findings({}, found, tuple(checks))


_BOUNDS = {"lost": 0.05, "loss": 0.02, "coverage": 0.02}


def blanked(settings: Settings, network: int) -> dict[str, Any]:
    """Two fits of the same rows, with blanks and without."""
    truth = mixed_network(network)
    test = truth.sample(TEST, generator(settings.seed, "test rows"))
    best = truth.log_density(test)
    whole, ended_whole = learned(truth, settings)
    fitted, ended = learned(truth, settings, BLANK)
    without, ours = (behind(best, each.row_log_likelihoods(test)) for each in (whole, fitted))
    rows = truth.sample(FILLED_QUICK if settings.quick else FILLED, generator(settings.seed, "rows to fill"))
    observed = torch.rand(rows.shape, generator=generator(settings.seed, "blanks")) >= BLANK
    return {
        "sizes": list(truth.space.sizes),
        **ours,
        "gap_without_blanks": without["gap"],
        "lost": without["ours"] - ours["ours"],
        **filled_cells(truth, fitted, rows, observed, settings),
        **bound_slope(fitted.model, rows, observed, generator(settings.seed, "bound")),
        "steps": [ended_whole.step, ended.step],
        "seconds": [round(ended_whole.seconds, 1), round(ended.seconds, 1)],
    }


def filled_cells(
    truth: BayesianNetwork, fitted: Fitted, rows: Tensor, observed: Tensor, settings: Settings
) -> dict[str, Any]:
    """The distributions of blank cells: log-loss beside the exact posterior's, and coverage of their sets."""
    cells = fitted.conditional_probs(rows, observed, generator(settings.seed, "filling"))
    value = rows[cells.row, cells.site]
    loss = -cells.log_probs.gather(1, value[:, None]).squeeze(1)
    possible = [
        torch.where(observed[:, d, None] & (rows[:, d, None] != torch.arange(size)), -torch.inf, 0.0)
        for d, size in enumerate(truth.space.sizes)
    ]
    posterior = truth.posteriors(possible)
    exact = torch.stack([each.gather(1, rows[:, d, None]).squeeze(1) for d, each in enumerate(posterior)], 1)
    excess = (loss + exact[cells.row, cells.site].log()).double()
    stated, covered = sets(cells, value)
    return {
        "cells": len(value),
        "loss": float(loss.mean()),
        "excess_loss": float(excess.mean()),
        "excess_loss_stderr": float(excess.std()) / len(excess) ** 0.5,
        "stated": float(stated.mean()),
        "coverage": float(covered.double().mean()),
    }


def sets(cells: Cells, value: Tensor, least: float = SETS) -> tuple[Tensor, Tensor]:
    """The smallest set of values of each cell that has ``least`` probability: its own, and whether it holds the value.

    >>> cells = Cells(torch.zeros(1), torch.zeros(1), torch.tensor([[0.25, 0.5, 0.25]]).log())
    >>> mass, holds = sets(cells, torch.tensor([2]), least=0.7)
    >>> round(mass.item(), 6), holds.item()
    (0.75, False)
    """
    probs, order = cells.log_probs.double().exp().sort(-1, descending=True)
    before = probs.cumsum(-1) - probs
    inside = before < least - 1e-6
    return (probs * inside).sum(-1), (inside & (order == value[:, None])).any(-1)


def bound_slope(model: Any, rows: Tensor, observed: Tensor, gen: torch.Generator) -> dict[str, Any]:
    """How the gap of the importance-weighted bound falls with the draws K, on rows of some hundred completions.

    With m the mean of K weights over their own mean, which listing all completions gives exactly, the gap is
    ``-E log m = E [m - 1 - log m]``; the latter has by far the smaller variance.
    """
    count = count_completions(model.space, observed)
    least, most = COMPLETIONS
    some = ((count >= least) & (count <= most)).nonzero().squeeze(-1)[:BOUNDED]
    gaps = np.zeros(len(DRAWS))
    with torch.no_grad():
        for row in some.tolist():
            x, seen = rows[row : row + 1], observed[row : row + 1]
            states, _ = list_completions(model.space, x, seen)
            exact = float(model.log_density(states).double().logsumexp(0))
            gaps += _gaps(model, x, seen, exact, gen)
    gaps /= len(some)
    return {"gaps": gaps.tolist(), "slope": float(np.polyfit(np.log(DRAWS), np.log(gaps), 1)[0])}


def _gaps(model: Any, x: Tensor, seen: Tensor, exact: float, gen: torch.Generator) -> Sequence[float]:
    """Of one row, for each number of `DRAWS`."""
    _, log_weight = model.propose_given(x.expand(WEIGHTS, -1), seen.expand(WEIGHTS, -1), gen)
    weight = (log_weight.double() - exact).exp()
    found = []
    for draws in DRAWS:
        mean = weight.reshape(-1, draws).mean(-1)
        found.append(float((mean - 1 - mean.log()).mean()))
    return found
