"""Chains for other libraries: ArviZ's data tree, which its plots, summaries and comparisons read."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from concrete_score import __version__
from concrete_score.errors import InputError
from concrete_score.samplers.diagnosis import Diagnosis

STATE = "x"
"""The variable that holds the states."""
LOG_DENSITY, LP = "log_density", "lp"
"""Our name of it among what was watched, and ArviZ's."""


@runtime_checkable
class Chains(Protocol):
    """What a run of chains must offer to be given away (`run.Samples` does)."""

    @property
    def draws(self) -> Tensor: ...
    @property
    def traces(self) -> Mapping[str, Tensor]: ...
    @property
    def accepted(self) -> Tensor | None: ...
    @property
    def burn_in(self) -> int: ...
    @property
    def thin(self) -> int: ...
    @property
    def diagnosis(self) -> Diagnosis | None: ...


def to_arviz(samples: Chains, names: Sequence[str] | None = None) -> Any:
    """Chains as an ``xarray.DataTree`` by ArviZ's conventions, the successor of ``InferenceData``.

    ``posterior`` holds the states ``x`` ``(chain, draw, site)`` and every watched statistic but the log-density
    ``(chain, draw)``; ``sample_stats`` holds the log-density as ``lp`` and ``acceptance_rate``, the share of moves
    accepted since the draw before.

    Args:
        samples: a run whose draws were kept.
        names: of the sites; numbers from 0 by default.

    Raises:
        InputError: arviz-base is not installed, no draws were kept, or there are not as many names as sites.

    >>> import torch
    >>> from concrete_score.samplers import Gibbs, run
    >>> from concrete_score.targets import Ising
    >>> chains = run(Gibbs(Ising((2, 2), 0.2)), 4, steps=50, generator=torch.Generator().manual_seed(0))
    >>> tree = chains.to_arviz(["a", "b", "c", "d"])
    >>> dict(tree["posterior"].sizes), sorted(tree["sample_stats"].data_vars)
    ({'chain': 4, 'draw': 50, 'site': 4}, ['acceptance_rate', 'lp'])
    """
    try:
        arviz = import_module("arviz_base")
    except ImportError:
        fix = "pip install 'concrete-score[arviz]'"
        raise InputError("arviz-base", "an installation without it", fix=fix) from None
    draws = samples.draws
    if not len(draws) or samples.accepted is None:
        raise InputError("draws that were kept", "none", "samples", "run the chains with keep=True")
    sites = draws.shape[-1]
    if names is not None and len(names) != sites:
        raise InputError(f"{sites} names, one a site", f"{len(names)}", "names")
    watched = {name: _by_chain(trace) for name, trace in samples.traces.items()}
    own = {LP: watched.pop(LOG_DENSITY)} if LOG_DENSITY in watched else {}
    if STATE in watched:
        raise InputError(f"statistics of other names than {STATE!r}", "that one", "statistics", "rename it")
    return arviz.from_dict(
        {
            "posterior": {STATE: _by_chain(draws), **watched},
            "sample_stats": {**own, "acceptance_rate": _by_chain(samples.accepted)},
        },
        coords={"site": np.arange(sites) if names is None else list(names)},
        dims={STATE: ["site"]},
        attrs={"/": _attributes(samples)},
    )


def _by_chain(values: Tensor) -> Any:
    """``(draw, chain, …)`` as an array ``(chain, draw, …)``."""
    return values.transpose(0, 1).numpy(force=True)


def _attributes(samples: Chains) -> dict[str, Any]:
    """Who made it and how, by ArviZ's names where it has one."""
    found: dict[str, Any] = {
        "inference_library": "concrete_score",
        "inference_library_version": __version__,
        "tuning_steps": samples.burn_in,
        "thin": samples.thin,
    }
    if samples.diagnosis is not None:
        found["sampling_time"] = samples.diagnosis.seconds
        found["warnings"] = list(samples.diagnosis.warnings)
        if samples.diagnosis.kernel:
            found["kernel"] = samples.diagnosis.kernel
    return found
