"""The small parts of every network: layers whose first weights come from an explicit generator."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.errors import InputError, nearest
from concrete_score.shapes import Slots

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "elu": functional.elu,
}
"""Elementwise non-linearities by name; tanh is the paper's (appendix C)."""


def find_activation(name: str) -> Activation:
    """The non-linearity called ``name``.

    >>> find_activation("relu")(torch.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    if name not in ACTIVATIONS:
        raise InputError("a known activation", repr(name), "activation", nearest(name, list(ACTIVATIONS)))
    return ACTIVATIONS[name]


class Linear(nn.Module):
    """An affine map ``x Wᵀ + b``; with a mask, ``x (W ⊙ mask)ᵀ + b``.

    An output's weights and bias start uniform in ``±1/√n``, n the inputs it sees. Nothing is taken from torch's
    global random state.

    Args:
        in_features, out_features: widths; either may be 0.
        generator: the source of the first weights.
        dtype: of the parameters.
        mask: which weights exist, bool ``(out_features, in_features)``; all by default.

    >>> layer = Linear(3, 2, torch.Generator().manual_seed(0))
    >>> layer(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    mask: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
        mask: Tensor | None = None,
    ) -> None:
        super().__init__()
        seen = torch.full((out_features,), in_features) if mask is None else mask.sum(-1)
        bound = seen.clamp_min(1).to(generator.device, dtype).rsqrt()
        self.weight = uniform_parameter((out_features, in_features), bound[:, None], generator)
        self.bias = uniform_parameter((out_features,), bound, generator)
        # Rebuilt by whoever builds the layer, so never stored; a float of the weights' kind multiplies fastest.
        kept = None if mask is None else mask.to(device=self.weight.device, dtype=dtype)
        self.register_buffer("mask", kept, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., in_features) -> (..., out_features)``."""
        weight = self.weight if self.mask is None else self.weight * self.mask
        return functional.linear(x, weight, self.bias)


class Dense(nn.Module):
    """Affine maps with a non-linearity between them: ``widths[0] -> widths[1] -> … -> widths[-1]``.

    >>> net = Dense([3, 8, 1], "tanh", torch.Generator().manual_seed(0))
    >>> net(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self,
        widths: Sequence[int],
        act: str,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.act = find_activation(act)
        self.layers = nn.ModuleList(Linear(i, o, generator, dtype) for i, o in pairwise(widths))

    def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        """Map the last axis; ``shift``, if given, is added to the first layer's output."""
        first, *others = self.layers
        x = first(x) if shift is None else first(x) + shift
        for layer in others:
            x = layer(self.act(x))
        return x


def uniform_parameter(shape: tuple[int, ...], bound: Tensor, generator: torch.Generator) -> nn.Parameter:
    """A parameter drawn uniformly from ``[-bound, bound)``, of the bound's kind, on the generator's device."""
    unit = torch.rand(shape, generator=generator, dtype=bound.dtype, device=generator.device)
    return nn.Parameter((2 * unit - 1) * bound)


def normal_parameter(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> nn.Parameter:
    """A parameter of standard normal entries, on the generator's device."""
    return nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype, device=generator.device))


DEEPEST = 1000
"""Layers or blocks a network may have: one with a slip of the pen in it would fill the memory before it is trained."""


def check_count(value: int, name: str, least: int = 1, most: int | None = None) -> int:
    """``value`` if it is a whole number of at least ``least``, and at most ``most`` if there is one.

    >>> check_count(0, "hidden")
    Traceback (most recent call last):
    concrete_score.errors.InputError: hidden: expected a whole number of at least 1, got 0
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"a whole number of at least {least}", repr(value), where=name)
    if most is not None and value > most:
        raise InputError(f"at most {most}", repr(value), where=name)
    return value


def check_level(level: int | Tensor | None, num_levels: int | None) -> None:
    """A network of several noise levels is told one, and any other network none."""
    if (level is None) != (num_levels is None):
        raise InputError(
            "a noise level" if level is None else "no noise level",
            repr(level) if level is None else "one",
            where="level",
            fix="build the network with num_levels exactly when it is told levels",
        )


def draw_categories(logits: Tensor, unit: Tensor) -> Slots:
    """Inverse-distribution draws from ``softmax(logits)``, exact to float64 and never of probability zero.

    Args:
        logits: ``(..., V)``; -inf allowed.
        unit: float64 uniforms in [0, 1), ``(..., n)``.

    Returns:
        ``n`` categories for each row ``(..., n)``.

    >>> draw_categories(torch.tensor([float("-inf"), 0.0]), torch.zeros(3, dtype=torch.float64)).tolist()
    [1, 1, 1]
    """
    upto = logits.double().softmax(-1).cumsum(-1)
    # A uniform is at most 1 - 2**-53, and that times the total is below the total even when rounded: a draw always
    # falls before the end of the last category with mass, and never into an empty step.
    return torch.searchsorted(upto, unit * upto[..., -1:], right=True)
