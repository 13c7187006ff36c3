"""Filling the blanks of a table's column: which cells, with what, and all others as they came."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from concrete_score.codecs.columns import SiteColumn
from concrete_score.data.frame import Array
from concrete_score.protocols import Encoded
from concrete_score.shapes import States


@dataclass(frozen=True, eq=False)
class Filling:
    """What fills the blanks of one column."""

    rows: Encoded
    states: States
    site: int
    rng: np.random.Generator | None
    probs: Array | None
    """Log-probabilities of the blanks ``(B, V)``, by row."""
    how: str

    @property
    def values(self) -> Array:
        """The site's values of the completed rows ``(M, N')``."""
        found: Array = self.states[:, :, self.site].numpy(force=True)
        return found

    @property
    def blank(self) -> Array:
        """Which rows are to be filled here ``(N',)``."""
        observed = self.rows.observed[:, self.site]
        found: Array = (~observed if self.rows.unseen is None else ~observed & ~self.rows.unseen[:, self.site]).numpy()
        return found


def completed(column: SiteColumn, cells: pl.Series, at: Array, filling: Filling) -> tuple[pl.Series, Array]:
    """Cells with further values below them, and where in there each cell of the copies lies ``(M, N)``."""
    blank = filling.blank
    if not blank.any():
        return cells, at
    kept, filled = filling.rows.kept.numpy(), filling.values[:, blank]
    if column.lossy:
        more = None if filling.probs is None else column.summary(filling.probs, filling.how)
        more = column.decode(filled.reshape(-1), filling.rng) if more is None else more
        at[:, kept[blank]] = (np.arange(filled.size) % len(more)).reshape(filled.shape) + len(cells)
        return below(cells, more), at
    # As the table itself spells a value, so it is filled in: 1.0 beside 1.0, True beside True.
    pool = np.full(column.size, -1)
    known = filling.rows.observed[:, filling.site].numpy()
    values, first = np.unique(filling.rows.states[:, filling.site].numpy()[known], return_index=True)
    pool[values] = kept[known][first]
    used = np.unique(filled)
    new = used[pool[used] < 0]
    pool[new] = np.arange(len(new)) + len(cells)
    at[:, kept[blank]] = pool[filled]
    return (below(cells, column.decode(new)) if len(new) else cells), at


def below(cells: pl.Series, more: pl.Series) -> pl.Series:
    """Both below one another in the cells' own type, or as text where that cannot hold the others."""
    try:
        return pl.concat([cells, more.cast(cells.dtype).alias(cells.name)])
    except pl.exceptions.PolarsError:
        return pl.concat([cells.cast(pl.String), more.cast(pl.String).alias(cells.name)])
