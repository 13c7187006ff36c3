"""The benchmark figures as plain strings, name -> the function that measures it; and the start of ``csm`` itself.

``samplers`` stands for a group, one figure a problem, which is long and therefore taken only when it is named.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from concrete_score.bench.checks import Check, Work, ratio_of_minima
from concrete_score.errors import InputError, nearest

FIGURES = {
    "startup": "concrete_score.bench.suite:help_over_torch_import",
    "first_step": "concrete_score.bench.suite:first_step_over_torch_import",
    "draw": "concrete_score.bench.neighborhoods:draw_over_clone",
    "neighbors": "concrete_score.bench.neighborhoods:neighbors_over_fill",
    "edges": "concrete_score.bench.neighborhoods:step_growth_over_network",
    "train_mlp": "concrete_score.bench.training:step_of_mlp",
    "train_table": "concrete_score.bench.training:step_of_table",
    "train_made": "concrete_score.bench.training:step_of_made",
    "checkpoint": "concrete_score.bench.training:checkpoint_share",
    "tables": "concrete_score.bench.tables:read_over_polars",
    "rare_rows": "concrete_score.bench.tables:rare_rows_over_free",
    "structure": "concrete_score.bench.structure:search_over_product",
    "structure_memory": "concrete_score.bench.structure:search_memory",
    "mh": "concrete_score.bench.samplers:mh_step",
    "informed": "concrete_score.bench.samplers:informed_step",
    "ess_step": "concrete_score.bench.samplers:ess_per_step",
    "ess_second": "concrete_score.bench.samplers:ess_per_second",
    "train_unet": "concrete_score.bench.training:train_unet",
    "annealed_mh": "concrete_score.bench.samplers:annealed_mh_step",
    "potts_step": "concrete_score.bench.sequences:potts_step",
    "potts_ratios": "concrete_score.bench.sequences:potts_ratios",
    "train_transformer": "concrete_score.bench.sequences:transformer_step",
    "channels_last": "concrete_score.bench.training:channels_last",
}

GROUPS = {
    "samplers": {
        f"samplers:{problem}": problem
        for problem in (
            "ising_0.3",
            "ising_0.44",
            "ising_field",
            "spin_glass",
            "potts_4",
            "potts_8",
            "rbm_25",
            "rbm_200",
            "factorial_hmm",
        )
    }
}
"""Figures of a group -> the problem they are taken on."""
MEMBERS = {name: problem for group in GROUPS.values() for name, problem in group.items()}


def chosen(names: Sequence[str] = ()) -> list[str]:
    """The named figures, or all of them; a group's name stands for its figures.

    Raises:
        InputError: a name is not known.

    >>> chosen(["draw"]), len(chosen(["samplers"]))
    (['draw'], 9)
    """
    found: list[str] = []
    for name in names:
        if name not in FIGURES and name not in GROUPS and name not in MEMBERS:
            raise InputError("the name of a bench figure", repr(name), fix=nearest(name, [*FIGURES, *GROUPS]))
        found += GROUPS.get(name, [name])
    return found or list(FIGURES)


def take(name: str) -> Check:
    """Measure one figure now."""
    (name,) = chosen([name])
    if name in MEMBERS:
        member: Check = import_module("concrete_score.bench.efficiency").best_over_textbook(MEMBERS[name])
        return member
    module, _, attribute = FIGURES[name].partition(":")
    check: Check = getattr(import_module(module), attribute)()
    return check


def help_over_torch_import() -> Check:
    """``csm --help`` against importing PyTorch, each in a fresh interpreter."""
    value = _over_torch_import(lambda: _fresh("-m", "concrete_score", "--help"))
    return Check.at_most("csm --help / import torch", value, 0.5)


def first_step_over_torch_import(rows: int = 1_000, columns: int = 10) -> Check:
    """A fit of a small table that ends after its first step, against importing PyTorch."""
    from concrete_score.bench.tables import mixed_table

    with TemporaryDirectory() as folder:
        data, out = Path(folder) / "rows.csv", Path(folder) / "run"
        mixed_table(rows, columns).write_csv(data)
        words = ("fit", str(data), "--out", str(out), "--steps", "1", "--no-report", "--force", "--quiet")
        value = _over_torch_import(lambda: _fresh("-m", "concrete_score", *words))
    return Check.at_most(f"csm fit --steps 1 of {rows} x {columns} / import torch", value, 3.0)


def _over_torch_import(work: Work) -> float:
    return ratio_of_minima(work, lambda: _fresh("-c", "import torch"), repeats=3, clock=_children_seconds)


def _fresh(*words: str) -> None:
    """Run a new interpreter."""
    subprocess.run([sys.executable, *words], check=True, capture_output=True)


def _children_seconds() -> float:
    """Processor time of all interpreters that were run so far: what else the machine does is no part of it."""
    spent = os.times()
    return spent.children_user + spent.children_system
