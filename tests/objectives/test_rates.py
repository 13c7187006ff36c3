"""Measured rates: Monte Carlo error falls like one over the root of the samples; memory is bounded by the chunk."""

import pytest
import torch

from concrete_score.models import Table
from concrete_score.neighborhoods import IndependenceProposal, hamming
from concrete_score.objectives import (
    All,
    BregmanObjective,
    Importance,
    Independent,
    Paired,
    SelfProposal,
    Stratified,
    divergences,
)
from concrete_score.spaces import Space

SPACE = Space((3, 2, 4))
N = hamming(SPACE)


def reference():
    return Table(SPACE, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


@pytest.mark.parametrize(
    "edges",
    [
        Independent(N),
        Paired(N),
        Stratified(N, m=2),
        Importance(N, reference=reference()),
        SelfProposal(IndependenceProposal(reference())),
    ],
    ids=lambda e: type(e).__name__,
)
def test_error_falls_with_slope_minus_one_half(edges):
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(SPACE.num_states, generator=generator, dtype=torch.float64).softmax(0)
    model = Table(SPACE, generator=generator, dtype=torch.float64)
    objective = BregmanObjective(divergences.logistic, edges)
    exact = objective.exact(model, p)
    sizes, repeats = [64, 256, 1024, 4096], 60
    errors = []
    for size in sizes:
        x = SPACE.state(torch.multinomial(p, size * repeats, replacement=True, generator=generator))
        means = objective.loss(model, objective.draw(x, generator)).detach().reshape(repeats, size).mean(1)
        errors.append((means - exact).square().mean().sqrt())
    a = torch.tensor(sizes).log() - torch.tensor(sizes).log().mean()
    slope = (a @ torch.stack(errors).log().float() / (a @ a)).item()
    assert slope == pytest.approx(-0.5, abs=0.08)


class Watched:
    """A density that remembers the most rows it was ever given."""

    normalized = False

    def __init__(self, space):
        self.space, self.most = space, 0

    def log_density(self, x):
        self.most = max(self.most, x.shape[:-1].numel())
        return x.double().sum(-1)


@pytest.mark.parametrize(("sites", "batch"), [(64, 8), (64, 256), (512, 8), (512, 32)])
def test_all_neighbor_evaluation_is_bounded_by_the_chunk(sites, batch):
    space, chunk = Space.bits(sites), 2**15
    density = Watched(space)
    objective = BregmanObjective(divergences.logistic, All(hamming(space), chunk=chunk))
    x = space.uniform(batch, torch.Generator().manual_seed(0))
    loss = objective.loss(density, objective.draw(x, torch.Generator().manual_seed(0)))
    assert density.most <= chunk / sites
    flips = 1.0 - 2.0 * x.double()  # the log-ratio of each flip
    expected = (2 * torch.nn.functional.softplus(flips)).sum(-1)
    torch.testing.assert_close(loss, expected)
