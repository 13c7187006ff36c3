"""A mixture of models: densities of any kind on one space, weighed by how well they explain held-out rows."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.models.layers import draw_categories
from concrete_score.randomness import uniform
from concrete_score.shapes import PerState, Slots, States
from concrete_score.spaces import Space

Member = Mapping[str, Any]
"""``model``, a registered name, its ``options``, and settings of its ``training``, None where it stays as it starts."""
TWO_ORDERS: tuple[Member, ...] = ({"model": "made"}, {"model": "made", "options": {"order_seed": 1}})
"""The simplest mixture of networks: one in the natural order of the sites, one in another."""
_UNTRAINED = ("", " as it starts")
"""Added to the name of a member that is not trained."""
LEAST = 1e-4
"""Members that weigh less are left out."""


class MixtureModel(nn.Module):
    """``q(x) = Σ_m w_m q_m(x)``: normalized, and drawn from by drawing a member and letting it draw.

    Members learn one after the other, each on its own, and are then weighed by `best_weights`
    (see `training.members`). A member of weight 0 is never asked.

    Args:
        space: of every member.
        members: what each of them is.
        ordered: the sites whose values are ordered, for those members that read them so.
        generator: the source of the first weights.
        dtype: of the parameters.

    Raises:
        InputError: no members, or one that is not normalized or cannot draw what was not observed.

    >>> model = MixtureModel(Space((2, 3)), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> round(model.log_density(model.space.enumerate()).exp().sum().item(), 12)
    1.0
    """

    log_weights: Tensor

    def __init__(
        self,
        space: Space,
        members: Sequence[Member] = TWO_ORDERS,
        ordered: Sequence[int] = (),
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not members:
            raise InputError("at least one member", "none", where="members")
        self.space, self.normalized = space, True
        known = {"ordered": list(ordered)} if ordered else {}
        self.members = nn.ModuleList(_build(each, known, space, generator, dtype) for each in members)
        self.names = tuple(each["model"] + _UNTRAINED[each.get("training", {}) is None] for each in members)
        """What each member is called."""
        self.trainings = tuple(each.get("training", {}) for each in members)
        """Settings of each member's training, for whoever trains them."""
        even = torch.zeros(len(members), dtype=torch.float64, device=generator.device)
        self.register_buffer("log_weights", even.log_softmax(0))

    @property
    def starts_from_rows(self) -> bool:
        """Whether `start_from` has anything to do."""
        return any(getattr(member, "starts_from_rows", False) for member in self.members)

    def start_from(
        self, rows: States, observed: Tensor | None = None, weights: Tensor | None = None, l2: float = 0.0
    ) -> None:
        """Let every member that reads the training rows ``(N, D)`` before its first step do so."""
        for member in self.members:
            if getattr(member, "starts_from_rows", False):
                member.start_from(rows, observed, weights, l2)  # type: ignore[operator]

    def forward(self, x: States) -> PerState:
        return self.log_density(x)

    def log_density(self, x: States) -> PerState:
        """``log Σ_m w_m q_m(x)`` ``(..., D) -> (...)``."""
        # A program of `torch.export` cannot look at the weights: it asks all members.
        members: list[tuple[int, Any]] = (
            list(enumerate(self.members)) if torch.compiler.is_exporting() else self._weighed()
        )
        joint = torch.stack([member.log_density(x) for _, member in members], -1)
        return (joint + self.log_weights[[m for m, _ in members]].to(joint.dtype)).logsumexp(-1)

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` independent exact draws ``(n, D)``."""
        component = self._components(n, generator)
        rows = torch.zeros(n, self.space.num_sites, dtype=torch.int64, device=self.log_weights.device)
        for m, member in self._weighed():
            mine = component == m
            rows[mine] = member.sample(int(mine.sum()), generator)
        return rows

    @torch.no_grad()
    def propose_given(
        self, x: States, observed: Tensor, generator: torch.Generator, ahead: Any = None
    ) -> tuple[States, PerState]:
        """``x`` with its unobserved sites drawn by a member each, which is drawn by its weight.

        As draws of ``q(x)`` given what was observed they weigh what their member says; the mean of these weights is
        ``Σ_m w_m q_m(observed)``, the probability of what was observed.

        Args:
            x: rows whose unobserved entries are ignored ``(n, D)``.
            observed: which entries are known, bool ``(n, D)``.
            generator: the source of the draws.
            ahead: not used: what a draw may know of later cells is a matter of a member's order.

        Returns:
            The draws ``(n, D)``, and their log-weights in float64 ``(n,)``.
        """
        component = self._components(len(x), generator)
        states, log_weight = x.clone(), torch.zeros(len(x), dtype=torch.float64, device=x.device)
        for m, member in self._weighed():
            mine = component == m
            if mine.any():
                states[mine], log_weight[mine] = member.propose_given(x[mine], observed[mine], generator)
        return states, log_weight

    def account(self) -> str:
        """The members that weigh anything, the heaviest first.

        >>> MixtureModel(Space.bits(2), generator=torch.Generator()).account()
        'made 0.500, made 0.500'
        """
        weights = self.log_weights.exp().tolist()
        found = sorted(((weights[m], self.names[m]) for m, _ in self._weighed()), key=lambda each: -each[0])
        return ", ".join(f"{name} {weight:.3f}" for weight, name in found)

    def _components(self, n: int, generator: torch.Generator) -> Slots:
        component: Slots = draw_categories(self.log_weights, uniform((n,), generator, self.log_weights.device))
        return component

    def _weighed(self) -> list[tuple[int, Any]]:
        """The members of some weight, with their places."""
        kept = self.log_weights.tolist()
        return [(m, member) for m, member in enumerate(self.members) if kept[m] > -torch.inf]


mixture = MixtureModel  # by its registered name


def best_weights(
    log_densities: Float[Tensor, "rows members"], weights: Tensor | None = None, steps: int = 1_000
) -> Float[Tensor, " members"]:
    """``log w`` that maximize ``Σ_rows log Σ_m w_m q_m(x)``, by EM; those below `LEAST` are -inf.

    The maximum is one over all mixtures, single members among them: on these rows no member is better.

    Args:
        log_densities: ``log q_m(x)`` of held-out rows ``(n, M)``.
        weights: of the rows ``(n,)``; 1 by default.
        steps: at most so many.

    >>> best_weights(torch.tensor([[-1.0, -9.0], [-9.0, -1.0], [-1.0, -9.0]])).exp().round(decimals=3).tolist()
    [0.667, 0.333]
    """
    table = log_densities.double()
    each = torch.ones_like(table[:, 0]) if weights is None else weights.to(table)
    # A row that no member can explain tells nothing of their weights.
    each = torch.where((table > -torch.inf).any(-1), each, 0.0)
    table = torch.where((each > 0)[:, None], table, 0.0)
    each, log_weights = each / each.sum(), torch.zeros_like(table[0]).log_softmax(0)
    for _ in range(steps):
        before = log_weights
        log_weights = (each @ (table + log_weights).softmax(-1)).log()
        if (log_weights.exp() - before.exp()).abs().max() < 1e-7:
            break
    kept = torch.where(log_weights.exp() >= LEAST, log_weights, -torch.inf)
    return kept.log_softmax(0)


def _build(
    member: Member, known: Mapping[str, Any], space: Space, generator: torch.Generator, dtype: torch.dtype
) -> Any:
    """A member, by what is known of the columns as far as it asks for it, and by options of its own."""
    unknown = set(member) - {"model", "options", "training"}
    if "model" not in member or unknown:
        raise InputError("members of a `model`, its `options` and its `training`", repr(dict(member)), where="members")
    kind = registry.load("models", member["model"])
    taken = {name: value for name, value in known.items() if name in signature(kind).parameters}
    model = kind(space=space, generator=generator, dtype=dtype, **{**taken, **member.get("options", {})})
    if not getattr(model, "normalized", False) or not hasattr(model, "propose_given"):
        expected = "members that are normalized and draw what was not observed, such as `made`"
        raise InputError(expected, repr(member["model"]), where="members")
    return model
