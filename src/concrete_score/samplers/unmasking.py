"""Draws of a model of hidden sites: all unknown at first, then revealed pass by pass; observed sites stay visible.

One random site a pass is exact for the any-order model. Several a pass are drawn independently of one another; sites
in order of confidence follow another law than the model's; hiding some again lets later passes mend earlier ones.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.noise import Absorbing
from concrete_score.randomness import uniform
from concrete_score.samplers.annealed import Stage
from concrete_score.samplers.base import check_start
from concrete_score.samplers.gibbs import draw_sites
from concrete_score.shapes import States
from concrete_score.spaces import Space

Order = Callable[[Tensor, Tensor, torch.Generator], Tensor]
"""Which hidden sites are revealed first, from their log-probabilities ``(C, D, V)`` and drawn values: lowest key."""


def _at_random(log_probs: Tensor, drawn: Tensor, generator: torch.Generator) -> Tensor:
    return uniform(tuple(drawn.shape), generator, drawn.device)


def _most_confident(log_probs: Tensor, drawn: Tensor, generator: torch.Generator) -> Tensor:
    return -log_probs.double().gather(-1, drawn[..., None]).squeeze(-1)


ORDERS: dict[str, Order] = {"random": _at_random, "confidence": _most_confident}
"""How the sites of a pass are chosen."""


@dataclass(frozen=True, eq=False)
class Unmasking:
    """All sites unknown, then revealed over ``passes`` network passes.

    Args:
        model: of hidden sites: with ``noise``, absorbing, and ``clean_log_probs``.
        passes: one a site by default; more are no use without ``again``.
        order: a name of `ORDERS`.
        again: share of the revealed sites that is hidden again before each pass, and revealed by it.

    Raises:
        InputError: another model, an unknown order, or a share out of range.

    >>> from concrete_score.models.masked import IdealMasked
    >>> ideal = IdealMasked.of(torch.tensor([0.5, 0.0, 0.0, 0.5]), Absorbing(Space.bits(2), (0.5, 0.0)))
    >>> x = Unmasking(ideal).sample(50, torch.Generator().manual_seed(0))
    >>> bool((x[:, 0] == x[:, 1]).all())
    True
    """

    model: Any
    passes: int | None = None
    order: str = "random"
    again: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(getattr(self.model, "noise", None), Absorbing):
            raise InputError("a model of hidden sites", type(self.model).__name__, where="model")
        if self.order not in ORDERS:
            raise InputError(f"one of {', '.join(ORDERS)}", repr(self.order), where="order")
        if not 0 <= self.again < 1:
            raise InputError("a share from 0 to below 1", str(self.again), where="again")
        if self.passes is not None:
            check_count(self.passes, "passes")

    @property
    def noise(self) -> Absorbing:
        noise: Absorbing = self.model.noise
        return noise

    @property
    def space(self) -> Space:
        return self.noise.space

    @property
    def schedule(self) -> tuple[int, ...]:
        """The passes, numbered from the last to be made down to 0."""
        count = self.space.num_sites if self.passes is None else self.passes
        return tuple(reversed(range(count)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not exact for the model that draws its order at random; empty for one random site a pass."""
        found = {
            "unadjusted: sites of one pass are drawn independently": len(self.schedule) < self.space.num_sites,
            "unadjusted: the most confident sites first, an order that is not the model's": self.order != "random",
            "unadjusted: revealed sites are hidden again and redrawn, which mends them and keeps no law": self.again
            > 0,
        }
        return tuple(note for note, holds in found.items() if holds)

    def within(self, passes: int) -> "Unmasking":
        """The same in so many passes."""
        check_count(passes, "passes")
        return replace(self, passes=passes)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` draws ``(n, D)``."""
        *_, last = self.stream(n, generator)
        return last.x

    def stream(self, start: Any, generator: torch.Generator, clamped: Tensor | None = None) -> Iterator[Stage]:
        """The chains after each pass, in the noisy space until the last.

        Args:
            start: how many chains; or states ``(C, D)`` whose clamped sites were observed.
            generator: the source of randomness.
            clamped: observed sites ``(C, D)`` or ``(D,)``: visible from first to last.

        The last stage holds the log-probabilities of the first pass: of each free site given what was observed.
        """
        free = self.space.uniform(start, generator) if isinstance(start, int) else start
        x, mask = check_start(self.space, free, clamped)
        known = torch.zeros_like(x, dtype=torch.bool) if mask is None else mask.expand(x.shape)
        return self._walk(x, known, generator)

    @torch.no_grad()
    def _walk(self, x: Tensor, known: Tensor, generator: torch.Generator) -> Iterator[Stage]:
        order, passes = ORDERS[self.order], len(self.schedule)
        free = (~known).sum(-1)
        z, first = self.noise.hide(x, ~known), None
        for made, level in enumerate(self.schedule, start=1):
            z = self._hide_again(z, known, generator)
            clean = self.model.clean_log_probs(z)
            first = clean if first is None else first
            drawn = draw_sites(clean, generator)
            hidden = self.noise.hidden(z)
            key = torch.where(hidden, order(clean, drawn, generator), torch.inf)
            # As many shown after each pass as `AnyOrder` counts: few first, which the many are then given.
            left = (free - free * made // free.clamp(1, passes)).clamp_min(0)
            shown = key.argsort(-1).argsort(-1) < (hidden.sum(-1) - left)[:, None]
            z = torch.where(shown & hidden, drawn, z)
            yield Stage(level, z, made, None)
        yield Stage(None, z, passes, None, first)

    def _hide_again(self, z: Tensor, known: Tensor, generator: torch.Generator) -> Tensor:
        if not self.again:
            return z
        redrawn = uniform(tuple(z.shape), generator, z.device) < self.again
        return self.noise.hide(z, redrawn & ~known | self.noise.hidden(z))


one_site = Unmasking
reverse = partial(Unmasking, passes=32)
confidence = partial(Unmasking, passes=32, order="confidence")
corrected = partial(Unmasking, passes=64, again=0.1)
