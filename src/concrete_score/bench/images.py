"""What the engine and a sampler cost beside the bare U-Net, and what its layout of memory is worth."""

from collections.abc import Iterator
from time import process_time
from typing import Any

import torch
from torch import Tensor

from concrete_score.bench.checks import Check
from concrete_score.bench.timing import ratio_of_minima
from concrete_score.models.unet import UNet, unet
from concrete_score.neighborhoods import hamming
from concrete_score.noise import binarized_gaussian
from concrete_score.objectives.clean_value import CleanValue
from concrete_score.randomness import generator
from concrete_score.samplers import MetropolisHastings
from concrete_score.spaces import Space
from concrete_score.training import Progress, TrainingSettings, train

STEP_BOUND, PASS_BOUND = 1.15, 1.2


def train_unet(side: int = 28, width: int = 48, batch: int = 128, repeats: int = 10) -> Check:
    """A training step on corrupted pictures, against forward, backward and optimizer of the network alone.

    The bare step is given its batch: it draws nothing, corrupts nothing, and its loss is the mean of the outputs.
    """
    model = _model(side, width)
    rows = model.noise.space.uniform(1_000, generator(0, "rows")).to(torch.uint8)
    engine, bare = _engine(model, rows, batch), _bare(_net(_model(side, width)), rows[:batch].long())
    value = ratio_of_minima(lambda: next(engine), lambda: next(bare), repeats, clock=process_time)
    return Check.at_most(f"a training step of a U-Net, {_size(side, width, batch)} / bare", value, STEP_BOUND)


def annealed_mh_step(side: int = 28, width: int = 48, chains: int = 128, repeats: int = 20) -> Check:
    """A Metropolis-Hastings step at a noise level, against one pass of the network alone."""
    model = _model(side, width).requires_grad_(False)
    gen, level = generator(0, "bench"), 3
    kernel = MetropolisHastings(model.at(level))
    state = kernel.init(model.noise.space.uniform(chains, gen))
    net, x = _net(model), state.x

    def step() -> None:
        nonlocal state
        state, _ = kernel.step(state, gen)

    value = ratio_of_minima(step, lambda: net(x, level), repeats, clock=process_time)
    return Check.at_most(f"a step of annealed mh / a U-Net pass, {_size(side, width, chains)}", value, PASS_BOUND)


def channels_last(side: int = 28, width: int = 48, batch: int = 128, repeats: int = 10) -> Check:
    """A bare training step in channels-last memory against the same in contiguous memory."""
    rows = Space.bits(side**2).uniform(batch, generator(0, "rows"))
    last, contiguous = (_bare(_net(_model(side, width, channels_last=kind)), rows) for kind in (True, False))
    value = ratio_of_minima(lambda: next(last), lambda: next(contiguous), repeats, clock=process_time)
    return Check.at_most(f"a U-Net step, channels-last / contiguous, {_size(side, width, batch)}", value, 1.0)


def _model(side: int, width: int, **options: Any) -> Any:
    space = Space.bits(side**2)
    noise, first = binarized_gaussian(space), generator(0, "bench")
    return unet(hamming(space), noise=noise, shape=(side, side), width=width, generator=first, **options)


def _net(model: Any) -> UNet:
    """The network itself, without the noise's evidence and the head."""
    net: UNet = model.trunk.trunk
    return net


def _engine(model: Any, rows: Tensor, batch: int) -> Iterator[object]:
    """A training that speaks after every step and does nothing else there."""
    endless = 10**9
    settings = TrainingSettings(steps=endless, batch_size=batch, valid_every=endless, check_every=1)
    events = train(model, CleanValue(model.noise), rows, settings, rows[:1])
    return (event for event in events if isinstance(event, Progress))


def _bare(net: UNet, rows: Tensor) -> Iterator[None]:
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    level = torch.arange(len(rows)) % (net.num_levels or 1)
    while True:
        torch.autograd.backward(net(rows, level).mean())
        optimizer.step()
        optimizer.zero_grad()
        yield


def _size(side: int, width: int, count: int) -> str:
    return f"{count} pictures of {side}x{side}, width {width}"
