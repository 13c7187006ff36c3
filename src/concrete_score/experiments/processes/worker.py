"""What each process of a launched job does here: train a case, and write down weights, batches and seconds.

``python -m concrete_score.experiments.processes.worker CASE DTYPE STEPS OUT``
"""

import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.bench.training import made, score_unet
from concrete_score.objectives import CleanValue
from concrete_score.protocols import Objective, space_of
from concrete_score.randomness import generator
from concrete_score.training import Checkpoint, Progress, TrainingSettings, train
from concrete_score.training.processes import rank


def small_unet() -> tuple[nn.Module, Objective, int]:
    """Images of 8 by 8 pixels, 32 a step."""
    model = score_unet(8, 8)
    return model, CleanValue(model.noise), 32


def digits_unet() -> tuple[nn.Module, Objective, int]:
    """The network of `csm bench train_unet`: images of 28 by 28 pixels, 128 a step."""
    model = score_unet(28, 48)
    return model, CleanValue(model.noise), 128


CASES = {"made": made, "unet": small_unet, "digits": digits_unet}


class Seen:
    """An objective that remembers the states a process computes with at each step."""

    def __init__(self, objective: Any) -> None:
        self.objective = objective
        self.batches: list[Tensor] = []

    def draw(self, x: Tensor, generator: torch.Generator, model: Any = None) -> Any:
        return self.objective.draw(x, generator, model)

    def loss(self, model: Any, draws: Any) -> Tensor:
        if torch.is_grad_enabled():
            states = draws.noisy if hasattr(draws, "noisy") else draws.x
            self.batches.append(states.to(torch.uint8))
        return self.objective.loss(model, draws)  # type: ignore[no-any-return]

    def exact(self, model: Any, pmf: Tensor) -> Tensor:
        return self.objective.exact(model, pmf)  # type: ignore[no-any-return]


def train_case(case: str, dtype: str, steps: int) -> dict[str, Tensor]:
    """Weights after the last step and batches by name, and the seconds of each step, by the clock and the processor."""
    model, objective, batch = CASES[case]()
    model.to(getattr(torch, dtype))
    rows = space_of(model).uniform(1_000, generator(0, "rows")).to(torch.uint8)
    seen = Seen(objective)
    how = TrainingSettings(steps=steps, batch_size=batch, valid_every=steps, check_every=1, average=0.99)
    found, times = {}, []
    for event in train(model, seen, rows, how, rows[:1]):
        match event:
            case Progress():
                times.append((perf_counter(), process_time()))
            case Checkpoint():  # at the end the model itself goes back to its best weights
                last = event.snapshot.tensors
                found = {name: value.clone() for name, value in last.items() if name.startswith("weights/")}
    found["batches"] = torch.stack(seen.batches)
    found["seconds"] = torch.tensor(times, dtype=torch.float64).diff(dim=0)
    return found


def main(case: str, dtype: str, steps: str, out: str) -> None:
    """Train, and write ``OUT/RANK.safetensors``."""
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    save_file(train_case(case, dtype, int(steps)), Path(out) / f"{rank()}.safetensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
