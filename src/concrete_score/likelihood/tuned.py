"""Multi-site kernels along a path, their step sizes found by a pilot run and then frozen (DESIGN M12)."""

from bisect import bisect_left
from dataclasses import dataclass
from math import exp, log
from typing import Any, TypeGuard

import torch
from torch import Tensor

from concrete_score.baselines.independent import Independent
from concrete_score.errors import InputError
from concrete_score.likelihood.annealing import Geometric, Interpolated
from concrete_score.likelihood.schedules import check_count, linear
from concrete_score.samplers import MultiSite, Relaxed, relax
from concrete_score.samplers.multi_site import TARGET_ACCEPTANCE
from concrete_score.samplers.relaxed import relaxes


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

    >>> from concrete_score.likelihood.bases import uniform
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
