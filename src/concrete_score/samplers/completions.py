"""All ways to fill the blanks of rows, weighed by a density: exact conditionals wherever they can be counted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.completing import count_completions as count_completions
from concrete_score.models.layers import draw_categories
from concrete_score.protocols import DensityModel
from concrete_score.randomness import uniform
from concrete_score.shapes import States
from concrete_score.spaces import ENUMERATION_LIMIT
from concrete_score.targets.pmf import Pmf, from_density

COMPLETIONS = 65_536
"""The most completions of one row that are enumerated."""
BATCH = 2**12
"""How many states a model sees at once, so that a network's activations stay within a few dozen megabytes."""
CELLS = 2**21
"""How many cells (states × sites) are laid out at once."""

Rows = Integer[Tensor, "rows sites"]
"""Rows of a table ``(N, D)``."""

Known = Bool[Tensor, "rows sites"]
"""Which cells of a row are known ``(N, D)``."""

RowName = Callable[[int], str]
"""How messages call a row, such as by its place in a file; from its number among the rows given."""


class Cells(NamedTuple):
    """Blank cells with the distribution of what belongs there."""

    row: Integer[Tensor, " cells"]
    """The row of each ``(B,)``."""
    site: Integer[Tensor, " cells"]
    """The site of each ``(B,)``."""
    log_probs: Float[Tensor, "cells values"]
    """``log q(x_site = v | observed cells of the row)`` ``(B, V)``; -inf beyond a site's size."""

    def ordered(self, sites: int) -> "Cells":
        """By row and site, of states of so many sites."""
        order = (self.row * sites + self.site).argsort()
        return Cells(self.row[order], self.site[order], self.log_probs[order])


def row_by_number(row: int) -> str:
    """The default `RowName`.

    >>> row_by_number(3)
    'row 3'
    """
    return f"row {row}"


class RowError(InputError):
    """A mistake in one row, which `in_rows` calls by its place in a larger table."""

    def __init__(self, row: int, expected: str, came: str, fix: str, row_name: RowName = row_by_number) -> None:
        self.row = row
        super().__init__(expected, came, row_name(row), fix)

    def renamed(self, row: int, row_name: RowName) -> "RowError":
        """The same mistake in the row of another number and name."""
        return RowError(row, self.expected, self.came, str(self.fix), row_name)


class Impossible(RowError):
    """A row whose observed cells have probability zero: there is no distribution given them.

    >>> print(Impossible(3))
    row 3: expected observed cells that the model gives some probability, got probability 0; ...
    """

    def __init__(self, row: int, came: str = "probability 0", row_name: RowName = row_by_number) -> None:
        expected = "observed cells that the model gives some probability"
        fix = "leave a cell of that row blank, or fit a model without zeros"
        super().__init__(row, expected, came, fix, row_name)

    def renamed(self, row: int, row_name: RowName) -> "Impossible":
        """The same of another row."""
        return Impossible(row, self.came, row_name)


@contextmanager
def in_rows(rows: Tensor, row_name: RowName = row_by_number) -> Iterator[None]:
    """Within it only some rows of a table are known; a `RowError` about one of them names its place in the table.

    Args:
        rows: the place of each ``(R,)``.
        row_name: what a row of the table is called.

    >>> with in_rows(torch.tensor([4, 7]), lambda row: f"line {row + 2}"):
    ...     raise Impossible(1)
    Traceback (most recent call last):
    concrete_score.samplers.completions.Impossible: line 9: expected observed cells that the model gives ...
    """
    try:
        yield
    except RowError as error:
        raise error.renamed(int(rows[error.row]), row_name) from None


@dataclass(frozen=True, eq=False)
class Completions:
    """``q(blanks | observed) ∝ q(x)`` over every completion of every row.

    Rows of equally many completions are laid out together, whatever their patterns, a bounded number at a time.

    Args:
        density: normalized or not.
        x: checked states whose unobserved cells are ignored ``(N, D)``.
        observed: which cells are known ``(N, D)``.

    >>> from concrete_score.targets import pmf
    >>> p = pmf([[0.1, 0.2], [0.3, 0.4]])
    >>> rows = Completions(p, torch.tensor([[1, 0]]), torch.tensor([[False, True]]))
    >>> [cells.log_probs.exp() for _, cells in rows.cells()]
    [tensor([[0.2500, 0.7500]], dtype=torch.float64)]
    """

    density: DensityModel
    x: Rows
    observed: Known

    @torch.no_grad()
    def draw(self, draws: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Independent completions of some rows at a time: which rows ``(R,)``, and their states ``(draws, R, D)``.

        Raises:
            Impossible: a row of probability zero.
        """
        for rows, count in self._blocks():
            weights = self._log_weights(rows, count)
            unit = uniform((len(rows), draws), generator, weights.device)
            yield rows, self._states(rows, draw_categories(weights, unit)).transpose(0, 1)

    @torch.no_grad()
    def log_marginals(self) -> Iterator[tuple[Tensor, Tensor]]:
        """``log Σ q`` over completions, of some rows at a time: which rows ``(R,)``, and their sums ``(R,)``."""
        for rows, count in self._blocks():
            yield rows, self._log_weights(rows, count, possible=False).logsumexp(-1)

    @torch.no_grad()
    def cells(self) -> Iterator[tuple[Tensor, Cells]]:
        """The distributions of blank cells, of some rows at a time: which rows ``(R,)``, and their blanks.

        Raises:
            Impossible: a row of probability zero.
        """
        values = max(self.density.space.sizes)
        for rows, count in self._blocks():
            probs = self._log_weights(rows, count).softmax(-1)
            blanks = self._blanks(rows)
            table = torch.zeros(*blanks.site.shape, values, dtype=torch.float64, device=probs.device)
            for part in _slices(count, len(rows) * blanks.site.shape[1], CELLS):
                value = blanks.values(part).transpose(1, 2)
                table.scatter_add_(-1, value, probs[:, None, part].expand(value.shape))
            row, k = blanks.blank.nonzero(as_tuple=True)
            yield rows, Cells(rows[row], blanks.site[row, k], table[row, k].log())

    def _blocks(self) -> Iterator[tuple[Tensor, int]]:
        """Rows of equally many completions, at most `BATCH` states together unless one row alone has more."""
        counts = count_completions(self.density.space, self.observed)
        for count in sorted(set(counts.tolist())):
            found = (counts == count).nonzero().squeeze(-1)
            for rows in torch.split(found, max(1, BATCH // int(count))):
                yield rows, int(count)

    def _log_weights(self, rows: Tensor, count: int, possible: bool = True) -> Tensor:
        """``log q`` of every completion ``(R, count)`` in float64; ``possible`` refuses rows of probability zero."""
        parts = []
        for part in _slices(count, len(rows), min(BATCH, max(1, CELLS // self.x.shape[-1]))):
            states = self._states(rows, torch.arange(part.start, part.stop, device=rows.device).expand(len(rows), -1))
            parts.append(self._density.log_density(states).double())
        weights = torch.cat(parts, -1)
        if not (weights < torch.inf).all():
            row = int(rows[(~(weights < torch.inf)).any(-1).nonzero()[0, 0]])
            raise RowError(row, "completions of a log-density below infinity", "another", "the model is broken")
        impossible = (weights == -torch.inf).all(-1)
        if possible and impossible.any():
            raise Impossible(int(rows[impossible.nonzero()[0, 0]]))
        return weights

    def _states(self, rows: Tensor, completion: Tensor) -> States:
        """Rows with their blanks filled by the completions of these numbers ``(R, C)`` ``(R, C, D)``."""
        blanks = self._blanks(rows)
        states = self.x[rows][:, None].expand(-1, completion.shape[1], -1).clone()
        value = completion[..., None] // blanks.stride[:, None] % blanks.size[:, None]
        site = blanks.site[:, None].expand_as(value)
        return states.scatter_(-1, site, torch.where(blanks.blank[:, None], value, states.gather(-1, site)))

    def _blanks(self, rows: Tensor) -> "_Blanks":
        observed = self.observed[rows]
        width = int((~observed).sum(-1).max())
        # Blank sites first, in order; a row with fewer of them than the others is padded with observed ones.
        site = observed.long().argsort(dim=-1, stable=True)[:, :width]
        blank = ~observed.gather(1, site)
        size = torch.where(blank, self.density.space.sizes_tensor(site.device)[site], 1)
        stride = size.flip(-1).cumprod(-1).flip(-1) // size
        return _Blanks(site, blank, size, stride)

    @cached_property
    def _density(self) -> DensityModel:
        """The density, tabulated where that takes fewer evaluations than the completions of all rows."""
        states, wanted = (
            self.density.space.num_states,
            float(count_completions(self.density.space, self.observed).sum()),
        )
        worth = states <= min(wanted, ENUMERATION_LIMIT) and not isinstance(self.density, Pmf)
        return from_density(self.density) if worth else self.density


class _Blanks(NamedTuple):
    """The blank sites of rows, last varying fastest; all ``(R, b)``."""

    site: Tensor
    blank: Tensor
    size: Tensor
    stride: Tensor

    def values(self, part: slice) -> Tensor:
        """What completions number ``part`` put there ``(R, C, b)``."""
        number = torch.arange(part.start, part.stop, device=self.site.device)[:, None]
        return number // self.stride[:, None] % self.size[:, None]


def _slices(count: int, width: int, most: int) -> Iterator[slice]:
    """``range(count)`` in slices of at most ``most / width``."""
    step = max(1, most // max(1, width))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))
