"""Chains whose observed sites are clamped: many short ones side by side, or a few long ones, and whether they mixed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Kernel
from concrete_score.samplers.completions import Known, Rows
from concrete_score.samplers.run import Progress, run, stream
from concrete_score.spaces import Space

BURN_IN, KEPT = 30, 20
"""Sweeps of a short chain before and while its progress is watched; a sweep has as many steps as there are blanks."""
LONG_BURN_IN, LEAST_KEPT = 50, 200
"""Sweeps of a long chain before the first draw, and kept draws at least: fewer cannot show that R-hat is near 1."""
CHAINS, MOST_CHAINS = 16, 1024
"""How many long chains run side by side, at least and at most."""
TRIES = 100
"""How often a start of probability zero is drawn anew."""


def default_kernel(model: Any) -> str:
    """The first of `gibbs`, `informed` and `mh` that runs on a model.

    Raises:
        InputError: none of them does.

    >>> from concrete_score.targets import Ising
    >>> default_kernel(Ising((3, 3), 0.4))
    'gibbs'
    """
    for name in ("gibbs", "informed"):
        try:
            named_kernel(name, model)
        except InputError:
            continue
        return name
    named_kernel("mh", model)
    return "mh"


def named_kernel(name: str, model: Any) -> Kernel:
    """The registered kernel on a model, with its default settings.

    Raises:
        InputError: no such name, or a kernel that cannot run on this model.

    >>> from concrete_score.targets import Ising
    >>> type(named_kernel("mh", Ising((3, 3), 0.4))).__name__
    'MetropolisHastings'
    """
    build = registry.load("kernels", name)
    try:
        kernel: Kernel = build(model)
    except InputError as refusal:
        raise InputError(refusal.expected, refusal.came, f"sampler {name!r}", refusal.fix) from None
    except TypeError:
        raise InputError("a kernel that needs nothing but a model", repr(name), where="sampler") from None
    return kernel


def sweep(kernel: Kernel, x: Rows, clamped: Known, sweeps: int, generator: torch.Generator) -> Rows:
    """Chains ``(C, D)`` after some sweeps of their free sites."""
    state = kernel.init(x, clamped)
    for _ in range(sweeps * free_sites(clamped)):
        state, _ = kernel.step(state, generator)
    return state.x


def free_sites(clamped: Known) -> int:
    """The most free sites of a chain."""
    return int((~clamped).sum(-1).max())


def possible_starts(model: Any, x: Rows, observed: Known, space: Space, generator: torch.Generator) -> Rows:
    """Rows whose blanks are uniform, drawn anew where the density is zero ``(C, D)``.

    Raises:
        InputError: no possible start was found for a row.
    """
    starts = torch.where(observed, x, space.uniform(len(x), generator).to(x.device))
    if not isinstance(model, DensityModel):
        return starts
    for _ in range(TRIES):
        bad = (model.log_density(starts) == -torch.inf).nonzero().squeeze(-1)
        if not len(bad):
            return starts
        fresh = space.uniform(len(bad), generator).to(x.device)
        starts[bad] = torch.where(observed[bad], x[bad], fresh)
    raise InputError(
        "a state of positive probability to start from",
        f"none among {TRIES} uniform draws",
        where="model",
        fix="use a sampler that needs no start: leave `sampler` out",
    )


@dataclass(frozen=True, eq=False)
class ShortChains:
    """Where several chains of each row ended, and whether they agree."""

    states: Integer[Tensor, "chains rows sites"]
    r_hat: Float[Tensor, " rows"]
    """Between over within chains, of each row; 1 where nothing moves because nothing can."""


@torch.no_grad()
def short_chains(
    kernel: Kernel, starts: Integer[Tensor, "chains rows sites"], observed: Known, generator: torch.Generator
) -> ShortChains:
    """Chains of many rows side by side, from ``(C, n, D)``."""
    chains, rows = starts.shape[:2]
    clamped = observed.expand(chains, -1, -1).flatten(0, 1)
    each = max(1, free_sites(clamped))
    statistic, trace = _statistic(kernel), []
    drawn = stream(
        kernel,
        starts.flatten(0, 1),
        steps=KEPT * each,
        burn_in=BURN_IN * each,
        thin=each,
        generator=generator,
        clamped=clamped,
    )
    for draw in drawn:
        trace.append(statistic(draw.state.x).double().reshape(chains, rows))
    return ShortChains(draw.state.x.reshape(starts.shape), r_hat(torch.stack(trace)))


def long_chains(
    kernel: Kernel,
    start: Callable[[int], Tensor],
    observed: Known,
    n: int,
    generator: torch.Generator,
    progress: Progress | None = None,
) -> tuple[Integer[Tensor, "draws sites"], tuple[str, ...]]:
    """``n`` draws of one row's conditional ``(n, D)``, spread over chains, and warnings about them.

    Args:
        kernel: what to run.
        start: gives so many starts ``(C, D)``.
        observed: of the one row ``(1, D)``.
        n: draws.
    """
    chains = min(MOST_CHAINS, max(CHAINS, n // LEAST_KEPT))
    kept, each = max(LEAST_KEPT, -(-n // chains)), max(1, free_sites(observed))
    samples = run(
        kernel,
        start(chains),
        steps=kept * each,
        burn_in=LONG_BURN_IN * each,
        thin=each,
        clamped=observed.expand(chains, -1),
        generator=generator,
        progress=progress,
        statistics=None if isinstance(_model(kernel), DensityModel) else {"the mean value": _mean},
    )
    rows = samples.rows
    chosen = torch.randperm(len(rows), generator=generator, device=generator.device)[:n].to(rows.device)
    return rows[chosen], samples.diagnosis.warnings if samples.diagnosis is not None else ()


def r_hat(trace: Float[Tensor, "draws chains rows"]) -> Float[Tensor, " rows"]:
    """``√((W (S-1)/S + B) / W)`` of each row, W the variance within its chains and B that of their means.

    >>> g = torch.Generator().manual_seed(0)
    >>> noise = torch.randn(50, 8, 1, generator=g, dtype=torch.float64)
    >>> apart = noise + 3 * torch.arange(8)[:, None]
    >>> bool(r_hat(noise) < 1.05), bool(r_hat(apart) > 3), r_hat(torch.zeros(5, 4, 1)).item()
    (True, True, 1.0)
    """
    within, between = trace.double().var(0).mean(0), trace.double().mean(0).var(0)
    found = ((within * (len(trace) - 1) / len(trace) + between) / within).sqrt()
    return torch.where((within == 0) & (between == 0), 1.0, found)


def _statistic(kernel: Kernel) -> Callable[[Tensor], Tensor]:
    model = _model(kernel)
    return model.log_density if isinstance(model, DensityModel) else _mean


def _model(kernel: Kernel) -> Any:
    return getattr(kernel, "model", None)


def _mean(x: Tensor) -> Tensor:
    return x.double().mean(-1)
