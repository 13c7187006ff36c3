"""One process or many: what the launcher started is what trains, or nothing does.

One process needs nothing but its device. Several are connected by Lightning Fabric, which is therefore an extra.
"""

import atexit
import functools
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from concrete_score.errors import InputError

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def world_size() -> int:
    """How many processes the launcher says there are."""
    return _number("WORLD_SIZE", 1, least=1)


def rank() -> int:
    """This process's number; 0 writes files and messages."""
    return _number("RANK", 0, least=0)


def _number(name: str, default: int, least: int) -> int:
    """A number that a launcher says in the environment.

    Raises:
        InputError: it says something else.
    """
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least):
        fix = f"unset {name}, or start with torchrun"
        raise InputError(f"a whole number of at least {least}", repr(text[:60]), name, fix)
    return int(text)


@dataclass(frozen=True)
class Alone:
    """What a training asks of Fabric, where there is one process."""

    device: torch.device
    world_size: int = 1
    global_rank: int = 0

    def to_device(self, model: nn.Module) -> nn.Module:
        return model.to(self.device)


def connect(device: str | torch.device = "cpu") -> Any:
    """`Alone`, or Fabric on the launcher's processes, connected.

    Raises:
        InputError: several processes were promised but not started by ``torchrun``, or Fabric sees another number, or
            is not installed.

    >>> connect().device
    device(type='cpu')
    """
    place, world = torch.device(device), world_size()
    if world == 1:
        return Alone(place if place.type == "cpu" else torch.device(place.type, place.index or 0))
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    fabric = _distributed(place, world)
    fabric.launch()
    _leave_in_order()
    if fabric.world_size != world:
        raise InputError(
            f"{world} processes, as the launcher says (WORLD_SIZE)",
            f"{fabric.world_size}",
            fix="start all of them with torchrun --nproc-per-node",
        )
    return fabric


@functools.cache
def _leave_in_order() -> None:
    """Close the connections before the interpreter ends: gloo's threads, still running then, abort the process."""
    atexit.register(_leave)


def _leave() -> None:
    import gc

    from torch import distributed

    if distributed.is_initialized():
        gc.collect()  # unreachable wrapped models still keep the connection
        distributed.destroy_process_group()


def _distributed(place: torch.device, world: int) -> "Fabric":
    try:
        from lightning_fabric import Fabric
        from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
    except ImportError:
        fix = "pip install 'concrete-score[distributed]', or train in one process"
        raise InputError("Lightning Fabric, for several processes", "an installation without it", fix=fix) from None
    if not TorchElasticEnvironment.detect():
        raise InputError(
            "processes started by torchrun",
            f"WORLD_SIZE={world} without it",
            fix=f"run torchrun --nproc-per-node {world} -m concrete_score …, or unset WORLD_SIZE",
        )
    here = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    return Fabric(
        accelerator=place.type,
        devices=here,
        num_nodes=world // here,
        strategy="ddp",
        plugins=[TorchElasticEnvironment()],
    )


def share(total: int, rank: int, world: int) -> slice:
    """The rows of a batch of ``total`` that a process takes.

    >>> [share(5, rank, 2) for rank in range(2)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return slice(total * rank // world, total * (rank + 1) // world)
