"""What Potts models and transformers cost beside the bare products and passes they are made of."""

import torch
from torch.nn import functional

from concrete_score.bench.checks import Check, ratio_of_minima
from concrete_score.bench.training import step_over_bare
from concrete_score.models import Potts, transformer
from concrete_score.neighborhoods import hamming
from concrete_score.noise import absorbing
from concrete_score.objectives import build
from concrete_score.protocols import Objective
from concrete_score.randomness import generator
from concrete_score.scores import log_ratios
from concrete_score.spaces import Space

SITES, LETTERS, BATCH = 263, 21, 1024
"""Of a protein family, and rows of a step."""


def potts_step(sites: int = SITES, batch: int = BATCH) -> Check:
    """Loss and slopes of pseudo-likelihood against the two matrix products in it."""
    model, x = _family(sites, batch)
    objective = build("pseudo_likelihood", model.space)
    hot = functional.one_hot(x, LETTERS).float().flatten(1)
    slope = torch.randn(hot.shape, generator=generator(0, "bench"))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        objective.loss(model, objective.draw(x, generator(0, "bench"))).mean().backward()  # type: ignore[no-untyped-call]

    def bare() -> None:
        with torch.no_grad():
            hot @ model.couplings
            hot.T @ slope

    return Check.at_most("a Potts step / its matrix products", ratio_of_minima(step, bare, repeats=5), 1.3)


def potts_ratios(sites: int = SITES) -> Check:
    """All single-mutant ratios of one protein against one evaluation of its density."""
    model, x = _family(sites, 1)
    edges = hamming(model.space)
    with torch.no_grad():
        value = ratio_of_minima(lambda: log_ratios(model, edges, x), lambda: model.log_density(x), repeats=15)
    return Check.at_most("all single-mutant ratios / one pass, Potts", value, 3.0)


def transformer_step(steps: int = 4) -> Check:
    """A training step of a masked transformer in the engine against a bare loop."""
    return step_over_bare(_transformer, "transformer", steps, bound=1.1, repeats=5)


def _transformer() -> tuple[torch.nn.Module, Objective, int]:
    space = Space((27,) * 64)
    noise = absorbing(space)
    model = transformer(hamming(space), noise=noise, generator=generator(0, "bench"))
    return model, build("clean_value", space, noise=noise), 64


def _family(sites: int, rows: int) -> tuple[Potts, torch.Tensor]:
    space = Space((LETTERS,) * sites)
    return Potts(space, generator=generator(0, "bench")), space.uniform(rows, generator(0, "rows"))
