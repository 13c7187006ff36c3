"""What the training engine costs beside the same passes written out by hand, and what a layout of memory is worth."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.bench.checks import Check, ratio_of_minima
from concrete_score.models.unet import UNet, unet
from concrete_score.neighborhoods import hamming
from concrete_score.noise import binarized_gaussian
from concrete_score.objectives import CleanValue
from concrete_score.protocols import Objective, space_of
from concrete_score.randomness import generator
from concrete_score.registry import load
from concrete_score.spaces import Space
from concrete_score.training import Progress, TrainingSettings, train
from concrete_score.training.state import Moving
from concrete_score.training.store import TensorFile, write

BOUND = 1.05
Case = Callable[[], tuple[nn.Module, Objective, int]]
"""Makes a fresh model, its objective and the rows of a step."""
Loss = Callable[[Any, Tensor, torch.Generator], Tensor]
"""The mean loss of a model at some rows, as it is written by hand."""


def one_dimensional(hidden: int = 100) -> tuple[nn.Module, Objective, int]:
    """The score network of section 5.2 on a cycle of 16 values, 1,024 rows a step."""
    neighborhood = load("neighborhoods", "cycle")(Space((16,)))
    model = load("models", "mlp")(neighborhood, hidden=hidden, generator=generator(0, "bench"))
    return model, load("objectives", "csm")(neighborhood.space, neighborhood=neighborhood, edges="independent"), 1024


def table(side: int = 91) -> tuple[nn.Module, Objective, int]:
    """The table of section 5.3 with the grid, 128 rows a step."""
    space = Space((side, side))
    neighborhood = load("neighborhoods", "grid")(space)
    return load("models", "table")(space), load("objectives", "csm")(space, neighborhood=neighborhood), 128


def made(sites: int = 16) -> tuple[nn.Module, Objective, int]:
    """The MADE of section 5.4 by likelihood, 128 rows a step."""
    space = Space.bits(sites)
    return (
        load("models", "made")(space, generator=generator(0, "bench")),
        load("objectives", "maximum_likelihood")(space),
        128,
    )


def step_of_mlp(steps: int = 50) -> Check:
    """A step of the one-dimensional score network."""
    return step_over_bare(one_dimensional, "1-D MLP", steps)


def step_of_table(steps: int = 200) -> Check:
    """A step of the table on a grid."""
    return step_over_bare(table, "table", steps)


def step_of_made(steps: int = 100) -> Check:
    """A step of MADE by maximum likelihood."""
    return step_over_bare(made, "MADE", steps, by_hand=lambda model, x, random: -model.log_density(x).mean())


def step_over_bare(
    case: Case, name: str, steps: int, repeats: int = 15, bound: float = BOUND, by_hand: Loss | None = None
) -> Check:
    """Some steps of a training in the engine against as many of a plain loop: same rows, passes and optimizer.

    The loop draws and weighs edges by the objective's own functions, unless a loss is so plain that one writes it out.
    """
    model, objective, batch = case()
    rows = space_of(model).uniform(10_000, generator(0, "rows")).to(torch.uint8)
    engine = _engine(model, objective, rows, steps, batch)
    bare = _bare(case()[0], by_hand or _mean_loss(objective), rows, steps, batch)
    value = ratio_of_minima(lambda: next(engine), lambda: next(bare), repeats, clock=process_time)
    return Check.at_most(f"a training step, {name} / a bare loop's", value, bound)


def _mean_loss(objective: Objective) -> Loss:
    return lambda model, x, random: objective.loss(model, objective.draw(x, random, model)).mean()


def _engine(model: nn.Module, objective: Objective, rows: Tensor, steps: int, batch: int) -> Iterator[object]:
    """A training that reports every ``steps`` steps, when it looks at the loss anyway, and does nothing else there."""
    endless = 10**9
    settings = TrainingSettings(steps=endless, batch_size=batch, valid_every=endless, check_every=steps)
    return (event for event in train(model, objective, rows, settings, rows[:1]) if isinstance(event, Progress))


def _bare(model: nn.Module, mean_loss: Loss, rows: Tensor, steps: int, batch: int) -> Iterator[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    gen = generator(0, "bare")
    while True:
        for _ in range(steps):
            x = rows.index_select(0, torch.randint(len(rows), (batch,), generator=gen)).long()
            loss = mean_loss(model, x, gen)
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        yield loss.item()


def train_unet(side: int = 28, width: int = 48, batch: int = 128, repeats: int = 10) -> Check:
    """A training step on corrupted images, against forward, backward and optimizer of the network alone.

    The bare step is given its batch: it draws nothing, corrupts nothing, and its loss is the mean of the outputs.
    """
    model = score_unet(side, width)
    rows = model.noise.space.uniform(1_000, generator(0, "rows")).to(torch.uint8)
    engine = _engine(model, CleanValue(model.noise), rows, 1, batch)
    bare = _bare_network(bare_network(score_unet(side, width)), rows[:batch].long())
    value = ratio_of_minima(lambda: next(engine), lambda: next(bare), repeats, clock=process_time)
    return Check.at_most(f"a training step of a U-Net, {unet_size(side, width, batch)} / bare", value, BOUND)


def channels_last(side: int = 28, width: int = 48, batch: int = 128, repeats: int = 10) -> Check:
    """A bare training step in channels-last memory against the same in contiguous memory."""
    rows = Space.bits(side**2).uniform(batch, generator(0, "rows"))
    last, contiguous = (
        _bare_network(bare_network(score_unet(side, width, channels_last=kind)), rows) for kind in (True, False)
    )
    value = ratio_of_minima(lambda: next(last), lambda: next(contiguous), repeats, clock=process_time)
    return Check.at_most(f"a U-Net step, channels-last / contiguous, {unet_size(side, width, batch)}", value, 1.0)


def checkpoint_share(sites: int = 100, hidden: int = 500) -> Check:
    """Writing a checkpoint of a large MADE, as a share of the 30 s between two of them."""
    model = load("models", "made")(Space.bits(sites), hidden, generator=generator(0, "bench"))
    settings = TrainingSettings(average=0.99)
    moving = Moving(model, settings)
    model.log_density(model.space.uniform(2, generator(0, "rows"))).sum().backward()
    moving.optimizer.step(settings.lr)
    with TemporaryDirectory() as folder:
        seconds = min(_write_seconds(moving, Path(folder) / "checkpoint.safetensors") for _ in range(3))
    count = sum(p.numel() for p in model.parameters())
    name = f"a checkpoint of {count / 1e6:.1f} million weights / {settings.checkpoint_seconds:.0f} s"
    return Check.at_most(name, seconds / settings.checkpoint_seconds, 0.02)


def _write_seconds(moving: Moving, path: Path) -> float:
    start = perf_counter()
    snapshot = moving.snapshot()
    write(path, TensorFile("checkpoint", "bench", 0, snapshot.state, snapshot.tensors))
    return perf_counter() - start


def score_unet(side: int, width: int, **options: Any) -> Any:
    """A noise-conditional U-Net on square images of bits, as the digits are learned with."""
    space = Space.bits(side**2)
    noise, first = binarized_gaussian(space), generator(0, "bench")
    return unet(hamming(space), noise=noise, shape=(side, side), width=width, generator=first, **options)


def bare_network(model: Any) -> UNet:
    """The network itself, without the noise's evidence and the head."""
    net: UNet = model.trunk.trunk
    return net


def _bare_network(net: UNet, rows: Tensor) -> Iterator[None]:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    level = torch.arange(len(rows)) % (net.num_levels or 1)
    while True:
        torch.autograd.backward(net(rows, level).mean())
        optimizer.step()
        optimizer.zero_grad()
        yield


def unet_size(side: int, width: int, count: int) -> str:
    """How a check names the size of its images and network."""
    return f"{count} images of {side}x{side}, width {width}"
