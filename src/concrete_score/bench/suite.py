"""The benchmark figures as plain strings, name -> the function that measures it; and the start of ``csm`` itself.

``samplers`` stands for a group, one figure a problem, which is long and therefore taken only when it is named.
"""

import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module

from concrete_score.bench.checks import Check, ratio_of_minima
from concrete_score.errors import InputError, nearest

FIGURES = {
    "startup": "concrete_score.bench.suite:help_over_torch_import",
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

    def fresh(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)

    value = ratio_of_minima(
        lambda: fresh("-m", "concrete_score", "--help"), lambda: fresh("-c", "import torch"), repeats=3
    )
    return Check.at_most("csm --help / import torch", value, 0.5)
