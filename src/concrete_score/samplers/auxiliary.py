"""Hidden and visible units in turn: where each layer is independent given the other, a step draws both at once."""

from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import HiddenUnits, Info, State
from concrete_score.samplers import matrices
from concrete_score.samplers.base import check_start
from concrete_score.samplers.colored import heat_bath
from concrete_score.samplers.couplings import MarkedState, marks
from concrete_score.spaces import Space
from concrete_score.targets.boltzmann import RBM


class Layers(NamedTuple):
    """Two layers of bits in float32: ``hidden ~ scale (Wᵀ v + c)``, ``visible ~ scale W h + b``."""

    weights: Tensor
    """``(V, H)``."""
    visible_bias: Tensor
    """``(V, 1)``."""
    hidden_bias: Tensor
    """``(H, 1)``."""
    scale: float = 1.0

    def hidden(self, visible: Tensor) -> Tensor:
        """Logits ``(V, C) -> (H, C)``."""
        return torch.addmm(self.hidden_bias, self.weights.T, visible, beta=self.scale, alpha=self.scale)

    def visible(self, hidden: Tensor) -> Tensor:
        """Logits ``(H, C) -> (V, C)``."""
        return torch.addmm(self.visible_bias, self.weights, hidden, alpha=self.scale)


@singledispatch
def find_layers(model: Any) -> Layers | None:
    """The layers of a model as matrices; None where only its methods are known."""
    return None


@find_layers.register
def _rbm(model: RBM) -> Layers | None:
    return Layers(model.weights.float(), model.visible_bias.float()[:, None], model.hidden_bias.float()[:, None])


class AuxiliaryMemory(NamedTuple):
    """Marks ``(1, V, C)``, and 1 at clamped bits ``(V, C)``."""

    z: Tensor
    held: Tensor | None


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """All hidden bits given the visible ones, then all visible bits given them. Exact and reversible on the visibles.

    Args:
        model: a density with hidden units, such as an `RBM`.

    Raises:
        InputError: a model without hidden units.

    >>> one = RBM(torch.zeros(1, 1), torch.zeros(1), torch.zeros(1))
    >>> Auxiliary(one).transition_matrix().tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    model: Any

    reversible: ClassVar[bool] = True
    portable: ClassVar[bool] = True
    """What it remembers of a chain holds at any other temperature of the same model."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, HiddenUnits):
            raise InputError(
                "a model with hidden units, each layer independent given the other",
                type(self.model).__name__,
                where="model",
                fix="use `colored`, `sweep` or `multi_site`",
            )

    @property
    def space(self) -> Space:
        space: Space = self.model.space
        return space

    def init(self, x: Any, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, V)``."""
        states, mask = check_start(self.space, x, clamped)
        held = None if mask is None else mask.T.to(torch.float32).contiguous()
        return State(states, mask, AuxiliaryMemory(marks(self.space, states), held))

    @torch.no_grad()
    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """Both layers of every chain; ``accepted`` marks those with a free bit."""
        memory: AuxiliaryMemory = state.memory
        given = self._hidden(memory.z[0])
        hidden = torch.empty_like(given)
        heat_bath(given[None], generator, out=hidden[None])
        z = torch.empty_like(memory.z)
        heat_bath(self._visible(hidden)[None], generator, out=z)
        if memory.held is not None:
            z = torch.lerp(z, memory.z, memory.held)
        free = torch.ones(z.shape[-1], dtype=torch.bool, device=z.device)
        accepted = free if state.clamped is None else ~state.clamped.all(-1)
        return MarkedState(None, state.clamped, memory._replace(z=z)), Info(accepted, 1)

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P[v, v'] = Σ_h p(h | v) p(v' | h)``, clamped bits kept ``(S, S)``."""
        visible = self.space.enumerate(matrices.LIMIT).double()
        logits = self.model.hidden_logits(visible)
        hidden = Space.bits(logits.shape[-1]).enumerate(matrices.LIMIT).double()
        free = torch.ones(self.space.num_sites) if clamped is None else 1 - torch.as_tensor(clamped).double()
        given_hidden = _log_prob(visible, self.model.visible_logits(hidden), free.double()).exp()
        return (_log_prob(hidden, logits).exp() @ given_hidden) * matrices.same_clamped(self.space, clamped)

    def _hidden(self, visible: Tensor) -> Tensor:
        if self._layers is not None:
            return self._layers.hidden(visible)
        logits: Tensor = self.model.hidden_logits(visible.T)
        return logits.T.float().contiguous()

    def _visible(self, hidden: Tensor) -> Tensor:
        if self._layers is not None:
            return self._layers.visible(hidden)
        logits: Tensor = self.model.visible_logits(hidden.T)
        return logits.T.float().contiguous()

    @cached_property
    def _layers(self) -> Layers | None:
        return find_layers(self.model)


def _log_prob(bits: Tensor, logits: Tensor, weight: Tensor | float = 1.0) -> Tensor:
    """``log Π p(bit | logits)`` of all bit states ``(T, n)`` under all rows of logits ``(S, n)``: ``(S, T)``."""
    log_one, log_zero = (torch.nn.functional.logsigmoid(sign * logits) * weight for sign in (1, -1))
    return log_one @ bits.T + log_zero @ (1 - bits).T
