"""Boltzmann distributions over bits whose partition function is exact: the Ising model and restricted machines."""

from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, log

import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.graphs import lattice_edges
from concrete_score.targets.pairwise import Pairwise
from concrete_score.targets.pmf import as_float64, invert

ENUMERATED_UNITS = 20
_CHUNK_NUMBERS = 2**22

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

    def local_fields(self, x: States) -> Tensor:
        """``2 (β Σ_{i~d} s_i + h)``, the logit of every bit given the others ``(..., D) -> (..., D, 1)``."""
        spins = x.to(torch.float32).mul(2).sub(1).reshape(*x.shape[:-1], *self.shape)
        around = self._neighbor_sum(spins, -2) + self._neighbor_sum(spins, -1)
        pull = self.inverse_temperature * around.to(torch.float64) + self.field
        return (2 * pull).reshape(*x.shape, 1)

    def interactions(self) -> Tensor:
        """The bonds ``(E, 2)``."""
        return lattice_edges(self.shape, self.periodic)

    def pairwise(self) -> Pairwise:
        """The same density, its fields and couplings as tensors."""
        return self._pairwise

    @cached_property
    def _pairwise(self) -> Pairwise:
        edges = self.interactions()
        fields = torch.full((self.space.num_sites,), float(self.field), dtype=torch.float64)
        pairs = torch.full((len(edges),), float(self.inverse_temperature), dtype=torch.float64)
        return Pairwise.of_spins(fields, pairs, edges)

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

    def _neighbor_sum(self, spins: Tensor, axis: int) -> Tensor:
        side = spins.shape[axis]
        if self._wraps(side):
            return spins.roll(1, axis) + spins.roll(-1, axis)
        around = torch.zeros_like(spins)
        around.narrow(axis, 0, side - 1).add_(spins.narrow(axis, 1, side - 1))
        around.narrow(axis, 1, side - 1).add_(spins.narrow(axis, 0, side - 1))
        return around

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


@dataclass(frozen=True, eq=False)
class RBM:
    """``log q(v) = b·v + Σ_j softplus(c_j + (vW)_j)``: visible bits with the hidden ones summed out.

    Args:
        weights: W ``(V, H)``.
        visible_bias: b ``(V,)``.
        hidden_bias: c ``(H,)``. All are kept in float64.

    Raises:
        InputError: shapes that do not fit, or parameters that are not finite.

    >>> model = RBM(torch.zeros(3, 2), torch.zeros(3), torch.zeros(2))
    >>> round(model.log_partition() / torch.tensor(2.0).log().item(), 6)   # 2⁵ joint states
    5.0
    """

    weights: Tensor = field(repr=False)
    visible_bias: Tensor = field(repr=False)
    hidden_bias: Tensor = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("weights", "visible_bias", "hidden_bias"):
            value = as_float64(getattr(self, name), name)
            if not value.isfinite().all():
                raise InputError("finite numbers", "NaN or infinity", where=name)
            object.__setattr__(self, name, value)
        shapes = tuple(tuple(t.shape) for t in (self.weights, self.visible_bias, self.hidden_bias))
        if self.weights.ndim != 2 or 0 in shapes[0] or shapes[1:] != (shapes[0][:1], shapes[0][1:]):
            raise InputError("weights (V, H), visible_bias (V,) and hidden_bias (H,)", f"shapes {shapes}")

    @cached_property
    def space(self) -> Space:
        return Space.bits(self.weights.shape[0])

    @property
    def normalized(self) -> bool:
        """Always false: subtract `log_partition` where it is known."""
        return False

    def log_density(self, x: States) -> PerState:
        """``log q(x)``, not normalized ``(..., V) -> (...)``."""
        return _summed_out(x, self.weights, self.visible_bias, self.hidden_bias)

    def hidden_logits(self, x: Tensor) -> Tensor:
        """``c + vW`` of bits as floats ``(..., V) -> (..., H)``."""
        return x.to(torch.float64) @ self.weights.to(x.device) + self.hidden_bias.to(x.device)

    def visible_logits(self, hidden: Tensor) -> Tensor:
        """``b + hWᵀ`` of bits as floats ``(..., H) -> (..., V)``."""
        return hidden.to(torch.float64) @ self.weights.T.to(hidden.device) + self.visible_bias.to(hidden.device)

    def local_fields(self, x: States) -> Tensor:
        """The logit of every visible bit given the others ``(..., V) -> (..., V, 1)``.

        ``b_d + Σ_j [softplus(a_j + (1 - v_d) W_dj) - softplus(a_j - v_d W_dj)]`` with ``a = c + vW``: V H numbers a
        state, in chunks of states.
        """
        flat = x.reshape(-1, x.shape[-1])
        weights, bias = self.weights.to(x.device), self.visible_bias.to(x.device)
        zero, parts = bias.new_zeros(()), []
        for rows in torch.split(flat, max(1, _CHUNK_NUMBERS // weights.numel())):
            without = self.hidden_logits(rows)[:, None] - rows[..., None] * weights
            gain = torch.logaddexp(without + weights, zero) - torch.logaddexp(without, zero)
            parts.append(bias + gain.sum(-1))
        return torch.cat(parts).reshape(*x.shape, 1)

    def log_partition(self) -> float:
        """``log Σ_v q(v)``, exact, by enumerating the smaller layer.

        Raises:
            InputError: both layers have more than 20 units.
        """
        return float(self._log_table.logsumexp(0))

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact independent draws ``(n, V)``: a hidden state from its enumerated marginal, then ``v`` given it.

        Where the visible layer is the smaller one, it is drawn from its own table.
        """
        drawn = self._small_space.state(invert(self._cumulative.to(generator.device), n, generator))
        if self._by_visible:
            return drawn
        logits = self.visible_bias.to(drawn.device) + drawn.double() @ self.weights.to(drawn.device).T
        return torch.bernoulli(logits.sigmoid(), generator=generator).long()

    @property
    def _by_visible(self) -> bool:
        return self.weights.shape[0] < self.weights.shape[1]

    @property
    def _small_space(self) -> Space:
        return Space.bits(min(self.weights.shape))

    @cached_property
    def _log_table(self) -> Tensor:
        """The other layer summed out, for each state of the smaller one ``(2^min(V, H),)``."""
        small = min(self.weights.shape)
        if small > ENUMERATED_UNITS:
            raise InputError(
                f"a layer of at most {ENUMERATED_UNITS} units to enumerate",
                f"{self.weights.shape[0]} visible and {self.weights.shape[1]} hidden ones",
                fix="bound the partition function by annealed importance sampling",
            )
        parts = (self.weights, self.visible_bias, self.hidden_bias)
        if not self._by_visible:
            parts = (self.weights.T, self.hidden_bias, self.visible_bias)
        rows = max(1, _CHUNK_NUMBERS // max(self.weights.shape))
        indices = torch.split(torch.arange(2**small), rows)
        return torch.cat([_summed_out(self._small_space.state(i), *parts) for i in indices])

    @cached_property
    def _cumulative(self) -> Tensor:
        return self._log_table.softmax(0).cumsum(0)


def random_rbm(visible: int, hidden: int, scale: float, generator: torch.Generator) -> RBM:
    """An RBM whose weights and biases are independent normals of standard deviation ``scale``.

    >>> random_rbm(6, 3, 1.0, torch.Generator().manual_seed(0)).space
    Space(sizes=(2, 2, 2, 2, 2, 2))
    """

    def normal(*shape: int) -> Tensor:
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64, device=generator.device)

    return RBM(normal(visible, hidden), normal(visible), normal(hidden))


def _summed_out(x: Tensor, weights: Tensor, bias: Tensor, other_bias: Tensor) -> Tensor:
    x = x.to(torch.float64)
    weights, bias, other_bias = (t.to(x.device) for t in (weights, bias, other_bias))
    # torch's softplus drops exp(-x) beyond 20, an error of 2e-9 each; logaddexp does not, and is faster.
    return x @ bias + torch.logaddexp(x @ weights + other_bias, bias.new_zeros(())).sum(-1)
