"""Sixteen categories learned through the ratios of a cycle (paper, section 5.2, with the truth of our own making).

A score network learns each category's one ratio, from samples or from the enumerated objective; the distribution is
then recovered from its ratios alone and held against the truth by total variation.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import nn

from concrete_score import registry
from concrete_score.bench.checks import Check
from concrete_score.experiments.result import Findings, Settings
from concrete_score.metrics import histogram, total_variation
from concrete_score.objectives import build
from concrete_score.protocols import Objective
from concrete_score.randomness import generator
from concrete_score.scores import recover
from concrete_score.targets.pmf import Pmf
from concrete_score.training import Enumerated, TrainingSettings, fit

ROWS = 1_000_000
"""Training samples; their own histogram is within about 0.0015 of the truth."""
HELD_OUT = 100_000


@dataclass(frozen=True)
class CategoriesCase:
    """One training: which truth, which head, samples or enumeration, how long, and the bound it is held to."""

    name: str
    target: str
    head: str
    enumerated: bool
    steps: int
    quick_steps: int
    bound: float | None = None
    quick_bound: float | None = None


CASES = (
    CategoriesCase("samples", "sixteen_categories", "log_ratio", False, 30_000, 1_000, 0.01, 0.25),
    CategoriesCase("samples, raw head", "sixteen_categories", "raw", False, 30_000, 1_000, 0.01, 0.25),
    CategoriesCase("enumerated", "sixteen_categories", "log_ratio", True, 20_000, 3_000, 0.001, 0.005),
    CategoriesCase("enumerated, raw head", "sixteen_categories", "raw", True, 20_000, 3_000, 0.001, 0.005),
    CategoriesCase("low density, samples", "low_density", "log_ratio", False, 10_000, 300),
    CategoriesCase("low density, enumerated", "low_density", "log_ratio", True, 30_000, 1_000),
)


def run(settings: Settings) -> Findings:
    """Every case, with the time it took."""
    ours: dict[str, Any] = {}
    checks = []
    for case in CASES:
        found = train_one(case, settings)
        ours[case.name] = found
        bound = case.quick_bound if settings.quick else case.bound
        if bound is not None:
            checks.append(Check.at_most(f"{case.name}: total variation", found["total_variation"], bound))
    return Findings({}, ours, tuple(checks))


def train_one(case: CategoriesCase, settings: Settings) -> dict[str, Any]:
    """Train one case and recover its distribution."""
    truth: Pmf = registry.load("targets", case.target)()
    cycle = registry.load("neighborhoods", "cycle")(truth.space)
    gen = generator(settings.seed, "weights")
    model: nn.Module = registry.load("models", "mlp")(cycle, case.head, generator=gen)
    objective: Objective = build("csm", truth.space, neighborhood=cycle, edges="independent")
    steps = case.quick_steps if settings.quick else case.steps
    rows, valid = (truth.sample(n, generator(settings.seed, "rows", n)).to(torch.uint8) for n in (ROWS, HELD_OUT))
    batch = 1024
    if case.enumerated:
        rows = valid = truth.space.enumerate()
        batch, objective = len(rows), Enumerated(objective, truth.probabilities)  # type: ignore[arg-type]
    how = TrainingSettings(
        steps=steps, batch_size=batch, lr=1e-3, schedule="cosine", valid_every=steps // 4, seed=settings.seed
    )
    start = perf_counter()
    ended = fit(model, objective, rows, how, valid=valid, device=settings.device)
    seconds = perf_counter() - start
    return {
        **_distance(model, cycle, truth),
        "samples": None if case.enumerated else total_variation(histogram(rows, truth.space), truth),
        "steps": ended.step,
        "seconds": round(seconds, 1),
        "diverged": ended.diverged,
    }


def _distance(model: Any, cycle: Any, truth: Pmf) -> dict[str, Any]:
    states = truth.space.enumerate()
    with torch.no_grad():
        ratios = model.log_ratios(states)
    share_below = float((ratios == -torch.inf).double().mean())
    if share_below:  # a score of -1 or less says that a positive state is impossible: nothing can be recovered
        return {"total_variation": 1.0, "share_below": share_below}
    found = recover(ratios, cycle)
    return {
        "total_variation": total_variation(found.log_pmf.exp(), truth),
        "share_below": share_below,
        "inconsistency": found.inconsistency,
    }
