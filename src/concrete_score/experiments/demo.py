"""The main job in small, on a truth that is known: rows, scores, support, fitted models, recovery (``csm demo``)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_score.baselines import ChowLiu, Independent, Mixture
from concrete_score.neighborhoods import cycle, diagnose_support, hamming
from concrete_score.protocols import DensityModel
from concrete_score.randomness import generator
from concrete_score.scores import log_ratios, recover
from concrete_score.shapes import States
from concrete_score.targets import BayesianNetwork, Pmf, asia, from_density, sixteen_categories

ROWS = 5_000
SHOWN = 5


@dataclass(frozen=True)
class Demo:
    """All that the demo finds."""

    seed: int
    rows: int
    preview: dict[str, Any]
    explanation: dict[str, Any]
    support: dict[str, Any]
    models: list[dict[str, Any]]
    recovery: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """One object; an impossible change has the log-ratio -inf (null once written) and the Concrete score -1."""
        return dict(vars(self))


def run(seed: int = 0, rows: int = ROWS) -> Demo:
    """Draw ``rows`` rows of the Asia network and look at them from every side."""
    network = asia()
    states = network.sample(rows, generator(seed, "demo rows"))
    return Demo(
        seed=seed,
        rows=rows,
        preview={"columns": list(network.names), "rows": [_words(network, row) for row in states[:SHOWN]]},
        explanation=explain(network, states[0]),
        support=support(network, states),
        models=fitted(network, states, seed),
        recovery=recovery(sixteen_categories()),
    )


def explain(network: BayesianNetwork, row: States) -> dict[str, Any]:
    """Every single change of one row with its exact log-ratio and Concrete score, the most welcome first.

    >>> changes = explain(asia(), torch.zeros(8, dtype=torch.int64))["changes"]
    >>> changes[0]["column"], changes[-1]["log_ratio"], changes[-1]["concrete_score"]
    ('smoke', -inf, -1.0)
    """
    flips = hamming(network.space)
    ratio = log_ratios(network, flips, row)
    site, value = flips.edit(row.expand(flips.num_slots, -1), torch.arange(flips.num_slots))
    order = ratio.argsort(descending=True, stable=True)
    changes = [
        {
            "column": network.names[d],
            "from": network.values[d][int(row[d])],
            "to": network.values[d][int(value[k])],
            "log_ratio": float(ratio[k]),
            "concrete_score": float(ratio[k].expm1()),
        }
        for k in order.tolist()
        for d in [int(site[k])]
    ]
    return {"row": dict(zip(network.names, _words(network, row), strict=True)), "changes": changes}


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


def fitted(network: BayesianNetwork, states: States, seed: int) -> list[dict[str, Any]]:
    """The baselines fitted to the rows and held against the truth, by enumeration."""
    truth, space = network.joint(), network.space
    models: dict[str, DensityModel] = {
        "truth": truth,
        "independent": Independent.fit(states, space),
        "chow_liu": ChowLiu.fit(states, space),
        "mixture": Mixture.fit(states, space, generator=generator(seed, "demo mixture")),
    }
    return [{"model": name, **_held_against(truth, from_density(model))} for name, model in models.items()]


def _held_against(truth: Pmf, model: Pmf) -> dict[str, float]:
    possible = truth.log_pmf.isfinite()
    p, log_p, log_q = truth.probabilities[possible], truth.log_pmf[possible], model.log_pmf[possible]
    return {
        "log_likelihood": float((p * log_q).sum()),
        "kl": float((p * (log_p - log_q)).sum()),
        "impossible_mass": float(model.probabilities[~possible].sum()),
    }


def recovery(truth: Pmf) -> dict[str, Any]:
    """A distribution found again from its Concrete scores alone (paper, theorem 1), and how far off it is."""
    ring = cycle(truth.space)
    found = recover(log_ratios(truth, ring, truth.space.enumerate()), ring).log_pmf.exp()
    return {
        "target": "sixteen_categories",
        "neighborhood": "cycle",
        "truth": truth.probabilities.tolist(),
        "recovered": found.tolist(),
        "largest_error": float((found - truth.probabilities).abs().max()),
    }


def _words(network: BayesianNetwork, row: Tensor) -> list[str]:
    return [network.values[d][value] for d, value in enumerate(row.tolist())]
