"""Pieces that do not fit are refused before any work, with what to use instead."""

import pytest
import torch

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.models import Energy, Table, mlp
from concrete_score.neighborhoods import IndependenceProposal, UniformProposal, cycle, grid, hamming
from concrete_score.noise import categorical
from concrete_score.objectives import (
    BregmanObjective,
    Denoising,
    ImportanceEdges,
    IndependentEdges,
    MaximumLikelihood,
    PairedEdges,
    SelfProposalEdges,
    SelfWeighedEdges,
    StratifiedEdges,
    build,
    divergences,
    ratio_matching_multiclass,
)
from concrete_score.spaces import Space

SPACE = Space((4,))
G = torch.Generator().manual_seed(0)
PAIRED = BregmanObjective(divergences.logistic, PairedEdges(hamming(SPACE)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PairedEdges(cycle(SPACE)), "a symmetric neighborhood for paired edges.*use `independent` edges"),
        (lambda: StratifiedEdges(cycle(SPACE)), "a symmetric neighborhood for stratified edges"),
        (lambda: ImportanceEdges(cycle(SPACE)), "a symmetric neighborhood for importance edges"),
        (lambda: PairedEdges(hamming(Space((1,)))), "a neighborhood with at least one edge"),
        (lambda: PairedEdges(hamming(SPACE), m=0), "m: expected a whole number of at least 1, got 0"),
        (lambda: ImportanceEdges(hamming(SPACE), uniform_share=0.0), "uniform_share: expected a share above 0"),
        (
            lambda: ImportanceEdges(hamming(SPACE), reference=Table(Space((5,)))),
            "reference and neighborhood on the same space",
        ),
        (lambda: PAIRED.check(Table(Space((5,)))), "model and edges on the same space"),
        (lambda: PAIRED.check(mlp(hamming(SPACE), "raw", generator=G)), "a raw head.*use f = csm, or a log_ratio"),
        (lambda: PAIRED.check(mlp(grid(SPACE), generator=G)), "a score model and edges of the same neighborhood"),
        (
            lambda: MaximumLikelihood(SPACE).check(Energy(SPACE, generator=G)),
            "a normalized density.*use `made` or `table`",
        ),
        (lambda: MaximumLikelihood(SPACE).check(mlp(grid(SPACE), generator=G)), "got a score model"),
        (lambda: ratio_matching_multiclass(SPACE).check(mlp(grid(SPACE), generator=G)), "a density model for ratio_m"),
        (lambda: ratio_matching_multiclass(SPACE, sites=2), "sites: expected a whole number from 1 to 1, got 2"),
        (
            lambda: BregmanObjective(divergences.csm, IndependentEdges(hamming(SPACE), full_source=True)).check(
                Table(SPACE)
            ),
            "a score model for full_source",
        ),
        (
            lambda: BregmanObjective(divergences.csm, SelfProposalEdges(IndependenceProposal(Table(SPACE)))).check(
                mlp(grid(SPACE), generator=G)
            ),
            "a density model for sampled edges.*such as `paired`",
        ),
        (
            lambda: SelfWeighedEdges(hamming(SPACE), copy=Table(SPACE)).check(mlp(hamming(SPACE), generator=G)),
            "a density model for sampled edges",
        ),
        (lambda: SelfWeighedEdges(hamming(SPACE)), "copy: expected a density to measure ratios by"),
        (lambda: SelfWeighedEdges(cycle(SPACE), copy=Table(SPACE)), "a symmetric neighborhood"),
        (
            lambda: SelfProposalEdges(UniformProposal(cycle(SPACE))).draw(torch.tensor([[0]]), G),
            "can go back wherever it goes",
        ),
        (
            lambda: Denoising(divergences.csm, categorical(SPACE, (0.5,)), hamming(Space((5,)))),
            "noise and neighborhood",
        ),
        (lambda: Denoising(divergences.csm, categorical(SPACE, (0.5,)), hamming(SPACE), (1,)), "levels from 0 to 0"),
        (
            lambda: Denoising(divergences.csm, categorical(SPACE, (0.9, 0.5)), hamming(SPACE)).check(Table(SPACE)),
            "a noise-conditional model for several levels",
        ),
        (lambda: build("denoising", SPACE), "noise: expected a noise for the denoising objective"),
        (lambda: build("noisy", SPACE), "noise: expected a noise for the noisy objective"),
        (lambda: build("clean_value", SPACE), "noise: expected a noise for the clean_value objective"),
        (lambda: build("logistik", SPACE), "did you mean 'logistic'"),
        (lambda: build("csm", SPACE, edges="pared"), "did you mean 'paired'"),
    ],
)
def test_refused_with_advice(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("name", registry.names("objectives"))
def test_every_registered_objective_is_built_by_name_and_satisfies_the_protocol(name):
    from concrete_score.protocols import Objective

    noise = categorical(SPACE, (0.7,))
    objective = build(name, SPACE, **({"noise": noise} if name in ("denoising", "noisy", "clean_value") else {}))
    assert isinstance(objective, Objective)
    draws = objective.draw(SPACE.uniform(6, G), G)
    table = Table(SPACE, dtype=torch.float64)
    if name in ("noisy", "clean_value"):  # of models that know levels
        table = mlp(hamming(SPACE), "denoising", noise, hidden=4, generator=G, dtype=torch.float64)
    loss = objective.loss(table, draws)
    assert loss.shape == (6,)
    torch.testing.assert_close(objective.loss(table, draws.rows(slice(1, 3))), loss[1:3])
    assert objective.exact(table, torch.full((4,), 0.25, dtype=torch.float64)).isfinite()
