"""MADE: a masked autoregressive density over sites of any sizes (paper, section 5.4 and appendix C.3)."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from concrete_score.errors import InputError, check_count
from concrete_score.models.autoregressive import AutoregressiveLayout, ParentTables, parents_first
from concrete_score.models.layers import (
    DEEPEST,
    Linear,
    SiteFeatures,
    SiteTable,
    ValueTable,
    draw_categories,
    find_activation,
)
from concrete_score.models.lookahead import LookAhead, Looks, Tell, draw_unseen
from concrete_score.shapes import PerState, Slots, States
from concrete_score.spaces import Space

_ROWS = 2**13
"""Rows drawn at a time, so that their activations stay within a few dozen megabytes."""


class MADE(nn.Module):
    """``log q(x) = Σ_d log q(x_d | x_e : e before d)``, all conditionals in one pass (Germain et al., 2015).

    A hidden unit has a degree m and sees the first m sites of the order; a site sees the units of degrees below its
    own position. Degrees rise evenly from 1 to D - 1 and are the same in every layer, so residual blocks keep them.
    With fewer than D - 1 units some degrees are missing, and a site sees only the predecessors up to the nearest
    degree below it: prefer ``hidden >= D - 1``.

    A bit is read as -1 or +1 and written as one logit; a larger site is read one-hot, or by thresholds where its values
    are ordered, and written as one logit a value.

    Args:
        space: any space; it is never enumerated.
        hidden: units in each layer.
        blocks: residual blocks of two layers.
        activation: a name of `layers.ACTIVATIONS`.
        order_seed: None is the natural order of the sites; a number is that seed's random order.
        parents: a few sites on which each site is known to depend. The order is then one of parents first, and the
            network starts as the Bayesian network of these parents, counted from the rows (`start_from`): it learns
            what that misses.
        last: sites that come as late in the order as parents allow, such as those that are often blank: what is drawn
            after all that was observed is drawn exactly.
        ordered: the sites whose values are ordered, such as ranges of numbers; they are read as such (`SiteFeatures`).
        pseudo_count: smooths these tables by so many rows of evenly spread pseudo-data, as the baselines do: with the
            parents of a Chow–Liu tree the start is that tree. None mixes a little of each site's marginal in instead.
        generator: the source of the first weights.
        dtype: of the parameters.

    >>> model = MADE(Space((2, 3)), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> round(model.log_density(model.space.enumerate()).exp().sum().item(), 12)
    1.0
    """

    order: Tensor
    by_size: Tensor

    def __init__(
        self,
        space: Space,
        hidden: int = 100,
        blocks: int = 2,
        activation: str = "tanh",
        order_seed: int | None = None,
        parents: Sequence[Sequence[int]] | None = None,
        pseudo_count: float | None = None,
        ordered: Sequence[int] = (),
        last: Sequence[int] = (),
        *,
        generator: torch.Generator,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        check_count(hidden, "hidden")
        check_count(blocks, "blocks", least=0, most=DEEPEST)
        if order_seed is not None and (parents is not None or last):
            raise InputError("parents or an order_seed", "both", where="order_seed", fix="parents decide the order")
        if pseudo_count is not None and not 0 < pseudo_count < inf:
            raise InputError("a number above 0", repr(pseudo_count), where="pseudo_count")
        given = None
        if parents is not None or last:
            given = tuple(parents_first(parents or [()] * space.num_sites, space, last))
        layout = AutoregressiveLayout(space, hidden, order_seed, given)
        self.space, self.normalized, self.hidden = space, True, hidden
        self.act = find_activation(activation)
        self.register_buffer("order", layout.order.to(generator.device), persistent=False)
        self.register_buffer("by_size", layout.by_size.to(generator.device), persistent=False)
        if unknown := set(ordered) - set(range(space.num_sites)):
            raise InputError(f"sites from 0 to {space.num_sites - 1}", repr(sorted(unknown)), where="ordered")
        features = SiteFeatures(space, layout.order, dtype, frozenset(ordered))
        read, units, write = layout.read_mask(features.site), layout.unit_mask(), layout.write_mask()
        self._groups, self._plan = layout.groups, layout.plan(features.site)
        self.features = features.to(generator.device)
        self.read = Linear(features.num_features, hidden, generator, dtype, read)
        self.blocks = nn.ModuleList(_Block(units, activation, generator, dtype) for _ in range(blocks))
        self.write = Linear(hidden, len(write), generator, dtype, write)
        self.base = None
        if parents is not None:
            self.base = ParentTables(space, parents, layout, dtype, pseudo_count).to(generator.device)
            # Until the first step the outputs are the tables' alone.
            nn.init.zeros_(self.write.weight)
            nn.init.zeros_(self.write.bias)

    @property
    def starts_from_rows(self) -> bool:
        """Whether `start_from` has anything to count."""
        return self.base is not None

    def start_from(
        self, rows: States, observed: Tensor | None = None, weights: Tensor | None = None, l2: float = 0.0
    ) -> None:
        """Count the parents' tables, if there are parents, from the training rows ``(N, D)``.

        Args:
            rows: ``(N, D)``.
            observed: which of their cells are known, bool ``(N, D)``; all by default.
            weights: of the rows ``(N,)``; 1 by default.
            l2: the penalty of the training to come, which counts have no use for.
        """
        if self.base is not None:
            self.base.count(rows, observed, weights)

    def forward(self, x: States) -> PerState:
        return self.log_density(x)

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, exact and normalized ``(..., D) -> (...)``; all leading axes in one pass."""
        rows = x.reshape(-1, self.space.num_sites)
        outputs, sorted_rows = self._outputs(rows), rows.index_select(-1, self.by_size).long()
        total = outputs.new_zeros(rows.shape[0])  # len() would fix the batch size of an exported program
        for group in self._groups:
            total = total + group.log_prob(outputs, sorted_rows)
        return total.reshape(x.shape[:-1])

    def site_log_conditionals(self, x: States) -> SiteTable:
        """``log q(x_d = v | x_e : e before d)`` ``(..., D) -> (..., D, V)``; -inf beyond a site's size."""
        rows = x.reshape(-1, self.space.num_sites)
        outputs, width = self._outputs(rows), max(self.space.sizes)
        parts = [group.log_softmax(outputs) for group in self._groups]
        padded = [functional.pad(part, (0, width - part.shape[-1]), value=-torch.inf) for part in parts]
        table = torch.cat(padded, 1).index_select(1, self.by_size.argsort())
        return table.reshape(*x.shape, width)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact draws ``(n, D)``, site after site.

        A unit's value is final once the sites it sees are drawn, so each is computed once: drawing a row costs as
        many multiplications as one pass, not one pass a site.

        >>> model = MADE(Space.bits(4), generator=torch.Generator().manual_seed(0))
        >>> model.sample(3, torch.Generator().manual_seed(1)).shape
        torch.Size([3, 4])
        """
        rows = torch.zeros((n, self.space.num_sites), dtype=torch.int64, device=self.order.device)
        self._fill(rows, None, generator)
        return rows

    def sample_given(self, x: States, observed: Tensor, generator: torch.Generator) -> States:
        """``x`` with its unobserved sites drawn exactly given the observed ones ``(n, D)``.

        Args:
            x: rows whose unobserved entries are ignored ``(n, D)``.
            observed: which entries are known, bool ``(n, D)``.
            generator: the source of the draws.

        Raises:
            InputError: an observed site comes after an unobserved one in the model's order.
        """
        if observed.shape != x.shape or observed.dtype != torch.bool:
            raise InputError(
                f"bool of shape {tuple(x.shape)}", f"{observed.dtype} {tuple(observed.shape)}", where="observed"
            )
        known = observed[:, self.order]
        if (known[:, 1:] & ~known[:, :-1]).any():
            raise InputError(
                "observed sites that come first in the model's order",
                "an observed site after an unobserved one",
                where="observed",
                fix="clamp them in a sampler's kernel, or fit a model whose order starts with these sites",
            )
        states = self.space.check(torch.where(observed, x, 0))
        self._fill(states, observed, generator)
        return states

    @torch.no_grad()
    def propose_given(
        self,
        x: States,
        observed: Tensor,
        generator: torch.Generator,
        evidence: ValueTable | None = None,
        units: Float[Tensor, "rows sites"] | None = None,
        ahead: LookAhead | None = None,
        tell: Tell | None = None,
    ) -> tuple[States, PerState]:
        """``x`` with each unobserved site drawn given the sites before it, whatever is known of those after it.

        Evidence multiplies the value v of site d by ``e_d(v)``. Draws follow ``Π_d q(x_d | before) e_d(x_d) / Z_d``
        with ``Z_d = Σ_v q(v | before) e_d(v)``; as draws of ``q(x) Π_d e_d(x_d)`` each weighs ``w = Π_d Z_d``, whose
        mean is the sum of that over all x. An observed site is evidence for one value alone: without any other,
        ``w = Π_{d observed} q(x_d | before)``, whose mean is the probability of what was observed.

        Args:
            x: rows whose unobserved entries are ignored ``(n, D)``.
            observed: which entries are known, bool ``(n, D)``.
            generator: the source of the draws.
            evidence: ``log e_d(v)``, the same for all rows ``(D, V)``; 0 by default.
            units: float64 uniforms to draw by, such as points that are spread more evenly than random ones; one for
                each place in the model's order ``(n, D)``.
            ahead: factors g that blanks without other evidence are drawn by: a draw then weighs ``Z / g(v)`` there.
            tell: receives the distributions that these blanks are drawn from.

        Returns:
            The draws ``(n, D)``, and ``log w`` in float64 ``(n,)``; -inf where no value could be drawn.
        """
        states = torch.where(observed, x, 0)
        tilts = None if evidence is None else _Tilts.of(evidence[None], self.space, torch.zeros_like(x[:, 0]))
        return states, self._fill(states, observed, generator, tilts, units, ahead, tell)[:, 0]

    @torch.no_grad()
    def propose_among(
        self, component: Slots, generator: torch.Generator, tilts: Float[Tensor, "components sites values"]
    ) -> tuple[States, Float[Tensor, "rows components"]]:
        """Rows drawn under evidence as by `propose_given`, each under one of several kinds of it, weighed by all.

        Args:
            component: which evidence each row is drawn under ``(n,)``.
            generator: the source of the draws.
            tilts: ``log e_d(v)`` of all kinds ``(K, D, V)``.

        Returns:
            The draws ``(n, D)``, and ``Σ_d log Z_d`` under each kind in float64 ``(n, K)``.
        """
        rows = torch.zeros((len(component), self.space.num_sites), dtype=torch.int64, device=component.device)
        return rows, self._fill(rows, None, generator, _Tilts.of(tilts, self.space, component))

    def _outputs(self, rows: Tensor) -> Tensor:
        hidden: Tensor = self.read(self.features(rows))
        for block in self.blocks:
            hidden = block(hidden)
        outputs: Tensor = self.write(self.act(hidden))
        return outputs if self.base is None else outputs + self.base(rows)

    @torch.no_grad()
    def _fill(
        self,
        rows: Tensor,
        observed: Tensor | None,
        generator: torch.Generator,
        tilts: "_Tilts | None" = None,
        units: Tensor | None = None,
        ahead: LookAhead | None = None,
        tell: Tell | None = None,
    ) -> Tensor:
        """Draw the unobserved sites of ``rows`` in place, and give their log-weights under each kind ``(n, K)``."""
        kinds = 1 if tilts is None else tilts.kinds
        log_weight = torch.zeros(len(rows), kinds, dtype=torch.float64, device=rows.device)
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            known = None if observed is None else observed[part]
            some = _Tilts(1, {}, None) if tilts is None else tilts.rows(part)
            unit = _uniforms(rows[part], generator) if units is None else units[part].T.contiguous()
            self._fill_part(rows[part], known, unit, some, log_weight[part], Looks(ahead, tell, start))
        return log_weight

    def _fill_part(
        self,
        rows: Tensor,
        observed: Tensor | None,
        units: Tensor,
        tilts: "_Tilts",
        log_weight: Tensor,
        looks: Looks,
    ) -> None:
        """Draw the unobserved sites of ``rows`` by ``units`` ``(D, n)`` and add to ``log_weight``; see `sample` for why
        each unit is computed once.

        Everything lies the other way round, a line for each site or unit, so that what is read is in one piece.
        """
        features = self.write.weight.new_empty(self.features.num_features, len(rows))
        cache = self.write.weight.new_empty(2 * len(self.blocks) + 1, self.hidden, len(rows))
        values = rows.T.contiguous()
        for step, unit in zip(self._plan, units.to(rows.device), strict=True):
            if step.units.start < step.units.stop:
                self._advance(features[: step.features.start], cache, step.units)
            logits = _part(self.write, cache[-1, : step.units.stop], step.columns)
            logits = logits if self.base is None else logits + self.base.part(values, step)
            seen = None if observed is None else observed[:, step.site]
            if step.site in tilts.log_weights:
                table = _padded(logits, step.size).T.double().log_softmax(-1)
                value = tilts.draw(step.site, table, unit, seen, values[step.site], log_weight)
            elif observed is None or seen is None:
                value = _draw(logits, step.size, unit)
            else:
                value = draw_unseen(_padded(logits, step.size), unit, step.site, values, observed, log_weight, looks)
            values[step.site] = value
            features[step.features] = self.features.part(value, step.features).T
        rows.copy_(values.T)

    def _advance(self, known: Tensor, cache: Tensor, new: slice) -> None:
        """Compute the units ``new`` of every layer, whose inputs are all final."""
        hidden = _part(self.read, known, new)
        for i, block in enumerate(cast("Iterable[_Block]", self.blocks)):
            cache[2 * i, new] = self.act(hidden)
            cache[2 * i + 1, new] = self.act(_part(block.first, cache[2 * i, : new.stop], new))
            hidden = hidden + _part(block.second, cache[2 * i + 1, : new.stop], new)
        cache[-1, new] = self.act(hidden)


made = MADE  # by its registered name


class _Block(nn.Module):
    """``h + second(act(first(act(h))))``, both layers masked alike."""

    def __init__(self, mask: Tensor, activation: str, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.act = find_activation(activation)
        self.first = Linear(len(mask), len(mask), generator, dtype, mask)
        self.second = Linear(len(mask), len(mask), generator, dtype, mask)

    def forward(self, h: Tensor) -> Tensor:
        inner: Tensor = self.second(self.act(self.first(self.act(h))))
        return h + inner


def _uniforms(rows: Tensor, generator: torch.Generator) -> Tensor:
    """One for each cell, a line for each site ``(D, n)``."""
    return torch.rand(rows.T.shape, generator=generator, dtype=torch.float64, device=generator.device)


def _part(layer: Linear, inputs: Tensor, rows: slice) -> Tensor:
    """Some outputs of a layer from the inputs they see, which come first; their mask is all ones there.

    One line for each input ``(k, n)`` and for each output.
    """
    return torch.addmm(layer.bias[rows, None], layer.weight[rows, : len(inputs)], inputs)


def _padded(logits: Tensor, size: int) -> Tensor:
    """The outputs of a site with those of all its values ``(size, n)``: without an output the logit is 0
    (autoregressive.Group)."""
    return functional.pad(logits, (0, 0, size - len(logits), 0))


def _draw(logits: Tensor, size: int, unit: Tensor) -> Tensor:
    """One value a row from the outputs of a site ``(width, n)`` and float64 uniforms ``(n,)``."""
    if size == 2:  # the first value, whose logit is 0, takes the uniforms below its probability
        return (unit >= torch.sigmoid(-logits[0].double())).long()
    return draw_categories(_padded(logits, size).T, unit[:, None]).squeeze(-1)


class _Tilts(NamedTuple):
    """Evidence of K kinds, as far as sites have any, and under which of them each row is drawn."""

    kinds: int
    log_weights: Mapping[int, Tensor]
    """``log e(v)`` of a site ``(K, size)``."""
    component: Tensor | None
    """``(n,)``."""

    @classmethod
    def of(cls, tilts: Tensor, space: Space, component: Tensor) -> "_Tilts":
        """From weights of all sites ``(K, D, V)``."""
        sites = {d: tilts[:, d, :size].double().to(component.device) for d, size in enumerate(space.sizes)}
        return cls(len(tilts), {d: tilt for d, tilt in sites.items() if tilt.any()}, component)

    def rows(self, part: slice) -> "_Tilts":
        """Of some rows."""
        return self._replace(component=None if self.component is None else self.component[part])

    def draw(
        self, site: int, table: Tensor, unit: Tensor, seen: Tensor | None, value: Tensor, log_weight: Tensor
    ) -> Tensor:
        """A value a row ``(n,)`` from ``q(v) e(v) / Z``, or ``value`` where it is ``seen``.

        Args:
            site: whose value.
            table: ``log q(v)`` of each row ``(n, size)``.
            unit: float64 uniforms ``(n,)``.
            seen: which rows' value is known ``(n,)``.
            value: what it is there ``(n,)``.
            log_weight: receives ``log Z``, or of a known value its ``log q e`` ``(n, K)``.
        """
        tilt = self.log_weights.get(site)
        # Without evidence a drawn value weighs 1, and 1 exactly.
        gain = torch.zeros_like(log_weight)
        if tilt is not None:
            gain = torch.stack([(table + kind).logsumexp(-1) for kind in tilt], -1)
            own = tilt[0] if self.component is None or len(tilt) == 1 else tilt[self.component]
            # Rows with nothing left to draw weigh nothing, whatever is drawn for them.
            left = (gain > -torch.inf).all(-1, keepdim=True)
            drawn = draw_categories(torch.where(left, table + own, 0.0), unit[:, None]).squeeze(-1)
        else:
            drawn = draw_categories(table, unit[:, None]).squeeze(-1)
        if seen is not None:
            drawn = torch.where(seen, value, drawn)
            known = table.gather(1, drawn[:, None]) + (0.0 if tilt is None else tilt[:, drawn].T)
            gain = torch.where(seen[:, None], known, gain)
        log_weight += gain
        return drawn
