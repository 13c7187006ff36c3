"""The Ising model on a two-dimensional lattice, with its exact partition function by a transfer matrix."""

from dataclasses import dataclass
from functools import cached_property
from math import isfinite, log

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space

ROW_LIMIT = 12
_COLUMNS = 2**9


@dataclass(frozen=True)
class Ising:
    """``log q(x) = β Σ_{i~j} s_i s_j + h Σ_i s_i`` with spins ``s = 2x - 1``; bits are flattened row by row.

    Each pair of lattice neighbors is one bond and counts once. A periodic side of length 2 has therefore the same
    bonds as an open one (going around leads back to the same neighbor), and a side of length 1 has none.

    Args:
        shape: rows and columns.
        inverse_temperature: β; negative values favor unequal neighbors.
        field: h, the pull on every spin.
        periodic: whether sides longer than 2 wrap around.

    >>> model = Ising((3, 3), inverse_temperature=0.5)
    >>> model.log_density(torch.ones(9, dtype=torch.int64)).item()   # 18 bonds
    9.0
    """

    shape: tuple[int, int]
    inverse_temperature: float
    field: float = 0.0
    periodic: bool = True

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or min(self.shape) < 1:
            raise InputError("two sides of at least 1", str(self.shape), where="shape", fix="give (rows, columns)")
        for name in ("inverse_temperature", "field"):
            if not isfinite(getattr(self, name)):
                raise InputError("a finite number", str(getattr(self, name)), where=name)

    @cached_property
    def space(self) -> Space:
        """One bit for each lattice place."""
        return Space.bits(self.shape[0] * self.shape[1])

    @property
    def normalized(self) -> bool:
        """Always false: subtract `log_partition` where it is known."""
        return False

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, not normalized ``(..., D) -> (...)``."""
        # Sums of signs are whole numbers, exact in float32 below 2**24, and this is the fastest type for them.
        spins = x.to(torch.float32).mul(2).sub(1).reshape(*x.shape[:-1], *self.shape)
        bonds = self._bonds(spins, -2) + self._bonds(spins, -1)
        energy = self.inverse_temperature * bonds.to(torch.float64)
        if self.field != 0.0:
            energy = energy + self.field * spins.sum((-2, -1)).to(torch.float64)
        return energy

    def log_partition(self) -> float:
        """``log Σ_x q(x)``, exact, by a transfer matrix across the shorter side.

        One step from row to row is ``diag(w) T`` with ``w`` the weight of a row and ``T`` a Kronecker product of 2×2
        matrices, applied as such. Open lattices cost a vector a step, periodic ones a matrix.

        Raises:
            InputError: both sides are longer than 12.

        >>> round(Ising((4, 4), 0.4, periodic=False).log_partition(), 6)
        13.186573
        """
        width, length = sorted(self.shape)
        if width > ROW_LIMIT:
            raise InputError(
                f"a lattice with one side of at most {ROW_LIMIT}",
                f"{self.shape[0]} × {self.shape[1]}",
                where="shape",
                fix="estimate the partition function by annealed importance sampling",
            )
        transfer = _Transfer(self._row_log_weights(width), width, self.inverse_temperature)
        return transfer.log_trace(length) if self._wraps(length) else transfer.log_path(length)

    def _wraps(self, side: int) -> bool:
        return self.periodic and side > 2

    def _bonds(self, spins: Tensor, axis: int) -> Tensor:
        side = spins.shape[axis]
        inner = (spins.narrow(axis, 0, side - 1) * spins.narrow(axis, 1, side - 1)).sum((-2, -1))
        if not self._wraps(side):
            return inner
        return inner + (spins.select(axis, 0) * spins.select(axis, -1)).sum(-1)

    def _row_log_weights(self, width: int) -> Tensor:
        # A row alone is a lattice of one row: its vertical bonds are none.
        row = Ising((1, width), self.inverse_temperature, self.field, self.periodic)
        return row.log_density(row.space.enumerate())


@dataclass(frozen=True, eq=False)
class _Transfer:
    """Steps from row to row, kept near one in size; the scale is carried as a logarithm."""

    row_log_weights: Tensor
    width: int
    coupling: float

    def log_path(self, length: int) -> float:
        """``log 1ᵀ w (T w)^(length-1)``: rows in an open line."""
        weights, log_weight = self._row_weights(1.0)
        factors, log_factor = self._factors()
        vector, log_scale = weights[:, None], log_weight
        for _ in range(length - 1):
            vector, grown = _rescale(weights[:, None] * _apply(factors, vector))
            log_scale += log_factor + log_weight + grown
        return log_scale + log(float(vector.sum()))

    def log_trace(self, length: int) -> float:
        """``log tr M^length`` with the symmetric ``M = √w T √w``, from half as many steps: ``Σ M^a ∘ M^b``."""
        root, log_root = self._row_weights(0.5)
        factors, log_factor = self._factors()
        half = length // 2
        parts = []
        for columns in torch.split(torch.eye(len(root), dtype=torch.float64), _COLUMNS, dim=1):
            power, log_scale = columns, 0.0
            for _ in range(half):
                power, grown = _rescale(root[:, None] * _apply(factors, root[:, None] * power))
                log_scale += grown
            other = power
            if length % 2:
                other = root[:, None] * _apply(factors, root[:, None] * power)
            parts.append(2 * log_scale + (power * other).sum().log())
        return length * (2 * log_root + log_factor) + float(torch.stack(parts).logsumexp(0))

    def _row_weights(self, power: float) -> tuple[Tensor, float]:
        log_weights = power * self.row_log_weights
        largest = float(log_weights.max())
        return (log_weights - largest).exp(), largest

    def _factors(self) -> tuple[tuple[Tensor, Tensor], float]:
        """The Kronecker product of ``width`` bond matrices as a product of two, with its logarithmic scale."""
        signs = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
        bond = (self.coupling * signs - abs(self.coupling)).exp()
        left = self.width // 2
        return (_power(bond, left), _power(bond, self.width - left)), self.width * abs(self.coupling)


def _power(bond: Tensor, times: int) -> Tensor:
    product = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(times):
        product = torch.kron(product, bond)
    return product


def _apply(factors: tuple[Tensor, Tensor], columns: Tensor) -> Tensor:
    left, right = factors
    block = (left @ columns.reshape(len(left), -1)).reshape(len(left), len(right), -1)
    return torch.matmul(right, block).reshape(columns.shape)


def _rescale(values: Tensor) -> tuple[Tensor, float]:
    largest = float(values.max())
    return values / largest, log(largest)
