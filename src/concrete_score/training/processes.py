"""One process or many: what the launcher (``torchrun``) started is what trains, or nothing does.

Several are connected by PyTorch's own runtime: each works on its share of a batch, and gradients are averaged.
"""

import atexit
import functools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from inspect import signature
from threading import current_thread, main_thread
from typing import Any

import torch
from torch import Tensor, nn

from concrete_score.errors import InputError, Option

BACKENDS = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}
"""What connects processes that compute on a kind of device."""
_NAMELESS = ("", "none")
"""What the launcher calls a job that was given no name."""


def usable(device: str | torch.device) -> torch.device:
    """A device by name, once tried: it may be known by name and yet be absent.

    Raises:
        InputError: PyTorch cannot use it here.

    >>> usable("cpu")
    device(type='cpu')
    """
    try:
        torch.zeros(1, device=device).item()
        return torch.device(device)
    except (RuntimeError, AssertionError, TypeError):
        fix = ("use ", Option("device", "cpu"))
        raise InputError("a device that PyTorch can use here", repr(device)[:60], Option("device"), fix) from None


def world_size() -> int:
    """How many processes the launcher says there are."""
    return _number("WORLD_SIZE", 1, least=1)


def rank() -> int:
    """This process's number; 0 writes files and messages."""
    return _number("RANK", 0, least=0)


def job() -> str:
    """The launcher's name of this job, the same after it started all processes anew; empty where there is none."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")[:200]
    return "" if name in _NAMELESS else name


def restarted() -> bool:
    """Whether the launcher lost a process of this job, and started all of them anew."""
    return bool(job()) and _number("TORCHELASTIC_RESTART_COUNT", 0, least=0) > 0


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


def first_to_tell() -> bool:
    """Whether no other process of this job has asked before, of several that notice the same loss."""
    try:
        return int(_store(seconds=2).add("told", 1)) == 1
    except RuntimeError:  # the launcher is gone too
        return True


def _store(seconds: float = 300.0, *, serve: bool = False) -> Any:
    """Where processes tell each other where they are, by the launcher's own server; none of another attempt's words.

    The launcher keeps its server when it starts all processes anew, and what the dead ones wrote in it.
    """
    from torch import distributed

    found: Any = distributed  # its stores are public, and not among what it says that it exports
    host, port = os.environ.get("MASTER_ADDR", ""), _number("MASTER_PORT", 0, least=0)
    attempt = _number("TORCHELASTIC_RESTART_COUNT", 0, least=0)
    server = found.TCPStore(host, port, is_master=serve, timeout=timedelta(seconds=seconds), wait_for_workers=False)
    return found.PrefixStore(f"concrete_score/{attempt}", server)


@dataclass(frozen=True)
class Processes:
    """Those of a training, and this one's place among them.

    >>> alone = connect()
    >>> alone.device, alone.world_size, alone.agree(torch.tensor(0.5))
    (device(type='cpu'), 1, 0.5)
    """

    device: torch.device
    world_size: int = 1
    rank: int = 0

    def share(self, loss: nn.Module) -> nn.Module:
        """A module whose gradients are the mean over all processes; alone, the module itself."""
        if self.world_size == 1:
            return loss
        from torch.nn.parallel import DistributedDataParallel

        # Buffers are the same everywhere and never change: they need not be sent at every step. PyTorch renamed it.
        known = signature(DistributedDataParallel).parameters
        send = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        options: dict[str, Any] = {send: False, "gradient_as_bucket_view": True}
        return DistributedDataParallel(loss, **options)

    def agree(self, value: Tensor, how: str = "AVG") -> float:
        """One number for all processes: the mean of theirs, or with ``MAX`` the largest."""
        if self.world_size > 1:
            from torch import distributed

            value = value.clone()
            distributed.all_reduce(value, distributed.ReduceOp.MAX if how == "MAX" else distributed.ReduceOp.SUM)
            value = value if how == "MAX" else value / self.world_size
        return float(value)

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.world_size > 1:
            self.agree(torch.zeros((), device=self.device))


def connect(device: str | torch.device = "cpu") -> Processes:
    """The launcher's processes, connected; or this one alone.

    Raises:
        InputError: the device cannot be used, several processes were promised but not started by ``torchrun``, or there
            is no way to connect them.

    >>> connect().device
    device(type='cpu')
    """
    place, world = usable(device), world_size()
    if world == 1:
        return Processes(place if place.type == "cpu" else torch.device(place.type, place.index or 0))
    if place.type != "cpu":
        place = torch.device(place.type, _number("LOCAL_RANK", 0, least=0))
    _join(place.type, world)
    return Processes(place, world, rank())


@functools.cache
def _join(kind: str, world: int) -> None:
    """Meet the other processes, once."""
    from torch import distributed

    if not distributed.is_available() or kind not in BACKENDS:
        fix = "train in one process, or on " + " or ".join(BACKENDS)
        raise InputError("a PyTorch that connects processes", f"one that does not on {kind}", fix=fix)
    if not distributed.is_torchelastic_launched():
        raise InputError(
            "processes started by torchrun",
            f"WORLD_SIZE={world} without it",
            fix=f"run torchrun --nproc-per-node {world} --no-python csm …, or unset WORLD_SIZE",
        )
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    with _mortal():
        store = _store(serve=not served and rank() == 0)
        distributed.init_process_group(BACKENDS[kind], store=store, rank=rank(), world_size=world)
    # gloo's threads, still running when the interpreter ends, would abort the process.
    atexit.register(_leave)


def _leave() -> None:
    import gc

    from torch import distributed

    if distributed.is_initialized():
        gc.collect()  # unreachable wrapped models still keep the connection
        distributed.destroy_process_group()


@contextmanager
def _mortal() -> Iterator[None]:
    """Within it SIGTERM ends the process at once: one that waits for a peer that died never gets to a handler."""
    before: Any = None
    try:
        if current_thread() is main_thread():
            before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def share(total: int, rank: int, world: int) -> slice:
    """The rows of a batch of ``total`` that a process takes.

    >>> [share(5, rank, 2) for rank in range(2)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return slice(total * rank // world, total * (rank + 1) // world)
