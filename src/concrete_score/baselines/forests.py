"""Trees of sites: messages up and down them, and mixtures of many densities on one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from concrete_score.baselines.conditionals import Observed, PerValue, by_rows, check_possible, draw_values, point_masses
from concrete_score.baselines.counts import chunk_rows
from concrete_score.errors import InputError
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space, check_query

FARTHEST = -600.0
"""The logarithm of a term, relative to the largest, that is safely above the smallest double."""


@dataclass(frozen=True)
class Forest:
    """Sites of which each depends on at most one other: ``q(x) = Π_d q_d(x_d | x_parent(d))``.

    A root is given a *hidden parent* that has the single value 0, so all sites are treated alike. Tables are
    ``log q_d(v | u)`` as ``[d, u, v]`` ``(..., D, V, V)``; evidence, beliefs and messages are ``(..., D + 1, V)``, the
    hidden parent last. Leading axes are those of rows, or of rows and components.

    Args:
        parents: the parent of each site; -1 for a root.

    Raises:
        InputError: parents that are no sites, or run in a circle.
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        sites = len(self.parents)
        if not all(-1 <= parent < sites for parent in self.parents):
            raise InputError(f"{sites} parents from -1 to {sites - 1}", f"{self.parents}", where="parents")
        if sum(map(len, self.levels)) != sites:
            came, fix = f"{self.parents}, which runs in a circle", "give each tree a root, -1"
            raise InputError("a forest", came, where="parents", fix=fix)

    @cached_property
    def slots(self) -> Tensor:
        """The place of each site's parent ``(D,)``; that of the hidden one is D."""
        return torch.tensor(self.parents) % (len(self.parents) + 1)

    @cached_property
    def levels(self) -> tuple[Tensor, ...]:
        """The sites by their distance from a root; sites on a circle are in none."""
        children: dict[int, list[int]] = {}
        for site, parent in enumerate(self.parents):
            children.setdefault(parent, []).append(site)
        levels, sites = [], children.get(-1, [])
        while sites:
            levels.append(torch.tensor(sites))
            sites = sorted(child for site in sites for child in children.get(site, []))
        return tuple(levels)

    def above(self, x: Tensor) -> Tensor:
        """The value of each site's parent ``(..., D)``."""
        return torch.nn.functional.pad(x, (0, 1))[..., self.slots]

    def evidence(self, rows: Tensor, seen: Tensor, num_values: int) -> Tensor:
        """0 at each value that the observed cells allow, else -inf ``(n, D + 1, V)``."""
        found = torch.zeros(*rows.shape[:-1], rows.shape[-1] + 1, num_values, dtype=torch.float64, device=rows.device)
        found[..., :-1, :] = torch.where(seen[..., None], point_masses(rows, num_values), 0.0)
        return found

    def ascend(self, tables: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:
        """Beliefs and messages, from the leaves to the hidden parent.

        belief_d(v) = evidence_d(v) + Σ_{children c} message_c(v),    message_d(u) = log Σ_v q_d(v | u) e^{belief_d(v)}
        """
        lead = (tables[..., 0, 0, 0] + evidence[..., 0, 0]).shape
        beliefs = evidence.expand(*lead, *evidence.shape[-2:]).clone()
        messages = torch.zeros_like(beliefs)
        for sites in reversed(self.levels):
            sent = _log_sums(beliefs[..., sites, :], tables[..., sites, :, :].transpose(-1, -2))
            messages[..., sites, :] = sent
            beliefs.index_add_(-2, self.slots[sites].to(beliefs.device), sent)
        return beliefs, messages

    def marginals(self, tables: Tensor, beliefs: Tensor, messages: Tensor) -> Tensor:
        """``log q(x_d = v | evidence) = log Σ_u q(u | evidence) q_d(v | u) e^{belief_d(v) - message_d(u)}``."""
        result = torch.full_like(beliefs, -torch.inf)
        result[..., -1, 0] = 0.0
        for sites in self.levels:
            above = result[..., self.slots[sites], :]
            # A parent's value that is ruled out has no message to divide by.
            above = torch.where(above.isneginf(), above, above - messages[..., sites, :])
            down = _log_sums(above, tables[..., sites, :, :])
            result[..., sites, :] = down + beliefs[..., sites, :]
        return result[..., :-1, :]

    def descend(self, tables: Tensor, beliefs: Tensor, generator: torch.Generator) -> Tensor:
        """A draw of all sites ``(n, D)``, each given its parent and everything observed below it.

        Args:
            tables: those of all rows ``(D, V, V)``, or each row's own ``(n, D, V, V)``.
            beliefs: ``(n, D + 1, V)``.
            generator: the source of the draws.
        """
        x = torch.zeros(beliefs.shape[:-1], dtype=torch.int64, device=beliefs.device)
        for sites in self.levels:
            above = x[:, self.slots[sites]]
            rows = tables[..., sites, :, :].expand(len(x), -1, -1, -1)
            rows = rows.gather(-2, above[..., None, None].expand(-1, -1, 1, rows.shape[-1])).squeeze(-2)
            x[:, sites] = draw_values(rows + beliefs[:, sites], generator)
        return x[:, :-1]

    def tilted(self, tables: Tensor, log_weights: Tensor) -> tuple[Tensor, Tensor]:
        """Tables ``q_d(v | u) e^{belief_d(v) - message_d(u)}`` under weights ``(D, V)`` of values, and ``log Z``."""
        evidence = torch.nn.functional.pad(log_weights.to(tables), (0, 0, 0, 1))
        beliefs, messages = self.ascend(tables, evidence)
        # A parent's value under which nothing is left has probability zero itself, and keeps its children's tables.
        sent = messages[..., :-1, :, None]
        found = torch.where(sent > -torch.inf, tables + beliefs[..., :-1, None, :] - sent, tables)
        return found, beliefs[..., -1, 0]


@dataclass(frozen=True, eq=False)
class TreeMixture:
    """``q(x) = Σ_k w_k Π_d q_kd(x_d | x_parent(d))``: components on one forest, each with tables of its own.

    Args:
        space: any finite product space.
        forest: which site depends on which.
        log_weights: ``log w_k`` ``(C,)`` float64.
        log_tables: ``log q_kd(v | u)`` ``(C, D, V, V)`` float64; -inf where ``u`` or ``v`` does not exist.

    >>> tables = torch.tensor([[[0.5, 0.5], [0.0, 0.0]], [[0.9, 0.1], [0.2, 0.8]]]).double().log()[None]
    >>> model = TreeMixture(Space.bits(2), Forest((-1, 0)), torch.zeros(1).double(), tables)
    >>> model.log_density(torch.tensor([[0, 0], [1, 0]])).exp().round(decimals=6).tolist()
    [0.45, 0.1]
    """

    space: Space
    forest: Forest
    log_weights: Float[Tensor, " components"]
    log_tables: Float[Tensor, "components sites values values"]
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        values = max(self.space.sizes)
        shape = (len(self.log_weights), self.space.num_sites, values, values)
        if tuple(self.log_tables.shape) != shape:
            raise InputError(f"shape {shape}", f"{tuple(self.log_tables.shape)}", where="log_tables")

    def log_density(self, x: States) -> PerState:
        """``log q(x)`` ``(..., D) -> (...)``."""
        x = self.space.check(x)

        def answer(rows: Tensor, seen: Tensor) -> Tensor:
            pair = (self.forest.above(rows) * self.log_tables.shape[-1] + rows)[:, None, :, None]
            tables = self.log_tables.flatten(-2).expand(len(rows), -1, -1, -1)
            each = tables.gather(-1, pair.expand(-1, len(self.log_weights), -1, -1)).sum((-2, -1))
            return (self.log_weights + each).logsumexp(-1)

        return by_rows(answer, x, x.bool(), self.log_tables[:, :, 0, 0].numel())

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` independent exact draws ``(n, D)``: a component, then its sites."""
        nothing = torch.zeros(n, self.space.num_sites, dtype=torch.int64, device=self.log_tables.device)

        def draw(rows: Tensor, seen: Tensor) -> Tensor:
            # With nothing observed every message is 0, so the way up is saved.
            component = draw_values(self.log_weights, generator, len(rows))
            beliefs = self.forest.evidence(rows, seen, self.log_tables.shape[-1])
            return self.forest.descend(self.log_tables[component], beliefs, generator)

        return by_rows(draw, nothing, nothing.bool(), self.log_tables[0].numel())

    def log_marginal(self, x: States, observed: Observed) -> PerState:
        """``log q(observed cells)`` ``(...)``."""
        x, observed = check_query(x, observed, self.space)
        if bool(observed.all()):
            return self.log_density(x)
        return self._by_rows(lambda rows, seen: self._joint(rows, seen)[2].logsumexp(-1), x, observed)

    def site_log_conditionals(self, x: States, observed: Observed) -> PerValue:
        """``log q(x_d = v | observed) = log Σ_k q(k | observed) q_kd(v | observed)`` ``(..., D, V)``."""
        x, observed = check_query(x, observed, self.space)

        def answer(rows: Tensor, seen: Tensor) -> Tensor:
            beliefs, messages, joint = self._joint(rows, seen)
            check_possible(joint.logsumexp(-1))
            each = self.forest.marginals(self.log_tables, beliefs, messages)
            # A component that cannot explain the row has no marginals, and no share.
            share = joint.log_softmax(-1)[..., None, None]
            blank = torch.where(share.isneginf(), share, each + share).logsumexp(1)
            # The messages give an observed site its point mass only up to rounding.
            return torch.where(seen[..., None], point_masses(rows, blank.shape[-1]), blank)

        return self._by_rows(answer, x, observed)

    def sample_given(self, x: States, observed: Observed, generator: torch.Generator) -> States:
        """``x`` with its unobserved cells drawn jointly ``(..., D)``: a component given the rest, then its sites."""
        return self.propose_given(x, observed, generator)[0]

    def propose_given(self, x: States, observed: Observed, generator: torch.Generator) -> tuple[States, PerState]:
        """`sample_given`, and `log_marginal` of what was observed, from one way up the tree."""
        x, observed = check_query(x, observed, self.space)
        marginals: list[Tensor] = []

        def draw(rows: Tensor, seen: Tensor) -> Tensor:
            beliefs, _, joint = self._joint(rows, seen)
            marginals.append(joint.logsumexp(-1))
            check_possible(marginals[-1])
            component = draw_values(joint, generator)
            own = beliefs[torch.arange(len(rows), device=rows.device), component]
            return self.forest.descend(self.log_tables[component], own, generator)

        drawn = self._by_rows(draw, x, observed)
        return drawn, torch.cat(marginals).reshape(x.shape[:-1])

    def tilted(self, log_weights: Float[Tensor, "sites values"]) -> tuple["TreeMixture", Tensor]:
        """Each component tilted, and weighed by what is left of it: ``Z = Σ_k w_k Z_k``."""
        tables, totals = self.forest.tilted(self.log_tables, log_weights)
        joint = self.log_weights + totals
        return TreeMixture(self.space, self.forest, joint.log_softmax(0), tables), joint.logsumexp(0)

    def _joint(self, rows: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Beliefs and messages of all components ``(n, C, D + 1, V)``, and ``log w_k q_k(observed)`` ``(n, C)``."""
        evidence = self.forest.evidence(rows, seen, self.log_tables.shape[-1])[:, None]
        beliefs, messages = self.forest.ascend(self.log_tables, evidence)
        return beliefs, messages, self.log_weights + beliefs[..., -1, 0]

    def _by_rows(self, answer: Callable[[Tensor, Tensor], Tensor], x: Tensor, observed: Tensor) -> Tensor:
        return by_rows(answer, x, observed, self.log_tables.numel())


def _log_sums(logs: Tensor, log_tables: Tensor) -> Tensor:
    """``log Σ_a e^{x(a)} e^{t(a, b)}`` for each row and site ``(..., S, A), (..., S, A, B) -> (..., S, B)``.

    As a product of matrices, unless some terms are too small for it beside others.
    """
    top = logs.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    parts = (logs - top, log_tables) if logs.numel() else ()
    if sum(torch.where(each.isneginf(), 0.0, each).min() for each in parts) < FARTHEST:
        rows = logs.ndim == log_tables.ndim  # with an axis of rows, of which the tables have none
        pieces = torch.split(logs, chunk_rows(log_tables.numel())) if rows else (logs,)
        return torch.cat([(piece[..., None] + log_tables).logsumexp(-2) for piece in pieces])
    return torch.einsum("...sa,...sab->...sb", (logs - top).exp(), log_tables.exp()).log() + top
