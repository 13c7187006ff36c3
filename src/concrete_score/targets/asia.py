"""The "Asia" chest-clinic network: eight yes/no variables, half of whose joint states are impossible."""

from typing import Any

import torch

from concrete_score.spaces import Space
from concrete_score.targets.bayesian_network import BayesianNetwork

_YES_IF: dict[str, tuple[tuple[str, ...], Any]] = {
    # name: (parents, p(yes | parents)); the inner lists run over each parent's no, yes.
    "asia": ((), 0.01),
    "tub": (("asia",), [0.01, 0.05]),
    "smoke": ((), 0.5),
    "lung": (("smoke",), [0.01, 0.1]),
    "bronc": (("smoke",), [0.3, 0.6]),
    "either": (("tub", "lung"), [[0.0, 1.0], [1.0, 1.0]]),
    "xray": (("either",), [0.05, 0.98]),
    "dysp": (("bronc", "either"), [[0.1, 0.7], [0.8, 0.9]]),
}


def asia() -> BayesianNetwork:
    """The chest-clinic network of Lauritzen and Spiegelhalter (1988); value 0 is "no", value 1 is "yes".

    Variables: a visit to Asia, tuberculosis, smoking, lung cancer, bronchitis, either tuberculosis or lung cancer, a
    positive x-ray, dyspnoea. ``either`` is a logical or, so 128 of the 256 states are impossible, and single flips
    cannot pass between the patients with ``either`` (mass .065) and those without (.935).

    >>> network = asia()
    >>> network.names
    ('asia', 'tub', 'smoke', 'lung', 'bronc', 'either', 'xray', 'dysp')
    >>> round(float(network.marginals()[5][1]), 6)
    0.064828
    """
    names = tuple(_YES_IF)
    parents = tuple(tuple(names.index(p) for p in own) for own, _ in _YES_IF.values())
    tables = []
    for _, numbers in _YES_IF.values():
        yes = torch.tensor(numbers, dtype=torch.float64)
        tables.append(torch.stack([1 - yes, yes], dim=-1))
    return BayesianNetwork(Space.bits(len(names)), parents, tables, names, (("no", "yes"),) * len(names))
