"""Measured rates: Monte Carlo error falls like one over the root of the samples; memory is bounded by the chunk."""

import os
import subprocess
import sys

import pytest
import torch

from concrete_score.models import Table
from concrete_score.neighborhoods import IndependenceProposal, hamming
from concrete_score.objectives import (
    AllEdges,
    BregmanObjective,
    ImportanceEdges,
    IndependentEdges,
    PairedEdges,
    SelfProposalEdges,
    SelfWeighedEdges,
    StratifiedEdges,
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
        IndependentEdges(N),
        PairedEdges(N),
        StratifiedEdges(N, m=2),
        ImportanceEdges(N, reference=reference()),
        SelfProposalEdges(IndependenceProposal(reference())),
        SelfWeighedEdges(N, copy=reference()),
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
    objective = BregmanObjective(divergences.logistic, AllEdges(hamming(space), chunk=chunk))
    x = space.uniform(batch, torch.Generator().manual_seed(0))
    loss = objective.loss(density, objective.draw(x, torch.Generator().manual_seed(0)))
    assert density.most <= chunk / sites
    flips = 1.0 - 2.0 * x.double()  # the log-ratio of each flip
    expected = (2 * torch.nn.functional.softplus(flips)).sum(-1)
    torch.testing.assert_close(loss, expected)


PEAK = """
import resource, sys, torch
from concrete_score.models import MADE
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import AllEdges, BregmanObjective, divergences
from concrete_score.spaces import Space
torch.set_num_threads(1)
space, batch, training = Space.bits(784), int(sys.argv[1]), sys.argv[2] == "training"
model = MADE(space, generator=torch.Generator().manual_seed(0))
objective = BregmanObjective(divergences.logistic, AllEdges(hamming(space), chunk=2**20))
x = space.uniform(batch, torch.Generator().manual_seed(1))
with torch.set_grad_enabled(training):
    loss = objective.loss(model, objective.draw(x, torch.Generator())).mean()
if training:
    loss.backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("work", ["evaluation", "training"])
def test_peak_memory_does_not_grow_with_the_batch(work):
    """784 flips of 48 rows more are 240 MB of states alone, and their activations are as much again."""

    def peak(batch):
        # A fixed threshold keeps the allocator from stranding freed blocks between the small ones of the graph.
        environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
        command = [sys.executable, "-c", PEAK, str(batch), work]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return int(ran.stdout) / 1024  # megabytes

    assert peak(56) - peak(8) < 20
