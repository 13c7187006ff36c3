"""Estimators with a proposal that is not uniform: slots a reference finds plausible, or states of a sampled kernel."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.objectives.edges import ChunkedEdges, Edges, log_ratios_of, mirrored
from concrete_score.objectives.estimators import FiniteEstimator, PairedEdges, refuse_asymmetric
from concrete_score.protocols import DensityModel, SampledNeighborhood
from concrete_score.scores import log_ratios
from concrete_score.shapes import PerSlot, States
from concrete_score.spaces import Space, check_same_space


@dataclass(frozen=True)
class ImportanceEdges(FiniteEstimator):
    """Slots drawn with ``π(k | x) ∝ σ(log-ratio of a reference)``, mixed with the uniform law; edges weigh ``1/π``.

    Algorithms 1 and 2 with a proposal over neighbors that is not uniform (docs/mathematics.md, "Estimators").
    The reference, a cheap fitted density, points at changes it finds plausible: there the loss has its slope. The
    uniform share bounds the weights, so that a bad reference costs variance, never correctness. Without a reference
    the proposal is uniform.
    """

    m: int = 1
    reference: DensityModel | None = None
    uniform_share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.m, "m")
        refuse_asymmetric(self.neighborhood, "importance")
        if not 0 < self.uniform_share <= 1:
            raise InputError("a share above 0 and at most 1", str(self.uniform_share), where="uniform_share")
        if self.reference is not None:
            check_same_space(self.reference.space, self.space, "reference and neighborhood")

    @torch.no_grad()
    def probabilities(self, x: States) -> PerSlot:
        """``π(k | x)`` ``(B, K)``; all zero at a state without neighbors."""
        valid = self.neighborhood.valid(x).double()
        uniform = valid / valid.sum(-1, keepdim=True).clamp_min(1)
        if self.reference is None:
            return uniform
        plausible = valid * log_ratios(self.reference, self.neighborhood, x).double().sigmoid()
        total = plausible.sum(-1, keepdim=True)
        tilted = torch.where(total > 0, plausible / total.where(total > 0, 1), uniform)
        return self.uniform_share * uniform + (1 - self.uniform_share) * tilted

    def choose(self, x: States, generator: torch.Generator) -> Tensor:
        """``m`` slots from the proposal ``(B, m)``."""
        upto = self.probabilities(x).cumsum(-1)
        unit = torch.rand((len(x), self.m), generator=generator, dtype=torch.float64, device=generator.device)
        slot = torch.searchsorted(upto, unit.to(x.device) * upto[:, -1:], right=True)
        return slot.clamp_max(self.neighborhood.num_slots - 1)

    def choices(self, x: States) -> Iterator[tuple[Tensor, Tensor]]:
        """All tuples of slots."""
        probability = self.probabilities(x)
        stuck = (probability.sum(-1) == 0).double()  # a state without neighbors: slot 0, weighing nothing
        for picked in product(range(self.neighborhood.num_slots), repeat=self.m):
            weight = torch.stack([probability[:, k] + stuck * (k == 0) for k in picked]).prod(0)
            yield weight, torch.tensor(picked).expand(len(x), -1)

    def wire(self, x: States, choice: Tensor) -> Edges:
        """Each drawn edge and its reverse, weighing ``1 / (m π)``."""
        probability = self.probabilities(x).gather(1, choice)
        size = torch.where(probability > 0, 1 / (self.m * probability.where(probability > 0, 1)), 0)
        return mirrored(self.neighborhood, self.weight, x, choice, size)


@dataclass(frozen=True)
class SelfWeighedEdges(PairedEdges):
    """`PairedEdges` in units of a copy's ratios, each weighing how often the copy would cross it.

    With ``δ = log q̄(y) - log q̄(x)`` the edge ``x -> y`` has the loss ``σ(δ) [h(ρ) - f'(1/ρ)]`` of
    ``ρ = [q(y)/q(x)] / [q̄(y)/q̄(x)]``: the ratio of `SelfProposalEdges` for the kernel that proposes each neighbor at
    one rate and goes there with probability ``σ(δ)``, its two outcomes averaged instead of drawn. For every ``f`` it
    is a Bregman divergence to the true ratios, and its expected gradient at ``q̄ = q`` is ``f''(1)`` times that of
    ``logistic`` (docs/mathematics.md, "Mass leak and sampled neighborhoods"): with a copy that is renewed often,
    ``f = r²`` of single changes follows pseudo-likelihood, which has a bound on samples, where the objective as
    written has none.

    Args:
        copy: ``q̄``, a frozen copy of the model; any density, normalized or not.
    """

    copy: DensityModel | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.copy is None:
            raise InputError("a density to measure ratios by, such as a copy of the model", "none", where="copy")
        check_same_space(self.copy.space, self.space, "copy and neighborhood")

    def check(self, model: Any) -> None:
        """A copy of it is a density, and so must the model be."""
        _check_density(model, self.space)

    def wire(self, x: States, choice: Tensor) -> Edges:
        return self._measured(super().wire(x, choice))

    def enumerated(self) -> Edges:
        """All edges out of and into every state, in one piece."""
        chunks = ChunkedEdges(self.space.enumerate(), self.neighborhood, self.weight, limit=2**62)
        return self._measured(chunks.chunk(0))

    @torch.no_grad()
    def _measured(self, edges: Edges) -> Edges:
        """Edges there, then the same edges back, by the copy."""
        log_ratio = log_ratios_of(cast(DensityModel, self.copy), edges).double()
        there = log_ratio[:, : log_ratio.shape[1] // 2].sigmoid().repeat(1, 2)
        return replace(
            edges,
            source_weight=edges.source_weight * there,
            target_weight=edges.target_weight * there,
            offset=-log_ratio,
        )


@dataclass(frozen=True)
class SelfProposalEdges:
    """``m`` edges an example from a sampled neighborhood, each read both ways: Metropolis–Hastings ratios.

    Draw ``x ~ p`` and ``y ~ K(· | x)`` and let ``ρ = q(y) K(x|y) / [q(x) K(y|x)]``. The loss ``h(ρ) - f'(1/ρ)`` is
    unbiased for the Bregman divergence to the true ``ρ``, for every ``f``. With a frozen copy of the model as proposal,
    ``K(y|x) = q̄(y)``, its expected gradient at ``q̄ = q`` is ``2 f''(1)`` times maximum likelihood's
    (docs/mathematics.md, "Mass leak and sampled neighborhoods"). Logistic ``f`` with a general ``K`` is conditional
    noise-contrastive estimation (Ceylan and Gutmann, 2018).

    Args:
        proposal: any kernel with known ``K(y|x)`` and ``K(x|y)``, both positive or both zero; an
            `IndependenceProposal` of a frozen copy of the model makes it the self-proposal.
        m: draws an example.
    """

    proposal: SampledNeighborhood
    m: int = 1

    def __post_init__(self) -> None:
        check_count(self.m, "m")

    @property
    def space(self) -> Space:
        return self.proposal.space

    def check(self, model: Any) -> None:
        """Sampled edges need densities."""
        _check_density(model, self.space)

    def draw(self, x: States, generator: torch.Generator) -> Edges:
        """``m`` targets a row, edges there and back."""
        drawn = self.proposal.draw(x, self.m, generator)
        weight = (drawn.log_forward > -torch.inf).double() / self.m
        return _both_ways(x, drawn.target, drawn.log_forward, drawn.log_backward, weight)

    def outcomes(self, x: States) -> Iterator[tuple[Tensor, Edges]]:
        """All tuples of targets."""
        kernel, states, here = self.proposal.log_kernel().double(), self.space.enumerate(), self.space.index(x)
        stuck = torch.where((kernel[here] == -torch.inf).all(-1), 1.0, 0.0)
        for picked in product(range(len(states)), repeat=self.m):
            y = torch.tensor(picked)
            forward, backward = kernel[here][:, y], kernel[y][:, here].T
            # A row without targets draws padding, once: the choice (0, …, 0).
            probability = forward.exp().prod(-1) + stuck * float(not any(picked))
            weight = (forward > -torch.inf).double() / self.m
            yield probability, _both_ways(x, states[y].expand(len(x), -1, -1), forward, backward, weight)

    def enumerated(self) -> Edges:
        """Every pair of states, weighing ``K(y | x)``."""
        kernel, states = self.proposal.log_kernel().double(), self.space.enumerate()
        target = states.expand(len(states), -1, -1)
        return _both_ways(states, target, kernel, kernel.T, kernel.exp())


def _check_density(model: Any, space: Space) -> None:
    if not isinstance(model, DensityModel):
        raise InputError(
            "a density model for sampled edges",
            "a score model, which knows the ratios of its own slots only",
            where="model",
            fix="use edges of a finite neighborhood, such as `paired`",
        )
    check_same_space(model.space, space, "model and edges")


def _both_ways(x: Tensor, target: Tensor, forward: Tensor, backward: Tensor, weight: Tensor) -> Edges:
    """Edges ``x -> y`` weighing ``h``, edges ``y -> x`` weighing ``-f'``, offsets of opposite signs."""
    if bool(((weight > 0) & (backward == -torch.inf)).any()):
        raise InputError(
            "a proposal that can go back wherever it goes",
            "a drawn edge with K(x|y) = 0",
            where="proposal",
            fix="use a symmetric neighborhood, or an independence proposal",
        )
    m = target.shape[1]
    near, zeros = torch.arange(1, m + 1, device=x.device), torch.zeros(m, dtype=torch.int64, device=x.device)
    offset = torch.where(weight > 0, backward.double() - forward.double(), 0.0)
    nothing = torch.zeros_like(weight)
    return Edges(
        nodes=torch.cat([x[:, None], target], 1),
        source_node=torch.cat([zeros, near]),
        target_node=torch.cat([near, zeros]),
        slot=None,
        source_weight=torch.cat([weight, nothing], 1),
        target_weight=torch.cat([nothing, weight], 1),
        offset=torch.cat([offset, -offset], 1),
    )
