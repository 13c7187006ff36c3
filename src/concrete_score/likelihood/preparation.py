"""All that is fixed before weighted chains run: where they start, which way they go, in what steps, by which kernels.

Schedules and step sizes come from pilot chains that are then thrown away (docs/mathematics.md, "Likelihood bounds").
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import singledispatch
from math import exp, log
from typing import Any, TypeGuard

import torch
from torch import Tensor

from concrete_score.baselines.independent import Independent
from concrete_score.defaults import BOUND_ROWS
from concrete_score.errors import InputError, check_count
from concrete_score.likelihood.annealing import BATCH, Annealing, Schedule, evenly, linear
from concrete_score.likelihood.annealing_paths import (
    Geometric,
    Interpolated,
    KernelFactory,
    Path,
    RBMPath,
    check_density,
    default_kernel,
    uniform,
)
from concrete_score.protocols import Samplable
from concrete_score.samplers import MultiSite, Relaxed, relax, structured
from concrete_score.samplers.multi_site import TARGET_ACCEPTANCE
from concrete_score.samplers.surrogates import relaxes
from concrete_score.shapes import States
from concrete_score.targets.boltzmann import ENUMERATED_UNITS, RBM


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
    bound_rows: int = BOUND_ROWS
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
        kernels: from a density to a kernel; by default `default_kernel` where the target has a structure to use or no
            gradient, else `TunedMultiSite`.

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
        by_gradient = relaxable(path) and structured(path.at(1.0)) is None
        kernels = tune(path, generator, budget.pilot_chains) if by_gradient else default_kernel  # type: ignore[arg-type]
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


def pilot(
    annealing: Annealing,
    steps: int,
    generator: torch.Generator,
    chains: int = 100,
    rounds: int = 2,
) -> Schedule:
    """A schedule of ``steps`` steps that equalizes the spread of the log-weight increments.

    With kernels that mix, the variance of ``log w`` is least when every step adds the same; the pilot measures
    ``sd([log f_k - log f_{k-1}](x_{k-1}))`` along a coarse schedule and cuts its running sum evenly. The result is a
    frozen value: adapting on the weighted chains themselves would break ``E[Ẑ] = Z``.

    Args:
        annealing: its schedule is the coarse one the first round walks.
        steps: of the schedule to make.
        generator: all randomness.
        chains: in each round, at least 2.
        rounds: each starts from the schedule of the one before.

    >>> from concrete_score.likelihood import Geometric, linear, uniform
    >>> from concrete_score.targets import Ising
    >>> model = Ising((3, 3), 0.4)
    >>> annealing = Annealing(Geometric(uniform(model.space), model), linear(10))
    >>> pilot(annealing, 40, torch.Generator().manual_seed(0)).steps
    40
    """
    for value, name, least in ((steps, "steps", 1), (chains, "chains", 2), (rounds, "rounds", 1)):
        check_count(value, name, least)
    coarse = annealing.schedule.steps
    for k in range(rounds):
        climb = annealing.up(annealing.path.sample(chains, generator), generator)
        goal = steps if k == rounds - 1 else coarse
        annealing = replace(annealing, schedule=evenly(annealing.schedule.betas, climb.spreads, goal))
    return annealing.schedule


@dataclass(frozen=True)
class TunedMultiSite:
    """A `KernelFactory`: `MultiSite` on the gradient of ``f_β``, ``log α`` interpolated between knots.

    Args:
        betas: the knots, rising.
        step_sizes: α at each of them.
    """

    betas: tuple[float, ...]
    step_sizes: tuple[float, ...]

    def __call__(self, density: Any) -> MultiSite:
        """The kernel that keeps an interpolated density."""
        return MultiSite(relax_interpolated(density), self.step_size(density.beta))

    def step_size(self, beta: float) -> float:
        """α at an inverse temperature.

        >>> round(TunedMultiSite((0.0, 1.0), (0.4, 0.1)).step_size(0.5), 6)
        0.2
        """
        if beta <= self.betas[0] or beta > self.betas[-1]:
            return self.step_sizes[0 if beta <= self.betas[0] else -1]
        k = bisect_left(self.betas, beta)
        share = (beta - self.betas[k - 1]) / (self.betas[k] - self.betas[k - 1])
        return exp((1 - share) * log(self.step_sizes[k - 1]) + share * log(self.step_sizes[k]))


def relaxable(path: Any) -> TypeGuard[Geometric]:
    """Whether a path leads from independent sites to a density with a gradient."""
    return isinstance(path, Geometric) and isinstance(path.base, Independent) and relaxes(path.target)


def tune(
    path: Geometric,
    generator: torch.Generator,
    chains: int = 100,
    knots: int = 10,
    steps: int = 20,
) -> TunedMultiSite:
    """Step sizes of the best acceptance at ``knots`` inverse temperatures, from chains that are then thrown away.

    Args:
        path: from independent sites to a density that `relax` knows.
        generator: all randomness.
        chains: at least 2.
        knots: how many inverse temperatures after 0 to stop at.
        steps: of adaptation at each, at least 2.

    Raises:
        InputError: a base that is not `Independent`, or a target without a gradient.

    >>> from concrete_score.likelihood.annealing_paths import uniform
    >>> from concrete_score.targets import Ising
    >>> model = Ising((3, 3), 0.4)
    >>> tuned = tune(Geometric(uniform(model.space), model), torch.Generator().manual_seed(0), knots=3)
    >>> len(tuned.step_sizes), min(tuned.step_sizes) > 0
    (3, True)
    """
    for value, name, least in ((chains, "chains", 2), (knots, "knots", 1), (steps, "steps", 2)):
        check_count(value, name, least)
    betas, found = linear(knots).betas[1:], []
    x, step_size = path.sample(chains, generator), 1.0
    for beta in betas:
        kernel = MultiSite(relax_interpolated(path.at(beta)), step_size)
        x, step_size = _adapt(kernel, x, generator, steps)
        found.append(step_size)
    return TunedMultiSite(betas, tuple(found))


def _adapt(kernel: MultiSite, x: Tensor, generator: torch.Generator, steps: int) -> tuple[Tensor, float]:
    """Chains after some steps, and the step size, never beyond 1, that brought their acceptance near its target.

    With α = 1 a change that costs nothing is a coin toss. Beyond, moves become flips of everything at once, which flat
    and symmetric densities accept though they lead nowhere: acceptance alone would drive α to infinity.
    """
    state, log_step = kernel.init(x), log(kernel.step_size)
    for i in range(1, steps + 1):
        state, info = kernel.step(state, generator)
        log_step = min(0.0, log_step + (float(info.accepted.double().mean()) - TARGET_ACCEPTANCE) / i**0.6)
        kernel, state = kernel.with_step_size(exp(log_step), state)
    return state.x, kernel.step_size


def relax_interpolated(density: Any) -> Relaxed:
    """``(1-β) Σ_d p_d · log q_d + β log target(p)``: an interpolated density as a function of site probabilities ``p``.

    Raises:
        InputError: another kind of density, base or target.
    """
    if not isinstance(density, Interpolated) or not isinstance(density.base, Independent):
        came = f"{type(density).__name__} of {type(getattr(density, 'base', None)).__name__}"
        raise InputError("a density between independent sites and a target", came, where="density")
    target = relax(density.target)
    table, beta = density.base.log_table, density.beta
    # Values a site does not have are never asked for; zero keeps their product with a probability of zero at zero.
    table = torch.where(table == -torch.inf, 0.0, table)

    def function(probabilities: Tensor) -> Tensor:
        base = (probabilities * table.to(probabilities)).sum((-2, -1))
        return torch.lerp(base.double(), target.relaxed_log_density(probabilities).double(), beta)

    probe = target.one_hot(torch.zeros(1, density.space.num_sites, dtype=torch.int64, device=table.device))
    return Relaxed(density.space, function, probe.dtype)
