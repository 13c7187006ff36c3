"""Optimizers by name: Adam, or Muon (Jordan et al., 2024), which turns a block's matrices rather than their entries.

They are small values over PyTorch's own function. The first `torch.optim.Optimizer` of a process imports PyTorch's
compiler, which takes as long as PyTorch itself, and a step of its class on a small model spends more time on hooks and
groups than on the weights.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from concrete_score.errors import InputError

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Adam's memories of a gradient and of its square, and what is added to the root of the latter."""
MOMENTUM = 0.95
QUINTIC, ROUNDS = (3.4445, -4.7750, 2.0315), 5
"""Of the polynomial that takes singular values from (0, 1] to about 1 in so many rounds (Jordan et al., 2024)."""
MATRIX_RATE = 7.0
"""A matrix's rate over Adam's: an orthogonal step is small beside the matrix, not beside each of its entries."""
_COUNT, _ADAM, _TURN = "step", ("exp_avg", "exp_avg_sq"), ("momentum",)
"""Names of what is remembered of a weight: how many steps, Adam's two moments, a matrix's momentum."""


class Optimizer(ABC):
    """What moves weights against their gradients.

    Args:
        weights: what is learned.
        weight_decay: the share of its size that a weight loses at a step of rate 1.
    """

    def __init__(self, weights: Sequence[Tensor], weight_decay: float = 0.0) -> None:
        self.weights, self.weight_decay = list(weights), weight_decay
        self.state: dict[int, dict[str, Tensor]] = {}
        """What is remembered of each weight, by its number, from its first gradient on."""

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every weight that has a gradient, and forget the gradients."""
        self._move([i for i, weight in enumerate(self.weights) if weight.grad is not None], rate)
        for weight in self.weights:
            weight.grad = None

    @abstractmethod
    def _move(self, moved: list[int], rate: float) -> None:
        """Move the weights of these numbers."""

    def remembers(self, i: int) -> tuple[str, ...]:
        """Names of what is remembered of a weight in its own shape; all but momentum come with the count of steps."""
        return _ADAM

    def load(self, state: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Go on with the state of another one.

        Raises:
            ValueError: it is not of these weights.
        """
        found: dict[int, dict[str, Tensor]] = {}
        for i, values in state.items():
            weight = self.weights[i]
            if any(values[name].shape != weight.shape for name in self.remembers(i)):
                raise ValueError(f"an optimizer's memory of another shape than {tuple(weight.shape)}")
            # Fresh memory: what was read from a file may lie in a layout of its own.
            found[i] = {name: torch.empty_like(weight).copy_(values[name]) for name in self.remembers(i)}
            if _COUNT in values:
                found[i][_COUNT] = values[_COUNT].to(weight.device, torch.float32).reshape(()).clone()
        self.state = found

    def _memory(self, i: int) -> dict[str, Tensor]:
        """What is remembered of a weight, from nothing on."""
        if i not in self.state:
            weight, names = self.weights[i].detach(), self.remembers(i)
            count = {_COUNT: torch.zeros((), device=weight.device)} if names == _ADAM else {}
            self.state[i] = {**count, **{name: torch.zeros_like(weight) for name in names}}
        return self.state[i]

    def _adam(self, moved: list[int], rate: float) -> None:
        """``m ← m + .1 (g - m)``, ``v ← .999 v + .001 g²``, then ``w ← (1 - rate decay) w - rate m̂ / (√v̂ + 1e-8)``."""
        memory = [self._memory(i) for i in moved]
        adamw(
            [self.weights[i] for i in moved],
            [self.weights[i].grad for i in moved],  # type: ignore[misc]
            [each["exp_avg"] for each in memory],
            [each["exp_avg_sq"] for each in memory],
            [],
            [each[_COUNT] for each in memory],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=rate,
            weight_decay=self.weight_decay,
            eps=EPSILON,
            maximize=False,
        )


class AdamW(Optimizer):
    """Adam with decoupled weight decay, number for number as PyTorch's class computes it.

    >>> weight = nn.Parameter(torch.ones(2))
    >>> optimizer = AdamW([weight])
    >>> weight.square().sum().backward()
    >>> optimizer.step(0.1)
    >>> weight.tolist(), weight.grad
    ([0.9000..., 0.9000...], None)
    """

    def _move(self, moved: list[int], rate: float) -> None:
        self._adam(moved, rate)


def orthogonalize(matrices: Tensor) -> Tensor:
    """About the nearest matrices whose singular values are all 1 ``(n, a, b) -> (n, a, b)``.

    >>> q = orthogonalize(torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0)))[0]
    >>> bool((torch.linalg.svdvals(q) - 1).abs().max() < 0.4)
    True
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    first, third, fifth = QUINTIC
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = first * x + (third * square + fifth * square @ square) @ x
    found: Tensor = x.mT if tall else x
    return found


class Muon(Optimizer):
    """Orthogonal steps for a model's matrices between features, Adam's for all its other parameters.

    A matrix moves against the orthogonalized momentum of its gradient, so that all its directions are learned at one
    pace and not those of the largest gradients alone. Modules name such matrices by ``matrices``: pairs of a weight
    and of how many matrices lie in it, one above another. A matrix's rate is `MATRIX_RATE` times Adam's.

    Args:
        model: with at least one such module.
        weight_decay: the share of its size that a weight loses at a step of rate 1.

    Raises:
        InputError: a model without matrices between features.
    """

    def __init__(self, model: nn.Module, weight_decay: float = 0.0) -> None:
        super().__init__(_learned(model), weight_decay)
        place = {id(weight): i for i, weight in enumerate(self.weights)}
        named = [pair for module in model.modules() for pair in getattr(module, "matrices", ())]
        self.parts = {place[id(weight)]: parts for weight, parts in named if id(weight) in place}
        if not self.parts:
            known = "a model with matrices between features, such as transformer"
            raise InputError(known, type(model).__name__, where="optimizer", fix="use adam")

    def remembers(self, i: int) -> tuple[str, ...]:
        """A matrix's momentum; of any other weight what Adam remembers."""
        return _TURN if i in self.parts else _ADAM

    def _move(self, moved: list[int], rate: float) -> None:
        alike: dict[tuple[int, ...], list[int]] = {}
        for i in moved:
            if i in self.parts:
                alike.setdefault((self.parts[i], *self.weights[i].shape), []).append(i)
        for (parts, rows, columns), places in alike.items():  # those of one shape are orthogonalized together
            weights = [self.weights[i] for i in places]
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            memories = [self._memory(i)[_TURN[0]] for i in places]
            torch._foreach_lerp_(memories, gradients, 1 - MOMENTUM)
            ahead = torch.stack(torch._foreach_lerp(gradients, memories, MOMENTUM))
            turned = orthogonalize(ahead.reshape(-1, rows // parts, columns)).reshape(ahead.shape)
            size = MATRIX_RATE * max(1.0, rows / parts / columns) ** 0.5
            torch._foreach_mul_(weights, 1 - rate * self.weight_decay)
            torch._foreach_add_(weights, list(turned), alpha=-rate * size)
        self._adam([i for i in moved if i not in self.parts], rate)


def _learned(model: nn.Module) -> list[Tensor]:
    return [weight for weight in model.parameters() if weight.requires_grad]


def _adamw(model: nn.Module, weight_decay: float) -> Optimizer:
    return AdamW(_learned(model), weight_decay)


OPTIMIZERS: Mapping[str, Callable[[nn.Module, float], Optimizer]] = {"adam": _adamw, "muon": Muon}
"""From a model and a weight decay."""
