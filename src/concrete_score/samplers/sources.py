"""Rows given evidence, by the best way a model allows: each is a source of batches, with the evidence's probability.

Exact where the model stays itself under evidence (baselines), where few states are left, or where the evidence comes
first in an autoregressive model's order; weighted draws that look ahead for other autoregressive models; the sources
of its members for a mixture; chains else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.baselines.conditionals import Tiltable
from concrete_score.errors import InputError, Option
from concrete_score.models.densities import Table
from concrete_score.models.layers import draw_categories
from concrete_score.protocols import DensityModel
from concrete_score.randomness import uniform
from concrete_score.samplers.clamped import default_kernel, named_kernel
from concrete_score.samplers.completions import BATCH, COMPLETIONS, Impossible
from concrete_score.samplers.evidence import PART, Batch, Evidence, Probability, Restricted, TiltedScore
from concrete_score.samplers.evidence import Source as Source
from concrete_score.samplers.guided import Autoregressive, Guided, guided
from concrete_score.samplers.methods import LEAST_EFFECTIVE, Chains
from concrete_score.samplers.mixed import Mixed, Shared, weighed_members
from concrete_score.samplers.resampling import Resampled, resample
from concrete_score.samplers.run import Progress
from concrete_score.shapes import States
from concrete_score.spaces import ENUMERATION_LIMIT
from concrete_score.targets.pmf import Pmf

LISTED = 4096
"""States that are listed rather than drawn, where an autoregressive model can do both; or 8 for each draw."""
ENOUGH = 3
"""Effective draws wanted for each row."""
PROPOSALS = 2**14
"""Weighted draws of a batch at most, or 16 for each row if that is more."""
ESTIMATE = 4096
"""Weighted draws from which a probability alone is estimated."""
REFUSED = 5.0
"""With fewer effective draws than this there is nothing to choose rows from."""


class _Exact:
    """What exact sources share: independent draws, and the probability itself."""

    def _total(self) -> Probability | None:
        raise NotImplementedError

    def _draw(self, n: int, generator: torch.Generator) -> States:
        raise NotImplementedError

    def batches(self, n: int, generator: torch.Generator, progress: Progress | None = None) -> Iterator[Batch]:
        """Independent rows."""
        total = self._total()
        for start in range(0, n, PART):
            states = self._draw(min(PART, n - start), generator)
            if progress is not None:
                progress(start + len(states), n)
            yield Batch(states, total)

    def probability(self, generator: torch.Generator) -> Probability | None:
        """Exactly, where the density is normalized."""
        return self._total()


@dataclass(frozen=True, eq=False)
class OneState(_Exact):
    """Every site has one value left."""

    density: DensityModel | None
    evidence: Evidence
    name: ClassVar[str] = "none"

    def _total(self) -> Probability | None:
        if self.density is None:
            return None
        x = self.evidence.values[None, :, 0]
        total = float(self.density.log_density(x).double() + self.evidence.log_weight(x))
        return _possible(total, self.density)

    def _draw(self, n: int, generator: torch.Generator) -> States:
        return self.evidence.values[:, 0].expand(n, -1).clone()


@dataclass(frozen=True, eq=False)
class ClosedForm(_Exact):
    """A family of densities that evidence does not leave."""

    model: Tiltable
    evidence: Evidence
    name: ClassVar[str] = "closed_form"

    @cached_property
    def _tilted(self) -> tuple[Any, Tensor]:
        return self.model.tilted(self.evidence.log_weights)

    def _total(self) -> Probability | None:
        return _possible(float(self._tilted[1]))

    def _draw(self, n: int, generator: torch.Generator) -> States:
        states: States = self._tilted[0].sample(n, generator)
        return states


@dataclass(frozen=True, eq=False)
class Listed(_Exact):
    """Every state that is left, by its density and weight."""

    density: DensityModel
    evidence: Evidence
    name: ClassVar[str] = "enumeration"

    @cached_property
    def _log_weights(self) -> Tensor:
        restricted = Restricted(self.density, self.evidence)
        ranks = restricted.space.enumerate(ENUMERATION_LIMIT).to(self.evidence.device)
        found = torch.cat([restricted.log_density(part) for part in torch.split(ranks, BATCH)])
        if not (found < torch.inf).all():
            raise InputError("a log-density below infinity", "another", where="model", fix="the model is broken")
        return found

    def _total(self) -> Probability | None:
        return _possible(float(self._log_weights.logsumexp(0)), self.density)

    def _draw(self, n: int, generator: torch.Generator) -> States:
        chosen = draw_categories(self._log_weights, uniform((n,), generator, self.evidence.device))
        return self.evidence.state(Restricted(self.density, self.evidence).space.state(chosen))


@dataclass(frozen=True, eq=False)
class InOrder(_Exact):
    """An autoregressive model's own draws, where they are exact: see `in_order`."""

    model: Autoregressive
    evidence: Evidence
    name: ClassVar[str] = "order"

    def _total(self) -> Probability | None:
        _, log_weight = self._proposals.draw(1, torch.Generator(self.evidence.device))
        return _possible(float(log_weight))

    def _draw(self, n: int, generator: torch.Generator) -> States:
        return self._proposals.draw(n, generator)[0]

    @property
    def _proposals(self) -> Guided:
        return Guided(self.model, self.evidence)


def in_order(order: list[int], evidence: Evidence) -> bool:
    """Whether draws in an order are exact: the evidence is on its first sites, with one value left at all but the last.

    >>> from concrete_score.spaces import Space
    >>> one_of_two = torch.tensor([0.0, 0.0, float("-inf")])
    >>> [in_order([0, 1], Evidence.of(Space((2, 3)), given)) for given in ({0: 1}, {1: 1}, {0: 1, 1: one_of_two})]
    [True, False, True]
    """
    known = set(evidence.sites)
    fixed = evidence.fixed.tolist()
    for site in order:
        if not known:
            break
        if site not in known and not fixed[site]:
            return False
        known.discard(site)
        if not fixed[site]:
            return not known
    return True


@dataclass(frozen=True, eq=False)
class Weighted:
    """An autoregressive model's draws that look ahead, resampled by their weights."""

    model: Autoregressive
    evidence: Evidence
    name: ClassVar[str] = "importance"

    def batches(self, n: int, generator: torch.Generator, progress: Progress | None = None) -> Iterator[Batch]:
        """Approximate: as many weighted draws as count for `ENOUGH` each row, or until there are too many.

        Raises:
            InputError: too few of them count; the probability is said.
        """
        proposals = guided(self.model, self.evidence, generator)
        for start in range(0, n, PART):
            count = min(PART, n - start)
            found = self._resampled(proposals, count, generator)
            if progress is not None:
                progress(start + count, n)
            yield Batch(found.states[:, 0], _estimate(found), self._judge(found, count))

    def probability(self, generator: torch.Generator) -> Probability | None:
        """The mean weight of some draws."""
        proposals = guided(self.model, self.evidence, generator)
        return _estimate(self._resampled(proposals, ESTIMATE // (2 * ENOUGH), generator))

    def _resampled(self, proposals: Guided, count: int, generator: torch.Generator) -> Resampled:
        x = torch.zeros(1, self.evidence.space.num_sites, dtype=torch.int64, device=self.evidence.device)
        none = torch.zeros_like(x, dtype=torch.bool)
        return resample(proposals.propose, x, none, count, generator, ENOUGH * count, PROPOSALS, ENOUGH)

    def _judge(self, found: Resampled, count: int) -> tuple[str, ...]:
        effective, proposed = float(found.effective), int(found.proposed)
        if effective < REFUSED:
            raise InputError(
                "a condition that some of the model's draws meet",
                f"probability {_estimate(found)}, effective {effective:.1f} of {proposed:,} draws",
                where=Option("given"),
                fix="ask for something more probable, or for fewer things at once",
            )
        if effective < max(LEAST_EFFECTIVE, count / 50):
            return (f"effective {effective:.1f} of {proposed:,} draws given this condition: do not trust them",)
        if effective < count:
            return (f"the {count:,} rows count as about {effective:,.0f} independent ones: the condition is rare",)
        return ()


@dataclass(frozen=True, eq=False)
class ByChains:
    """A kernel's chains among the states that are left."""

    chains: Chains
    evidence: Evidence
    ranked: bool
    """Whether the chains run on ranks of values, as those of `Restricted` do."""

    @property
    def name(self) -> str:
        return self.chains.name

    def batches(self, n: int, generator: torch.Generator, progress: Progress | None = None) -> Iterator[Batch]:
        """All of them in one."""
        fixed = self.evidence.fixed[None]
        x = torch.zeros_like(fixed, dtype=torch.int64) if self.ranked else self.evidence.values[None, :, 0]
        for piece in self.chains.draw(x, fixed, n, generator, progress):
            states = piece.states[:, 0]
            yield Batch(self.evidence.state(states) if self.ranked else states, None, piece.warnings)

    def probability(self, generator: torch.Generator) -> Probability | None:
        """Chains do not know it."""
        return None


def source(
    model: Any,
    evidence: Evidence,
    draws: int,
    density: DensityModel | None = None,
    limit: int | None = None,
    sampler: str | None = None,
) -> Source:
    """The best source of ``draws`` rows given evidence.

    Args:
        model: a density or score model; kernels run on it.
        evidence: what is known.
        draws: about how many rows are wanted.
        density: what is listed; the model itself by default, where it is one.
        limit: states to list at most; by default as many as are worth it.
        sampler: a registered kernel instead: ``exact`` lists, ``ancestral`` takes the model's own draws, any other runs
            chains.

    Raises:
        InputError: the sampler cannot run on this model or with this evidence.

    >>> from concrete_score.models import MADE
    >>> from concrete_score.spaces import Space
    >>> model = MADE(Space.bits(40), generator=torch.Generator().manual_seed(0))
    >>> first, last = (Evidence.of(model.space, {site: 1}) for site in (0, 39))
    >>> source(model, first, 10).name, source(model, last, 10).name
    ('order', 'importance')
    """
    density = model if density is None and isinstance(model, DensityModel) else density
    if evidence.fixed.all():
        return OneState(density, evidence)
    if sampler not in (None, "exact", "ancestral"):
        return _chains(model, evidence, sampler)
    own = _own(model, evidence)
    if sampler == "ancestral":
        return own or _refused("ancestral", "a model that draws under such a condition by itself", model)
    if sampler is None and own is not None:
        return own
    most = ENUMERATION_LIMIT if sampler == "exact" else _worth(model, density, draws, limit)
    if density is not None and evidence.num_states <= most:
        return Listed(density, evidence)
    if sampler == "exact":
        return _refused("exact", f"a density and at most {ENUMERATION_LIMIT:,} states to list", model)
    if isinstance(model, Mixed):
        return _shared(model, evidence, draws)
    return Weighted(model, evidence) if isinstance(model, Autoregressive) else _chains(model, evidence, None)


def _shared(model: Mixed, evidence: Evidence, draws: int) -> Source:
    """The best source of each member that weighs anything."""
    members, log_weights = weighed_members(model)
    return Shared(tuple(source(each, evidence, draws) for each in members), log_weights)


def _own(model: Any, evidence: Evidence) -> Source | None:
    """The model's own exact draws, if it has any."""
    if isinstance(model, Tiltable):
        return ClosedForm(model, evidence)
    exact = isinstance(model, Autoregressive) and in_order(model.order.tolist(), evidence)
    return InOrder(model, evidence) if exact else None


def _worth(model: Any, density: DensityModel | None, draws: int, limit: int | None) -> int:
    """How many states are listed rather than drawn."""
    if limit is not None:
        return limit
    if isinstance(density, Table | Pmf):
        return ENUMERATION_LIMIT
    return max(LISTED, 8 * draws) if isinstance(model, Autoregressive) else COMPLETIONS


def _chains(model: Any, evidence: Evidence, name: str | None) -> Source:
    if isinstance(model, DensityModel):
        restricted = Restricted(model, evidence)
        chosen = name or default_kernel(restricted)
        start = _ranked(model, evidence) if isinstance(model, Autoregressive) else None
        return ByChains(Chains(restricted, named_kernel(chosen, restricted), chosen, start), evidence, ranked=True)
    tilted = TiltedScore(model, evidence)
    chosen = name or default_kernel(tilted)
    return ByChains(Chains(tilted, named_kernel(chosen, tilted), chosen, tilted.starts), evidence, ranked=False)


def _ranked(model: Autoregressive, evidence: Evidence) -> Any:
    """Proposals of an autoregressive model as ranks of values, for chains to start from."""
    proposals = Guided(model, evidence)

    def propose(x: Tensor, observed: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        states, log_weight = proposals.draw(len(x), generator)
        return evidence.rank(states), log_weight

    return propose


def _estimate(found: Resampled) -> Probability:
    """The mean weight; the variance of n weights over n times their squared mean is ``1 / effective - 1 / n``."""
    spread = max(0.0, 1 / float(found.effective) - 1 / float(found.proposed))
    return Probability(float(found.log_marginal), spread**0.5)


def _possible(log_total: float, density: DensityModel | None = None) -> Probability | None:
    """A probability that is not zero; None if the density is not normalized."""
    if log_total == -torch.inf:
        raise Impossible(0)
    return Probability(log_total) if density is None or density.normalized else None


def _refused(name: str, expected: str, model: Any) -> Source:
    fix = "leave the sampler out, or name a kernel that runs under any condition, such as `gibbs`"
    raise InputError(expected, type(model).__name__, where=f"sampler {name!r}", fix=fix)
