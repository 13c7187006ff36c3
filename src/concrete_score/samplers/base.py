"""What every kernel has in common: checked starts, masked draws, accept or stay."""

from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.protocols import Neighborhood, SiteNeighborhood
from concrete_score.randomness import uniform
from concrete_score.shapes import Mask, PerSlot, PerState, Slots, States
from concrete_score.spaces import Space, as_tensor


def check_start(space: Space, x: Any, clamped: Any = None) -> tuple[Tensor, Tensor | None]:
    """Chains ``(C, D)`` as int64 states of the space, and which of their sites are clamped ``(C, D)``, or None.

    Raises:
        InputError: values outside the space, clamped or not; a wrong shape; a mask that is not bool.

    >>> x, clamped = check_start(Space((2, 3)), [[0, 2], [1, 1]], torch.tensor([True, False]))
    >>> clamped.tolist()
    [[True, False], [True, False]]
    """
    states = space.check(x, "x")
    if states.ndim != 2 or not len(states):
        expected = f"chains of shape (C, {space.num_sites}), at least one"
        raise InputError(expected, f"shape {tuple(states.shape)}", where="x", fix="give one row a chain")
    return states, check_clamped(clamped, states)


def check_clamped(clamped: Any, x: Tensor) -> Tensor | None:
    """A mask of clamped sites, one for all chains ``(D,)`` or one a chain ``(C, D)``, as ``(C, D)``."""
    if clamped is None:
        return None
    mask = as_tensor(clamped, "clamped").to(x.device)
    if mask.dtype != torch.bool or mask.shape not in (x.shape, x.shape[-1:]):
        raise InputError(
            f"bool of shape {tuple(x.shape)} or {tuple(x.shape[-1:])}",
            f"{mask.dtype} of shape {tuple(mask.shape)}",
            where="clamped",
            fix="mark the sites that never move with True",
        )
    return mask.expand_as(x)


def check_log_density(value: PerState, x: Tensor) -> Tensor:
    """The log-density of the starts in float64; a start of probability zero or a broken density is refused."""
    value = value.double()
    bad = ~value.isfinite()
    if bad.any():
        row = int(bad.nonzero()[0])
        impossible = bool(value[row] == -torch.inf)
        raise InputError(
            "a start of positive probability" if impossible else "a finite log-density",
            f"log-density {value[row].item()} at the state {_short(x[row])}",
            where=f"x[{row}]",
            fix="start where the density is positive, such as at data" if impossible else "the model is broken there",
        )
    return value


def check_log_ratios(ratios: PerSlot, valid: Mask, x: States) -> Tensor:
    """Log-ratios that are numbers below infinity, -inf allowed; anything else is refused by state and slot."""
    bad = valid & ~(ratios < torch.inf)
    if bad.any():
        row, slot = (int(k) for k in bad.nonzero()[0])
        raise InputError(
            "finite log-ratios, or -inf towards a zero state",
            f"{ratios[row, slot].item()} at the state {_short(x[row])}, slot {slot}",
            where=f"x[{row}]",
            fix="start at states of positive probability; a model that gives NaN is broken",
        )
    return ratios


def check_edges(neighborhood: Neighborhood) -> None:
    """A sampler needs somewhere to go."""
    if not neighborhood.num_slots:
        raise InputError("a neighborhood with at least one edge", "none", where="neighborhood", fix="use `hamming`")


def check_moves(space: Space) -> None:
    """So does one that changes sites."""
    if space.num_states == 1:
        raise InputError("a space of at least two states", "one", where="model", fix="there is nothing to sample")


def check_share(value: float, name: str) -> None:
    """Laziness: a probability below one, else no chain ever moves."""
    if not 0 <= value < 1:
        raise InputError("a probability from 0 to below 1", str(value), where=name)


def accept(log_ratio: PerState, generator: torch.Generator) -> Tensor:
    """True with probability ``min(1, exp(log_ratio))`` ``(C,)``; NaN, which no exact kernel makes, is refused."""
    if log_ratio.isnan().any():
        chain = int(log_ratio.isnan().nonzero()[0])
        raise InputError("a number as acceptance ratio", "NaN", where=f"chain {chain}", fix="the model is broken there")
    return uniform(tuple(log_ratio.shape), generator, log_ratio.device).log() < log_ratio


def choose(accepted: Tensor, new: Any, old: Any) -> Any:
    """Chain by chain the new or the old, through tuples of tensors whose first axis is the chain."""
    if isinstance(new, Tensor):
        # Of wide rows it is far cheaper to write back the rejected ones than to ask the mask at every entry.
        return torch.where(accepted, new, old) if new.ndim == 1 else put_back(accepted, new.clone(), old)
    return type(new)(*(choose(accepted, a, b) for a, b in zip(new, old, strict=True)))


def put_back(accepted: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """`choose` in place of ``new``, which must be the kernel's own: only the rows of rejected chains are touched."""
    rejected = (~accepted).nonzero().squeeze(-1)
    return new.index_copy_(0, rejected, old[rejected]) if len(rejected) else new


def take_back(neighborhood: Neighborhood, slot: Slots, accepted: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """`put_back` for ``y = N(x)_slot``; where a move changes one site, only that site is touched."""
    if not isinstance(neighborhood, SiteNeighborhood):
        return put_back(accepted, y, x)
    site = neighborhood.edit(x, slot)[0][:, None]
    return y.scatter_(1, site, torch.where(accepted[:, None], y.gather(1, site), x.gather(1, site)))


def go_where(movable: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """``y`` for chains that can move, else ``x``; the common case, all of them, costs nothing."""
    return y if bool(movable.all()) else choose(movable, y, x)


def free_slots(neighborhood: Neighborhood, x: States, clamped: Tensor | None) -> Mask:
    """The valid slots of each chain that leave its clamped sites alone ``(C, K)``."""
    valid = neighborhood.valid(x)
    if clamped is None:
        return valid
    if isinstance(neighborhood, SiteNeighborhood):
        site, _ = all_edits(neighborhood, x)
        return valid & ~clamped.gather(1, site)
    moved = neighborhood.neighbors(x) != x[:, None]
    return valid & ~(moved & clamped[:, None]).any(-1)


def all_edits(neighborhood: SiteNeighborhood, x: States) -> tuple[Tensor, Tensor]:
    """Site and new value of every slot ``(C, K)`` each."""
    shape = (len(x), neighborhood.num_slots)
    slots = torch.arange(neighborhood.num_slots, device=x.device).expand(shape)
    return neighborhood.edit(x[:, None].expand(*shape, -1), slots)


def draw_marked(mask: Mask, generator: torch.Generator) -> tuple[Slots, Tensor]:
    """A uniform True position of each row ``(C,)``, and whether there was one; 0 where not.

    >>> draw_marked(torch.tensor([[False, True], [False, False]]), torch.Generator())
    (tensor([1, 0]), tensor([ True, False]))
    """
    rank = mask.cumsum(-1)
    unit = uniform((len(mask),), generator, mask.device)
    # The first position whose running count reaches the wanted rank; beyond the end when there is none.
    wanted = (unit * rank[:, -1]).long() + 1
    found = torch.searchsorted(rank, wanted[:, None]).squeeze(-1)
    some = rank[:, -1] > 0
    return found.where(some, 0), some


def pick(table: Tensor, index: Slots) -> Tensor:
    """``table[i, index[i]]`` ``(C, K), (C,) -> (C,)``."""
    return table.gather(-1, index[:, None]).squeeze(-1)


def _short(state: Tensor) -> str:
    shown = ", ".join(str(v) for v in state[:8].tolist())
    return f"[{shown}{', …' if len(state) > 8 else ''}]"
