"""Edges: everything random about one step, and how models read them."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Divergence, RawScoreModel, ScoreModel


@dataclass(frozen=True, eq=False)
class Edges:
    """Drawn directed edges between a few states of each row, with the weights of the two terms of an objective.

    Edge ``j`` runs from ``nodes[:, source_node[j]]`` to ``nodes[:, target_node[j]]``. Rows share this wiring, so that
    a density is evaluated once per node however many edges meet there, and a score network once per source.
    """

    nodes: Tensor
    """``(B, n, D)``: node 0 is the data row."""
    source_node: Tensor
    """``(m,)``."""
    target_node: Tensor
    """``(m,)``; -1 where the target is not stored because only a score model's slot is read."""
    slot: Tensor | None
    """``(B, m)``: the slot of the edge at its source; None where edges belong to no finite neighborhood."""
    source_weight: Tensor
    """``(B, m)``: weight of ``h`` in the loss; 0 is padding."""
    target_weight: Tensor
    """``(B, m)``: weight of ``-f'`` in the loss; 0 is padding."""
    offset: Tensor
    """``(B, m)``: ``log K(x | y) - log K(y | x)``, added to the log-ratio; 0 for finite neighborhoods."""

    @property
    def source(self) -> Tensor:
        """``(B, m, D)``."""
        return self.nodes[:, self.source_node]

    @property
    def target(self) -> Tensor:
        """``(B, m, D)``."""
        return self.nodes[:, self.target_node]

    def rows(self, part: slice) -> "Edges":
        """A slice of the batch: what one of several processes takes."""
        wiring = ("source_node", "target_node")
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in wiring}
        return replace(self, **{name: value[part] for name, value in values.items() if value is not None})

    @property
    def num_chunks(self) -> int:
        """One: they are small enough to be held at once."""
        return 1

    def chunk(self, number: int) -> "Edges":
        """The edges themselves."""
        return self

    def gather(self, losses: list[Tensor]) -> Tensor:
        """One loss per row ``(B,)`` from the losses of the chunks."""
        return losses[0]


def log_ratios_of(model: DensityModel | ScoreModel, edges: Edges) -> Tensor:
    """``log s`` of every edge ``(B, m)``, by the model's density or by its scores."""
    if isinstance(model, DensityModel):
        if bool((edges.target_node < 0).any()):
            raise InputError("a score model", "a density model", where="model", fix="draw edges without full_source")
        density: Tensor = model.log_density(edges.nodes)
        return density[:, edges.target_node] - density[:, edges.source_node]
    return _read_slots(model.log_ratios, edges)


def scores_of(model: RawScoreModel, edges: Edges) -> Tensor:
    """``c`` of every edge ``(B, m)``, from a model that gives Concrete scores directly."""
    return _read_slots(model.concrete_scores, edges)


def _read_slots(read: Callable[[Tensor], Tensor], edges: Edges) -> Tensor:
    if edges.slot is None:
        raise InputError(
            "a density model for sampled edges",
            "a score model, which knows the ratios of its own slots only",
            where="model",
            fix="use edges of a finite neighborhood, such as `paired`",
        )
    used, position = torch.unique(edges.source_node, return_inverse=True)
    table = read(edges.nodes[:, used])
    return table[:, position].gather(-1, edges.slot[..., None]).squeeze(-1)


def bregman_loss(divergence: Divergence, log_ratio: Tensor, edges: Edges) -> Tensor:
    """``Σ_j w_j a(l_j) - v_j b(l_j)`` for each row ``(B,)``; weight zero counts for nothing, even at ±inf."""
    source, target = edges.source_weight, edges.target_weight
    a = divergence.a(torch.where(source != 0, log_ratio, 0))
    b = divergence.b(torch.where(target != 0, log_ratio, 0))
    return (source * a - target * b).sum(-1)
