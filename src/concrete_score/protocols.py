"""The shapes of the library's pieces: what each must offer, nothing of how.

B batch, D sites, K slots, m drawn edges. States are int64; ``...`` stands for any leading axes.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.shapes import Mask, NeighborStates, PerSlot, PerState, Slots, States
from concrete_score.spaces import Space

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@runtime_checkable
class Neighborhood(Protocol):
    """A directed graph over a space, ``x -> N(x)`` (paper, definition 1).

    Slot ``k`` always means the same move; where it leads nowhere it is invalid, and `neighbor` returns ``x`` itself.
    No state is its own neighbor or listed twice.
    """

    @property
    def space(self) -> Space: ...
    @property
    def num_slots(self) -> int: ...
    @property
    def symmetric(self) -> bool: ...

    def valid(self, x: States) -> Mask:
        """Which slots hold a neighbor ``(..., K)``."""
        ...

    def neighbor(self, x: States, slot: Slots) -> States:
        """``N(x)_slot``: ``(..., D), (...) -> (..., D)``."""
        ...

    def draw(self, x: States, generator: torch.Generator) -> Slots:
        """A uniform valid slot ``(...)``; 0 where there is none."""
        ...

    def reverse_degree(self, y: States) -> Slots:
        """``|N⁻¹(y)|``, how many edges lead to ``y``."""
        ...

    def reverse_neighbor(self, y: States, j: Slots) -> tuple[States, Slots]:
        """The ``j``-th pair ``(x, slot)`` with ``N(x)_slot = y``, ``0 <= j < reverse_degree(y)``."""
        ...

    def degree(self, x: States) -> Slots:
        """How many neighbors a state has, ``|N(x)|`` ``(...)``."""
        ...

    def neighbors(self, x: States) -> NeighborStates:
        """All of ``N(x)`` by slot ``(..., K, D)``; invalid slots hold ``x``."""
        ...

    def back_slot(self, x: States, slot: Slots) -> Slots:
        """The slot that leads from ``N(x)_slot`` back to ``x``; -1 where none does."""
        ...

    def symmetrized(self) -> "Neighborhood":
        """The smallest symmetric neighborhood that contains this one."""
        ...

    def adjacency(self) -> "csr_array":
        """The edges of an enumerable space as a sparse matrix ``(S, S)``, entries slot + 1."""
        ...

    def connected(self) -> bool:
        """Whether the graph is weakly connected over the whole space."""
        ...


@runtime_checkable
class SiteNeighborhood(Neighborhood, Protocol):
    """A neighborhood each of whose edges changes one site."""

    def edit(self, x: States, slot: Slots) -> tuple[Slots, Slots]:
        """The site that ``slot`` changes and its new value ``(...), (...)``."""
        ...


class Proposal(NamedTuple):
    """Drawn targets with the probability of the move there and back."""

    target: Tensor
    """``(B, m, D)``."""
    log_forward: Tensor
    """``log K(target | x)`` ``(B, m)``; -inf marks a padded draw from a state without neighbors."""
    log_backward: Tensor
    """``log K(x | target)`` ``(B, m)``."""


@runtime_checkable
class SampledNeighborhood(Protocol):
    """A neighborhood known through a kernel ``K(y | x)`` one can draw from."""

    @property
    def space(self) -> Space: ...

    def draw(self, x: States, m: int, generator: torch.Generator) -> Proposal:
        """``m`` targets for each of the B rows of ``x``."""
        ...

    def log_kernel(self) -> Tensor:
        """The enumerating twin: ``log K(y | x)`` over an enumerable space ``(S, S)``, rows ``x``."""
        ...


@runtime_checkable
class DensityModel(Protocol):
    """Gives ``log q(x)``, normalized or not; its log-ratios are derived."""

    @property
    def space(self) -> Space: ...
    @property
    def normalized(self) -> bool: ...

    def log_density(self, x: States) -> PerState:
        """``(..., D) -> (...)``."""
        ...


def is_density(model: Any) -> TypeGuard[DensityModel]:
    """``isinstance(model, DensityModel)``, for what is asked at every step: a fifth of its time before Python 3.12."""
    return hasattr(model, "log_density") and hasattr(model, "normalized") and hasattr(model, "space")


@runtime_checkable
class LocalFields(DensityModel, Protocol):
    """A density, positive everywhere, that gives the conditionals of all its sites at once, by formula."""

    def local_fields(self, x: States) -> Tensor:
        """``log q(x_d = v | the others) - log q(x_d = 0 | the others)``, v = 1, 2, … ``(..., D) -> (..., D, V-1)``.

        V is the largest size; -inf beyond a site's own. Of bits, the logits of their conditionals.
        """
        ...


@runtime_checkable
class Interacting(DensityModel, Protocol):
    """A density that knows which sites interact: two that do not are independent given all others."""

    def interactions(self) -> Tensor:
        """Pairs of sites ``(E, 2)``, each once, the smaller first."""
        ...


@runtime_checkable
class HiddenUnits(DensityModel, Protocol):
    """A density over bits with hidden bits summed out, where each layer is independent given the other."""

    def hidden_logits(self, x: Tensor) -> Tensor:
        """Of the hidden bits given visible ones, as floats ``(..., D) -> (..., H)``."""
        ...

    def visible_logits(self, hidden: Tensor) -> Tensor:
        """Of the visible bits given hidden ones, as floats ``(..., H) -> (..., D)``."""
        ...


@runtime_checkable
class Samplable(Protocol):
    """Draws independent exact samples."""

    def sample(self, n: int, generator: torch.Generator) -> States: ...


@runtime_checkable
class ScoreModel(Protocol):
    """Gives all log-ratios of ``N(x)`` in one pass; its density is derived only by path or recovery."""

    @property
    def neighborhood(self) -> Neighborhood: ...

    def log_ratios(self, x: States) -> PerSlot:
        """``log q(N(x)_k) - log q(x)`` ``(..., K)``; 0.0 at invalid slots, which callers mask."""
        ...


@runtime_checkable
class RawScoreModel(ScoreModel, Protocol):
    """A score model whose head gives the paper's ``c`` itself, which may fall below -1."""

    def concrete_scores(self, x: States) -> PerSlot:
        """``c(x)_k`` ``(..., K)``; 0.0 at invalid slots."""
        ...


def is_raw(model: Any) -> TypeGuard[RawScoreModel]:
    """Whether a model gives raw scores; asked of the instance, for a network has them only with a raw head."""
    return hasattr(model, "concrete_scores")


@runtime_checkable
class Noise(Protocol):
    """A corruption kernel ``q(x̃ | x)`` with independent sites and known ratios; level 0 is the weakest."""

    @property
    def space(self) -> Space: ...
    @property
    def num_levels(self) -> int: ...

    def corrupt(self, x: States, level: int | Tensor, generator: torch.Generator) -> States:
        """A draw of ``x̃`` for each row; ``level`` is an integer or one per row ``(B,)``."""
        ...

    def site_log_prob(self, level: int, site: int) -> Tensor:
        """``log q(noisy | clean)`` of one site ``(V, V)``: ``[clean, noisy]``."""
        ...

    def log_ratios(self, noisy: States, clean: States, level: int | Tensor, neighborhood: Neighborhood) -> PerSlot:
        """``log q(N(x̃)_k | x) - log q(x̃ | x)`` ``(..., K)``; 0.0 at invalid slots."""
        ...


@runtime_checkable
class NoiseConditional(Protocol):
    """A family of score models, one for each noise level."""

    @property
    def noise(self) -> Noise: ...

    def at(self, level: int | Tensor) -> ScoreModel:
        """The model of one level, or of one level per row ``(B,)``."""
        ...


@runtime_checkable
class Divergence(Protocol):
    """The convex ``f`` of a Bregman divergence between ratios, in terms of ``l = log s`` (any offset added)."""

    def a(self, l: Tensor) -> Tensor:
        """``s f'(s) - f(s)``."""
        ...

    def b(self, l: Tensor) -> Tensor: ...


@runtime_checkable
class Objective(Protocol):
    """Draws what is random about one step, then gives a deterministic loss for each example."""

    def draw(self, x: States, generator: torch.Generator, model: Any = None) -> Any:
        """Everything random about one step on the rows ``x`` ``(B, D)``; no gradient flows here."""
        ...

    def loss(self, model: Any, draws: Any) -> Tensor:
        """``(B,)``; the caller reduces."""
        ...

    def exact(self, model: Any, pmf: Tensor) -> Tensor:
        """The enumerating twin: the expectation of the mean loss under ``pmf`` ``(S,)``."""
        ...


@runtime_checkable
class ObservedObjective(Objective, Protocol):
    """An objective that counts a row by what was seen of it."""

    def draw_observed(
        self, x: States, observed: Tensor, generator: torch.Generator, model: Any, ahead: Any = None
    ) -> Any:
        """As `draw`, of rows whose unobserved cells hold nothing; ``observed`` is bool ``(B, D)``.

        What is drawn for blanks may look ``ahead`` (`models.lookahead.LookAhead`).
        """
        ...


@dataclass(frozen=True, eq=False)
class State:
    """Where the chains are, and what the kernel wants to remember of it."""

    x: Tensor
    """``(C, D)``."""
    clamped: Tensor | None = None
    """``(C, D)`` bool: sites that never move."""
    memory: Any = None
    """Whatever the kernel computed at ``x`` and need not compute again."""


class Info(NamedTuple):
    """What one step did."""

    accepted: Tensor
    """``(C,)`` bool."""
    passes: int
    """How many times the network (or density) was run over all chains."""


@runtime_checkable
class Kernel(Protocol):
    """One sampler step; built with its target, loops live outside."""

    @property
    def space(self) -> Space: ...

    def init(self, x: States, clamped: Tensor | None = None) -> State:
        """Chains at ``x`` ``(C, D)``, some sites clamped ``(C, D)``."""
        ...

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One move of every chain."""
        ...


@runtime_checkable
class Enumerable(Protocol):
    """A kernel whose exact transition matrix can be written down."""

    def transition_matrix(self, clamped: Tensor | None = None) -> Tensor:
        """``P[i, j]``, the probability of stepping from state ``i`` to state ``j`` ``(S, S)`` in float64."""
        ...


class Encoded(NamedTuple):
    """Data as states, and which of their rows they are."""

    states: Tensor
    """``(N', D)`` in the narrowest integer type that holds every site."""
    observed: Tensor
    """``(N', D)`` bool; False marks a blank cell."""
    kept: Tensor
    """Positions of the rows that became states, ascending ``(N',)``."""
    unknown: int = 0
    """Rows skipped for a value never seen in training."""
    blank: int = 0
    """Rows dropped for a blank cell, and no unknown value."""
    log_inside: Tensor | None = None
    """``log P(row | its states)`` of the observed cells in float64 ``(N',)``; None where it is 0 (`codecs.numbers`)."""
    unseen: Tensor | None = None
    """``(N', D)`` bool: cells whose value was never seen in training; they count as unobserved."""
    weights: Tensor | None = None
    """As how many rows each one counts ``(N',)`` float64; None where all count the same."""


def space_of(model: Any) -> Space:
    """The space of a density model, or of a score model's neighborhood.

    Raises:
        InputError: neither of them.
    """
    if is_density(model):
        return model.space
    neighborhood: Neighborhood | None = getattr(model, "neighborhood", None)
    if neighborhood is None:
        fix = "it must offer `log_density(x)`, or `neighborhood` and `log_ratios(x)`"
        raise InputError("a density model or a score model", type(model).__name__, where="model", fix=fix)
    return neighborhood.space
