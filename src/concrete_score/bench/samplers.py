"""What a sampler's step costs beside its network passes, and what informed moves of many sites gain."""

from functools import cache
from math import hypot
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score.bench.checks import Check, ratio_of_minima
from concrete_score.bench.training import bare_network, score_unet, unet_size
from concrete_score.protocols import Kernel, State
from concrete_score.randomness import generator
from concrete_score.registry import load
from concrete_score.samplers import MetropolisHastings, MultiSite, adapt, stream, summarize
from concrete_score.spaces import Space
from concrete_score.targets import Ising

BOUND = 1.2
GROUPS = 8
"""Independent groups of chains, whose spread shows how well an effective sample size is known."""
TIMED = 64
"""Chains side by side where steps are timed."""


def mh_step(sites: int = 784, hidden: int = 1024, chains: int = 256, repeats: int = 30) -> Check:
    """A Metropolis-Hastings step of a score network of the size that binary images of 28×28 need."""
    return _step_over_pass("mh", sites, hidden, chains, repeats)


def informed_step(sites: int = 784, hidden: int = 1024, chains: int = 256, repeats: int = 30) -> Check:
    """A locally informed single-site step, likewise: one pass gives all ratios of a state."""
    return _step_over_pass("informed", sites, hidden, chains, repeats)


def annealed_mh_step(side: int = 28, width: int = 48, chains: int = 128, repeats: int = 20) -> Check:
    """A Metropolis-Hastings step at a noise level, against one pass of the network alone."""
    model = score_unet(side, width).requires_grad_(False)
    gen, level = generator(0, "bench"), 3
    x = model.noise.space.uniform(chains, gen)
    walk, net = _Walk(MetropolisHastings(model.at(level)), x, gen), bare_network(model)
    value = ratio_of_minima(walk, lambda: net(x, level), repeats, clock=process_time)
    return Check.at_most(f"a step of annealed mh / a U-Net pass, {unet_size(side, width, chains)}", value, BOUND)


def ess_per_step(side: int = 30, chains: int = 128, mh_steps: int = 80_000, steps: int = 2_000) -> Check:
    """Effective draws a step: informed moves of many sites over uniform Metropolis-Hastings."""
    value = _gain(side, chains, mh_steps, steps).per_step
    return Check.at_least(f"ESS a step, multi-site informed / uniform mh, {side}x{side} Ising at 0.3", value, 30.0)


def ess_per_second(side: int = 30, chains: int = 128, mh_steps: int = 80_000, steps: int = 2_000) -> Check:
    """Effective draws a second, likewise."""
    value = _gain(side, chains, mh_steps, steps).per_second
    name = f"ESS a second, multi-site informed / uniform mh, {side}x{side} Ising at 0.3, {TIMED} chains"
    return Check.at_least(name, value, 5.0)


def _step_over_pass(name: str, sites: int, hidden: int, chains: int, repeats: int) -> Check:
    """A step against the one pass of the network that it needs, at as many states."""
    neighborhood = load("neighborhoods", "hamming")(Space.bits(sites))
    gen = generator(0, "bench")
    network: Any = load("models", "mlp")(neighborhood, hidden=hidden, generator=gen).requires_grad_(False)
    x = neighborhood.space.uniform(chains, gen)
    walk = _Walk(load("kernels", name)(network), x, gen)
    # In processor time: a pass is long enough to be interrupted on a busy machine nearly always.
    value = ratio_of_minima(walk, lambda: network.log_ratios(x), repeats, clock=process_time)
    size = f"3x{hidden}-unit network on {sites} bits, {chains} chains"
    return Check.at_most(f"a step of {name} / its network pass, {size}", value, BOUND)


class _Walk:
    """Chains that make some steps when called."""

    def __init__(self, kernel: Kernel, x: Tensor, gen: torch.Generator, steps: int = 1) -> None:
        self.kernel, self.state, self.gen, self.steps = kernel, kernel.init(x), gen, steps

    def __call__(self) -> State:
        for _ in range(self.steps):
            self.state, _ = self.kernel.step(self.state, self.gen)
        return self.state


class _Gain(NamedTuple):
    """Effective draws of the one kernel over the other's, less two standard errors, so that luck decides nothing."""

    per_step: float
    per_second: float


@cache
def _gain(side: int, chains: int, mh_steps: int, steps: int) -> _Gain:
    """On the worse of energy and magnetization; both kernels see the same log-density, and the step size is frozen.

    Chains start where a burn-in of the faster kernel left them. Those of Metropolis-Hastings last four times as long
    as its slow magnetization stays correlated; shorter ones would make it look better than it is.
    """
    model, gen = Ising((side, side), 0.3), generator(0, "bench")
    fast = MultiSite(model, 0.05)
    fast, state = adapt(fast, fast.init(model.space.uniform(chains, gen)), gen, 400)
    slow = MetropolisHastings(model)
    found = [
        _ess_per_step(kernel, state.x, count, max(1, count // 400), gen)
        for kernel, count in ((fast, steps), (slow, mh_steps))
    ]
    worst = min(_ratio(one, other) for one, other in zip(*found, strict=True))
    x = state.x[:TIMED]
    cost = ratio_of_minima(_Walk(fast, x, gen, steps=5), _Walk(slow, x, gen, steps=20), repeats=20) * 20 / 5
    return _Gain(worst, worst / cost)


def _ess_per_step(kernel: Kernel, x: Tensor, steps: int, thin: int, gen: torch.Generator) -> list[Tensor]:
    """Effective draws a chain and step, of energy and of magnetization, for each group of chains ``(G,)``."""
    model: Any = kernel.model  # type: ignore[attr-defined]
    traces: list[list[Tensor]] = [[], []]
    for draw in stream(kernel, x, steps=steps, thin=thin, generator=gen):
        traces[0].append(model.log_density(draw.state.x))
        traces[1].append(draw.state.x.double().mean(-1))
    each = len(x) // GROUPS
    return [
        torch.tensor([summarize(part).ess / (each * steps) for part in torch.split(torch.stack(trace), each, 1)])
        for trace in traces
    ]


def _ratio(one: Tensor, other: Tensor) -> float:
    """Of the means over groups, less two standard errors."""
    relative = hypot(*(float(part.std() / part.mean()) / len(part) ** 0.5 for part in (one, other)))
    return float(one.mean() / other.mean()) * (1 - 2 * relative)
