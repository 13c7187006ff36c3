"""Rows with one planted mistake: is the planted cell the first that ``csm explain`` would mend?

A thousand test rows of real data, one random cell of each flipped. A model ranks the single changes of a row by their
log-ratios; the flip that undoes the mistake should come first. The same for independent columns and a Chow–Liu tree.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.bench.checks import Check
from concrete_score.data import Splits, load_splits
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.units import Unit, complete
from concrete_score.fitted import Fitted
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.training import fit
from concrete_score.training.choice import choose, fit_to_rows

ROWS = 1_000
DATA = ("nltcs", "plants")
RIVALS: Mapping[str, Any] = {"independent": Independent, "chow_liu": ChowLiu}


def run(settings: Settings) -> Findings:
    """Every data set with every model."""
    names = DATA[:1] if settings.quick else DATA
    found = complete([Unit(name, one_data_set, {"data": name}) for name in names], settings)
    checks = []
    for name, value in found.items():
        for rival in RIVALS:
            lead = value["ours"]["first"] - value[rival]["first"]
            checks.append(Check.at_least(f"{name}: planted cell first, ahead of {rival}", lead, 1 / ROWS))
            checks.append(Check.at_least(f"{name}: the same lead, in its standard errors", value[rival]["lead_z"], 2.0))
    return Findings({}, found, tuple(checks))


def one_data_set(settings: Settings, data: str) -> dict[str, Any]:
    """Train as ``csm fit`` would, plant the mistakes, and rank."""
    parts = load_splits(data)
    wrong, site = planted(parts.test, generator(settings.seed, "planted"))
    choice = choose({}, {"seed": settings.seed, **({"steps": 500, "valid_every": 500} if settings.quick else {})})
    choice = fit_to_rows(choice, parts.train, parts.space)
    built = choice.recipe.build(parts.space, choice.settings)
    how = choice.settings
    ended = fit(built.model, built.objective, parts.train, how, valid=parts.valid, device=settings.device)
    models: dict[str, Any] = {"ours": built.model}
    models |= {name: rival.fit(parts.train, parts.space) for name, rival in RIVALS.items()}
    ranks = {name: rank_of(Fitted(model, parts.space), wrong, site) for name, model in models.items()}
    judged = {name: _judged(rank, ranks["ours"]) for name, rank in ranks.items()}
    return {**judged, "rows": len(wrong), "steps": ended.step, "model": choice.recipe.model, **_sizes(parts)}


def planted(rows: States, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """Up to a thousand of the rows of bits, each with one flipped cell, and which cell it is."""
    chosen = torch.randperm(len(rows), generator=gen)[:ROWS]
    wrong = rows[chosen].long()
    site = torch.randint(wrong.shape[1], (len(wrong),), generator=gen)
    wrong[torch.arange(len(wrong)), site] ^= 1
    return wrong, site


def rank_of(fitted: Fitted, wrong: Tensor, site: Tensor) -> Tensor:
    """How many other flips are ranked above the one that undoes the mistake ``(N,)``; ties count as above."""
    ratios = fitted.log_ratios(wrong)
    mended = ratios.gather(1, site[:, None])
    return (ratios >= mended).sum(1) - 1


def _judged(rank: Tensor, ours: Tensor) -> dict[str, float]:
    first, own = (rank == 0).double(), (ours == 0).double()
    difference = own - first
    error = float(difference.std()) / sqrt(len(rank))
    return {
        "first": float(first.mean()),
        "first_three": float((rank < 3).double().mean()),
        "lead_z": float(difference.mean()) / error if error > 0 else 0.0,
    }


def _sizes(parts: Splits) -> dict[str, int]:
    return {"columns": parts.space.num_sites, "training_rows": len(parts.train)}
