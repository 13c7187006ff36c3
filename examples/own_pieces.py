"""Pieces of your own: a neighborhood of ring rotations and a divergence, used by the library's training and sampler."""

from dataclasses import dataclass

import torch
from torch import Tensor

from concrete_score import Space
from concrete_score.models import Table
from concrete_score.neighborhoods import NeighborhoodBase
from concrete_score.objectives import AllEdges, Bregman, BregmanObjective
from concrete_score.samplers import Informed, run
from concrete_score.targets import pmf
from concrete_score.training import TrainingSettings, fit


@dataclass(frozen=True)
class Jumps(NeighborhoodBase):
    """On a ring of values: one step to either side, and a jump halfway around, from any single site."""

    space: Space
    symmetric = True

    @property
    def num_slots(self) -> int:
        return 3

    def valid(self, x: Tensor) -> Tensor:
        return torch.ones(*x.shape[:-1], 3, dtype=torch.bool)

    def neighbor(self, x: Tensor, slot: Tensor) -> Tensor:
        size = self.space.sizes[0]
        by = torch.tensor([1, size - 1, size // 2])[slot]
        return (x + by[..., None]) % size


# f(r) = -2 √r, with a = s f'(s) - f(s) and b = f'(s), all of l = log s: minimum probability flow
f, a, b = (lambda l: -2 * (l / 2).exp()), (lambda l: (l / 2).exp()), (lambda l: -(-l / 2).exp())
probability_flow = Bregman("probability_flow", f=f, a=a, b=b, curvature=0.5, bounded=True)


def main(steps: int = 1500, rows: int = 20_000) -> dict[str, float]:
    """How far the learned distribution is from the truth, and sampled values from the learned one (total variation)."""
    space, random = Space((16,)), torch.Generator().manual_seed(0)
    truth = pmf([(1 + 6 * (k % 8 == 0) + 3 * (k % 4 == 0)) / 40 for k in range(16)], space)
    states = truth.sample(rows, random)
    model = Table(space, generator=random)
    objective = BregmanObjective(probability_flow, AllEdges(Jumps(space)))
    fit(model, objective, states, TrainingSettings(steps=steps, lr=0.1, valid_every=max(1, steps // 4)))

    learned = model.log_density(space.enumerate()).detach().softmax(0).double()
    chains = run(Informed(model, Jumps(space)), 64, steps=300, burn_in=50, generator=random)
    drawn = torch.bincount(chains.rows[:, 0], minlength=16) / len(chains.rows)
    apart = {"learned from true": learned - truth.probabilities, "drawn from learned": drawn - learned}
    return {name: float(each.abs().sum() / 2) for name, each in apart.items()}


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name:20}{value:.4f}")
