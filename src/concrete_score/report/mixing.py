"""Do chains mix on this model? A short run of a default kernel, held against exact draws where there are any."""

from dataclasses import dataclass
from math import hypot, inf, isnan
from typing import Any

import torch
from torch import Tensor

from concrete_score.protocols import DensityModel, Samplable
from concrete_score.samplers import Diagnosis, run
from concrete_score.samplers.clamped import default_kernel, named_kernel
from concrete_score.samplers.diagnostics import MIN_ACCEPTANCE, MIN_ESS
from concrete_score.samplers.run import Progress
from concrete_score.shapes import States

KEPT, BURN_IN = 250, 5
"""Draws kept of a chain; before them a fifth as many are thrown away."""
MAX_THIN = 20
"""Steps between draws: as many as there are sites, and no more than this."""
MAX_R_HAT = 1.03
"""In so short a run; draws that are to be used are held to less."""
EXACT = 2000
CLEAR = 4.0
"""Standard errors from which chains and exact draws disagree."""


@dataclass(frozen=True)
class Mixing:
    """A short run of chains."""

    kernel: str
    start: str
    """Where the chains began: ``data``, ``model`` or ``uniform``."""
    diagnosis: Diagnosis
    exact_z: float | None = None
    """How many standard errors the chains' mean log-density is from that of exact draws; None without such draws."""

    @property
    def needed(self) -> bool:
        """Whether chains are the only way to draw from this model."""
        return self.exact_z is None

    @property
    def agrees(self) -> bool:
        """Whether exact draws, if there are any, do not contradict the chains."""
        return self.exact_z is None or abs(self.exact_z) <= CLEAR

    @property
    def r_hat(self) -> float:
        """The largest; infinite where a statistic never changed, in any chain."""
        return max(inf if isnan(s.r_hat) else s.r_hat for s in self.diagnosis.statistics.values())

    @property
    def ess(self) -> float:
        """The smallest effective sample size."""
        return min(0.0 if isnan(s.ess) else s.ess for s in self.diagnosis.statistics.values())

    @property
    def mixes(self) -> bool:
        """Whether chains agree with each other and are worth some draws."""
        moves = self.diagnosis.acceptance >= MIN_ACCEPTANCE
        return moves and self.r_hat <= MAX_R_HAT and self.ess >= MIN_ESS

    @property
    def words(self) -> str:
        """For people."""
        d = self.diagnosis
        told = (
            f"{d.chains} chains of '{self.kernel}' from {self.start}, {d.acceptance:.0%} of moves accepted, "
            f"R-hat {self.r_hat:.3f}, {self.ess:.0f} effective draws"
        )
        if not self.mixes:
            told = f"Chains do not mix in so few steps: {told}; run them long, or draw by a kernel that moves farther"
        elif self.agrees:
            told = f"Chains mix: {told}"
        else:
            told = f"Chains agree with each other, but not with the model: {told}"
        if not self.agrees:
            told += f"; their log-density is {abs(self.exact_z or 0.0):.1f} standard errors from that of exact draws"
        if self.needed or (self.mixes and self.agrees):
            return f"{told}."
        return f"{told}. Exact draws do not depend on it; conditional ones of this kernel do."


@torch.no_grad()
def measure_mixing(
    model: Any,
    starts: States,
    generator: torch.Generator,
    *,
    start: str = "data",
    kernel: str | None = None,
    exact: Samplable | None = None,
    progress: Progress | None = None,
    kept: int = KEPT,
    thin: int | None = None,
) -> Mixing:
    """Run chains from ``starts`` ``(C, D)`` and say how they went.

    Args:
        model: a density or a score model.
        starts: states of positive probability, two at least.
        generator: all randomness.
        start: what the starts are, for the report.
        kernel: a registered name; by default the first of `gibbs`, `informed` and `mh` that runs on the model.
        exact: draws exact samples of the model; their log-density is compared.
        progress: told after every step.
        kept: draws of each chain.
        thin: steps between them; as many as there are sites, up to 20, by default.

    >>> from concrete_score.targets import Ising
    >>> model, g = Ising((2, 2), 0.2), torch.Generator().manual_seed(0)
    >>> measure_mixing(model, model.space.uniform(32, g), g).words[:40]
    "Chains mix: 32 chains of 'gibbs' from da"
    """
    name = kernel or default_kernel(model)
    thin = thin or min(MAX_THIN, starts.shape[-1])
    samples = run(
        named_kernel(name, model),
        starts,
        steps=kept * thin,
        burn_in=kept // BURN_IN * thin,
        thin=thin,
        generator=generator,
        statistics={"the mean value": mean_value},
        keep=False,
        progress=progress,
    )
    if samples.diagnosis is None:  # pragma: no cover - asked for by default
        raise RuntimeError("a run that was to be diagnosed was not")
    return Mixing(name, start, samples.diagnosis, _exact_z(model, samples.diagnosis, exact, generator))


def mean_value(x: Tensor) -> Tensor:
    """The mean of a state's values ``(C, D) -> (C,)``."""
    return x.double().mean(-1)


def _exact_z(model: Any, found: Diagnosis, exact: Samplable | None, generator: torch.Generator) -> float | None:
    if exact is None or not isinstance(model, DensityModel):
        return None
    value = model.log_density(exact.sample(EXACT, generator)).double()
    chains = found.statistics["log_density"]
    error = hypot(float(value.std()) / EXACT**0.5, chains.standard_error)
    return (chains.mean - float(value.mean())) / error if error > 0 else None
