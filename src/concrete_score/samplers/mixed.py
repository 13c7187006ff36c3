"""Answers of a mixture of models by those of its members: rows under evidence, and blanks given observed cells.

Given what is known, a mixture is one of its members' conditionals, each by its weight and by how well it explains what
is known:

    q(x | known) = Σ_m w_m q_m(known) q_m(x | known) / Σ_m w_m q_m(known).

So whatever way a member has of its own serves the mixture too: the order of a network, the closed form of tables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from concrete_score.baselines.conditionals import Conditionals
from concrete_score.models.completing import LISTED, bounds
from concrete_score.models.layers import draw_categories
from concrete_score.models.lookahead import LookAhead
from concrete_score.randomness import uniform
from concrete_score.samplers.completions import CELLS, Cells, Impossible, Known, RowName, Rows, in_rows, row_by_number
from concrete_score.samplers.conditional import Completed, Conditioner, Found
from concrete_score.samplers.evidence import PART, Batch, Probability, Source
from concrete_score.samplers.run import Progress
from concrete_score.spaces import check_query

LOOKS = 64
"""Draws of a row by which a member is judged, where it has neither a closed form nor few completions to list."""
PAIRS = 1_000
"""Draws of a member that tell what later columns say about earlier ones, for those draws."""
LEAST = 1e-3
"""Members of a smaller share are not asked about the blanks of a row."""


@runtime_checkable
class Mixed(Protocol):
    """A mixture of models: ``Σ_m w_m q_m``."""

    members: Any
    """Models of one space."""
    log_weights: Any
    """``log w_m`` ``(M,)``; -inf for a member that is left out."""


def weighed_members(model: Mixed) -> tuple[list[Any], Tensor]:
    """The members of some weight, and the logarithms of their weights ``(M,)``."""
    some = model.log_weights > -torch.inf
    return [each for each, kept in zip(model.members, some.tolist(), strict=True) if kept], model.log_weights[some]


@dataclass(frozen=True, eq=False)
class Shared:
    """Rows of a mixture's members under evidence, each by a source of its own.

    Args:
        sources: of the members.
        log_weights: ``log w_m`` of these ``(M,)``.
    """

    sources: tuple[Source, ...]
    log_weights: Tensor

    @property
    def name(self) -> str:
        """The members' own, each once."""
        return ", ".join(dict.fromkeys(source.name for source in self.sources))

    def batches(self, n: int, generator: torch.Generator, progress: Progress | None = None) -> Iterator[Batch]:
        """Members are drawn by their weights given the evidence, and draw a row each.

        Raises:
            Impossible: the evidence has probability zero under every member.
        """
        joint, total = self._joint(generator)
        for start in range(0, n, PART):
            component = draw_categories(joint, uniform((min(PART, n - start),), generator, joint.device))
            drawn: list[tuple[Tensor, Batch]] = []
            for m, source in enumerate(self.sources):
                mine = component == m
                if mine.any():
                    drawn.append((mine, next(iter(source.batches(int(mine.sum()), generator)))))
            states = drawn[0][1].states.new_empty(len(component), drawn[0][1].states.shape[-1])
            for mine, batch in drawn:
                states[mine] = batch.states
            if progress is not None:
                progress(start + len(states), n)
            yield Batch(states, total, _once(batch.warnings for _, batch in drawn))

    def probability(self, generator: torch.Generator) -> Probability | None:
        """``Σ_m w_m P_m(e)``."""
        return self._joint(generator)[1]

    def _joint(self, generator: torch.Generator) -> tuple[Tensor, Probability]:
        """``log w_m P_m(e)`` ``(M,)``, and their sum with its relative error; members are normalized, and know it."""
        found = [_probability(source, generator) for source in self.sources]
        value, error = torch.tensor(found, dtype=torch.float64).to(self.log_weights).unbind(-1)
        joint = self.log_weights + value
        if not bool((joint > -torch.inf).any()):
            raise Impossible(0)
        spread = (joint.softmax(0) * error).square().sum().sqrt()
        return joint, Probability(float(joint.logsumexp(0)), float(spread))


def _probability(source: Source, generator: torch.Generator) -> Probability:
    """Of the evidence under one member; 0 where that cannot happen."""
    try:
        return source.probability(generator) or Probability(-torch.inf)
    except Impossible:
        return Probability(-torch.inf)


@dataclass(frozen=True, eq=False)
class MixedConditioner:
    """A `Conditioner` of a mixture, by those of its members.

    The blanks of a row follow the members' conditionals, each by its share ``w_m q_m(observed) / q(observed)``: exact
    where all of them are, for the observed cells' probability is then summed over all completions or has a closed form.

    Args:
        model: the mixture.
        subject: what a row is called in warnings and errors.

    >>> from concrete_score import Space
    >>> from concrete_score.models.mixture import MixtureModel
    >>> model = MixtureModel(Space.bits(4), generator=torch.Generator().manual_seed(0)).requires_grad_(False)
    >>> x, known = torch.tensor([[0, 0, 0, 1]]), torch.tensor([[False, False, False, True]])
    >>> done = MixedConditioner(model).draw(x, known, 100, torch.Generator().manual_seed(0))
    >>> done.states.shape, done.method, bool((done.states[..., 3] == 1).all())
    (torch.Size([100, 1, 4]), 'enumeration', True)
    """

    model: Any
    subject: RowName = row_by_number

    @torch.no_grad()
    def draw(
        self, x: Any, observed: Any, draws: int, generator: torch.Generator, progress: Progress | None = None
    ) -> Completed:
        """``draws`` completions of every row ``(M, N, D)``, each by a member that is drawn by its share of the row."""
        rows, known = check_query(x, observed, self.model.space)
        states, done = rows.repeat(draws, 1, 1), 0
        answers: list[Completed] = []
        for part, share in self._shares(rows, known, generator):
            component = draw_categories(share, uniform((len(part), draws), generator, share.device))
            for m, member in enumerate(self._members):
                mine = component == m
                at = mine.any(1).nonzero().squeeze(-1)
                if not len(at):
                    continue
                place, row, slot = part[at], *mine[at].nonzero(as_tuple=True)
                rank = (mine[at].long().cumsum(1) - 1)[row, slot]
                most = int(rank.max()) + 1
                found = self._conditioner(member, place).draw(rows[place], known[place], most, generator)
                states[slot, place[row]] = found.states[rank, row]
                answers.append(found)
            done += len(part)
            if progress is not None:
                progress(done, len(rows))
        return Completed(states, _names(answers), _once(each.warnings for each in answers))

    @torch.no_grad()
    def cells(
        self, x: Any, observed: Any, generator: torch.Generator, progress: Progress | None = None, effort: int = 1
    ) -> Iterator[Found]:
        """The distribution of every blank cell, those of some rows at a time; the last one carries all warnings."""
        rows, known = check_query(x, observed, self.model.space)
        answers: list[Found] = []
        done = 0
        for part, share in self._shares(rows, known, generator):
            table = torch.zeros(*rows[part].shape, max(self.model.space.sizes), dtype=torch.float64, device=rows.device)
            for m, member in enumerate(self._members):
                at = (share[:, m].exp() >= LEAST).nonzero().squeeze(-1)
                if not len(at):
                    continue
                place = part[at]
                answered = self._conditioner(member, place).cells(rows[place], known[place], generator, effort=effort)
                for found in answered:
                    row = at[found.cells.row]
                    table[row, found.cells.site] += (share[row, m, None] + found.cells.log_probs).exp()
                    answers.append(found._replace(cells=Cells(*(each[:0] for each in found.cells))))
            row, site = (~known[part]).nonzero(as_tuple=True)
            blank = table[row, site]
            yield Found(Cells(part[row], site, (blank / blank.sum(-1, keepdim=True)).log()), _names(answers))
            done += len(part)
            if progress is not None:
                progress(done, len(rows))
        empty = torch.empty(0, dtype=torch.int64, device=rows.device)
        nothing = Cells(empty, empty, torch.empty(0, max(self.model.space.sizes), dtype=torch.float64))
        yield Found(nothing, _names(answers), _once(each.warnings for each in answers))

    @property
    def _members(self) -> list[Any]:
        return weighed_members(self.model)[0]

    def _conditioner(self, member: Any, rows: Tensor) -> Conditioner:
        return Conditioner(member, subject=lambda row: self.subject(int(rows[row])))

    def _shares(self, x: Rows, observed: Known, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows with blanks, some at a time ``(R,)``, and the log-share of every member in each ``(R, M)``."""
        members, log_weights = weighed_members(self.model)
        ahead = [_look_ahead(member, len(x), generator) for member in members]
        left = (~observed.all(-1)).nonzero().squeeze(-1)
        for part in torch.split(left, max(1, CELLS // (LISTED * LOOKS * x.shape[-1]))):
            marginals = [
                _log_marginal(member, x[part], observed[part], generator, look)
                for member, look in zip(members, ahead, strict=True)
            ]
            joint = torch.stack(marginals, -1) + log_weights
            impossible = ~(joint > -torch.inf).any(-1)
            with in_rows(part, self.subject):
                if impossible.any():
                    raise Impossible(int(impossible.nonzero()[0, 0]))
            yield part, joint.log_softmax(-1)


def conditioner_of(
    model: Any,
    density: Any = None,
    limit: int | None = None,
    sampler: str | None = None,
    subject: RowName = row_by_number,
) -> Conditioner | MixedConditioner:
    """A `Conditioner`; of a mixture, where no sampler is asked for, by its members."""
    if isinstance(model, Mixed) and sampler is None:
        return MixedConditioner(model, subject)
    return Conditioner(model, density, limit, sampler, subject)


def _look_ahead(member: Any, rows: int, generator: torch.Generator) -> LookAhead | None:
    """What a member's draws of blanks may know of the cells after them, where there are rows enough to pay for it."""
    if not hasattr(member, "order") or rows < LOOKS:
        return None
    return LookAhead.of(member.sample(PAIRS, generator), member.space, member.order)


def _log_marginal(member: Any, x: Rows, observed: Known, generator: torch.Generator, ahead: LookAhead | None) -> Tensor:
    """``log q_m(observed cells)`` of each row ``(R,)``."""
    if isinstance(member, Conditionals):
        return member.log_marginal(x, observed).double()
    return bounds(member, x, observed, LOOKS, generator, ahead)


def _names(answers: Sequence[Any]) -> str:
    """The methods of all answers, each once; ``none`` where nothing was blank."""
    named = (name for answer in answers for name in answer.method.split(", ") if name != "none")
    return ", ".join(dict.fromkeys(named)) or "none"


def _once(warnings: Any) -> tuple[str, ...]:
    """All warnings, each once."""
    return tuple(dict.fromkeys(warning for each in warnings for warning in each))
