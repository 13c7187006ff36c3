"""What can be learned from rows through a neighborhood (docs/mathematics.md, "Recovery and connected support")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.errors import InputError, Option
from concrete_score.neighborhoods import SupportDiagnosis, diagnose_support
from concrete_score.protocols import Neighborhood
from concrete_score.spaces import Space, describe_count

SHOWN = 10
"""How many components are listed."""
PIECE, PIECE_ROWS = 0.01, 5
"""A second component with this share of the rows, and this many of them, is no accident of sampling."""
LARGEST = 0.95
"""The share of the largest component from which on the support is nearly connected."""

CONNECTED, NEARLY, SPLIT, SPARSE = "connected", "nearly_connected", "split", "sparse"


@dataclass(frozen=True, eq=False)
class RowsDiagnosis:
    """Encoded rows seen through a neighborhood."""

    space: Space
    neighborhood: str
    support: SupportDiagnosis
    alone: float
    """Share of the rows that are a component by themselves, seen once."""
    columns: Sequence[Mapping[str, Any]] = ()
    """Plain descriptions of the sites, for `to_json`."""

    @property
    def verdict(self) -> str:
        """``connected``, or but for rare rows; ``split`` into pieces too heavy to be chance; too ``sparse`` to tell."""
        if self.support.connected:
            return CONNECTED
        second = self.support.component_shares[1]
        if second >= PIECE and second * self.support.rows >= PIECE_ROWS:
            return SPLIT
        return NEARLY if self.support.largest_share >= LARGEST else SPARSE

    @property
    def message(self) -> str:
        """The verdict in a few sentences, with its numbers."""
        return _MESSAGES[self.verdict].format(
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
            "columns": [dict(column) for column in self.columns],
            "states": describe_count(self.space.num_states),
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
            "words": self.message,
        }


def diagnose_rows(
    states: Tensor, space: Space, neighborhood: str = "hamming", columns: Sequence[Mapping[str, Any]] = ()
) -> RowsDiagnosis:
    """Diagnose encoded rows.

    Args:
        states: ``(N, D)``.
        space: theirs.
        neighborhood: a registered name.
        columns: plain descriptions of the sites, handed on to `RowsDiagnosis.to_json`.

    Raises:
        InputError: no such neighborhood, or one that this space cannot have.

    >>> rows = torch.tensor([[0, 0], [0, 0], [1, 1], [1, 1]] * 9)
    >>> diagnose_rows(rows, Space.bits(2)).verdict
    'split'
    """
    support = diagnose_support(states, build_neighborhood(neighborhood, space))
    sizes = torch.bincount(support.component)
    shares = torch.tensor(support.component_shares, dtype=torch.float64)
    single = (sizes == 1) & (shares * support.rows < 1.5)
    return RowsDiagnosis(space, neighborhood, support, float(shares[single].sum()), columns)


def build_neighborhood(name: str, space: Space) -> Neighborhood:
    """A registered neighborhood that needs nothing but a space.

    Raises:
        InputError: no such name, one that needs more, or one that this space cannot have.
    """
    make = registry.load("neighborhoods", name)
    try:
        found: Neighborhood = make(space)
    except TypeError:
        expected, fix = "a neighborhood that needs the space alone", "use hamming or grid"
        raise InputError(expected, repr(name), where=Option("neighborhood"), fix=fix) from None
    return found


_MESSAGES = {
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
