"""Restricted Boltzmann machines small enough on one side to be known exactly."""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.pmf import as_float64, invert

ENUMERATED_UNITS = 20
_CHUNK_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class RBM:
    """``log q(v) = b·v + Σ_j softplus(c_j + (vW)_j)``: visible bits with the hidden ones summed out.

    Args:
        weights: W ``(V, H)``.
        visible_bias: b ``(V,)``.
        hidden_bias: c ``(H,)``. All are kept in float64.

    Raises:
        InputError: shapes that do not fit, or parameters that are not finite.

    >>> model = RBM(torch.zeros(3, 2), torch.zeros(3), torch.zeros(2))
    >>> round(model.log_partition() / torch.tensor(2.0).log().item(), 6)   # 2⁵ joint states
    5.0
    """

    weights: Tensor = field(repr=False)
    visible_bias: Tensor = field(repr=False)
    hidden_bias: Tensor = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("weights", "visible_bias", "hidden_bias"):
            value = as_float64(getattr(self, name), name)
            if not value.isfinite().all():
                raise InputError("finite numbers", "NaN or infinity", where=name)
            object.__setattr__(self, name, value)
        shapes = tuple(tuple(t.shape) for t in (self.weights, self.visible_bias, self.hidden_bias))
        if self.weights.ndim != 2 or 0 in shapes[0] or shapes[1:] != (shapes[0][:1], shapes[0][1:]):
            raise InputError("weights (V, H), visible_bias (V,) and hidden_bias (H,)", f"shapes {shapes}")

    @cached_property
    def space(self) -> Space:
        """The visible bits."""
        return Space.bits(self.weights.shape[0])

    @property
    def normalized(self) -> bool:
        """Always false: subtract `log_partition` where it is known."""
        return False

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, not normalized ``(..., V) -> (...)``."""
        return _summed_out(x, self.weights, self.visible_bias, self.hidden_bias)

    def log_partition(self) -> float:
        """``log Σ_v q(v)``, exact, by enumerating the smaller layer.

        Raises:
            InputError: both layers have more than 20 units.
        """
        return float(self._log_table.logsumexp(0))

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact independent draws ``(n, V)``: a hidden state from its enumerated marginal, then ``v`` given it.

        Where the visible layer is the smaller one, it is drawn from its own table.
        """
        drawn = self._small_space.state(invert(self._cumulative.to(generator.device), n, generator))
        if self._by_visible:
            return drawn
        logits = self.visible_bias.to(drawn.device) + drawn.double() @ self.weights.to(drawn.device).T
        return torch.bernoulli(logits.sigmoid(), generator=generator).long()

    @property
    def _by_visible(self) -> bool:
        return self.weights.shape[0] < self.weights.shape[1]

    @property
    def _small_space(self) -> Space:
        return Space.bits(min(self.weights.shape))

    @cached_property
    def _log_table(self) -> Tensor:
        """The other layer summed out, for each state of the smaller one ``(2^min(V, H),)``."""
        small = min(self.weights.shape)
        if small > ENUMERATED_UNITS:
            raise InputError(
                f"a layer of at most {ENUMERATED_UNITS} units to enumerate",
                f"{self.weights.shape[0]} visible and {self.weights.shape[1]} hidden ones",
                fix="bound the partition function by annealed importance sampling",
            )
        parts = (self.weights, self.visible_bias, self.hidden_bias)
        if not self._by_visible:
            parts = (self.weights.T, self.hidden_bias, self.visible_bias)
        rows = max(1, _CHUNK_NUMBERS // max(self.weights.shape))
        indices = torch.split(torch.arange(2**small), rows)
        return torch.cat([_summed_out(self._small_space.state(i), *parts) for i in indices])

    @cached_property
    def _cumulative(self) -> Tensor:
        return self._log_table.softmax(0).cumsum(0)


def random_rbm(visible: int, hidden: int, scale: float, generator: torch.Generator) -> RBM:
    """An RBM whose weights and biases are independent normals of standard deviation ``scale``.

    >>> random_rbm(6, 3, 1.0, torch.Generator().manual_seed(0)).space
    Space(sizes=(2, 2, 2, 2, 2, 2))
    """

    def normal(*shape: int) -> Tensor:
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64, device=generator.device)

    return RBM(normal(visible, hidden), normal(visible), normal(hidden))


def _summed_out(x: Tensor, weights: Tensor, bias: Tensor, other_bias: Tensor) -> Tensor:
    x = x.to(torch.float64)
    weights, bias, other_bias = (t.to(x.device) for t in (weights, bias, other_bias))
    # torch's softplus drops exp(-x) beyond 20, an error of 2e-9 each; logaddexp does not, and is faster.
    return x @ bias + torch.logaddexp(x @ weights + other_bias, bias.new_zeros(())).sum(-1)
