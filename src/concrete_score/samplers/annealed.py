"""Annealed sampling: from uniform noise through the noise levels, each started from the last (paper, 5.5 and C.4)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count, nearest
from concrete_score.models.layers import SiteTable
from concrete_score.noise import FactorizedNoise
from concrete_score.noise.factorized import bridge, reverse_log_probs
from concrete_score.noise.tables import inside
from concrete_score.protocols import Enumerable, Kernel, Neighborhood, ScoreModel
from concrete_score.samplers import matrices
from concrete_score.samplers.base import check_start
from concrete_score.samplers.gibbs import HeatBath, check_all_changes, conditionals, draw_sites, site_matrix
from concrete_score.samplers.informed import Informed
from concrete_score.samplers.mh import MetropolisHastings
from concrete_score.shapes import PerSlot, States
from concrete_score.spaces import Space

DESCENTS = ("keep", "reverse")
"""How chains reach the next level: as they are (the paper), or by one draw of the reverse noise chain."""


def _mode(log_probs: Tensor) -> Tensor:
    best = log_probs.argmax(-1, keepdim=True)
    return torch.full_like(log_probs, -torch.inf).scatter(-1, best, 0.0)


FINISHES: dict[str, Callable[[Tensor], Tensor]] = {"draw": lambda log_probs: log_probs, "mode": _mode}
"""What becomes of the clean values' probabilities at the end; ``none`` leaves the chains at the weakest noise."""


class Stage(NamedTuple):
    """The chains after a level; the last one after the final denoising."""

    level: int | None
    """None once denoised."""
    x: Tensor
    """``(C, D)``."""
    passes: int
    """Network passes so far, over all chains at once."""
    acceptance: float | None
    """Share of accepted moves at this level; None where nothing was proposed."""
    clean_log_probs: Tensor | None = None
    """The last pass's log-probabilities of clean values ``(C, D, V)``; with the final denoising only."""


@dataclass(frozen=True, eq=False)
class Annealed:
    """Uniform noise, then ``steps`` moves at each level from the strongest to the weakest, then a denoising.

    It is a start that becomes a sample, not a kernel. With an exact kernel and ``descent="keep"`` the chains tend, with
    the steps, to the weakest level's noisy distribution; `notes` lists what is not exact. `law` gives, on enumerable
    spaces, the exact distribution of what comes out.

    Args:
        model: noise-conditional: `at(level)` is a score model.
        kernel: builds a kernel of a score model; None moves between levels only.
        steps: at each level.
        levels: which, in any order; all by default.
        descent: one of `DESCENTS`.
        finish: a name of `FINISHES`, or ``none``.
        renoise_every: with clamped sites, after how many steps these are corrupted anew; once a level by default.

    Raises:
        InputError: a model without levels, unknown names, levels out of range, or a kernel that refuses the model.

    >>> from concrete_score.models.ideal import IdealDenoiser
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import binarized_gaussian
    >>> space = Space.bits(3)
    >>> ideal = IdealDenoiser.of(torch.ones(8) / 8, binarized_gaussian(space), hamming(space))
    >>> Annealed(ideal, steps=5).sample(4, torch.Generator().manual_seed(0)).shape
    torch.Size([4, 3])
    """

    model: Any
    kernel: Callable[[ScoreModel], Kernel] | None = MetropolisHastings
    steps: int = 100
    levels: tuple[int, ...] | None = None
    descent: str = "keep"
    finish: str = "draw"
    renoise_every: int | None = None

    def __post_init__(self) -> None:
        noise = check_noise(self.model)
        for name, value, known in (
            ("descent", self.descent, list(DESCENTS)),
            ("finish", self.finish, ["none", *FINISHES]),
        ):
            if value not in known:
                raise InputError(f"one of {', '.join(known)}", repr(value), where=name, fix=nearest(value, known))
        for name, count in (("steps", self.steps), ("renoise_every", self.renoise_every)):
            if count is not None:
                check_count(count, name)
        if self.kernel is None and self.descent == "keep":
            raise InputError("moves within the levels or between them", "neither", "kernel", "use descent='reverse'")
        bad = [level for level in self.schedule if not 0 <= level < noise.num_levels]
        if bad or not self.schedule:
            raise InputError(f"levels from 0 to {noise.num_levels - 1}", str(bad), where="levels")
        if self.kernel is not None:
            self.kernel(self.model.at(self.schedule[0]))
        self._ways  # noqa: B018 - levels that do not compose are refused at once

    @property
    def space(self) -> Space:
        return self.noise.space

    @property
    def noise(self) -> FactorizedNoise:
        noise: FactorizedNoise = self.model.noise
        return noise

    @property
    def schedule(self) -> tuple[int, ...]:
        """The levels, strongest first."""
        chosen = range(self.noise.num_levels) if self.levels is None else set(self.levels)
        return tuple(sorted(chosen, reverse=True))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not exact however many steps are made; empty for an adjusted kernel that ends at the noise."""
        kernel = None if self.kernel is None else self.kernel(self.model.at(self.schedule[0]))
        found = {
            "unadjusted: sites that move at once do not see each other move": not getattr(kernel, "adjusted", True),
            "unadjusted: the reverse chain draws sites independently": self.descent == "reverse",
            "unadjusted: the final denoising draws sites independently": self.finish == "draw",
            "unadjusted: the final denoising takes each site's likeliest value": self.finish == "mode",
        }
        return tuple(note for note, holds in found.items() if holds)

    def within(self, passes: int) -> "Annealed":
        """The same way down in about so many network passes: fewer or more steps a level, or fewer levels.

        The last pass is the final denoising. Levels left out are spread evenly; the strongest and the weakest stay.

        >>> from concrete_score.models.ideal import IdealDenoiser
        >>> from concrete_score.neighborhoods import hamming
        >>> from concrete_score.noise.families import log_snr
        >>> noise = log_snr(Space.bits(2), 9)
        >>> ideal = IdealDenoiser(torch.tensor([[0, 1]]), noise, hamming(noise.space))
        >>> reverse_chain(ideal).within(3).schedule, annealed_mh(ideal).within(100).steps
        ((8, 4, 0), 10)
        """
        check_count(passes, "passes")
        moves = self.kernel is not None
        # The paper's kernels look once at where a level starts, and once at each proposal; a pass more goes to the end.
        levels = min(len(self.schedule), max(1, (passes - 1) // 2 if moves else passes))
        last = len(self.schedule) - 1
        places = [round(k * last / max(1, levels - 1)) for k in range(levels)]
        steps = max(1, (passes - 1) // levels - 1) if moves else self.steps
        return replace(self, levels=tuple(self.schedule[place] for place in places), steps=steps)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` chains to the end ``(n, D)``."""
        return self.run(n, generator).x

    def run(self, start: Any, generator: torch.Generator, clamped: Tensor | None = None) -> Stage:
        """The last stage of `stream`."""
        *_, last = self.stream(start, generator, clamped)
        return last

    def stream(self, start: Any, generator: torch.Generator, clamped: Tensor | None = None) -> Iterator[Stage]:
        """The chains after each level, one stage at a time: the way from noise to a sample.

        Args:
            start: how many chains; or states ``(C, D)``, whose free sites are where the chains begin. With ``clamped``
                the free sites begin as uniform noise, and clamped ones hold what was observed.
            generator: the source of randomness.
            clamped: observed sites ``(C, D)`` or ``(D,)``: in-painting. They are corrupted anew at each level, and at
                the end are what was observed. A chain then knows the observation only through its noise: unadjusted.

        Raises:
            InputError: at once, for states or masks that do not fit.
        """
        free = self.space.uniform(start, generator) if isinstance(start, int) else start
        x, mask = check_start(self.space, free, clamped)
        if mask is None:
            return self._walk(x, None, x, generator)
        return self._walk(torch.where(mask, x, self.space.uniform(len(x), generator)), mask, x, generator)

    @torch.no_grad()
    def law(self, observed: Tensor | None = None, clamped: Tensor | None = None) -> Tensor:
        """The exact distribution of the last stage ``(S,)``, by transition matrices: the enumerating twin of `run`.

        Args:
            observed: with ``clamped``, the state whose clamped sites were observed ``(D,)``.
            clamped: ``(D,)`` bool.

        Raises:
            InputError: a space too large, or a kernel without a transition matrix.
        """
        size = self.space.num_states
        states = self.space.enumerate(matrices.LIMIT)
        p = torch.full((size,), 1 / size, dtype=torch.float64)
        for place, level in enumerate(self.schedule):
            model = self.model.at(level)
            p = p @ self._level_matrix(model, level, observed, clamped)
            if (way := self._ways[place]) is not None:
                clean = clean_log_probs(model, self.noise, level, states)
                p = p @ site_matrix(self.space, reverse_log_probs(clean.double(), states, way), clamped)
        if self.finish != "none":
            clean = clean_log_probs(self.model.at(self.schedule[-1]), self.noise, self.schedule[-1], states)
            p = p @ site_matrix(self.space, FINISHES[self.finish](clean.double()), clamped)
        return p if clamped is None else p @ self._set_matrix(self._shown(observed), clamped)

    def _walk(self, x: Tensor, clamped: Tensor | None, observed: Tensor, generator: torch.Generator) -> Iterator[Stage]:
        passes = 0
        for place, level in enumerate(self.schedule):
            model = _Counted(self.model.at(level))
            x, acceptance = self._move(model, level, x, clamped, observed, generator)
            yield Stage(level, x, passes + model.passes, acceptance)
            if (way := self._ways[place]) is not None:
                y = draw_sites(reverse_log_probs(model.clean(self.noise, level, x).double(), x, way), generator)
                x = y if clamped is None else torch.where(clamped, x, y)
            passes += model.passes
        if self.finish == "none" and clamped is None:
            return
        clean: Tensor | None = None
        if self.finish != "none":
            model = _Counted(self.model.at(self.schedule[-1]))
            clean = model.clean(self.noise, self.schedule[-1], x)
            x, passes = draw_sites(FINISHES[self.finish](clean), generator), passes + model.passes
        x = x if clamped is None else torch.where(clamped, observed, x)
        yield Stage(None, x, passes, None, clean)

    @torch.no_grad()
    def _move(
        self,
        model: "_Counted",
        level: int,
        x: Tensor,
        clamped: Tensor | None,
        observed: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, float | None]:
        """The moves within a level, and how many were accepted."""
        accepted, made = 0.0, 0
        for steps in self._turns(clamped is not None):
            if clamped is not None:
                x = torch.where(clamped, self.noise.corrupt(observed, level, generator), x)
            if self.kernel is None:
                break
            kernel = self.kernel(model)
            state = kernel.init(x, clamped)
            for _ in range(steps):
                state, info = kernel.step(state, generator)
                accepted += float(info.accepted.double().mean())
            x, made = state.x, made + steps
        return x, accepted / made if made else None

    def _turns(self, conditional: bool) -> list[int]:
        """Steps between two corruptions of the clamped sites."""
        every = self.renoise_every if conditional and self.renoise_every is not None else self.steps
        whole, rest = divmod(self.steps, every)
        return [every] * whole + [rest] * bool(rest)

    @cached_property
    def _ways(self) -> list[Tensor | None]:
        """The bridge from each level of the schedule to the next; None at the last, and where chains are kept."""
        if self.descent == "keep":
            return [None] * len(self.schedule)
        pairs = zip(self.schedule, self.schedule[1:], strict=False)
        return [*(bridge(self.noise, low, high) for high, low in pairs), None]

    def _level_matrix(self, model: ScoreModel, level: int, observed: Tensor | None, clamped: Tensor | None) -> Tensor:
        size = self.space.num_states
        total = torch.eye(size, dtype=torch.float64)
        one = None
        if self.kernel is not None:
            kernel = self.kernel(model)
            if not isinstance(kernel, Enumerable):
                raise InputError("a kernel with a transition matrix", type(kernel).__name__, where="kernel")
            one = kernel.transition_matrix(clamped)
        for steps in self._turns(clamped is not None):
            if clamped is not None:
                noisy = self.noise.table[level][torch.arange(self.space.num_sites), self._shown(observed)]
                total = total @ self._set_matrix_of(noisy, clamped)
            if one is not None:
                total = total @ torch.linalg.matrix_power(one, steps)
        return total

    def _shown(self, observed: Tensor | None) -> Tensor:
        if observed is None:
            raise InputError("the observed state", "none", where="observed", fix="give it with `clamped`")
        return self.space.check(observed, "observed")

    def _set_matrix(self, value: Tensor, clamped: Tensor) -> Tensor:
        width = max(self.space.sizes)
        sure = torch.where(torch.arange(width) == value[:, None], 0.0, -torch.inf)
        return self._set_matrix_of(sure.double(), clamped)

    def _set_matrix_of(self, log_probs: Tensor, clamped: Tensor) -> Tensor:
        """Draws the clamped sites from ``(D, V)`` and leaves the free ones ``(S, S)``."""
        each = log_probs.expand(self.space.num_states, -1, -1)
        return site_matrix(self.space, each, ~clamped)


@dataclass(eq=False)
class _Counted:
    """A score model that counts how often its network is run."""

    model: Any
    passes: int = 0

    @property
    def neighborhood(self) -> Neighborhood:
        neighborhood: Neighborhood = self.model.neighborhood
        return neighborhood

    def log_ratios(self, x: States) -> PerSlot:
        self.passes += 1
        ratios: Tensor = self.model.log_ratios(x)
        return ratios

    @torch.no_grad()
    def clean(self, noise: FactorizedNoise, level: int, x: States) -> Tensor:
        self.passes += 1
        return clean_log_probs(self.model, noise, level, x)


def clean_log_probs(model: Any, noise: FactorizedNoise, level: int, x: States) -> SiteTable:
    """``log P(x_d = v | x̃)`` of every site at one level ``(C, D) -> (C, D, V)``; one pass.

    A denoising head gives it. From any other head's ratios it follows by undoing the noise: the noisy conditional of a
    site is ``q̃(b) = Σ_v π(v) q(b | v)``, so ``π = q̃ Q⁻¹`` and ``P(v | x̃) ∝ π(v) q(x̃_d | v)``. Ratios that belong to no
    noisy distribution may make π negative somewhere; it is cut at 0 there.

    Args:
        model: the score model of that level.
        noise: the levels' noise.
        level: which.
        x: noisy states ``(C, D)``.

    Raises:
        InputError: a model that does not list every value of a site.

    >>> from concrete_score.models.ideal import IdealDenoiser
    >>> from concrete_score.neighborhoods import hamming
    >>> from concrete_score.noise import categorical
    >>> from concrete_score.spaces import Space
    >>> ideal = IdealDenoiser.of(torch.tensor([0.2, 0.8]), categorical(Space((2,)), [0.75]), hamming(Space((2,))))
    >>> clean_log_probs(ideal.at(0), ideal.noise, 0, torch.tensor([[0]])).exp()
    tensor([[[0.4286, 0.5714]]], dtype=torch.float64)
    """
    if hasattr(model, "clean_log_probs"):
        found: Tensor = model.clean_log_probs(x)
        return found
    check_all_changes(model)
    noisy = conditionals(model, x).double().exp()
    table = noise.table[level].to(x.device)
    stored = table[:1] if table.stride(0) == 0 else table
    own = inside(noise.space, *stored.shape[:2]).to(x.device)
    # Padding becomes an identity block, so that it is undone without touching the site itself.
    kernel = stored.exp() + (~own).double() * torch.eye(own.shape[-1], dtype=torch.float64, device=x.device)
    prior = torch.linalg.solve(kernel.transpose(-2, -1), noisy[..., None]).squeeze(-1).clamp_min(0)
    site = torch.arange(x.shape[-1], device=x.device) % len(stored)
    likelihood = stored[site, :, x]
    recovered: Tensor = (prior.log() + likelihood).log_softmax(-1)
    return recovered


def check_noise(model: Any) -> FactorizedNoise:
    """The noise of a noise-conditional model, which must be known as a table.

    Raises:
        InputError: a model without levels, or with another kind of noise.
    """
    noise = getattr(model, "noise", None)
    if not isinstance(noise, FactorizedNoise) or not hasattr(model, "at"):
        raise InputError(
            "a noise-conditional model, with `at(level)` and a noise of independent sites",
            type(model).__name__,
            where="model",
            fix="build it with a noise such as `binarized_gaussian`",
        )
    return noise


annealed_mh = partial(Annealed, kernel=MetropolisHastings, steps=400)
"""The paper's: Metropolis-Hastings at each level, 100 to 800 steps."""
annealed_informed = partial(Annealed, kernel=Informed, steps=100)
"""Single changes in proportion to the root of their ratio; exact at each level, fewer steps."""
annealed_heat_bath = partial(Annealed, kernel=HeatBath, steps=20)
"""A fifth of the sites at once; unadjusted."""
reverse_chain = partial(Annealed, kernel=None, steps=1, descent="reverse")
"""One draw of every site a level, from the strongest noise to none; unadjusted, one pass a level."""
corrected_chain = partial(Annealed, kernel=HeatBath, steps=3, descent="reverse", renoise_every=1)
"""The reverse chain with three steps of many sites at each level, clamped sites corrupted before each; unadjusted."""
