"""Chains on a model: how long they may run, whether they mix, and draws by chains where there is no other way."""

from dataclasses import dataclass
from math import hypot, inf, isnan
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.fitted import Drawn
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.samplers import Diagnosis, run
from concrete_score.samplers.clamped import default_kernel, named_kernel, possible_starts
from concrete_score.samplers.diagnosis import MIN_ACCEPTANCE, MIN_ESS
from concrete_score.samplers.run import Progress
from concrete_score.shapes import States
from concrete_score.spaces import Space

KEPT, BURN_IN = 250, 5
"""Draws kept of a chain; before them a fifth as many are thrown away."""
MAX_THIN = 20
"""Steps between draws: as many as there are sites, and no more than this."""
MAX_R_HAT = 1.03
"""In so short a run; draws that are to be used are held to less."""
EXACT = 2000
CLEAR = 4.0
"""Standard errors from which chains and exact draws disagree."""

SPEED = 4e9
"""Weights that one core multiplies in a second, on the slow side."""
LEAST_WEIGHTS = 10_000
"""A smaller model is no quicker: calling it takes as long."""
STEP = 2e-3
"""Seconds that a step of chains takes beside the model."""
FEWEST = 60
"""Draws of a chain below which its length is not worth running."""
LIMITED_THIN = 8
"""As `MAX_THIN`, where time is limited."""

WIDE, DRAWS_EACH = 128, 8
"""Chains side by side that rows are drawn by, and draws used of each."""
SWEEPS = 60
"""Visits of each site, burn-in included; fewer where time is limited."""
SECONDS = 4.0
LOOSE = 1.1
"""R-hat above which such draws are not to be trusted."""


@dataclass(frozen=True)
class Effort:
    """How much may be asked of a model within seconds: counted beforehand, never timed, so that results repeat."""

    per_second: float
    """States that the model can judge."""
    all_values: bool
    """Whether a step of chains needs all values of a site."""

    @classmethod
    def of(cls, model: Any) -> "Effort":
        """Counted from the model's weights."""
        weights = getattr(model, "parameters", None)
        count = sum(each.numel() for each in weights()) if callable(weights) else 0
        return cls(SPEED / max(count, LEAST_WEIGHTS), isinstance(model, DensityModel))

    def within(self, seconds: float, least: int, most: int, each: int = 1) -> int:
        """How many things of ``each`` states fit into some seconds, within bounds.

        >>> Effort(1000.0, True).within(2.0, 1, 400, each=10)
        200
        """
        return int(max(least, min(most, seconds * self.per_second / max(1, each))))

    def steps(self, seconds: float, space: Space, chains: int) -> int:
        """Steps of so many chains side by side that fit into some seconds."""
        states = chains * (max(space.sizes) if self.all_values else 1)
        return int(seconds / (STEP + states / self.per_second))

    def chain_length(self, seconds: float, space: Space, chains: int) -> tuple[int, int]:
        """Draws to keep of each chain and steps between them; ``(0, 1)`` where too few could be made."""
        steps = self.steps(seconds, space, chains)
        thin = max(1, min(LIMITED_THIN, space.num_sites, steps * 5 // (6 * KEPT)))
        kept = min(KEPT, steps * 5 // (6 * thin))
        return (kept, thin) if kept >= FEWEST else (0, 1)


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
    def message(self) -> str:
        """A verdict with its numbers, in a few sentences."""
        d = self.diagnosis
        text = (
            f"{d.chains} chains of '{self.kernel}' from {self.start}, {d.acceptance:.0%} of moves accepted, "
            f"R-hat {self.r_hat:.3f}, {self.ess:.0f} effective draws"
        )
        if not self.mixes:
            text = f"Chains do not mix in so few steps: {text}; run them long, or draw by a kernel that moves farther"
        elif self.agrees:
            text = f"Chains mix: {text}"
        else:
            text = f"Chains agree with each other, but not with the model: {text}"
        if not self.agrees:
            text += f"; their log-density is {abs(self.exact_z or 0.0):.1f} standard errors from that of exact draws"
        if self.needed or (self.mixes and self.agrees):
            return f"{text}."
        return f"{text}. Exact draws do not depend on it; conditional ones of this kernel do."


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
        progress: called after every step.
        kept: draws of each chain.
        thin: steps between them; as many as there are sites, up to 20, by default.

    >>> from concrete_score.targets import Ising
    >>> model, g = Ising((2, 2), 0.2), torch.Generator().manual_seed(0)
    >>> measure_mixing(model, model.space.uniform(32, g), g).message[:40]
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


@torch.no_grad()
def draw_by_chains(model: Any, space: Space, effort: Effort, generator: torch.Generator) -> Drawn:
    """Rows from uniform starts, half of all steps thrown away.

    Raises:
        InputError: no kernel runs on this model, or it is too slow for chains here.
    """
    steps = min(SWEEPS * space.num_sites, effort.steps(SECONDS, space, WIDE))
    if steps < 4 * DRAWS_EACH:
        raise InputError("a model quick enough for chains", "one that is not")
    name = default_kernel(model)
    nothing = torch.zeros(WIDE, space.num_sites, dtype=torch.int64, device=generator.device)
    starts = possible_starts(model, nothing, nothing.bool(), space, generator)
    thin = max(1, steps // (2 * DRAWS_EACH))
    found = run(
        named_kernel(name, model),
        starts,
        steps=DRAWS_EACH * thin,
        burn_in=steps - DRAWS_EACH * thin,
        thin=thin,
        generator=generator,
        statistics={"the mean value": mean_value},
    )
    rows: Tensor = found.rows
    if found.diagnosis is None:  # pragma: no cover - asked for by default
        return Drawn(rows, name)
    worst = max(each.r_hat for each in found.diagnosis.statistics.values())
    sweeps = steps / space.num_sites
    reason = f"{WIDE} chains of '{name}' that visited each column {sweeps:.0f} times have not mixed (R-hat {worst:.2f})"
    warning = f"Draws cannot be held against the data: {reason}. The sample command runs them longer."
    return Drawn(rows, name, (warning,) if not worst <= LOOSE else ())


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
