"""Which kernel to run on a model: the one that uses most of what it offers, and why (``kernel="auto"``)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from concrete_score import registry
from concrete_score.errors import InputError, check_count
from concrete_score.protocols import DensityModel, HiddenUnits, Kernel, LocalFields, ScoreModel
from concrete_score.samplers.colorings import interactions_of
from concrete_score.samplers.couplings import linear_fields
from concrete_score.samplers.diagnosis import autocorrelation_time
from concrete_score.samplers.multi_site import Sized, adapt
from concrete_score.samplers.surrogates import relaxes

SPARSE = 4
"""A graph is sparse if a site interacts with at most one in so many of the others, on average."""
AUTO = "auto"


class Rule(NamedTuple):
    """What a model must offer for a kernel to be worth it."""

    kernel: str
    fits: Callable[[Any], bool]
    why: str
    structured: bool = False
    """Whether a step draws every site anew."""


def _sparse(model: Any) -> bool:
    edges = interactions_of(model)
    return edges is not None and 2 * SPARSE * len(edges) <= model.space.num_sites**2


def _sparse_fields(model: Any) -> bool:
    return (linear_fields(model) is not None or isinstance(model, LocalFields)) and _sparse(model)


def _informed(model: Any) -> bool:
    return isinstance(model, DensityModel) and (isinstance(model, LocalFields) or relaxes(model))


RULES = (
    Rule("auxiliary", lambda m: isinstance(m, HiddenUnits), "it has hidden units: each layer is drawn at once", True),
    Rule("colored", _sparse_fields, "few of its sites interact: those of a color are drawn at once", True),
    Rule("sweep", lambda m: linear_fields(m) is not None, "it is pairwise: fields are kept up to date", True),
    Rule("multi_site", _informed, "all ratios come from one formula or gradient: many sites move at once"),
    Rule("gibbs", lambda m: isinstance(m, DensityModel), "nothing but its density is known: site by site"),
    Rule("informed", lambda m: isinstance(m, ScoreModel), "it gives all ratios of its neighborhood in one pass"),
)
"""From what gains most to what always runs; the first that fits is taken."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A kernel, its name, and why it was taken."""

    kernel: Kernel
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def choose_kernel(model: Any, *, pilot: int = 0, chains: int = 16, generator: torch.Generator | None = None) -> Choice:
    """The kernel that uses most of what a model offers; a short pilot may let the two best candidates race.

    Args:
        model: a density or score model.
        pilot: steps of each of the two; they are tuned on as many steps before. Effective draws of the log-density a
            second of processor time decide. 0 leaves the pilot out.
        chains: of the pilot.
        generator: of the pilot's randomness.

    Raises:
        InputError: neither a density nor a score model, or a pilot without a generator or of fewer than 20 steps.

    >>> from concrete_score.targets import Ising
    >>> print(choose_kernel(Ising((8, 8), 0.3)))
    colored: few of its sites interact: those of a color are drawn at once
    """
    fitting = [rule for rule in RULES if rule.fits(model)]
    if not fitting:
        came = type(model).__name__
        raise InputError("a density model or a score model", came, where="model", fix="it needs one to sample from")
    if not pilot or len(fitting) < 2 or not isinstance(model, DensityModel):
        return Choice(registry.load("kernels", fitting[0].kernel)(model), fitting[0].kernel, fitting[0].why)
    check_count(pilot, "pilot", 20)
    if generator is None:
        raise InputError("a generator for the pilot", "none", where="generator")
    raced = [_race(rule, model, pilot, chains, generator) for rule in fitting[:2]]
    best, other = sorted(raced, key=lambda each: each.speed, reverse=True)
    gain = best.speed / other.speed if other.speed > 0 else float("inf")
    why = f"{best.rule.why}; in a pilot {gain:.2g} times as many effective draws a second as {other.rule.kernel}"
    return Choice(best.kernel, best.rule.kernel, why)


def auto(model: Any) -> Kernel:
    """The kernel of `choose_kernel`, without a pilot.

    >>> from concrete_score.targets import random_rbm
    >>> type(auto(random_rbm(5, 3, 0.5, torch.Generator().manual_seed(0)))).__name__
    'Auxiliary'
    """
    return choose_kernel(model).kernel


def structured(model: Any) -> Kernel | None:
    """The first kernel that draws all sites anew by the model's structure; None where it has none.

    >>> from concrete_score.targets import Ising, pmf
    >>> type(structured(Ising((8, 8), 0.3))).__name__, structured(pmf([0.5, 0.5]))
    ('Colored', None)
    """
    for rule in RULES:
        if rule.structured and rule.fits(model):
            kernel: Kernel = registry.load("kernels", rule.kernel)(model)
            return kernel
    return None


class _Raced(NamedTuple):
    rule: Rule
    kernel: Any
    speed: float


def _race(rule: Rule, model: Any, steps: int, chains: int, generator: torch.Generator) -> _Raced:
    """Effective draws of the log-density a second; a chain that never moves has none."""
    kernel = registry.load("kernels", rule.kernel)(model)
    state = kernel.init(model.space.uniform(chains, generator))
    burn_in = partial(adapt, kernel) if isinstance(kernel, Sized) else partial(_burn_in, kernel)
    kernel, state = burn_in(state, generator, steps)
    trace: list[Tensor] = []
    spent = 0.0
    for _ in range(steps):
        begun = process_time()
        state, _ = kernel.step(state, generator)
        spent += process_time() - begun
        trace.append(model.log_density(state.x))
    time = autocorrelation_time(torch.stack(trace)).value
    return _Raced(rule, kernel, chains * steps / (time * spent) if time > 0 and spent > 0 else 0.0)


def _burn_in(kernel: Kernel, state: Any, generator: torch.Generator, steps: int) -> tuple[Kernel, Any]:
    for _ in range(steps):
        state, _ = kernel.step(state, generator)
    return kernel, state
