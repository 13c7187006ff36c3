"""The exact variance, given the row, of a loss and of its gradient under each way to draw edges.

At a row with K neighbors of log-ratios ``l_k`` the full loss is ``Σ_k u_k`` with ``u_k = a(l_k) - b(-l_k)``, and its
gradient ``Σ_k u'_k ∇l_k``. Estimators draw some of the terms. With ``G_kj = <v_k, v_j>``, where ``v_k`` is 1 for the
loss and ``∇l_k`` for the gradient, ``m`` draws from probabilities ``π`` have a covariance of trace

    ( Σ_k u_k² G_kk / π_k  -  uᵀ G u ) / m

so one matrix a row gives the exact variance of every estimator for every ``f``: nothing is simulated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from concrete_score.models import MADE
from concrete_score.objectives import FiniteEstimator, ImportanceEdges, IndependentEdges, PairedEdges, StratifiedEdges
from concrete_score.objectives.divergences import Bregman
from concrete_score.protocols import DensityModel, Neighborhood
from concrete_score.scores import log_ratios
from concrete_score.shapes import PerSlot, PerState, States


class Terms(NamedTuple):
    """What a drawn edge adds to the loss, or to its gradient in units of ``∇l_k``."""

    source: PerSlot
    """From ``J1``: ``a(l_k)`` or its derivative ``(N, K)``."""
    target: PerSlot
    """From ``J2``: ``-b(-l_k)`` or its derivative ``(N, K)``."""


def loss_terms(divergence: Bregman, l: PerSlot) -> Terms:
    """The two terms of every edge, for the loss."""
    return Terms(divergence.a(l), -divergence.b(-l))


def gradient_terms(divergence: Bregman, l: PerSlot) -> Terms:
    """Their derivatives in ``l_k``, which weigh ``∇l_k`` in the gradient.

    >>> from concrete_score.objectives import divergences
    >>> gradient_terms(divergences.csm, torch.zeros(1, 1)).source.item()  # a = e^(2l)
    2.0
    """
    at = l.detach().requires_grad_()
    terms = loss_terms(divergence, at)
    return Terms(*(torch.autograd.grad(term.sum(), at)[0] for term in terms))


@dataclass(frozen=True, eq=False)
class DrawnPart:
    """``m`` independent draws from a block of slots, for one of the two terms or for both."""

    m: int
    block: tuple[int, int | None] = (0, None)
    """First and last-plus-one slot; all by default."""
    terms: tuple[int, ...] = (0, 1)
    """Which of `Terms` a draw reads."""
    probabilities: PerSlot | None = None
    """``π`` ``(N, K)``; uniform over the block by default."""

    def variance(self, terms: Terms, gram: Tensor | None) -> PerState:
        """The trace of the covariance, given each row ``(N,)``."""
        slots = slice(*self.block)
        u = torch.stack([terms[i][:, slots] for i in self.terms]).sum(0)
        weight = u.shape[1] if self.probabilities is None else 1 / self.probabilities[:, slots]
        if gram is None:
            return ((weight * u.square()).sum(-1) - u.sum(-1).square()) / self.m
        among = gram[:, slots, slots]
        norm = among.diagonal(dim1=1, dim2=2)
        return ((weight * u.square() * norm).sum(-1) - torch.einsum("nk,nkj,nj->n", u, among, u)) / self.m


@dataclass(frozen=True, eq=False)
class EdgeMethod:
    """A way to draw edges, and the independent parts that its estimate is the sum of."""

    name: str
    edges: FiniteEstimator
    parts: Callable[[States], list[DrawnPart]]

    def variance(self, x: States, terms: Terms, gram: Tensor | None = None) -> PerState:
        """Of the loss, or with a Gram matrix ``(N, K, K)`` of the gradient: exact, given each row ``(N,)``."""
        return torch.stack([part.variance(terms, gram) for part in self.parts(x)]).sum(0)


def ways(neighborhood: Neighborhood, evaluations: int, references: Mapping[str, DensityModel]) -> list[EdgeMethod]:
    """Every way at the same number of density evaluations an example: ``1 + 2m`` for independent draws, else ``1 + m``.

    Args:
        neighborhood: symmetric, every slot valid.
        evaluations: of the model, an example; odd.
        references: the densities whose ratios importance sampling follows, by name.
    """
    m = evaluations - 1
    stratified = StratifiedEdges(neighborhood, m=m)
    found = [
        EdgeMethod(
            "independent",
            IndependentEdges(neighborhood, m=m // 2),
            lambda x: [DrawnPart(m // 2, terms=(0,)), DrawnPart(m // 2, terms=(1,))],
        ),
        EdgeMethod("paired", PairedEdges(neighborhood, m=m), lambda x: [DrawnPart(m)]),
        EdgeMethod("stratified", stratified, lambda x: [DrawnPart(1, block) for block in stratified.blocks]),
    ]
    for name, reference in references.items():
        found.append(_importance(f"importance ({name})", ImportanceEdges(neighborhood, m=m, reference=reference)))
    return found


def _importance(name: str, edges: ImportanceEdges) -> EdgeMethod:
    return EdgeMethod(name, edges, lambda x: [DrawnPart(edges.m, probabilities=edges.probabilities(x))])


class RowTables(NamedTuple):
    """All that the variances at some rows depend on."""

    log_ratios: PerSlot
    """``l_k`` ``(N, K)``."""
    gram: Tensor
    """``<∇l_k, ∇l_j>`` ``(N, K, K)``."""


def row_tables(model: MADE, neighborhood: Neighborhood, x: States) -> RowTables:
    """Log-ratios and the products of their gradients in the model's parameters, a row at a time.

    Args:
        model: whose call is ``log q``.
        neighborhood: every slot valid.
        x: ``(N, D)``.
    """
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def log_density(values: dict[str, Tensor], row: Tensor) -> Tensor:
        result: Tensor = functional_call(model, values, (row,))
        return result

    each = vmap(grad(log_density), (None, 0))
    gram = []
    for row in x:
        gradients = each(parameters, torch.cat([row[None], neighborhood.neighbors(row)]))
        flat = torch.cat([value.flatten(1) for value in gradients.values()], 1)
        flat = flat[1:] - flat[0]
        gram.append(flat @ flat.T)
    with torch.no_grad():
        return RowTables(log_ratios(model, neighborhood, x), torch.stack(gram))
