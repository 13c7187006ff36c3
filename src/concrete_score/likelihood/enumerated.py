"""The exact twins of AIS, reverse AIS and RAISE: expectations over all their randomness by matrix products."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.likelihood.annealing import Annealing
from concrete_score.likelihood.kernels import time_reversal
from concrete_score.protocols import Enumerable, Kernel
from concrete_score.samplers.matrices import LIMIT
from concrete_score.shapes import PerStateTable


@dataclass(frozen=True, eq=False)
class EnumeratedAnnealing:
    """What one chain of an annealing is worth in expectation, over an enumerable space.

    With ``r_k = f_k / f_{k-1}`` and the matrices ``P_k`` of ``T_k``, ``P~_k`` of its time reversal:

    - ``E[w_AIS^m] = f_0 r_1^m P_1 r_2^m P_2 … r_K^m 1``,
    - ``E[w_rev^-m] = (f_K / Z) P~_K r_K^-m … P~_1 r_1^-m 1``,
    - ``E[w_RAISE | x] = f(x) (P~_K r_K^-1 … P~_1 r_1^-1 1)(x)``, to be compared with ``p_ann = f_0 P_1 … P_K``,

    and expectations of log-weights are sums of the ``log r_k`` under the chain's marginals.

    Args:
        annealing: on a space of at most 4096 states, with kernels that offer `transition_matrix`.

    >>> from concrete_score.likelihood.annealing import Geometric
    >>> from concrete_score.likelihood.bases import uniform
    >>> from concrete_score.likelihood.schedules import linear
    >>> from concrete_score.targets import Ising
    >>> model = Ising((2, 2), 0.3)
    >>> twin = EnumeratedAnnealing(Annealing(Geometric(uniform(model.space), model), linear(3)))
    >>> abs(twin.ais_moment().log().item() - model.log_partition()) < 1e-12
    True
    """

    annealing: Annealing

    def __post_init__(self) -> None:
        self.annealing.path.space.check_enumerable(LIMIT)
        kernel = self.annealing.kernels(self.annealing.path.at(1.0))
        if not isinstance(kernel, Enumerable):
            came = type(kernel).__name__
            raise InputError("kernels with a transition matrix", came, where="kernels")

    @cached_property
    def log_densities(self) -> Tensor:
        """``log f_k`` of every state ``(K + 1, S)``."""
        path = self.annealing.path
        states = path.space.enumerate()
        with torch.no_grad():
            return torch.stack([path.at(beta).log_density(states).double() for beta in self.annealing.schedule.betas])

    @property
    def log_partition(self) -> Tensor:
        """``log Z``."""
        return self.log_densities[-1].logsumexp(0)

    def ais_moment(self, power: int | float = 1.0) -> Tensor:
        """``E[w^power]`` of an AIS chain; Z for power 1."""
        measure = self.log_densities[0].exp()
        for log_ratio, forward in zip(self._log_ratios, self._matrices(), strict=True):
            measure = (measure * (power * log_ratio).exp()) @ forward
        return measure.sum()

    def reverse_moment(self, power: int | float = 1.0) -> Tensor:
        """``E[w^-power]`` of a reverse chain from an exact sample; 1/Z for power 1."""
        return self._target @ self._descent(power)

    def raise_moment(self, power: int | float = 1.0) -> PerStateTable:
        """``E[w(x)^power]`` of a RAISE chain from every state ``(S,)``; ``p_ann`` for power 1."""
        return (power * self.log_densities[-1]).exp() * self._descent(power)

    def annealed(self) -> PerStateTable:
        """``p_ann``: where an AIS chain ends ``(S,)``."""
        return self._marginals()[-1]

    def ais_mean_log(self) -> Tensor:
        """``E log w`` of one AIS chain, at most log Z."""
        marginals = torch.stack(self._marginals()[:-1])
        return torch.where(marginals > 0, marginals * self._log_ratios, 0.0).sum()

    def reverse_mean_log(self) -> Tensor:
        """``E log w`` of one reverse chain from an exact sample, at least log Z."""
        return self._target @ self._descent_mean_log()

    def raise_mean_log(self) -> PerStateTable:
        """``E log w(x)`` of one RAISE chain from every state ``(S,)``, at most ``log p_ann``."""
        return self.log_densities[-1] - self._descent_mean_log()

    @property
    def _target(self) -> Tensor:
        return self.log_densities[-1].softmax(0)

    @cached_property
    def _log_ratios(self) -> Tensor:
        # Where both are zero no chain ever is.
        return self.log_densities.diff(dim=0).nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)

    def _marginals(self) -> list[Tensor]:
        marginals = [self.log_densities[0].exp()]
        for forward in self._matrices():
            marginals.append(marginals[-1] @ forward)
        return marginals

    def _descent(self, power: int | float) -> Tensor:
        """``E[Π_k r_k(x_{k-1})^-power | x_K = x]`` ``(S,)``, from the bottom up."""
        value = torch.ones_like(self.log_densities[0])
        for log_ratio, backward in self._descents():
            value = backward @ ((-power * log_ratio).exp() * value)
        return value

    def _descent_mean_log(self) -> Tensor:
        """``E[Σ_k log r_k(x_{k-1}) | x_K = x]`` ``(S,)``."""
        value = torch.zeros_like(self.log_densities[0])
        for log_ratio, backward in self._descents():
            value = backward @ (log_ratio + value)
        return value

    def _descents(self) -> Iterator[tuple[Tensor, Tensor]]:
        """``log r_k`` and the reversed matrix that leads there, from the bottom up; a chain never enters a zero of f_k,
        so the ratio of one, which is none, is given as 0."""
        for log_ratio, backward in zip(self._log_ratios, self._matrices(backward=True), strict=True):
            yield log_ratio.nan_to_num(posinf=torch.inf, neginf=0.0), backward

    def _matrices(self, backward: bool = False) -> Iterator[Tensor]:
        """The matrices of ``T_1, …, T_K``, or of their time reversals, ``sweeps`` times each."""
        for beta in self.annealing.schedule.betas[1:]:
            kernel: Kernel = self.annealing.kernels(self.annealing.path.at(beta))
            kernel = time_reversal(kernel) if backward else kernel
            if not isinstance(kernel, Enumerable):  # pragma: no cover - checked when built
                raise TypeError("no transition matrix")
            yield torch.linalg.matrix_power(kernel.transition_matrix(), self.annealing.sweeps)
