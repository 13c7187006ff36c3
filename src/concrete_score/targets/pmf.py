"""Probability tables over enumerable spaces: the exact truth everything else is held against."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel
from concrete_score.shapes import PerState, PerStateTable, Slots, States
from concrete_score.spaces import ENUMERATION_LIMIT, Space

SUM_TOLERANCE = 1e-8
_CHUNK = 2**16


@dataclass(frozen=True, eq=False)
class Pmf:
    """A normalized distribution given by its table, ``log p(x) = log_pmf[index(x)]``; -inf marks impossible states.

    Args:
        space: an enumerable space of S states.
        log_pmf: log-probabilities in enumeration order ``(S,)``; kept in float64. Use `pmf` for checked input.

    >>> coin = pmf([0.25, 0.75])
    >>> coin.log_density(torch.tensor([[1], [0]])).exp().tolist()
    [0.75, 0.25]
    """

    space: Space
    log_pmf: PerStateTable = field(repr=False)

    def __post_init__(self) -> None:
        if self.log_pmf.shape != (self.space.num_states,):
            raise InputError(
                f"one log-probability for each of {self.space.num_states} states",
                f"shape {tuple(self.log_pmf.shape)}",
                where="log_pmf",
            )
        object.__setattr__(self, "log_pmf", self.log_pmf.to(torch.float64))

    @property
    def normalized(self) -> bool:
        return True

    @property
    def probabilities(self) -> PerStateTable:
        """The table itself, ``p(x)`` in enumeration order ``(S,)``."""
        return self.log_pmf.exp()

    def log_density(self, x: States) -> PerState:
        """``log p(x)`` ``(..., D) -> (...)``."""
        return self.log_pmf.to(x.device)[self.space.index(x)]

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact independent draws ``(n, D)``."""
        return self.space.state(invert(self._cumulative.to(generator.device), n, generator))

    def marginal(self, sites: Sequence[int]) -> "Pmf":
        """The distribution of some of the sites, in the order given.

        >>> pmf([[0.5, 0.25], [0.25, 0.0]]).marginal([1]).probabilities.tolist()
        [0.75, 0.25]
        """
        if not sites or len(set(sites)) < len(sites) or not set(sites) <= set(range(self.space.num_sites)):
            raise InputError(f"distinct sites from 0 to {self.space.num_sites - 1}", str(list(sites)), where="sites")
        others = [d for d in range(self.space.num_sites) if d not in set(sites)]
        table = self.log_pmf.reshape(self.space.sizes).permute(*sites, *others)
        kept = Space(tuple(self.space.sizes[d] for d in sites))
        return Pmf(kept, table.reshape(kept.num_states, -1).logsumexp(-1))

    def entropy(self) -> float:
        """``-Σ p log p`` in nats, with ``0 log 0 = 0``.

        >>> pmf([0.5, 0.5, 0.0]).entropy()
        0.6931471805599453
        """
        return float(torch.special.entr(self.probabilities).sum())

    @cached_property
    def _cumulative(self) -> Tensor:
        return self.probabilities.cumsum(0)


def pmf(probabilities: Any, space: Space | None = None) -> Pmf:
    """A checked probability table.

    Args:
        probabilities: nonnegative numbers that sum to one; ``(S,)``, or shaped like the space's sizes.
        space: the space they belong to; by default the array's shape gives the sizes.

    Raises:
        InputError: an entry is negative, NaN or infinite (it is named), the sum is not one, or the number is wrong.

    >>> pmf([[0.1, 0.2, 0.3], [0.4, 0.0, 0.0]]).space
    Space(sizes=(2, 3))
    >>> pmf([0.5, 0.6])
    Traceback (most recent call last):
    concrete_score.errors.InputError: probabilities: expected a sum of 1, got 1.1; divide by it, in float64
    """
    table = as_float64(probabilities, "probabilities")
    check_entries(table, "probabilities")
    if space is None:
        space = Space(tuple(table.shape))
    if tuple(table.shape) not in ((space.num_states,), space.sizes):
        raise InputError(
            f"{space.num_states} probabilities, one for each state of {space}",
            f"shape {tuple(table.shape)}",
            where="probabilities",
            fix="list them in the order of space.enumerate()",
        )
    flat = table.reshape(-1)
    check_sums(flat, "probabilities")
    return Pmf(space, flat.log() - flat.sum().log())


def from_density(model: DensityModel, limit: int = ENUMERATION_LIMIT, chunk: int = _CHUNK) -> Pmf:
    """Any density model on an enumerable space as its table, normalized by enumeration: ``q(x) / Σ q``.

    Args:
        model: normalized or not; no gradient is kept.
        limit: the largest number of states to enumerate.
        chunk: how many states the model sees at once.

    Raises:
        InputError: too many states, a NaN or infinite density (its state is named), or no possible state.
    """
    with torch.no_grad():
        values = torch.cat(list(_log_densities(model, limit, chunk)))
    bad = values.isnan() | (values == torch.inf)
    if bad.any():
        first = int(bad.nonzero()[0])
        raise InputError(
            "a log-density below infinity",
            str(values[first].item()),
            where=f"state {model.space.state(torch.tensor(first)).tolist()}",
            fix="the model is broken there: lower the learning rate, or check its parameters",
        )
    total = values.logsumexp(0)
    if total == -torch.inf:
        raise InputError("at least one possible state", "log-density -inf everywhere", where="model")
    return Pmf(model.space, values - total)


def log_normalizer(model: DensityModel, limit: int = ENUMERATION_LIMIT, chunk: int = _CHUNK) -> Float[Tensor, ""]:
    """``log Σ_x q(x)`` over an enumerable space, in chunks of bounded memory; gradients flow.

    >>> abs(log_normalizer(pmf([0.3, 0.7])).item()) < 1e-15
    True
    """
    return torch.stack([part.logsumexp(0) for part in _log_densities(model, limit, chunk)]).logsumexp(0)


def expectation(pmf: PerStateTable, values: PerState) -> Tensor:
    """``Σ_x p(x) value(x)``; what never happens counts for nothing, even where its value is infinite.

    >>> expectation(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([1.0, 3.0, torch.inf]))
    tensor(2.)
    """
    return pmf @ torch.where(pmf > 0, values.to(pmf.dtype), 0.0)


def invert(cumulative: Float[Tensor, "*rows values"], n: int, generator: torch.Generator) -> Slots:
    """``n`` categories by inverting cumulative sums: all from one row ``(V,)``, or one from each of ``(n, V)``.

    Scaling by the last sum makes rounding harmless: a category of probability zero is never drawn.
    """
    unit = torch.rand(n, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.searchsorted(cumulative, (unit * cumulative[..., -1])[:, None], right=True)[:, 0]


def as_float64(x: Any, name: str) -> Tensor:
    """Tensors, arrays and nested lists as one float64 tensor; a list never passes through float32 on its way."""
    try:
        return torch.as_tensor(x, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError("an array of numbers", f"{type(x).__name__} ({error})", where=name) from None


def check_entries(table: Tensor, where: str) -> None:
    """Refuse probabilities that are negative, NaN or infinite, naming the first one's place."""
    bad = ~(table.isfinite() & (table >= 0))
    if bad.any():
        place = tuple(int(k) for k in bad.nonzero()[0])
        raise InputError(
            "a nonnegative number",
            f"{table[place].item():.6g}",
            where=f"{where}[{', '.join(map(str, place))}]",
            fix="probabilities are counts or weights divided by their sum",
        )


def check_sums(table: Tensor, where: str) -> None:
    """Refuse probabilities whose last axis does not sum to one, saying the sum."""
    sums = table.sum(-1)
    bad = (sums - 1).abs() > SUM_TOLERANCE
    if bad.any():
        place = tuple(int(k) for k in bad.nonzero()[0]) if sums.ndim else ()
        row = f"[{', '.join(map(str, place))}]" if place else ""
        raise InputError("a sum of 1", f"{sums[place].item():.10g}", where + row, "divide by it, in float64")


def _log_densities(model: DensityModel, limit: int, chunk: int) -> Iterator[Tensor]:
    space = model.space
    space.check_enumerable(limit)
    for start in range(0, space.num_states, chunk):
        states = space.state(torch.arange(start, min(start + chunk, space.num_states)))
        yield model.log_density(states).to(torch.float64)
