"""``twenty``: density-estimation sets of bits, each by ``csm fit`` with nothing said, beside published numbers.

Every set of the family that the data folder holds is one unit, kept when it is done; so are truths that are known, and
a few sets with less and more time. Sets of another family are there for the floor: no fit may fall below independent
columns or a Chow–Liu tree.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import nan, sqrt
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from concrete_score.baselines import ChowLiu, Independent
from concrete_score.bench.checks import Check
from concrete_score.data.catalog import SPLITS, data_sets, present
from concrete_score.errors import InputError
from concrete_score.experiments.result import Findings, Settings, table
from concrete_score.experiments.runner import Unit, complete
from concrete_score.experiments.table1.cells import log_likelihoods
from concrete_score.fitting import Request, Splits, load_splits, prepare
from concrete_score.randomness import generator
from concrete_score.targets.bayesian_network import random_network

PUBLISHED: Mapping[str, Mapping[str, float]] = {
    name: {"HCLT": tree, "continuous mixture": mixture}
    for name, tree, mixture in (
        ("nltcs", -6.00, -5.99),
        ("msnbc", -6.06, -6.05),
        ("plants", -14.27, -12.26),
        ("jester", -52.38, -51.93),
        ("kosarek", -10.60, -10.55),
        ("dna", -79.05, -84.58),
        ("msweb", -9.91, -9.57),
        ("tmovie", -50.54, -48.69),
        ("cwebkb", -150.84, -147.75),
    )
}
"""Mean test log-likelihoods as printed: hidden Chow–Liu trees, and the best mixture with a continuous latent."""
FAMILY, FLOOR = "twenty", "amazon"
"""Folders of the sets that are compared, and of those that are only held against their own baselines."""
BASELINES: Mapping[str, Any] = {"independent": Independent, "chow_liu": ChowLiu}
CLOSE, MINUTES, ENOUGH = 0.01, 10.0, 6.0
"""How far below the published number, relatively, a set may stay; minutes of a fit; sets at or above."""
TRUTHS = {12: 0.05, 60: 0.3, 300: 2.0}
"""Columns of random networks, and how many nats below the truth their fit may stay."""
ROWS, TEST = 20_000, 20_000
TIMED: tuple[str, ...] = ("nltcs", "dna", "tmovie")
GIVEN = (1.0, 3.0, 9.0)
"""Sets that are also learned in so many minutes."""
QUICK_SET, QUICK_MINUTES = "nltcs", 0.05


def run(settings: Settings) -> Findings:
    """Every set that is here, and what is known of the truth.

    Raises:
        InputError: none of the sets is here.
    """
    found = complete(units(settings), settings)
    sets = {name: found[name] for name in (*_here(FAMILY), *_here(FLOOR)) if name in found}
    paper = {name: dict(PUBLISHED[name]) for name in sets if name in PUBLISHED}
    checks = quick_checks(sets) if settings.quick else full_checks(found, sets)
    return Findings(paper, found, checks, text=markdown(sets))


def units(settings: Settings) -> list[Unit]:
    """What is to be fitted, the smallest sets first."""
    if settings.quick:
        return [Unit(QUICK_SET, learned, {"dataset": QUICK_SET, "minutes": QUICK_MINUTES})]
    names = (*_here(FAMILY), *_here(FLOOR))
    if not names:
        raise InputError("at least one of the sets in the data folder", "none", where=FAMILY)
    return [
        *(Unit(name, learned, {"dataset": name, "minutes": None}) for name in names),
        *(Unit(f"truth-{columns}", truth, {"columns": columns}) for columns in TRUTHS),
        *(
            Unit(f"{name}-{minutes:g}", learned, {"dataset": name, "minutes": minutes})
            for name in TIMED
            if name in names
            for minutes in GIVEN
        ),
    ]


def _here(folder: str) -> list[str]:
    """The sets of a folder of which every split is on this machine, those of the fewest cells first."""
    sets = {name: entries for name, entries in data_sets().items() if set(entries) >= set(SPLITS)}
    found = [
        name
        for name, entries in sets.items()
        if entries["train"].file.startswith(f"{folder}/")
        and all(present(entries[split], None) is not None for split in SPLITS)
    ]
    return sorted(found, key=lambda name: sets[name]["train"].raw_bytes)


def learned(settings: Settings, *, dataset: str, minutes: float | None) -> dict[str, Any]:
    """One set: exact log-likelihoods of its held-out rows, beside those of the simple models.

    Args:
        settings: the experiment's.
        dataset: a named set.
        minutes: given to the fit, if any.
    """
    rows = load_splits(dataset)
    said: list[str] = []
    began = perf_counter()
    request = Request(dataset, training={"seed": settings.seed, "minutes": minutes})
    job = prepare(request, say=lambda line: said.append(str(line)))
    found = job.train(device=settings.device)
    seconds = perf_counter() - began
    weights = getattr(found.model, "log_weights", None)
    return {
        "rows": len(rows.train),
        "columns": rows.space.num_sites,
        **_held_out(found.model, rows),
        "baselines": {name: _held_out(kind.fit(rows.train, rows.space), rows) for name, kind in BASELINES.items()},
        "weights": [] if weights is None else [round(each, 4) for each in weights.exp().tolist()],
        "chosen": [line.removeprefix("chosen: ") for line in said if line.startswith("chosen: ")],
        "steps": found.ended.step,
        "minutes": round(seconds / 60, 2),
    }


def _held_out(model: Any, rows: Splits) -> dict[str, float]:
    """Mean log-likelihoods, and the standard error over test rows."""
    valid, test = log_likelihoods(model, rows.valid), log_likelihoods(model, rows.test)
    return {
        "valid": float(valid.mean()),
        "valid_stderr": _stderr(valid),
        "test": float(test.mean()),
        "stderr": _stderr(test),
    }


def _stderr(values: Tensor) -> float:
    return float(values.std()) / sqrt(len(values))


def truth(settings: Settings, *, columns: int) -> dict[str, Any]:
    """A random network of mixed categories, each with at most two parents: nats below its own log-likelihood."""
    sizes = torch.randint(2, 7, (columns,), generator=generator(settings.seed, "sizes", columns)).tolist()
    network = random_network(sizes, 2, generator(settings.seed, "truth", columns))
    rows, test = (network.sample(n, generator(settings.seed, name)) for n, name in ((ROWS, "rows"), (TEST, "test")))
    job = prepare(Request(rows.numpy(), training={"seed": settings.seed}))
    found = job.train(device=settings.device)
    states = job.codec.encode(job.codec.accept(test.numpy()), missing="refuse", unknown="reserve").states
    gap = network.log_density(test) - log_likelihoods(found.model, states)
    return {"gap": float(gap.mean()), "stderr": _stderr(gap), "minutes": round(found.ended.seconds / 60, 2)}


Sets = Mapping[str, Mapping[str, Any]]


def best(name: str) -> float:
    """The better published number."""
    return max(PUBLISHED[name].values())


def full_checks(found: Sets, sets: Sets) -> tuple[Check, ...]:
    """Every figure the experiment must show; one that is not there yet fails."""
    listed = {name: sets[name]["test"] if name in sets else nan for name in PUBLISHED}
    # Printed numbers have two decimals.
    above = sum(round(value, 2) >= best(name) for name, value in listed.items())
    short = [(best(name) - value) / -best(name) for name, value in listed.items()]
    gaps = {columns: found.get(f"truth-{columns}", {}).get("gap", nan) for columns in TRUTHS}
    truths = [Check.at_most(f"{each} columns: nats below the truth", gaps[each], most) for each, most in TRUTHS.items()]
    return (
        Check.at_least("sets at or above the better published number", float(above), ENOUGH),
        Check.at_most("the most a set stays below it, relatively", _most(short), CLOSE),
        Check.at_most("the longest fit, minutes", _most([value["minutes"] for value in sets.values()]), MINUTES),
        *floor_checks(sets),
        *truths,
        Check.at_most("validation lost by more minutes, standard errors", _most(lost_by_time(found)), 1.0),
    )


def floor_checks(sets: Sets) -> tuple[Check, ...]:
    """No fit is below a simple model: on validation, and on test beyond two standard errors."""
    pairs = [(value, other) for value in sets.values() for other in value["baselines"].values()]
    valid = _most([other["valid"] - value["valid"] for value, other in pairs])
    test = _most([(other["test"] - value["test"]) / max(value["stderr"], 1e-12) for value, other in pairs])
    return (
        Check.at_most("the most a fit is below a simple model on validation, nats", valid, 1e-3),
        Check.at_most("the most it is below one on test, standard errors", test, 2.0),
    )


def quick_checks(sets: Sets) -> tuple[Check, ...]:
    """What a few seconds must show: no simple model is better."""
    return floor_checks(sets)


def lost_by_time(found: Sets) -> list[float]:
    """By how many standard errors the validation of a set falls from fewer minutes to more."""
    lost = []
    for name in TIMED:
        each = [found.get(f"{name}-{minutes:g}") for minutes in GIVEN]
        for less, more in pairwise(each):
            lost.append(nan if less is None or more is None else (less["valid"] - more["valid"]) / less["valid_stderr"])
    return lost


def _most(values: Sequence[float]) -> float:
    """The largest, or NaN if one is missing."""
    return max(values) if values and all(value == value for value in values) else nan


def markdown(sets: Sets) -> str:
    """Every set beside what is published of it."""
    head = ["set", "rows", "columns", "ours", "±", *next(iter(PUBLISHED.values())), *BASELINES, "minutes"]
    lines = []
    for name, value in sets.items():
        known = [f"{number:.2f}" for number in PUBLISHED.get(name, {}).values()] or ["", ""]
        simple = [f"{value['baselines'][each]['test']:.2f}" for each in BASELINES]
        ours = [f"{value['rows']:,}", str(value["columns"]), f"{value['test']:.3f}", f"{value['stderr']:.3f}"]
        lines.append([name, *ours, *known, *simple, f"{value['minutes']:.1f}"])
    return f"## Mean test log-likelihood, nats a row\n\n{table(head, lines)}\n\n{_NOTES}"


_NOTES = """\
Ours is exact, with the settings that `csm fit` chooses, the same rule for every set; whatever was
chosen was chosen on training and validation rows alone. ± is the standard error over test rows."""
