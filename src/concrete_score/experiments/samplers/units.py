"""What the comparison of samplers measures, a unit each: problems, costs of a step, independent sets, a sandwich."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from time import process_time
from typing import Any, ClassVar

import torch
from torch import Tensor

from concrete_score.bench.dmala import TextbookDMALA
from concrete_score.bench.efficiency import FULL as FULL_EFFORT
from concrete_score.bench.efficiency import QUICK as LITTLE
from concrete_score.bench.efficiency import Effort, compare, sample, start, time_in_turns
from concrete_score.bench.plain_annealing import PlainBlockGibbs, PlainRBMPath
from concrete_score.bench.problems import PROBLEMS, SMALL, disk, glass, trained_rbm
from concrete_score.experiments.result import Settings
from concrete_score.likelihood import Annealing, RBMPath, ais, default_kernel, linear, raise_, reverse_ais
from concrete_score.protocols import State
from concrete_score.randomness import generator
from concrete_score.samplers import (
    Auxiliary,
    Colored,
    GibbsWithGradients,
    MultiSite,
    Tempering,
    anneal,
    autocorrelation_time,
)
from concrete_score.targets import Ising, erdos_renyi, independent_set, random_rbm
from concrete_score.targets.boltzmann import RBM

FIVE = (1.0, 0.84, 0.68, 0.52, 0.36)
"""Inverse temperatures whose cost is compared."""
TEMPERATURES = (0.6, 0.12)
"""Of the independent sets, for both ways: from where nodes come and go to where an edge inside hardly ever stays."""


@dataclass(frozen=True)
class SamplersSize:
    """How much of everything."""

    effort: Effort = FULL_EFFORT
    sides: tuple[int, ...] = (30, 100, 316)
    chains: tuple[int, ...] = (1, 8, 64, 256, 1024)
    cost_turns: int = 6
    graphs: int = 32
    nodes: tuple[int, int] = (700, 800)
    anneal_steps: int = 300
    rungs: int = 500
    annealed_chains: int = 200
    hidden: int = 25


FULL = SamplersSize()
QUICK = SamplersSize(
    LITTLE, sides=(10, 20), chains=(1, 16), cost_turns=2, graphs=2, nodes=(30, 40), anneal_steps=40, rungs=20,
    annealed_chains=20, hidden=6,
)  # fmt: skip


def size_of(settings: Settings) -> SamplersSize:
    """Everything, or what ends in seconds."""
    return QUICK if settings.quick else FULL


def problem(settings: Settings, name: str) -> dict[str, Any]:
    """Every kernel on one problem."""
    found = (SMALL if settings.quick else PROBLEMS)[name]()
    rows = compare(found, size_of(settings).effort, settings.seed, settings.say)
    return {"title": found.name, "rows": [row.to_json() for row in rows]}


def single_flips(settings: Settings) -> dict[str, Any]:
    """How long the energy of a lattice in a field is remembered by single informed flips, in steps.

    They forget so slowly that few chains and much time are needed to tell.
    """
    found = disk(6 if settings.quick else 50)
    effort = replace(size_of(settings).effort, chains=16, seconds=1.0 if settings.quick else 90.0, wanted=20.0)
    g = generator(settings.seed, "single flips")
    traces = sample(GibbsWithGradients(found.model), start(found, effort, settings.seed), found, effort, g, thin=50)
    time = autocorrelation_time(traces.energy)
    return {"time": 50 * time.value, "time_error": 50 * time.error, "long_enough": time.long_enough}


def cost(settings: Settings) -> dict[str, Any]:
    """Milliseconds of processor time a step, by sites at 64 chains and by chains at 900 sites, and their slopes."""
    size = size_of(settings)
    builders: dict[str, Callable[[Any], Any]] = {"colored": Colored, "multi_site": MultiSite}
    by_sites = {side * side: _costs(builders, side, 64, size) for side in size.sides}
    by_chains = {chains: _costs(builders, size.sides[0], chains, size) for chains in size.chains}
    found: dict[str, Any] = {}
    for name in builders:
        for what, table in (("sites", by_sites), ("chains", by_chains)):
            found[f"{name}, by {what}"] = {str(count): round(1e3 * each[name], 4) for count, each in table.items()}
        found[f"{name}, slope in sites"] = _slope(by_sites, name)
        found[f"{name}, slope in chains"] = _slope(by_chains, name)
    return found


def _costs(builders: dict[str, Callable[[Any], Any]], side: int, chains: int, size: SamplersSize) -> dict[str, float]:
    model, g = Ising((side, side), 0.3), generator(0, f"cost {side} {chains}")
    x = model.space.uniform(chains, g)
    kernels = {name: builder(model) for name, builder in builders.items()}
    return time_in_turns({name: (kernel, kernel.init(x)) for name, kernel in kernels.items()}, size.cost_turns)


def _slope(table: dict[int, dict[str, float]], name: str) -> float:
    """From the first to the last entry, both axes in logarithms."""
    (first, last) = (min(table), max(table))
    return log(table[last][name] / table[first][name]) / log(last / first)


class OneByOne(MultiSite):
    """Copies at other temperatures one after the other, as if it did not know how to have them all in one batch."""

    batched: ClassVar[bool] = False


def tempering_cost(settings: Settings) -> dict[str, Any]:
    """A step of five temperatures: all copies in one batch, over one after the other by gradients as it was before.

    ``apart`` goes one by one too, but by the same local fields as the batch: what the batch alone is worth.
    """
    found = glass(20 if settings.quick else 100)
    size, x = size_of(settings), found.model.space.uniform(64, generator(settings.seed, "tempering cost"))
    kernels = {
        "batch": Tempering(found.model, FIVE, MultiSite),
        "apart": Tempering(found.model, FIVE, OneByOne),
        "before": Tempering(found.hidden, FIVE, OneByOne),
    }
    seconds = time_in_turns({name: (kernel, kernel.init(x)) for name, kernel in kernels.items()}, size.effort.turns)
    over = {f"over_{name}": seconds["batch"] / seconds[name] for name in ("apart", "before")}
    return {**seconds, **over}


def independent_sets(settings: Settings) -> dict[str, Any]:
    """The largest sets that annealed chains find on fresh graphs, ours beside the textbook loop's."""
    size = size_of(settings)
    sets: dict[str, list[int]] = {"ours": [], "textbook": []}
    seconds = dict.fromkeys(sets, 0.0)
    for k in range(size.graphs):
        g = generator(settings.seed, "independent sets", k)
        nodes = int(torch.randint(size.nodes[0], size.nodes[1] + 1, (), generator=g))
        model = independent_set(nodes, erdos_renyi(nodes, 0.15, g))
        for name, way in (("ours", _ours), ("textbook", _textbook)):
            begun = process_time()
            value = way(model, size.anneal_steps, g)
            seconds[name] += process_time() - begun
            # Less a penalty of 1.0001 for every edge inside: what is left after dropping one end of each.
            sets[name].append(ceil(value - 5e-5))
        if settings.say is not None:
            settings.say(f"graph {k + 1}: {sets['ours'][-1]} and {sets['textbook'][-1]}")
    gains = torch.tensor(sets["ours"]).double() - torch.tensor(sets["textbook"]).double()
    return {
        **{name: sum(found) / len(found) for name, found in sets.items()},
        "gain": float(gains.mean()),
        "gain_error": float(gains.std()) / sqrt(len(gains)),
        "seconds_a_graph": seconds["ours"] / size.graphs,
        "textbook_seconds_a_graph": seconds["textbook"] / size.graphs,
        "sets": sets,
    }


def _ours(model: Any, steps: int, g: torch.Generator) -> float:
    start = torch.zeros(32, model.space.num_sites, dtype=torch.int64)
    return float(anneal(model, start, steps=steps, generator=g, temperatures=TEMPERATURES).log_density.max())


def _textbook(model: Any, steps: int, g: torch.Generator) -> float:
    """The same temperatures; the step size follows the acceptance all the way, as nothing needs to be kept."""
    matrix = torch.zeros(model.space.num_sites, model.space.num_sites)
    head, tail = model.edges.T
    matrix[head, tail] = float(model.couplings[0, 1, 1])

    def energy(x: Tensor) -> Tensor:
        return x.sum(-1) + ((x @ matrix) * x).sum(-1)

    first, last = TEMPERATURES
    state: State = TextbookDMALA(model.space, energy).init(torch.zeros(32, model.space.num_sites, dtype=torch.int64))
    best, log_step = -torch.inf, -2.0
    for k in range(steps):
        beta = (first / last) ** (k / max(1, steps - 1)) / first
        kernel = TextbookDMALA(model.space, lambda x, beta=beta: beta * energy(x), min(1.0, 2.718281828**log_step))  # type: ignore[misc]
        state, info = kernel.step(state, g)
        log_step = min(0.0, log_step + (float(info.accepted.double().mean()) - 0.57) * 0.2)
        best = max(best, float(energy(state.memory).max()))
    return best


def sandwich(settings: Settings) -> dict[str, Any]:
    """AIS, reverse AIS and RAISE of an RBM, by the fast kernels and written plainly: width, and processor time.

    An RBM of 25 hidden units has no exact draws to start reverse AIS from; a long run of its own chains stands in, the
    same for both.
    """
    size, g = size_of(settings), generator(settings.seed, "sandwich")
    model: RBM = random_rbm(30, size.hidden, 0.3, g) if settings.quick else trained_rbm(size.hidden)
    chains = Auxiliary(model)
    state = chains.init(model.space.uniform(size.annealed_chains, g))
    for _ in range(20 * size.rungs):
        state, _ = chains.step(state, g)
    bias = state.x.double().mean(0).clamp(0.01, 0.99).logit()
    found: dict[str, Any] = {}
    path = RBMPath(model, bias)
    schedule = linear(size.rungs)
    ways = {
        "fast": Annealing(path, schedule, default_kernel),
        "plain": Annealing(PlainRBMPath(path), schedule, PlainBlockGibbs),  # type: ignore[arg-type]
    }
    for name, annealing in ways.items():
        begun, own = process_time(), generator(settings.seed, f"sandwich {name}")
        above = ais(annealing, size.annealed_chains, own)
        below = reverse_ais(annealing, state.x, own)
        raised = raise_(annealing, state.x, own)
        found[name] = {
            "seconds": process_time() - begun,
            "log_z_from_below": above.value,
            "log_z_from_above": below.value,
            "width": below.value - above.value,
            "width_error": sqrt(above.stderr**2 + below.stderr**2),
            "raise": raised.mean,
            "raise_spread": float(raised.values.std()) / sqrt(len(raised.values)),
        }
    found["seconds_ratio"] = found["fast"]["seconds"] / found["plain"]["seconds"]
    found["wider_by"] = found["fast"]["width"] - found["plain"]["width"]
    found["wider_error"] = sqrt(found["fast"]["width_error"] ** 2 + found["plain"]["width_error"] ** 2)
    return found
