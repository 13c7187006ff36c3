"""Shapes in types. Names of axes: batch (any leading ones), sites (D), slots (K), states (S)."""

from jaxtyping import Bool, Float, Integer
from torch import Tensor

States = Integer[Tensor, "*batch sites"]
"""Integer states ``(..., D)``."""

NeighborStates = Integer[Tensor, "*batch slots sites"]
"""All neighbors of each state, by slot ``(..., K, D)``."""

Slots = Integer[Tensor, "*batch"]
"""One integer a state: a slot, an index or a degree ``(...)``."""

Mask = Bool[Tensor, "*batch slots"]
"""Which slots of a state hold a neighbor ``(..., K)``."""

PerState = Float[Tensor, "*batch"]
"""One number a state, such as a log-density ``(...)``."""

PerSlot = Float[Tensor, "*batch slots"]
"""One number a slot, such as a log-ratio ``(..., K)``."""

PerStateTable = Float[Tensor, " states"]
"""One number for each state of an enumerated space ``(S,)``."""

PerSlotTable = Float[Tensor, "states slots"]
"""One number for each slot of each state of an enumerated space ``(S, K)``."""
