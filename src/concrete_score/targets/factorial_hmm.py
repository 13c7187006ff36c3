"""The posterior of a factorial hidden Markov model: binary chains in parallel, seen through noisy sums.

Conditioned on its observations it is a pairwise model, chains coupled along time and dense across chains; its partition
function is exact by a transfer matrix over the chains' joint states.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import log

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.pairwise import Pairwise

MOST_CHAINS = 12


@dataclass(frozen=True, eq=False)
class FactorialHMM:
    """``log q(x) = Σ_k [log p(x_1k) + Σ_t log p(x_{t+1,k} | x_tk)] - Σ_t (y_t - w·x_t)² / 2σ²``; bits time by time.

    Args:
        observations: y ``(T,)``.
        weights: w ``(K,)``, K at most 12.
        noise: σ.
        first: the probability that a chain starts at 1.
        stay: the probability that it keeps its value from one time to the next.

    >>> model = FactorialHMM(torch.tensor([0.3, 1.2, -0.4]), torch.tensor([1.0, -0.5]))
    >>> exact = model.log_density(model.space.enumerate()).logsumexp(0).item()
    >>> abs(model.log_partition() - exact) < 1e-10
    True
    """

    observations: Tensor = field(repr=False)
    weights: Tensor = field(repr=False)
    noise: float = 0.5
    first: float = 0.1
    stay: float = 0.95

    def __post_init__(self) -> None:
        if self.observations.ndim != 1 or self.weights.ndim != 1 or not 1 <= len(self.weights) <= MOST_CHAINS:
            came = f"shapes {tuple(self.observations.shape)} and {tuple(self.weights.shape)}"
            raise InputError(f"observations (T,) and at most {MOST_CHAINS} weights (K,)", came)
        for name in ("observations", "weights"):
            object.__setattr__(self, name, getattr(self, name).double())

    @cached_property
    def space(self) -> Space:
        return Space.bits(len(self.observations) * len(self.weights))

    @property
    def normalized(self) -> bool:
        """Always false: subtract `log_partition`."""
        return False

    def log_density(self, x: States) -> PerState:
        return self.pairwise().log_density(x)

    def local_fields(self, x: States) -> Tensor:
        return self.pairwise().local_fields(x)

    def interactions(self) -> Tensor:
        return self.pairwise().interactions()

    def pairwise(self) -> Pairwise:
        """Its fields and couplings."""
        return self._pairwise

    def log_partition(self, inverse_temperature: float = 1.0) -> float:
        """``log Σ_x q(x)^β``, exact."""
        return float(self._log_partition(torch.tensor(inverse_temperature, dtype=torch.float64)))

    def mean_log_density(self) -> float:
        """``E log q``, exact: the slope of `log_partition` at 1."""
        beta = torch.ones((), dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(self._log_partition(beta), beta)
        return float(slope)

    @cached_property
    def _pairwise(self) -> Pairwise:
        y, w = self.observations, self.weights
        times, chains = len(y), len(w)
        precision = 1 / self.noise**2
        one = (y[:, None] * w - w.square() / 2) * precision
        zero = (-y.square() / 2 * precision / chains)[:, None].expand(-1, chains)
        fields = torch.stack([zero, zero + one], -1)
        fields[0] += torch.tensor([log(1 - self.first), log(self.first)], dtype=torch.float64)
        place = torch.arange(times * chains).reshape(times, chains)
        pairs = torch.triu_indices(chains, chains, offset=1)
        across = torch.stack([place[:, pairs[0]], place[:, pairs[1]]], -1).reshape(-1, 2)
        along = torch.stack([place[:-1], place[1:]], -1).reshape(-1, 2)
        product = torch.zeros(len(across), 2, 2, dtype=torch.float64)
        product[:, 1, 1] = (-w[pairs[0]] * w[pairs[1]] * precision).repeat(times)
        return Pairwise(
            self.space,
            fields.flatten(0, 1),
            torch.cat([product, self._step.expand(len(along), -1, -1)]),
            torch.cat([across, along]),
        )

    @property
    def _step(self) -> Tensor:
        """``log p(next | last)`` ``(2, 2)``."""
        keep, change = log(self.stay), log(1 - self.stay)
        return torch.tensor([[keep, change], [change, keep]], dtype=torch.float64)

    def _log_partition(self, beta: Tensor) -> Tensor:
        """Forward through time over all joint states of the chains ``(2^K,)``, one chain's step at a time."""
        chains = len(self.weights)
        joint = Space.bits(chains).enumerate().double()
        sums = joint @ self.weights
        seen = -(self.observations[:, None] - sums).square() / (2 * self.noise**2)
        start = torch.tensor([log(1 - self.first), log(self.first)], dtype=torch.float64)
        message = beta * (start[joint.long()].sum(-1) + seen[0])
        step = (beta * self._step).exp()
        for each in beta * seen[1:]:
            top = message.detach().max()
            table = (message - top).exp().reshape((2,) * chains)
            for _ in range(chains):
                table = torch.tensordot(table, step, dims=([0], [0]))  # the first chain goes last
            message = table.reshape(-1).log() + top + each
        return message.logsumexp(0)


def random_factorial_hmm(times: int, chains: int, generator: torch.Generator) -> FactorialHMM:
    """Normal weights, and observations drawn from the model with σ = ½ (Grathwohl et al., 2021).

    >>> random_factorial_hmm(20, 3, torch.Generator().manual_seed(0)).space.num_sites
    60
    """
    check_count(times, "times", 1)
    weights = torch.randn(chains, generator=generator, dtype=torch.float64)
    unit = torch.rand(times, chains, generator=generator, dtype=torch.float64)
    noise = torch.randn(times, generator=generator, dtype=torch.float64)
    start = (unit[:1] < 0.1).long()
    flips = torch.cat([start, (unit[1:] < 0.05).long()])
    return FactorialHMM((flips.cumsum(0) % 2).double() @ weights + 0.5 * noise, weights)
