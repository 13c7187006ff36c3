"""What a kernel's draws are worth: effective draws a step, a pass and a second of processor time, and whether they are
right. All kernels of a problem start from the same chains, are tuned alike and are timed in turns."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import hypot, nan, sqrt
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.bench.checks import Check
from concrete_score.bench.dmala import TextbookDMALA
from concrete_score.bench.problems import PROBLEMS, SINGLE, Builder, Problem
from concrete_score.protocols import State
from concrete_score.randomness import generator
from concrete_score.samplers import Tempering, adapt, adapt_ladder
from concrete_score.samplers.diagnosis import AutocorrelationTime, autocorrelation_time
from concrete_score.samplers.multi_site import Sized

YARDSTICK = "textbook"
"""The name of the bare loop among the kernels."""
HIDDEN = "multi_site, fields hidden"
BRIEF = "path_auxiliary"
"""Not given more time where others are: its steps are so long that it would not tell."""
BLOCK = 0.02
"""Seconds of processor time that are measured at once."""


@dataclass(frozen=True)
class Effort:
    """How much is spent on one kernel."""

    chains: int = 64
    tuning: int = 400
    """Steps in which step sizes and ladders are found; as many again are thrown away."""
    burn_in: int = 1_500
    """Steps of the first structured kernel before anything starts."""
    wanted: float = 120.0
    """Autocorrelation times that a chain should last."""
    seconds: float = 6.0
    """Of processor time, at most, for the draws of one kernel."""
    yardstick: float = 30.0
    """Likewise for the textbook loop, against which all are held, and for what takes as long a step."""
    turns: int = 25
    """Blocks of steps of every kernel that are timed, in turn."""


FULL = Effort()
QUICK = Effort(chains=16, tuning=60, burn_in=200, seconds=0.5, yardstick=2.0, turns=3)


class Traces(NamedTuple):
    """What was seen of a kernel's chains."""

    kernel: Any
    state: State
    thin: int
    energy: Tensor
    """``(N, C)``."""
    slow: Tensor
    passes: float
    """A step."""


@dataclass(frozen=True)
class Worth:
    """One kernel on one problem."""

    kernel: str
    step_size: float | None
    mean: float
    """Of the log-density."""
    standard_error: float
    z: float | None
    """Of the mean, against the exact one or the reference; None where the run was too short for an error."""
    time: float
    """Autocorrelation time of the log-density in steps."""
    time_error: float
    slow_time: float
    slow_time_error: float
    long_enough: bool
    passes: float
    """A step."""
    seconds: float
    """Of processor time a step, the least of all turns."""
    per_second: float
    """Effective draws of the log-density, over the textbook loop's."""
    slow_per_second: float
    per_pass: float
    slow_per_pass: float
    error: float
    """Standard error of ``per_second``, relative."""
    slow_error: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


LEAST = {"ising_0.3": 40.0, "ising_0.44": 40.0, "potts_4": 40.0, "rbm_25": 30.0, "spin_glass": 20.0}
"""What the best kernel of a problem should gain over the textbook loop; elsewhere, anything."""


def best_over_textbook(name: str, effort: Effort | None = None, problems: Mapping[str, Any] = PROBLEMS) -> Check:
    """Effective draws a second of the slower of energy and slow statistic: the best kernel over the textbook loop."""
    problem = problems[name]()
    rows = compare(problem, effort or FULL)
    best = max(rows, key=lambda row: min(row.per_second, row.slow_per_second))
    title = f"{problem.name}: effective draws a second, {best.kernel} / textbook DMALA"
    return Check.at_least(title, min(best.per_second, best.slow_per_second), LEAST.get(name, 1.0))


def compare(problem: Problem, effort: Effort, seed: int = 0, say: Callable[[str], None] | None = None) -> list[Worth]:
    """Every kernel of a problem beside the textbook loop, which comes first."""
    begin = start(problem, effort, seed)
    traces: dict[str, Traces] = {}
    for name, builder in _builders(problem).items():
        single, structured = name in SINGLE, name in problem.structured
        patience = 1 if single or name == BRIEF else problem.patience
        # Kernels of one site a step forget slowly: recording each step would take longer than the step.
        thin = max(1, problem.model.space.num_sites // 40) if single else 1 if structured else problem.thin
        usual = effort.yardstick if name in (YARDSTICK, HIDDEN) else effort.seconds
        own = replace(effort, seconds=usual * patience)
        g = generator(seed, f"{problem.name} {name}")
        traces[name] = sample(builder(problem.model), begin, problem, own, g, thin)
        if say is not None:
            say(f"{problem.name}: {name}, {len(traces[name].energy) * traces[name].thin} steps")
    seconds = time_in_turns({name: (t.kernel, t.state) for name, t in traces.items()}, effort.turns)
    reference = _reference(problem, traces)
    yardstick = _worth(YARDSTICK, traces[YARDSTICK], seconds[YARDSTICK], *reference, None)
    return [_worth(name, each, seconds[name], *reference, yardstick) for name, each in traces.items()]


def _builders(problem: Problem) -> dict[str, Builder]:
    loop: dict[str, Builder] = {YARDSTICK: lambda model: TextbookDMALA(model.space, problem.energy)}
    if problem.hidden is not None:
        multi = problem.kernels["multi_site"]
        loop[HIDDEN] = lambda _: multi(problem.hidden)
    return {**loop, **problem.kernels}


def start(problem: Problem, effort: Effort, seed: int) -> Tensor:
    """Chains burnt in by the first structured kernel: nobody's autocorrelation time is read off a way in."""
    g = generator(seed, f"{problem.name} start")
    kernel = next(iter(problem.structured.values()))(problem.model)
    state = kernel.init(problem.model.space.uniform(effort.chains, g))
    for _ in range(effort.burn_in):
        state, _ = kernel.step(state, g)
    x: Tensor = state.x
    return x


def tune(kernel: Any, state: State, steps: int, g: torch.Generator) -> tuple[Any, State]:
    """Step sizes to the same acceptance, ladders to equal swap rates; then frozen."""
    if isinstance(kernel, Tempering):
        return adapt_ladder(kernel, state, g, max(16, steps))
    return adapt(kernel, state, g, steps) if isinstance(kernel, Sized) else (kernel, state)


def sample(kernel: Any, start: Tensor, problem: Problem, effort: Effort, g: torch.Generator, thin: int = 1) -> Traces:
    """Tune, then draw until chains last long enough or the time is over."""
    kernel, state = tune(kernel, kernel.init(start), effort.tuning, g)
    for _ in range(effort.tuning):
        state, info = kernel.step(state, g)
    seen: tuple[list[Tensor], list[Tensor]] = ([], [])
    begun, checked, passes = process_time(), 0, 0
    while True:
        for _ in range(thin):
            state, info = kernel.step(state, g)
            passes += info.passes
        x = state.x
        seen[0].append(problem.model.log_density(x).double())
        seen[1].append(problem.slow(x).double())
        over = process_time() - begun > effort.seconds
        if over or len(seen[0]) >= 2 * max(checked, 250):
            checked = len(seen[0])
            traces = [torch.stack(trace) for trace in seen]
            if over or all(checked > effort.wanted * autocorrelation_time(trace).value for trace in traces):
                return Traces(kernel, state, thin, traces[0], traces[1], passes / (checked * thin))


def time_in_turns(kernels: Mapping[str, tuple[Any, State]], turns: int) -> dict[str, float]:
    """The least processor time a step of every kernel; they take turns, so that a busy machine is busy for all."""
    g, states = generator(0, "turns"), {name: state for name, (_, state) in kernels.items()}

    def block(name: str, steps: int) -> float:
        kernel, state, begun = kernels[name][0], states[name], process_time()
        for _ in range(steps):
            state, _ = kernel.step(state, g)
        states[name] = state
        return (process_time() - begun) / steps

    count = {name: max(1, round(BLOCK / min(block(name, 3) for _ in range(3)))) for name in kernels}
    least = dict.fromkeys(kernels, float("inf"))
    for _ in range(turns):
        for name in kernels:
            least[name] = min(least[name], block(name, count[name]))
    return least


def _reference(problem: Problem, traces: Mapping[str, Traces]) -> tuple[float, float]:
    """``E log q`` and its standard error: exact, or the mean over all kernels that lasted long enough."""
    if problem.exact is not None:
        return problem.exact, 0.0
    known = [each for each in traces.values() if autocorrelation_time(each.energy).long_enough]
    if not known:  # then no z-score is asked for
        return nan, 0.0
    found = [_mean(each.energy) for each in known]
    weights = [error**-2 for _, error in found]
    return sum(m * w for (m, _), w in zip(found, weights, strict=True)) / sum(weights), sum(weights) ** -0.5


def _mean(trace: Tensor) -> tuple[float, float]:
    """With its standard error."""
    time = autocorrelation_time(trace)
    return float(trace.mean()), float(trace.std()) * sqrt(time.value / trace.numel())


def _worth(
    name: str, traces: Traces, seconds: float, reference: float, reference_error: float, yardstick: Worth | None
) -> Worth:
    """Ratios are 1 where there is no yardstick yet."""
    times = [autocorrelation_time(trace) for trace in (traces.energy, traces.slow)]
    steps = [_in_steps(time, traces.thin) for time in times]
    mean, error = _mean(traces.energy)
    # What also went into the reference is not held against itself.
    spread = sqrt(abs(error**2 - reference_error**2)) if reference_error else error
    known = times[0].long_enough and spread > 0
    found = Worth(
        kernel=name,
        step_size=getattr(traces.kernel, "step_size", None),
        mean=mean,
        standard_error=error,
        z=(mean - reference) / spread if known else None,
        time=steps[0][0],
        time_error=steps[0][1],
        slow_time=steps[1][0],
        slow_time_error=steps[1][1],
        long_enough=all(time.long_enough for time in times),
        passes=traces.passes,
        seconds=seconds,
        per_second=1.0,
        slow_per_second=1.0,
        per_pass=1.0,
        slow_per_pass=1.0,
        error=0.0,
        slow_error=0.0,
    )
    return found if yardstick is None else _over(found, yardstick)


def _over(found: Worth, yardstick: Worth) -> Worth:
    gain, slow = yardstick.time / found.time, yardstick.slow_time / found.slow_time
    cost, passes = found.seconds / yardstick.seconds, found.passes / yardstick.passes
    errors = [
        hypot(found.time_error / found.time, yardstick.time_error / yardstick.time),
        hypot(found.slow_time_error / found.slow_time, yardstick.slow_time_error / yardstick.slow_time),
    ]
    return replace(
        found,
        per_second=gain / cost,
        slow_per_second=slow / cost,
        per_pass=gain / passes,
        slow_per_pass=slow / passes,
        error=errors[0],
        slow_error=errors[1],
    )


def _in_steps(time: AutocorrelationTime, thin: int) -> tuple[float, float]:
    """Of a trace of every ``thin``-th step; below one draw it cannot be told apart from one."""
    return time.value * thin, time.error * thin
