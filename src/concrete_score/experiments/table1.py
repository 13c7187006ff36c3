"""Table 1: eight data sets of bits, a MADE trained by every method (paper, section 5.4, appendices B.1 and C.3).

Each cell is one unit, kept when it is done. The order is such that an interrupted table says as much as it can: first
maximum likelihood and the self-proposals on every set, then the paper's objectives, then further seeds.
"""

from collections.abc import Iterator
from dataclasses import replace

from concrete_score.data.named import entry_of, locate
from concrete_score.experiments.result import Findings, Settings
from concrete_score.experiments.table1_cells import BASELINES, METHODS, QUICK, baseline, cell
from concrete_score.experiments.table1_tables import findings
from concrete_score.experiments.units import Unit, complete

DATASETS = ("nltcs", "gifts", "media", "toys", "plants", "diaper", "feeding", "jester")
"""The cheapest first."""
SEEDS = 3
"""Of every method on the sets of `EVERY`, and of those in `COMPARED` on all: on ``plants`` seeds differ by 0.1 nat."""
COMPARED = ("maximum_likelihood", "maximum_likelihood_averaged", "self_proposal_logistic")
EVERY = ("nltcs", "gifts", "media")
QUICK_DATASETS = ("nltcs", "gifts")
FIRST = (("maximum_likelihood", "maximum_likelihood_averaged"), ("self_proposal_logistic", "self_proposal_csm"))
"""The methods the table is about, in groups: a group is trained on every set before the next one is."""


def run(settings: Settings) -> Findings:
    """Every cell, and the table.

    Raises:
        InputError: a data set is not here; before any work, it says which file to put where.
    """
    return _rendered(settings, likelihood=False)


def run_table2(settings: Settings) -> Findings:
    """Table 2, which is table 1 with the column of maximum likelihood: the same cells, none trained twice."""
    store = None if settings.store is None else settings.store.parent / "table1"
    return _rendered(replace(settings, store=store), likelihood=True)


def _rendered(settings: Settings, *, likelihood: bool) -> Findings:
    datasets = QUICK_DATASETS if settings.quick else DATASETS
    for name in datasets:
        for split in ("train", "valid", "test"):
            locate(entry_of(f"{name}:{split}", split))
    cells = complete(list(units(settings)), settings)
    return findings(list(cells.values()), datasets, quick=settings.quick, likelihood=likelihood)


def units(settings: Settings) -> Iterator[Unit]:
    """All cells, the most telling first."""
    datasets = QUICK_DATASETS if settings.quick else DATASETS
    for name in datasets:
        for method in BASELINES:
            yield Unit(f"{name}-{method}-0", baseline, {"dataset": name, "method": method, "seed": settings.seed})
    for number in range(1 if settings.quick else SEEDS):
        for methods in _groups():
            for name in datasets:
                if number == 0 or name in EVERY:
                    yield from (_unit(name, method, number, settings) for method in methods)
    for number in range(1, 1 if settings.quick else SEEDS):
        for name in datasets:
            if name not in EVERY:
                yield from (_unit(name, method, number, settings) for method in COMPARED)


def _groups() -> list[tuple[str, ...]]:
    """Methods in the order they are trained."""
    first = [method for group in FIRST for method in group]
    return [*FIRST, tuple(name for name in METHODS if name not in first)]


def _unit(dataset: str, name: str, number: int, settings: Settings) -> Unit:
    method = METHODS[name]
    training = dict(method.training)
    if settings.quick:
        training.update({key: value for key, value in QUICK.items() if key in training})
    options = {
        "dataset": dataset,
        "method": name,
        "seed": settings.seed + number,
        "recipe": dict(method.recipe),
        "training": training,
    }
    return Unit(f"{dataset}-{name}-{number}", cell, options)
