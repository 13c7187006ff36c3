"""Rows given conditions, from random models and random conditions: do they meet them, follow them, and come soon?

``small``: networks of at most 200 states under conditions that rule values out, single ones and soft weights; total
variation between 100,000 rows and the exact conditional, by every source of rows. ``rare``: larger networks under
conjunctions of late columns of probability about 1e-4; how long 1,000 such rows take, beside 1,000 free ones.
"""

from time import process_time
from typing import Any

import torch
from torch import Tensor

from concrete_score.baselines import ChowLiu
from concrete_score.bench.checks import Check
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.runner import Unit, complete
from concrete_score.fitted import Fitted
from concrete_score.models import MADE, Energy, Table
from concrete_score.randomness import generator
from concrete_score.samplers.evidence import Evidence
from concrete_score.samplers.sources import Source, Weighted, source
from concrete_score.spaces import Space
from concrete_score.targets.bayesian_network import random_network

SMALL = Space((2, 5, 4, 5))
LARGE = Space((2, 3, 4, 2, 3, 2, 5, 2, 3, 2, 4))
LATE = 5
"""The last columns of `LARGE`, which a condition fixes."""
ROWS, FEWER = 100_000, 20_000
RARE_ROWS, REPEATS = 1_000, 5
CASES, RARE_CASES = 5, 5
FARTHEST, LONGEST, CHANCE = 0.02, 20.0, 1e-4
NEAR = (5e-5, 2e-4)
"""What counts as about `CHANCE`."""


def run(settings: Settings) -> Findings:
    """Several models and conditions of each kind."""
    cases, rare_cases = (2, 1) if settings.quick else (CASES, RARE_CASES)
    units = [Unit(f"small-{case}", small, {"case": case}) for case in range(cases)]
    units += [Unit(f"rare-{case}", rare, {"case": case}) for case in range(rare_cases)]
    found = complete(units, settings)
    near = [each for name, each in found.items() if name.startswith("small")]
    far = [each for name, each in found.items() if name.startswith("rare")]
    distances = {name: max(each["distance"][name] for each in near) for name in near[0]["distance"]}
    checks = [
        Check.equal("rows that violate their condition", sum(each["violations"] for each in near + far), 0),
        *(
            Check.at_most(
                f"{name}: largest total variation to the exact conditional", value, FARTHEST * _slack(settings)
            )
            for name, value in distances.items()
        ),
        *(
            Check.within(f"rare: {what} probability of a condition", choose(each["probability"] for each in far), *NEAR)
            for what, choose in (("least", min), ("largest", max))
        ),
        Check.at_most("rare rows over free ones, longest time", max(each["times"] for each in far), LONGEST),
        Check.at_most("rare: error of the stated probability, largest |z|", max(each["z"] for each in far), 4.5),
    ]
    return Findings({}, found, tuple(checks))


def _slack(settings: Settings) -> float:
    """The quick size draws a fifth of the rows, whose own spread is that much wider."""
    return (ROWS / FEWER) ** 0.5 if settings.quick else 1.0


def small(settings: Settings, case: int) -> dict[str, Any]:
    """One condition on models of 200 states: violations, and total variation by each source of rows."""
    rows = FEWER if settings.quick else ROWS
    evidence = random_condition(SMALL, generator(case, "condition"))
    models = _models(case)
    ways: dict[str, tuple[Any, Source]] = {
        name: (model, source(model, evidence, rows)) for name, model in models.items()
    }
    ways["made, weighted draws"] = models["made"], Weighted(models["made"], evidence)
    distance, violations, method = {}, 0, {}
    for name, (model, way) in ways.items():
        states = _drawn(way, rows, generator(settings.seed, f"{name} {case}"))
        exact = _exact(model, evidence).softmax(0)
        share = torch.bincount(SMALL.index(states), minlength=SMALL.num_states) / len(states)
        distance[name], method[name] = float((share - exact).abs().sum()) / 2, way.name
        violations += int((evidence.log_weight(states) == -torch.inf).sum())
    return {"distance": distance, "violations": violations, "method": method, "states": evidence.num_states}


def rare(settings: Settings, case: int) -> dict[str, Any]:
    """The conjunction of late columns whose probability is nearest to 1e-4: how many times as long its rows take."""
    model = _made(LARGE, case)
    states = LARGE.enumerate()
    log_q = torch.cat([model.log_density(part) for part in torch.split(states, 2**13)])
    late = Space(LARGE.sizes[-LATE:])
    chances = torch.zeros(late.num_states, dtype=torch.float64)
    chances.index_add_(0, late.index(states[:, -LATE:]), log_q.double().exp())
    wanted = late.state((chances.log() - torch.tensor(CHANCE).log()).abs().argmin()).tolist()
    given = dict(zip(range(LARGE.num_sites - LATE, LARGE.num_sites), wanted, strict=True))
    fitted = Fitted(model, LARGE, limit=0)
    chance = float(chances[late.index(torch.tensor(wanted))])
    seed = settings.seed
    free = _seconds(lambda: fitted.sample(RARE_ROWS, generator(seed, "free")))
    took = _seconds(lambda: fitted.sample(RARE_ROWS, generator(seed, "rare"), given))
    found = fitted.sample(RARE_ROWS, generator(seed, "rare"), given)
    met = torch.stack([found.states[:, site] == value for site, value in given.items()]).all(0)
    said = found.probability
    if said is None:
        raise RuntimeError("weighted draws know the probability of a condition")
    return {
        "probability": chance,
        "said": said.value,
        "z": abs(said.value - chance) / said.stderr,
        "violations": int((~met).sum()),
        "times": took / free,
        "method": found.method,
    }


def random_condition(space: Space, random: torch.Generator) -> Evidence:
    """A single value of one column, values ruled out in another, weights in a third; the rest is free."""
    single, ruled, weighed = torch.randperm(space.num_sites, generator=random)[:3].tolist()
    table = torch.zeros(space.num_sites, max(space.sizes), dtype=torch.float64)
    kept = int(torch.randint(space.sizes[single], (), generator=random))
    table[single] = -torch.inf
    table[single, kept] = 0.0
    table[ruled, int(torch.randint(space.sizes[ruled], (), generator=random))] = -torch.inf
    table[weighed] = -2 * torch.rand(max(space.sizes), generator=random, dtype=torch.float64)
    return Evidence(space, table)


def _models(case: int) -> dict[str, Any]:
    random = generator(case, "network")
    rows = random_network(SMALL.sizes, 2, random).sample(500, random)
    return {
        "table": Table(SMALL, random, dtype=torch.float64).requires_grad_(False),
        "made": _made(SMALL, case),
        "chow_liu": ChowLiu.fit(rows, SMALL),
        "energy": Energy(SMALL, hidden=(8,), generator=random, dtype=torch.float64).requires_grad_(False),
    }


def _made(space: Space, case: int) -> MADE:
    """Three times the first weights: conditionals then depend on the other sites."""
    model = MADE(space, hidden=24, order_seed=None, generator=generator(case, "made"), dtype=torch.float64)
    model.load_state_dict({name: 3 * value for name, value in model.state_dict().items()})
    return model.requires_grad_(False)


def _drawn(way: Source, rows: int, random: torch.Generator) -> Tensor:
    return torch.cat([batch.states for batch in way.batches(rows, random)])


def _exact(model: Any, evidence: Evidence) -> Tensor:
    """``log q(x) e(x)`` of every state ``(S,)``."""
    states = evidence.space.enumerate()
    log_density: Tensor = model.log_density(states).double()
    return log_density + evidence.log_weight(states)


def _seconds(work: Any) -> float:
    """The shortest of several turns."""
    took = []
    for _ in range(REPEATS):
        start = process_time()
        work()
        took.append(process_time() - start)
    return min(took)
