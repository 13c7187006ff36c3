"""A family of sequences with planted contacts: a Potts model finds them again, and says what a mutation costs."""

import torch

from concrete_score import Space
from concrete_score.models import Potts, coupling_strengths
from concrete_score.neighborhoods import hamming
from concrete_score.objectives import build
from concrete_score.samplers.sweep import Sweep
from concrete_score.scores import log_ratios
from concrete_score.training import TrainingSettings, fit

SITES, LETTERS, CONTACTS = 16, 5, 12


def plant(space: Space, random: torch.Generator) -> tuple[Potts, set[tuple[int, int]]]:
    """A family's true model: fields everywhere, couplings between a few pairs of sites only."""
    truth = Potts(space, generator=random, dtype=torch.float64)
    pairs = truth.interactions()
    chosen = pairs[torch.randperm(len(pairs), generator=random)[:CONTACTS]].tolist()
    with torch.no_grad():
        truth.fields.normal_(0, 0.3, generator=random)
        blocks = truth.couplings.zero_().view(SITES, LETTERS, SITES, LETTERS)
        for d, e in chosen:
            block = torch.randn(LETTERS, LETTERS, generator=random, dtype=torch.float64)
            blocks[d, :, e, :], blocks[e, :, d, :] = block, block.T
    return truth, {(d, e) for d, e in chosen}


def main(steps: int = 400, rows: int = 5000) -> dict[str, float]:
    """How many planted contacts are the strongest couplings, and how well mutations are foretold."""
    space, random = Space((LETTERS,) * SITES), torch.Generator().manual_seed(0)
    truth, contacts = plant(space, random)
    kernel = Sweep(truth.pairwise())
    state = kernel.init(space.uniform(rows, random))
    for _ in range(50):  # every site of every chain, fifty times
        state, _ = kernel.step(state, random)

    learned = Potts(space, generator=random)
    settings = TrainingSettings(steps=steps, batch_size=1024, lr=0.02, l2=1e-3, valid_every=max(1, steps // 2))
    fit(learned, build("pseudo_likelihood", space), state.x, settings)
    strength = coupling_strengths(learned).triu(1)
    strongest = strength.flatten().topk(CONTACTS).indices.tolist()
    found = {divmod(place, SITES) for place in strongest}

    wild, changes = state.x[:1], hamming(space)
    effects = [log_ratios(model, changes, wild)[0].double().detach() for model in (truth, learned)]
    return {
        "planted contacts found": len(found & contacts) / CONTACTS,
        "correlation of mutation effects": float(torch.corrcoef(torch.stack(effects))[0, 1]),
    }


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name:34}{value:.3f}")
