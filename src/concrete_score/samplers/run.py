"""Loops around kernels: burn-in, thinning, streams of draws, and runs with a diagnosis: have the chains mixed?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.protocols import DensityModel, Kernel, State
from concrete_score.samplers.choice import AUTO, Choice, choose_kernel
from concrete_score.samplers.diagnosis import Diagnosis, check_enough, judge, summarize
from concrete_score.samplers.exchange import to_arviz
from concrete_score.samplers.multi_site import Sized, adapt

Statistic = Callable[[Tensor], Tensor]
"""From states ``(C, D)`` to one number a chain ``(C,)``."""
Progress = Callable[[int, int], None]
"""Called with the steps done and the steps in all, after every step."""


class Draw(NamedTuple):
    """The chains after some step that is kept."""

    state: State
    step: int
    """Steps since burn-in."""
    acceptance: float
    """Share of accepted moves since burn-in, so far."""
    passes: int
    """So far, burn-in included."""
    disagreement: float | None
    """See `Diagnosis`."""
    seconds: float = 0.0
    """That all steps took so far, burn-in included."""
    accepted: Tensor = torch.zeros(0)
    """Share of accepted moves of each chain since the draw before this one ``(C,)``."""


@dataclass(frozen=True, eq=False)
class Samples:
    """What a run brought."""

    draws: Tensor = field(repr=False)
    """Kept states ``(N, C, D)`` in the narrowest type that holds them; empty if none were to be kept."""
    state: State = field(repr=False)
    """Where the chains ended, to go on from."""
    diagnosis: Diagnosis | None
    traces: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    """What was watched, a number a draw and chain ``(N, C)`` each, by name; empty without a diagnosis."""
    accepted: Tensor | None = field(default=None, repr=False)
    """Share of accepted moves between two draws, of each chain ``(N, C)``."""
    burn_in: int = 0
    """Steps before the first draw."""
    thin: int = 1
    """Steps from one draw to the next."""

    def to_arviz(self, names: Sequence[str] | None = None) -> Any:
        """The chains as ArviZ's ``DataTree``, which took the place of ``InferenceData``; see `exchange.to_arviz`."""
        return to_arviz(self, names)

    @property
    def rows(self) -> Tensor:
        """All draws of all chains in one table ``(N C, D)``, int64 if discrete."""
        flat = self.draws.flatten(0, 1)
        return flat if flat.dtype.is_floating_point else flat.long()


def stream(
    kernel: Kernel,
    x: Any,
    *,
    steps: int,
    generator: torch.Generator,
    burn_in: int = 0,
    thin: int = 1,
    clamped: Tensor | None = None,
    progress: Progress | None = None,
) -> Iterator[Draw]:
    """The chains after every ``thin``-th step beyond burn-in, one at a time: memory does not grow with the steps.

    Args:
        kernel: what to run.
        x: starts ``(C, D)``; or how many chains to start at uniformly drawn states; or the `State` of an earlier run.
        steps: beyond burn-in.
        burn_in: steps before the first draw.
        thin: keep every so many steps.
        clamped: sites that never move ``(C, D)`` or ``(D,)``.
        progress: called after every step.

    Raises:
        InputError: at once, before any step: numbers of steps that make no sense, or starts the kernel refuses.

    >>> from concrete_score.samplers import MetropolisHastings
    >>> from concrete_score.targets import Ising
    >>> kernel = MetropolisHastings(Ising((3, 3), 0.4))
    >>> [draw.step for draw in stream(kernel, 2, steps=6, thin=3, generator=torch.Generator().manual_seed(0))]
    [3, 6]
    """
    for name, value, least in (("steps", steps, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
        check_count(value, name, least)
    if thin > steps:
        raise InputError(f"thin of at most the {steps} steps", str(thin), where="thin", fix="no draw would be kept")
    state = _start(kernel, x, clamped, generator)
    return _walk(kernel, state, steps, burn_in, thin, generator, progress)


def run(
    kernel: Kernel | str,
    x: Any,
    *,
    steps: int,
    generator: torch.Generator,
    burn_in: int = 0,
    thin: int = 1,
    clamped: Tensor | None = None,
    progress: Progress | None = None,
    statistics: Mapping[str, Statistic] | None = None,
    diagnose: bool = True,
    keep: bool = True,
    model: Any = None,
) -> Samples:
    """Run chains, keep their draws, and judge whether they have mixed.

    Args:
        kernel: what to run; or ``"auto"``, which picks from what ``model`` offers and says why in the diagnosis. Its
            step size, if it has one, is found in as many steps before burn-in and then frozen.
        x, steps, generator, burn_in, thin, clamped, progress: as in `stream`.
        statistics: what to watch besides the log-density, by name.
        diagnose: compute ESS and R-hat of the log-density (where the kernel's model has one) and the statistics.
        keep: store the draws; without it memory holds one number a draw, chain and statistic.
        model: what to sample from, for ``kernel="auto"``.

    Raises:
        InputError: before any step; also too few chains or draws for R-hat, unless ``diagnose=False``.

    >>> from concrete_score.samplers import Gibbs
    >>> from concrete_score.targets import Ising
    >>> g = torch.Generator().manual_seed(0)
    >>> samples = run(Gibbs(Ising((2, 2), 0.2)), 8, steps=2000, burn_in=50, thin=10, generator=g)
    >>> samples.draws.shape, samples.diagnosis.mixed
    (torch.Size([200, 8, 4]), True)
    >>> run("auto", 8, model=Ising((8, 8), 0.2), steps=300, burn_in=50, generator=g).diagnosis.kernel
    'colored: few of its sites interact: those of a color are drawn at once'
    """
    choice = None
    if isinstance(kernel, str):
        choice = _chosen(kernel, model)
        kernel = choice.kernel
    if diagnose:
        check_enough(x if isinstance(x, int) else len(x.x if isinstance(x, State) else x), steps // max(1, thin))
    watched = _watched(kernel, statistics) if diagnose else {}
    if choice is not None and burn_in >= 2 and isinstance(kernel, Sized):
        kernel, x = adapt(kernel, _start(kernel, x, clamped, generator), generator, burn_in)
    drawn = stream(
        kernel, x, steps=steps, generator=generator, burn_in=burn_in, thin=thin, clamped=clamped, progress=progress
    )
    last, draws, accepted, traces = _recorded(drawn, kernel, watched, keep)
    diagnosis = _diagnosis(last, traces, steps // thin, choice) if diagnose else None
    return Samples(draws, last.state, diagnosis, traces, accepted, burn_in, thin)


def _recorded(
    drawn: Iterator[Draw], kernel: Kernel, watched: Mapping[str, Statistic], keep: bool
) -> tuple[Draw, Tensor, Tensor | None, dict[str, Tensor]]:
    """The last draw; all draws ``(N, C, D)`` and acceptances ``(N, C)``, where they are kept; and the traces."""
    kept: list[Tensor] = []
    accepted: list[Tensor] = []
    traces: dict[str, list[Tensor]] = {name: [] for name in watched}
    for draw in drawn:
        if keep:
            kept.append(_narrow(draw.state.x, kernel))
            accepted.append(draw.accepted)
        for name, statistic in watched.items():
            traces[name].append(_value(name, statistic, draw.state.x))
    draws = torch.stack(kept) if keep else draw.state.x.new_empty((0, *draw.state.x.shape))
    stacked = {name: torch.stack(trace) for name, trace in traces.items()}
    return draw, draws, torch.stack(accepted) if keep else None, stacked


def _chosen(name: str, model: Any) -> Choice:
    """The choice for a model, where it is left to the library."""
    if name != AUTO or model is None:
        came = repr(name) if name != AUTO else "no model"
        raise InputError('a kernel, or "auto" with `model=`', came, where="kernel", fix="such as Gibbs(model)")
    return choose_kernel(model)


def _diagnosis(last: Any, traces: Mapping[str, Tensor], draws: int, choice: Choice | None) -> Diagnosis:
    """What the traces say of a run that ended with this draw."""
    summaries = {name: summarize(trace) for name, trace in traces.items()}
    trips = getattr(last.state.memory, "trips", None)
    return Diagnosis(
        chains=len(last.state.x),
        draws=draws,
        acceptance=last.acceptance,
        passes=last.passes,
        statistics=summaries,
        disagreement=last.disagreement,
        warnings=judge(last.acceptance, summaries),
        seconds=last.seconds,
        round_trips=None if trips is None else float(trips.double().mean()),
        kernel="" if choice is None else str(choice),
    )


def _start(kernel: Kernel, x: Any, clamped: Tensor | None, generator: torch.Generator) -> State:
    if isinstance(x, State):
        return x
    if isinstance(x, int):
        if x < 1:
            raise InputError("at least 1 chain", str(x), where="x")
        x = kernel.space.uniform(x, generator)
    return kernel.init(x, clamped)


def _walk(
    kernel: Kernel,
    state: State,
    steps: int,
    burn_in: int,
    thin: int,
    generator: torch.Generator,
    progress: Progress | None,
) -> Iterator[Draw]:
    accepted = disagreed = spent = 0.0
    passes, since = 0, torch.zeros(len(state.x), dtype=torch.float64)
    for i in range(1, burn_in + steps + 1):
        begun = perf_counter()
        state, info = kernel.step(state, generator)
        spent += perf_counter() - begun
        passes += info.passes
        done = i - burn_in
        disagreement = getattr(state.memory, "disagreement", None)
        if done > 0:
            moved = info.accepted.double().cpu()
            accepted += float(moved.mean())
            since = since + moved
            disagreed += 0.0 if disagreement is None else float(disagreement.mean())
        if progress is not None:
            progress(i, burn_in + steps)
        if done > 0 and done % thin == 0:
            apart = None if disagreement is None else disagreed / done
            yield Draw(state, done, accepted / done, passes, apart, spent, since / thin)
            since = torch.zeros_like(since)


def _watched(kernel: Kernel, statistics: Mapping[str, Statistic] | None) -> dict[str, Statistic]:
    model = getattr(kernel, "model", None)
    own = {"log_density": model.log_density} if isinstance(model, DensityModel) else {}
    watched = {**own, **(statistics or {})}
    if not watched:
        raise InputError(
            "a statistic to watch, for the kernel's model has no log-density",
            "none",
            where="statistics",
            fix='give one such as {"mean": lambda x: x.double().mean(-1)}, or pass diagnose=False',
        )
    return watched


@torch.no_grad()
def _value(name: str, statistic: Statistic, x: Tensor) -> Tensor:
    value = statistic(x)
    if value.shape != x.shape[:1]:
        raise InputError(f"one number a chain, shape ({len(x)},)", f"shape {tuple(value.shape)}", where=name)
    return value.detach().double().cpu()


def _narrow(x: Tensor, kernel: Kernel) -> Tensor:
    """Stored in one byte a site where its values fit, else in four."""
    if x.dtype.is_floating_point:
        return x.clone()
    return x.to(torch.uint8 if max(kernel.space.sizes) <= 256 else torch.int32)
