"""Rows with cells that were not seen, completed by a model: what was seen counts by its own probability.

With observed cells O and unobserved cells U, ``q(x_O) = Σ_{x_U} q(x)``. Where the completions of a row are few they are
all listed, and the sum is exact. Otherwise K of them are drawn from ``r``, each blank given the sites before it, and

    q(x_O) = E_r [ q(x_O, x_U) / r(x_U) ],      log q(x_O) ≥ E_r log (1/K) Σ_k q(x_O, x_U^k) / r(x_U^k).

The draws carry no gradient, so that of the bound is ``Σ_k w_k ∇ log q(x_O, x_U^k)``, with the ratios normalized over k
as weights w. It is the gradient of ``log q(x_O)`` up to a bias of order 1/K (docs/mathematics.md, "Blanks"). One
completion chosen by these weights has the same gradient on average, for one pass instead of K: training uses that.
"""

from math import log
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError, Option
from concrete_score.models.lookahead import LookAhead
from concrete_score.models.masked import Masked
from concrete_score.randomness import uniform
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

DRAWS = 4
"""Ways in which a row's blanks are filled at each step of a training, of which one is chosen."""
LISTED = 4
"""Listing a completion costs a pass, and drawing one costs about two: so many times as many are listed as drawn."""
ROWS = 2**16
"""Rows whose completions are counted at a time."""
FEW = 256
"""Completions listed at most of a model that cannot draw any."""


class Completed(NamedTuple):
    """Rows with their blanks filled, and what the density of each is scaled by to stand for all ways of filling it."""

    states: Tensor
    """``(B, D)``."""
    log_scale: Tensor
    """``(B,)``."""

    def rows(self, part: slice) -> "Completed":
        """A slice of the batch."""
        return Completed(self.states[part], self.log_scale[part])

    def log_density(self, model: Any) -> PerState:
        """``log q(states) + log_scale`` ``(B,)``, differentiable."""
        density: Tensor = model.log_density(self.states)
        return density + self.log_scale.to(density.dtype)


class Weighed(NamedTuple):
    """Rows with their blanks filled in several ways, and the weight of each."""

    states: Tensor
    """``(n, D)``."""
    row: Tensor
    """Which row each of them completes ``(n,)``, ascending."""
    log_weight: Tensor
    """``(n,)`` in float64: the weights of a row sum to ``q(observed cells)``, or to a number with that mean."""
    size: int
    """How many rows there are."""

    @property
    def log_density(self) -> PerState:
        """``log q(observed cells)`` of each row ``(size,)``, or the bound below it."""
        return log_sum_by_row(self.log_weight, self.row, self.size)

    def chosen(self, model: Any, generator: torch.Generator) -> Completed:
        """One completion of each row, drawn by weight, standing for all.

        With ``log_scale = log Σ_k w_k - log q(states)``, q being the model that weighed them, its log-density is the
        bound, and the mean of its gradient over the draw is that of the bound.
        """
        # The largest of log-weights with Gumbel noise is a draw by weight.
        unit = uniform((len(self.row),), generator, self.row.device)
        key = self.log_weight - (-torch.log1p(-unit)).log()
        best = key.new_full((self.size,), -torch.inf).scatter_reduce(0, self.row, key, "amax")
        return _scaled(model, self.states[(key == best[self.row]).nonzero().squeeze(-1)], self.log_density)


@torch.no_grad()
def _scaled(model: Any, states: Tensor, log_density: Tensor) -> Completed:
    """Completions ``(B, D)`` that stand for rows of these log-densities ``(B,)``."""
    return Completed(states, log_density - model.log_density(states).double())


@torch.no_grad()
def complete(
    model: Any,
    x: States,
    observed: Tensor,
    draws: int,
    generator: torch.Generator,
    ahead: LookAhead | None = None,
) -> Weighed:
    """Rows with their blanks filled: in all ways where these are few, otherwise by ``draws`` draws of the model.

    Args:
        model: draws its own blanks (`can_draw_blanks`), or every row has at most `FEW` completions.
        x: rows ``(B, D)``; what they hold in blank cells is ignored.
        observed: which cells are known, bool ``(B, D)``.
        draws: of each row that has many completions, K.
        generator: the source of the draws.
        ahead: what draws know of the observed cells after them.

    >>> from concrete_score.targets import pmf
    >>> p = pmf([[0.1, 0.2], [0.3, 0.4]])
    >>> x, seen = torch.tensor([[0, 1], [1, 1]]), torch.tensor([[False, True], [True, True]])
    >>> complete(p, x, seen, 8, torch.Generator()).log_density.exp()
    tensor([0.6000, 0.4000], dtype=torch.float64)
    """
    count = count_completions(model.space, observed)
    few = count <= (LISTED * draws if can_draw_blanks(model) else FEW)
    listed = few.nonzero().squeeze(-1)
    states, row = list_completions(model.space, x[listed], observed[listed])
    weight = model.log_density(states).double()
    if len(listed) == len(x):
        return Weighed(states, row, weight, len(x))
    if not can_draw_blanks(model):  # one that leaves blanks out, learned by an objective that does not
        raise _cannot_draw(model)
    many = (~few).nonzero().squeeze(-1).repeat_interleave(draws)
    drawn, log_weight = model.propose_given(x[many], observed[many], generator, ahead=ahead)
    rows, order = torch.cat([listed[row], many]).sort(stable=True)
    weight = torch.cat([weight, log_weight.double() - log(draws)])
    return Weighed(torch.cat([states, drawn])[order], rows, weight[order], len(x))


@torch.no_grad()
def fill(
    model: Any,
    x: States,
    observed: Tensor,
    draws: int,
    generator: torch.Generator,
    ahead: LookAhead | None = None,
) -> Completed:
    """One completion of each row by the model given what was seen of it, in the least work: what training needs.

    A row without a blank stays as it is; one whose blanks all come after what was seen, in the model's order, is drawn
    once, which is exact; of the others, several completions are weighed (`complete`) and one is chosen.

    Args:
        model, x, observed, draws, generator, ahead: as for `complete`.
    """
    states, log_scale = x.clone(), torch.zeros(len(x), dtype=torch.float64, device=x.device)
    _, ending, others = _by_blanks(model, observed)
    if len(ending):
        found = _scaled(model, *model.propose_given(x[ending], observed[ending], generator))
        states[ending], log_scale[ending] = found
    if len(others):
        found = complete(model, x[others], observed[others], draws, generator, ahead).chosen(model, generator)
        states[others], log_scale[others] = found
    return Completed(states, log_scale)


@torch.no_grad()
def bounds(
    model: Any,
    x: States,
    observed: Tensor,
    draws: int,
    generator: torch.Generator,
    ahead: LookAhead | None = None,
) -> PerState:
    """``log q(observed cells)`` of each row in float64 ``(B,)``, or the bound below it, in the least work (see `fill`).

    Args:
        model, x, observed, draws, generator, ahead: as for `complete`.
    """
    found = torch.empty(len(x), dtype=torch.float64, device=x.device)
    whole, ending, others = _by_blanks(model, observed)
    if len(whole):
        found[whole] = model.log_density(x[whole]).double()
    if len(ending):
        found[ending] = model.propose_given(x[ending], observed[ending], generator)[1].double()
    if len(others):
        found[others] = complete(model, x[others], observed[others], draws, generator, ahead).log_density
    return found


def _by_blanks(model: Any, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows without a blank, rows whose blanks come last in the model's order, and all others, by number."""
    whole = observed.all(-1)
    ending = torch.zeros_like(whole)
    if can_draw_blanks(model) and hasattr(model, "order"):
        known = observed[:, model.order]
        ending = ~whole & ~(known[:, 1:] & ~known[:, :-1]).any(-1)
    whole, ending, others = (rows.nonzero().squeeze(-1) for rows in (whole, ending, ~whole & ~ending))
    return whole, ending, others


def can_draw_blanks(model: Any) -> bool:
    """Whether a model draws blanks given the sites before them, with a weight."""
    return hasattr(model, "propose_given")


def _cannot_draw(model: Any) -> InputError:
    return InputError(
        "a model that draws blank cells given the others, such as `made`, for rows with blanks",
        type(model).__name__,
        where="model",
        fix=[Option("missing", "drop"), Option("missing", "category")],
    )


def leaves_blanks(model: Any) -> bool:
    """Whether a model's site conditionals can do without the blank sites: ``local_fields(x, observed)``."""
    return bool(getattr(model, "leaves_blanks", False))


def check_completes(model: Any, observed: Tensor) -> None:
    """Refuse rows with blanks that a model can neither draw nor list.

    Raises:
        InputError: it says what to do with them instead.
    """
    # What is blank is unknown, and never filled; or drawn, however many blanks there are.
    if isinstance(model, Masked) or leaves_blanks(model) or can_draw_blanks(model):
        return
    parts = torch.split(observed, ROWS)
    if not hasattr(model, "log_density") or any((count_completions(model.space, p) > FEW).any() for p in parts):
        raise _cannot_draw(model)


def count_completions(space: Space, observed: Tensor) -> Tensor:
    """In how many ways each row can be completed ``(N,)``; in float64, for there may be very many.

    >>> count_completions(Space((2, 3)), torch.tensor([[True, False], [False, False]])).tolist()
    [3.0, 6.0]
    """
    sizes = space.sizes_tensor(observed.device).double()
    return torch.where(observed, 1.0, sizes).prod(-1)


def list_completions(space: Space, x: States, observed: Tensor) -> tuple[Tensor, Tensor]:
    """All completions of every row ``(n, D)``, and the row of each ``(n,)``, ascending.

    >>> rows, row = list_completions(Space((2, 3)), torch.tensor([[1, 0], [0, 2]]), torch.tensor([[True, False]] * 2))
    >>> rows.tolist(), row.tolist()
    ([[1, 0], [1, 1], [1, 2], [0, 0], [0, 1], [0, 2]], [0, 0, 0, 1, 1, 1])
    """
    size = torch.where(observed, 1, space.sizes_tensor(x.device))
    count = size.prod(-1)
    stride = size.flip(-1).cumprod(-1).flip(-1) // size
    row = torch.arange(len(x), device=x.device).repeat_interleave(count)
    number = torch.arange(len(row), device=x.device) - (count.cumsum(0) - count)[row]
    value = number[:, None] // stride[row] % size[row]
    return torch.where(observed[row], x[row], value), row


def log_sum_by_row(values: Tensor, row: Tensor, count: int) -> Tensor:
    """``log Σ exp`` of the values of each row ``(n, ...), (n,) -> (count, ...)``; -inf where a row has none.

    >>> log_sum_by_row(torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0, 0, 1]), 2)
    tensor([0.6931, 1.0000])
    """
    at = row.reshape(-1, *(1,) * (values.ndim - 1)).expand_as(values)
    top = values.new_full((count, *values.shape[1:]), -torch.inf).scatter_reduce(0, at, values.detach(), "amax")
    top = torch.where(top.isfinite(), top, 0.0)
    total = torch.zeros_like(top).index_add(0, row, (values - top[row]).exp())
    return total.log() + top
