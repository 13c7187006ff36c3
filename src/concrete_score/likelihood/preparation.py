"""All that is fixed before weighted chains run: where they start, which way they go, and in what steps."""

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import torch

from concrete_score.baselines.independent import Independent
from concrete_score.likelihood.ais import BATCH
from concrete_score.likelihood.annealing import Annealing, Geometric, Path, check_density
from concrete_score.likelihood.bases import uniform
from concrete_score.likelihood.kernels import KernelFactory, default_kernel
from concrete_score.likelihood.pilot import pilot
from concrete_score.likelihood.rbm import RBMPath
from concrete_score.likelihood.schedules import Schedule, check_count, linear
from concrete_score.likelihood.tuned import relaxable, tune
from concrete_score.protocols import Samplable
from concrete_score.shapes import States
from concrete_score.targets.rbm import ENUMERATED_UNITS, RBM


@dataclass(frozen=True)
class Budget:
    """How much work bounds may take. More steps tighten them; more chains only make them steadier.

    Args:
        steps: of the schedule, K.
        chains: of AIS, and of reverse AIS.
        raise_chains: of RAISE, for each row.
        sweeps: kernel steps at each inverse temperature.
        bound_rows: the most rows to bound; more are drawn from at random.
        pilot_steps: of the coarse schedule of the pilot run.
        pilot_chains: of the pilot run, and states the base is fitted to.
        batch: chains run together.

    Raises:
        InputError: too few of anything, before any work.
    """

    steps: int = 1000
    chains: int = 500
    raise_chains: int = 4
    sweeps: int = 1
    bound_rows: int = 500
    pilot_steps: int = 100
    pilot_chains: int = 200
    batch: int = BATCH

    def __post_init__(self) -> None:
        least = {"chains": 2, "raise_chains": 2, "bound_rows": 2, "pilot_steps": 2, "pilot_chains": 2}
        for name in self.__dataclass_fields__:
            check_count(getattr(self, name), name, least.get(name, 1))


def prepare(
    target: Any,
    generator: torch.Generator,
    budget: Budget | None = None,
    path: Path | None = None,
    kernels: KernelFactory | None = None,
) -> Annealing:
    """Path, schedule and kernels for a target, from a pilot run that is then forgotten.

    The base is a product of independent sites fitted to exact draws of the target, or, where there are none, to the
    ends of pilot chains that started from the uniform distribution. It only helps: any positive base gives bounds.

    Args:
        target: any density.
        generator: all randomness.
        budget: steps and chains.
        path: instead of the target's own (`default_path`).
        kernels: from a density to a kernel; by default `TunedMultiSite` where the target has a gradient, else
            `default_kernel`.

    >>> from concrete_score.targets import Ising
    >>> annealing = prepare(Ising((2, 2), 0.4), torch.Generator().manual_seed(0), Budget(steps=20, pilot_steps=5))
    >>> annealing.schedule.steps, annealing.schedule.betas[0]
    (20, 0.0)
    """
    check_density(target, "target")
    budget = budget or Budget()
    coarse = linear(min(budget.pilot_steps, budget.steps))
    if path is None:
        path = default_path(target, None)
        sampler = exact_sampler(target)
        if sampler is None:
            first = _with_kernels(path, coarse, kernels, budget, generator)
            rows = first.up(path.sample(budget.pilot_chains, generator), generator).x
        else:
            rows = sampler.sample(budget.pilot_chains, generator)
        path = default_path(target, rows)
    annealing = _with_kernels(path, coarse, kernels, budget, generator)
    return replace(annealing, schedule=pilot(annealing, budget.steps, generator, budget.pilot_chains))


def _with_kernels(
    path: Path, schedule: Schedule, kernels: KernelFactory | None, budget: Budget, generator: torch.Generator
) -> Annealing:
    if kernels is None:
        kernels = tune(path, generator, budget.pilot_chains) if relaxable(path) else default_kernel
    return Annealing(path, schedule, kernels, budget.sweeps)


@singledispatch
def default_path(target: Any, rows: States | None) -> Path:
    """The geometric path from independent sites fitted to rows ``(n, D)``, or from the uniform distribution."""
    base = uniform(target.space) if rows is None else Independent.fit(rows, target.space)
    return Geometric(base, target)


@default_path.register
def _rbm_path(target: RBM, rows: States | None) -> Path:
    if rows is None:
        return RBMPath(target)
    table = Independent.fit(rows, target.space).log_table
    return RBMPath(target, table[:, 1] - table[:, 0])


@singledispatch
def exact_sampler(target: Any) -> Samplable | None:
    """What draws the target's exact samples; None where nothing does."""
    return target if isinstance(target, Samplable) else None


@exact_sampler.register
def _rbm_sampler(target: RBM) -> Samplable | None:
    return target if min(target.weights.shape) <= ENUMERATED_UNITS else None
