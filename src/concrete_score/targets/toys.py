"""The toys of the paper: sixteen categories, and two-dimensional ones cut into bins of exact probability."""

from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import cos, pi, sin

import torch

from concrete_score.errors import InputError, check_count, nearest
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.plane import Arc, NoisyArcs, Pinwheel, PlaneLaw, PlanePoints, Tiles, bin_edges, quantize
from concrete_score.targets.pmf import Pmf, check_sums

_CATEGORIES = 16
_EIGHT: tuple[Arc, ...] = ()
for _k in range(8):
    _EIGHT += (Arc((4 / 1.414 * cos(_k * pi / 4), 4 / 1.414 * sin(_k * pi / 4))),)
_BLACK = ((-4.0, -4.0), (-4.0, 0.0), (-2.0, -2.0), (-2.0, 2.0), (0.0, -4.0), (0.0, 0.0), (2.0, -2.0), (2.0, 2.0))
# Each spiral is smeared by a uniform third of a half to one side: its middle is a shifted center.
_SHIFT = 0.5 / 3 / 2
_SPIRALS = (
    Arc((_SHIFT, _SHIFT), radius=(0.0, pi), angle=(pi, -2 * pi)),
    Arc((-_SHIFT, -_SHIFT), radius=(0.0, pi), angle=(0.0, -3 * pi)),
)
_MOONS = (
    Arc((-1.0, -0.2), radius=(2.0, 2.0), angle=(0.0, pi)),
    Arc((1.0, 0.8), radius=(2.0, 2.0), angle=(pi, 2 * pi)),
)

_RINGS = (Arc(radius=(0.75, 0.75)), Arc(radius=(1.5, 1.5)), Arc(radius=(2.25, 2.25)), Arc(radius=(3.0, 3.0)))

TOYS: dict[str, PlaneLaw] = {
    "8gaussians": NoisyArcs(_EIGHT, std=0.5 / 1.414),
    "checkerboard": Tiles(_BLACK, side=2.0),
    "2spirals": NoisyArcs(_SPIRALS, std=0.1, blur=_SHIFT, growth=2),
    "circles": NoisyArcs((Arc(radius=(1.5, 1.5)), Arc(radius=(3.0, 3.0))), std=0.24),
    "moons": NoisyArcs(_MOONS, std=0.2),
    "pinwheel": Pinwheel(),
    "rings": NoisyArcs(_RINGS, std=0.08),
    "swissroll": NoisyArcs((Arc(radius=(0.3 * pi, 0.9 * pi), angle=(1.5 * pi, 4.5 * pi)),), std=0.2),
}
"""The toys by name, as laws in the plane."""


def sixteen_categories() -> Pmf:
    """Two bumps on a floor, ``p_k ∝ exp(-(k-3)²/4) + 0.6 exp(-(k-11)²/6) + 0.1`` (paper, section 5.2).

    >>> sixteen_categories().probabilities.argmax().item()
    3
    """
    k = torch.arange(_CATEGORIES, dtype=torch.float64)
    bumps = (-((k - 3) ** 2) / 4).exp() + 0.6 * (-((k - 11) ** 2) / 6).exp()
    return _from_weights(bumps + 0.1)


def sine() -> Pmf:
    """One period of a wave, ``p_k ∝ 1 + 0.8 sin(2πk/16)`` (paper, B.2, first figure).

    >>> round(float(sine().probabilities[4]), 6)
    0.1125
    """
    k = torch.arange(_CATEGORIES, dtype=torch.float64)
    return _from_weights(1 + 0.8 * (2 * torch.pi * k / _CATEGORIES).sin())


def low_density() -> Pmf:
    """Two plateaus divided by a desert: weight 1 on {2, 3, 4, 10, 11, 12}, 1e-4 elsewhere (paper, B.2, second figure).

    >>> table = low_density().probabilities
    >>> round(float(table[2] / table[0]))
    10000
    """
    weights = torch.full((_CATEGORIES,), 1e-4, dtype=torch.float64)
    weights[[2, 3, 4, 10, 11, 12]] = 1.0
    return _from_weights(weights)


@dataclass(frozen=True)
class Toy:
    """A law in the plane cut into ``bins × bins`` squares of the box [-4, 4]² (paper, sections 5.3 and C.2).

    Site 0 is the horizontal x, site 1 the vertical y; points outside the box belong to its border bins.

    Args:
        name: how it is called.
        law: the distribution in the plane.
        bins: along each axis, at least 2.

    >>> board = toy("checkerboard", bins=4)
    >>> (8 * board.pmf().probabilities.reshape(4, 4)[0]).round(decimals=9).tolist()   # leftmost column, from below
    [1.0, 0.0, 1.0, 0.0]
    """

    name: str
    law: PlaneLaw
    bins: int = 91

    def __post_init__(self) -> None:
        check_count(self.bins, "bins", least=2)

    @cached_property
    def space(self) -> Space:
        """Two sites of ``bins`` values."""
        return Space((self.bins, self.bins))

    @property
    def normalized(self) -> bool:
        return True

    def sample_points(self, n: int, generator: torch.Generator) -> PlanePoints:
        """``n`` independent points of the plane ``(n, 2)``, before quantization."""
        return self.law.sample_points(n, generator)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact independent draws ``(n, 2)``."""
        return quantize(self.sample_points(n, generator), self.bins)

    def pmf(self) -> Pmf:
        """The exact probability of every bin; computed once for each law and number of bins."""
        return _pmf(self.law, self.bins)

    def log_density(self, x: States) -> PerState:
        """``log p(x)`` ``(..., 2) -> (...)``."""
        return self.pmf().log_density(x)


def toy(name: str, bins: int = 91) -> Toy:
    """The toy of a name: 8gaussians, checkerboard, 2spirals, circles, moons, pinwheel, rings or swissroll.

    They are the ones in common use since FFJORD (Grathwohl et al., 2019), with independent draws where some versions
    space points evenly.

    Raises:
        InputError: no such toy, or fewer than 2 bins.

    >>> toy("2spirals").sample(3, torch.Generator().manual_seed(0)).shape
    torch.Size([3, 2])
    """
    if name not in TOYS:
        raise InputError("the name of a toy", repr(name), where="name", fix=nearest(name, list(TOYS)))
    return Toy(name, TOYS[name], bins)


eight_gaussians = partial(toy, "8gaussians")
checkerboard = partial(toy, "checkerboard")
two_spirals = partial(toy, "2spirals")
circles = partial(toy, "circles")
moons = partial(toy, "moons")
pinwheel = partial(toy, "pinwheel")
rings = partial(toy, "rings")
swissroll = partial(toy, "swissroll")


@cache
def _pmf(law: PlaneLaw, bins: int) -> Pmf:
    masses = law.bin_masses(bin_edges(bins)).reshape(-1)
    check_sums(masses, f"bin masses of {type(law).__name__}")
    return Pmf(Space((bins, bins)), masses.log() - masses.sum().log())


def _from_weights(weights: torch.Tensor) -> Pmf:
    return Pmf(Space((_CATEGORIES,)), weights.log() - weights.sum().log())
