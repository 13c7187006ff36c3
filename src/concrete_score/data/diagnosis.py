"""What can be learned from a table through a neighborhood, in numbers and in plain words (paper, theorem 1)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.data.codec import TableCodec
from concrete_score.errors import InputError
from concrete_score.neighborhoods import SupportDiagnosis, diagnose_support
from concrete_score.protocols import Neighborhood
from concrete_score.spaces import Space, describe_count

SHOWN = 10
"""How many components are listed."""
PIECE = 0.01
"""A second component with this share of the rows, and several of them, is no accident of sampling."""
_PIECE_ROWS = 5

_NEARLY = 0.95

CONNECTED, NEARLY, SPLIT, SPARSE = "connected", "nearly_connected", "split", "sparse"


@dataclass(frozen=True, eq=False)
class TableDiagnosis:
    """A table seen through a neighborhood."""

    codec: TableCodec
    neighborhood: str
    support: SupportDiagnosis
    alone: float
    """Share of the rows that are a component by themselves, seen once."""

    @property
    def verdict(self) -> str:
        """``connected``, or but for rare rows; ``split`` into pieces too heavy to be chance; too ``sparse`` to tell."""
        if self.support.connected:
            return CONNECTED
        second = self.support.component_shares[1]
        heavy = second >= PIECE and second * self.support.rows >= _PIECE_ROWS
        if heavy:
            return SPLIT
        return NEARLY if self.support.largest_share >= _NEARLY else SPARSE

    @property
    def words(self) -> str:
        """The verdict for people."""
        return _WORDS[self.verdict].format(
            name=self.neighborhood,
            pieces=self.support.num_components,
            largest=f"{self.support.largest_share:.1%}",
            second=f"{(*self.support.component_shares, 0.0)[1]:.1%}",
            alone=f"{self.alone:.1%}",
            edges=f"{self.support.observed_edge_share:.2%}",
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; the ten largest components."""
        support = self.support
        return {
            "rows": support.rows,
            "columns": [{"name": s.name, "kind": s.kind, "size": s.size} for s in self.codec.sites],
            "states": describe_count(self.codec.space.num_states),
            "neighborhood": self.neighborhood,
            "distinct_rows": support.distinct,
            "components": support.num_components,
            "component_shares": list(support.component_shares[:SHOWN]),
            "alone": self.alone,
            "edges": support.edges,
            "observed_edges": support.observed_edges,
            "observed_edge_share": support.observed_edge_share,
            "connected": support.connected,
            "verdict": self.verdict,
            "words": self.words,
        }


def diagnose_table(codec: TableCodec, states: Tensor, neighborhood: str = "hamming") -> TableDiagnosis:
    """Diagnose encoded rows ``(N, D)`` under a registered neighborhood.

    Raises:
        InputError: no such neighborhood, or one that this space cannot have.

    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [0, 0, 1, 1] * 9, "b": [0, 0, 1, 1] * 9})
    >>> codec = TableCodec.fit(table)
    >>> diagnose_table(codec, codec.encode(table).states).verdict
    'split'
    """
    support = diagnose_support(states, build(neighborhood, codec.space))
    sizes = torch.bincount(support.component)
    shares = torch.tensor(support.component_shares, dtype=torch.float64)
    single = (sizes == 1) & (shares * support.rows < 1.5)
    return TableDiagnosis(codec, neighborhood, support, float(shares[single].sum()))


def build(name: str, space: Space) -> Neighborhood:
    """A registered neighborhood on a space."""
    make = registry.load("neighborhoods", name)
    try:
        found: Neighborhood = make(space)
    except TypeError:
        raise InputError(
            "a neighborhood that needs the space alone", repr(name), where="--neighborhood", fix="use hamming or grid"
        ) from None
    return found


_WORDS = {
    CONNECTED: (
        "One piece: single moves of '{name}' lead from every observed row to every other through observed rows, so "
        "scores on these edges say how probable each is against each."
    ),
    NEARLY: (
        "Nearly one piece: under '{name}' {largest} of the rows hang together; the rest are rare rows, each a piece of "
        "its own or nearly so, as a sample always has some. {edges} of the edges are observed at both ends."
    ),
    SPLIT: (
        "Split: under '{name}' the observed rows fall into {pieces} pieces, the largest with {largest} of the rows, "
        "the next with {second}: too heavy to be chance. No chain of observed single moves joins them, so scores on "
        "these edges cannot say how much each piece weighs, and samplers that make such moves stay where they start. "
        "Use a connected neighborhood (edges self_proposal) or maximum_likelihood, and joint moves to sample."
    ),
    SPARSE: (
        "Sparse: under '{name}' the observed rows fall into {pieces} pieces, the largest with {largest} of the rows; "
        "{alone} of the rows stand alone and {edges} of the edges are observed at both ends. What lies between rows "
        "is for the model to fill in: prefer edges self_proposal or maximum_likelihood to bare single moves."
    ),
}
