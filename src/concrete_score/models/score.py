"""Score models: a trunk and a head give all ratios in one pass (paper, 4.1, C.1, C.4), or a density's are derived."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from concrete_score import registry
from concrete_score.errors import InputError, check_count
from concrete_score.models.heads import Head
from concrete_score.models.layers import DEEPEST, Dense, Features, check_level, normal_parameter
from concrete_score.models.masked import MaskedNetwork
from concrete_score.noise import Absorbing
from concrete_score.protocols import DensityModel, Neighborhood, Noise
from concrete_score.scores import CHUNK, log_ratios
from concrete_score.shapes import PerSlot, States
from concrete_score.spaces import Space, check_same_space


@runtime_checkable
class Trunk(Protocol):
    """A network from states, and the noise level if it has levels, to ``out_features`` numbers."""

    @property
    def space(self) -> Space: ...
    @property
    def out_features(self) -> int: ...
    @property
    def num_levels(self) -> int | None: ...

    def __call__(self, x: States, level: int | Tensor | None = None) -> Features:
        """``(..., D) -> (..., out_features)``."""
        ...


class MLP(nn.Module):
    """``layers`` affine maps with ``hidden`` units between them; states are scaled to [0, 1] (appendix C.1).

    With ``num_levels`` the noise level is an input: its own learned vector is added to the first layer.

    Args:
        space: any space; a site is scaled by its size - 1, a single value is 0.
        out_features: outputs, as the head asks for.
        hidden: units between two maps.
        layers: affine maps; the paper's 3.
        activation: a name of `layers.ACTIVATIONS`; the paper's tanh.
        num_levels: how many noise levels there are; None for none.
        generator: the source of the first weights.
        dtype: of the parameters.

    >>> trunk = MLP(Space((16,)), 2, generator=torch.Generator().manual_seed(0))
    >>> trunk(torch.tensor([[0], [15]])).shape
    torch.Size([2, 2])
    """

    scale: Tensor

    def __init__(
        self,
        space: Space,
        out_features: int,
        hidden: int = 100,
        layers: int = 3,
        activation: str = "tanh",
        num_levels: int | None = None,
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        check_count(hidden, "hidden")
        check_count(layers, "layers", most=DEEPEST)
        check_count(out_features, "out_features", least=0)
        self.space, self.out_features, self.num_levels = space, out_features, num_levels
        scale = 1 / (space.sizes_tensor(generator.device) - 1).clamp_min(1).to(dtype)
        self.register_buffer("scale", scale, persistent=False)
        widths = [space.num_sites, *[hidden] * (layers - 1), out_features]
        self.network = Dense(widths, activation, generator, dtype)
        if num_levels is not None:
            check_count(num_levels, "num_levels")
            self.levels = normal_parameter((num_levels, widths[1]), generator, dtype)

    def forward(self, x: States, level: int | Tensor | None = None) -> Features:
        """``(..., D) -> (..., out_features)``; ``level`` is one for all, or broadcasts against the leading axes."""
        check_level(level, self.num_levels)
        shift = None if level is None else self.levels[level]
        outputs: Tensor = self.network(x * self.scale, shift)
        return outputs


class ScoreNetwork(nn.Module):
    """A `ScoreModel`: ``log_ratios(x) = head(trunk(x))``.

    What a head offers beyond log-ratios (a raw head's ``concrete_scores(x)`` and ``share_below(x)``) the network
    offers too, and `hasattr` tells.

    Args:
        trunk: a network without noise levels.
        head: reads its outputs.

    Raises:
        InputError: trunk and head do not fit each other, or the head needs a noise level.

    >>> from concrete_score.models.heads import RawHead
    >>> from concrete_score.neighborhoods import cycle
    >>> head = RawHead(cycle(Space((16,))))
    >>> net = ScoreNetwork(MLP(Space((16,)), head.out_features, generator=torch.Generator().manual_seed(0)), head)
    >>> net.log_ratios(torch.tensor([[0], [15]])).shape, hasattr(net, "concrete_scores")
    (torch.Size([2, 1]), True)
    """

    def __init__(self, trunk: Trunk, head: Head) -> None:
        super().__init__()
        _check_fit(trunk, head)
        if trunk.num_levels is not None or hasattr(head, "noise"):
            raise InputError(
                "a trunk and a head without noise levels",
                type(head).__name__ if trunk.num_levels is None else f"{trunk.num_levels} levels",
                fix="use NoiseConditionalNetwork(trunk, head, noise)",
            )
        self.trunk, self.head = trunk, head

    @property
    def neighborhood(self) -> Neighborhood:
        return self.head.neighborhood

    def forward(self, x: States) -> PerSlot:
        return self.log_ratios(x)

    def log_ratios(self, x: States) -> PerSlot:
        """``log q(N(x)_k) - log q(x)`` ``(..., K)``; 0.0 at invalid slots."""
        return self.head.log_ratios(self.trunk(x), x)

    @property
    def concrete_scores(self) -> Callable[[States], PerSlot]:
        """``c(x)`` ``(..., K)``; only with a raw head."""
        return _offered(self.trunk, self.head, "concrete_scores")

    @property
    def share_below(self) -> Callable[[States], Tensor]:
        """How many of the scores at ``x`` are -1 or less; only with a raw head."""
        return _offered(self.trunk, self.head, "share_below")


class NoiseConditionalNetwork(nn.Module):
    """A `NoiseConditional`: one network for all noise levels, ``at(level)`` a score model (paper, C.4).

    Args:
        trunk: a network with as many levels as the noise.
        head: reads its outputs.
        noise: the noise the levels belong to.

    Raises:
        InputError: the pieces do not fit each other.

    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> space = Space((3, 2))
    >>> net = mlp(hamming(space), "denoising", categorical(space, [0.9, 0.5]), generator=torch.Generator())
    >>> x = torch.tensor([[0, 1], [2, 0]])
    >>> net.at(1).log_ratios(x).shape, net.clean_log_probs(x, torch.tensor([0, 1])).shape
    (torch.Size([2, 3]), torch.Size([2, 2, 3]))
    """

    def __init__(self, trunk: Trunk, head: Head, noise: Noise) -> None:
        super().__init__()
        _check_fit(trunk, head)
        check_same_space(noise.space, head.neighborhood.space, "noise and neighborhood")
        if trunk.num_levels != noise.num_levels:
            raise InputError(
                f"a trunk of {noise.num_levels} levels, as many as the noise",
                f"{trunk.num_levels}",
                where="trunk",
                fix=f"build it with num_levels={noise.num_levels}",
            )
        if getattr(head, "noise", noise) != noise:
            raise InputError("a head built with the same noise", "another one", where="head")
        self.trunk, self.head, self.noise = trunk, head, noise

    @property
    def neighborhood(self) -> Neighborhood:
        return self.head.neighborhood

    def forward(self, x: States, level: int | Tensor) -> PerSlot:
        """The log-ratios of a level ``(..., K)``."""
        return self.at(level).log_ratios(x)

    def at(self, level: int | Tensor) -> "ScoreAtLevel":
        """The score model of one level, or of levels that broadcast against the leading axes of its states."""
        self._check_level(level)
        return ScoreAtLevel(self.trunk, self.head, level)

    @property
    def clean_log_probs(self) -> Callable[[States, int | Tensor], Tensor]:
        """``(x̃, level) -> log P(x_d = v | x̃)`` ``(..., D, V)``; only with a denoising head."""
        _offered(self.trunk, self.head, "clean_log_probs")
        return lambda x, level: self.at(level).clean_log_probs(x)

    def _check_level(self, level: int | Tensor) -> None:
        levels = torch.as_tensor(level)
        whole = not (levels.dtype.is_floating_point or levels.dtype.is_complex or levels.dtype == torch.bool)
        if not whole or ((levels < 0) | (levels >= self.noise.num_levels)).any():
            came = f"{levels.dtype}" if not whole else f"{int(levels.min())} to {int(levels.max())}"
            raise InputError(f"levels from 0 to {self.noise.num_levels - 1}", came, "level", "0 is the weakest")


@dataclass(frozen=True, eq=False)
class ScoreAtLevel:
    """A `ScoreModel`: a noise-conditional network at one level; it holds no weights of its own."""

    trunk: Trunk
    head: Head
    level: int | Tensor

    @property
    def neighborhood(self) -> Neighborhood:
        return self.head.neighborhood

    def log_ratios(self, x: States) -> PerSlot:
        """``log q̃(N(x̃)_k) - log q̃(x̃)`` ``(..., K)``; 0.0 at invalid slots."""
        return self.head.log_ratios(self.trunk(x, self.level), x, self.level)

    @property
    def concrete_scores(self) -> Callable[[States], PerSlot]:
        """``c(x̃)`` ``(..., K)``; only with a raw head."""
        return _offered(self.trunk, self.head, "concrete_scores", self.level)

    @property
    def share_below(self) -> Callable[[States], Tensor]:
        """How many of the scores at ``x̃`` are -1 or less; only with a raw head."""
        return _offered(self.trunk, self.head, "share_below", self.level)

    @property
    def clean_log_probs(self) -> Callable[[States], Tensor]:
        """``log P(x_d = v | x̃)`` ``(..., D, V)``; only with a denoising head."""
        return _offered(self.trunk, self.head, "clean_log_probs", self.level)


def mlp(
    neighborhood: Neighborhood,
    head: str = "log_ratio",
    noise: Noise | None = None,
    *,
    generator: torch.Generator,
    **options: Any,
) -> ScoreNetwork | NoiseConditionalNetwork | MaskedNetwork:
    """The paper's score network on a neighborhood; noise-conditional if a noise is given.

    Args:
        neighborhood: whose ratios it gives.
        head: one of ``registry.names("heads")``.
        noise: makes one network of all its levels.
        generator: the source of the first weights.
        options: of `MLP`: hidden, layers, activation, dtype.

    >>> from concrete_score.neighborhoods import grid
    >>> mlp(grid(Space((91, 91))), generator=torch.Generator()).log_ratios(torch.tensor([3, 4])).shape
    torch.Size([4])
    """
    if isinstance(noise, Absorbing):
        width = sum(noise.space.sizes)
        return MaskedNetwork(MLP(noise.noisy_space, width, generator=generator, **options), noise)
    built: Head = registry.load("heads", head).build(neighborhood, noise)
    num_levels = None if noise is None else noise.num_levels
    width = built.out_features
    trunk = MLP(neighborhood.space, width, num_levels=num_levels, generator=generator, **options)
    return ScoreNetwork(trunk, built) if noise is None else NoiseConditionalNetwork(trunk, built, noise)


@dataclass(frozen=True, eq=False)
class DensityScore:
    """``log q(N(x)_k) - log q(x)`` of any density model, normalized or not: a `ScoreModel` (paper, definition 2).

    Args:
        density: gives ``log q``; its parameters stay its own, and gradients reach them.
        neighborhood: whose ratios are taken.
        chunk: how many sites (states × D) are evaluated at a time, which bounds the memory.

    Raises:
        InputError: two different spaces.

    >>> import torch
    >>> from concrete_score import Space
    >>> from concrete_score.models import Table
    >>> from concrete_score.neighborhoods import cycle
    >>> density = Table.from_pmf(Space((3,)), torch.tensor([1.0, 1.0, 3.0]))
    >>> DensityScore(density, cycle(Space((3,)))).log_ratios(torch.tensor([[0], [1]])).exp().tolist()
    [[1.0], [3.0]]
    """

    density: DensityModel
    neighborhood: Neighborhood
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        check_same_space(self.density.space, self.neighborhood.space, "density and neighborhood")
        check_count(self.chunk, "chunk")

    def log_ratios(self, x: States) -> PerSlot:
        """``(..., D) -> (..., K)``; 0.0 at invalid slots."""
        return log_ratios(self.density, self.neighborhood, x, chunk=self.chunk)


def _offered(trunk: Trunk, head: Head, name: str, level: int | Tensor | None = None) -> Callable[[States], Tensor]:
    """The head's method of that name as a function of states; AttributeError where the head has none."""
    method = getattr(head, name)
    return lambda x: method(trunk(x, level), x, level)


def _check_fit(trunk: Trunk, head: Head) -> None:
    check_same_space(trunk.space, head.neighborhood.space, "trunk and neighborhood")
    if trunk.out_features != head.out_features:
        raise InputError(
            f"a trunk of {head.out_features} outputs, as {type(head).__name__} reads",
            f"{trunk.out_features}",
            where="trunk",
            fix="build it with out_features=head.out_features",
        )
