"""Objectives by name: one way to put the pieces together, for configurations and experiments alike."""

from functools import partial
from typing import Any

from concrete_score import registry
from concrete_score.errors import InputError, Option
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import conditionals, divergences
from concrete_score.objectives.bregman import BregmanObjective
from concrete_score.objectives.denoising import Denoising
from concrete_score.objectives.divergences import Bregman
from concrete_score.objectives.maximum_likelihood import MaximumLikelihood
from concrete_score.protocols import DensityModel, Neighborhood, Noise, Objective, SampledNeighborhood
from concrete_score.spaces import Space


def build(name: str, space: Space, **pieces: Any) -> Objective:
    """The registered objective ``name`` on a space.

    Args:
        name: one of ``registry.names("objectives")``.
        space: the states' space.
        pieces: what the objective is made of: ``neighborhood``, ``edges`` (a registered name), ``proposal``,
            ``noise``, ``f`` (a registered divergence), and options of the edges such as ``m``.

    >>> build("logistic", Space.bits(4), edges="paired").edges.neighborhood.num_slots
    4
    """
    builder: Any = registry.load("objectives", name)
    return builder(space, **pieces)  # type: ignore[no-any-return]


def on_edges(
    divergence: Bregman,
    space: Space,
    *,
    neighborhood: Neighborhood | None = None,
    edges: str = "paired",
    proposal: SampledNeighborhood | None = None,
    copy: DensityModel | None = None,
    clip: float | None = None,
    **options: Any,
) -> BregmanObjective:
    """A divergence on edges; single-site changes (Hamming) by default."""
    estimator: Any = registry.load("edges", edges)
    if proposal is not None:
        return BregmanObjective(divergence, estimator(proposal, **options), clip)
    if copy is not None:
        options["copy"] = copy
    return BregmanObjective(divergence, estimator(neighborhood or hamming(space), **options), clip)


def denoising(
    space: Space,
    *,
    noise: Noise | None = None,
    neighborhood: Neighborhood | None = None,
    f: str = "csm",
    levels: tuple[int, ...] | None = None,
) -> Denoising:
    """D-CSM with any registered ``f``."""
    if noise is None:
        fix = ("try `categorical`: ", Option("set", {"noise": "categorical", "noise.weights": 0.9}))
        raise InputError("a noise for the denoising objective", "none", where="noise", fix=fix)
    return Denoising(registry.load("divergences", f), noise, neighborhood or hamming(space), levels)


csm = partial(on_edges, divergences.csm)
score_entropy = partial(on_edges, divergences.score_entropy)
logistic = partial(on_edges, divergences.logistic)
ratio_matching = partial(on_edges, divergences.ratio_matching)
ratio_matching_multiclass = conditionals.ratio_matching_multiclass
ratio_matching_uncorrected = conditionals.ratio_matching_uncorrected
discrete_marginalization = conditionals.discrete_marginalization
discrete_marginalization_uncorrected = conditionals.discrete_marginalization_uncorrected
pseudo_likelihood = conditionals.pseudo_likelihood
maximum_likelihood = MaximumLikelihood
