"""Bayesian networks: discrete truths with named columns, known exactly through their conditional tables."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any

import torch
from torch import Tensor

from concrete_score.errors import InputError, check_count
from concrete_score.shapes import PerState, States
from concrete_score.spaces import Space
from concrete_score.targets.pmf import Pmf, as_float64, check_entries, check_sums, from_density, invert

_YES_IF: dict[str, tuple[tuple[str, ...], Any]] = {
    # name: (parents, p(yes | parents)); the inner lists run over each parent's no, yes.
    "asia": ((), 0.01),
    "tub": (("asia",), [0.01, 0.05]),
    "smoke": ((), 0.5),
    "lung": (("smoke",), [0.01, 0.1]),
    "bronc": (("smoke",), [0.3, 0.6]),
    "either": (("tub", "lung"), [[0.0, 1.0], [1.0, 1.0]]),
    "xray": (("either",), [0.05, 0.98]),
    "dysp": (("bronc", "either"), [[0.1, 0.7], [0.8, 0.9]]),
}


@dataclass(frozen=True, eq=False)
class BayesianNetwork:
    """``p(x) = Π_d p(x_d | x_parents(d))``.

    Args:
        space: how many values each of the D variables takes.
        parents: for each variable the variables it depends on.
        tables: for each variable ``p(value | parents)``, shape ``(*parent sizes in the order of parents, size)``.
        names: the variables' names; ``x0, x1, …`` by default.
        values: for each variable its values' names; ``0, 1, …`` by default.

    Raises:
        InputError: a cycle, an unknown parent, a table of the wrong shape, a row that does not sum to one.

    >>> rain = BayesianNetwork(
    ...     Space((2, 2)), parents=((), (0,)), tables=([0.8, 0.2], [[0.9, 0.1], [0.3, 0.7]]), names=("rain", "wet")
    ... )
    >>> rain.joint().probabilities.round(decimals=9).tolist()
    [0.72, 0.08, 0.06, 0.14]
    """

    space: Space
    parents: Sequence[Sequence[int]]
    tables: Sequence[Any] = field(repr=False)
    names: Sequence[str] = ()
    values: Sequence[Sequence[str]] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        sizes = self.space.sizes
        names = tuple(self.names) or tuple(f"x{d}" for d in range(len(sizes)))
        values = tuple(tuple(v) for v in self.values) or tuple(tuple(map(str, range(size))) for size in sizes)
        _check_names(sizes, names, values)
        _check_one_each("parents", len(self.parents), sizes)
        _check_one_each("tables", len(self.tables), sizes)
        parents = tuple(tuple(p) for p in self.parents)
        for name, value in (("names", names), ("values", values), ("parents", parents)):
            object.__setattr__(self, name, value)
        _check_parents(parents, names)
        tables = tuple(as_float64(t, f"table of {names[d]!r}") for d, t in enumerate(self.tables))
        for d, table in enumerate(tables):
            _check_table(table, (*(sizes[p] for p in parents[d]), sizes[d]), f"table of {names[d]!r}")
        object.__setattr__(self, "tables", tables)
        _ = self.order  # a cycle is refused now, not at the first draw

    @property
    def normalized(self) -> bool:
        return True

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The variables, parents before children."""
        try:
            return tuple(TopologicalSorter(dict(enumerate(self.parents))).static_order())
        except CycleError as error:
            cycle = " -> ".join(self.names[d] for d in error.args[1])
            raise InputError("no cycle among the parents", cycle, where="parents") from None

    def log_density(self, x: States) -> PerState:
        """``log p(x)`` ``(..., D) -> (...)``; -inf where some table has a zero."""
        log_entries, strides, offsets = (t.to(x.device) for t in self._flat)
        # Products of small whole numbers are exact in float64, and its matrix product runs on every device.
        places = (x.to(torch.float64) @ strides).long() + offsets
        return log_entries[places].sum(-1)

    def sample(self, n: int, generator: torch.Generator) -> States:
        """``n`` exact independent draws ``(n, D)``, each variable after its parents."""
        x = torch.zeros(n, self.space.num_sites, dtype=torch.int64, device=generator.device)
        for d in self.order:
            rows = self._row(d, x)
            x[:, d] = invert(self._cumulative[d].to(x.device)[rows], n, generator)
        return x

    def joint(self) -> Pmf:
        """The whole distribution as a table, by enumeration."""
        return self._joint

    def marginals(self) -> tuple[Tensor, ...]:
        """Each variable's exact distribution ``(size,)``, by enumeration."""
        return tuple(self.joint().marginal([d]).probabilities for d in range(self.space.num_sites))

    def log_evidence(self, evidence: Sequence[Tensor]) -> PerState:
        """``log Σ_x p(x) Π_d e_d(x_d)`` of n rows ``(n,)``, one variable summed out after another: nothing is listed.

        Args:
            evidence: for each variable ``log e_d`` of its values ``(n, size)``; 0 and -inf say which are possible.
        """
        scaled, log_scale = _scaled(evidence)
        return self._summed(scaled, []).log().squeeze(-1) + log_scale

    def posteriors(self, evidence: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """``P(x_d = v | evidence)`` of each variable ``(n, size)``, as exactly as `log_evidence`.

        >>> sprinkler = BayesianNetwork(Space((2, 2)), ((), (0,)), ([0.8, 0.2], [[0.9, 0.1], [0.3, 0.7]]))
        >>> wet = [torch.zeros(1, 2), torch.tensor([[-torch.inf, 0.0]])]
        >>> sprinkler.posteriors(wet)[0].round(decimals=4).tolist()
        [[0.3636, 0.6364]]
        """
        scaled, _ = _scaled(evidence)
        joint = [self._summed(scaled, [d]) for d in range(len(self.tables))]
        return tuple(each / each.sum(-1, keepdim=True) for each in joint)

    def _summed(self, evidence: Sequence[Tensor], kept: list[int]) -> Tensor:
        """``Σ p(x) Π_d e_d(x_d)`` over all variables but those kept ``(n, ...)``."""
        # A factor is a table over some variables, ascending, with the rows first where it depends on them.
        factors = [
            (_with_rows(table, [*self.parents[d], d]), {*self.parents[d], d}) for d, table in enumerate(self.tables)
        ]
        factors += [(weight, {d}) for d, weight in enumerate(evidence)]
        left = [d for d in range(len(self.tables)) if d not in kept]
        while left:
            joined = {d: set().union(*(own for _, own in factors if d in own)) for d in left}
            d = min(left, key=lambda d: prod(self.space.sizes[e] for e in joined[d]))
            table = self._product([factor for factor in factors if d in factor[1]], sorted(joined[d]))
            factors = [factor for factor in factors if d not in factor[1]]
            factors.append((table.sum(1 + sorted(joined[d]).index(d)), joined[d] - {d}))
            left.remove(d)
        return self._product(factors, kept).reshape(len(evidence[0]), -1)

    def _product(self, factors: Sequence[tuple[Tensor, set[int]]], variables: list[int]) -> Tensor:
        """The product of factors as a table over variables ``(n, ...)``."""
        found = torch.ones(1, dtype=torch.float64)
        for table, own in factors:
            shape = [self.space.sizes[d] if d in own else 1 for d in variables]
            found = found * table.reshape(len(table), *shape)
        return found

    @cached_property
    def _joint(self) -> Pmf:
        return from_density(self)

    def _row(self, d: int, x: Tensor) -> Tensor:
        parents = list(self.parents[d])
        if not parents:
            return torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return Space(tuple(self.space.sizes[p] for p in parents)).index(x[:, parents])

    @cached_property
    def _cumulative(self) -> tuple[Tensor, ...]:
        return tuple(table.reshape(-1, table.shape[-1]).cumsum(-1) for table in self.tables)

    @cached_property
    def _flat(self) -> tuple[Tensor, Tensor, Tensor]:
        """All log-tables end to end; entry of variable d = ``x @ strides[:, d] + offsets[d]``."""
        strides = torch.zeros(len(self.tables), len(self.tables), dtype=torch.float64)
        for d, table in enumerate(self.tables):
            strides[[*self.parents[d], d], d] = torch.tensor(table.contiguous().stride(), dtype=torch.float64)
        counts = torch.tensor([table.numel() for table in self.tables])
        log_entries = torch.cat([table.reshape(-1) for table in self.tables]).log()
        return log_entries, strides, counts.cumsum(0) - counts


def random_network(
    sizes: Sequence[int],
    max_parents: int,
    generator: torch.Generator,
    concentration: float = 1.0,
    leaves: Collection[int] = (),
) -> BayesianNetwork:
    """A random network: a random order, up to ``max_parents`` parents each, and Dirichlet rows in the tables.

    Args:
        sizes: how many values each variable takes.
        max_parents: each variable draws uniformly how many of the earlier ones it depends on, up to this number.
        concentration: of the symmetric Dirichlet; small values make nearly deterministic tables.
        leaves: variables that are nobody's parents.

    >>> network = random_network([2, 3, 4], 2, torch.Generator().manual_seed(0))
    >>> network.joint().space.num_states
    24
    """
    if concentration <= 0:
        raise InputError("a positive number", str(concentration), where="concentration")
    check_count(max_parents, "max_parents", least=0)
    order = sorted(torch.randperm(len(sizes), generator=generator).tolist(), key=lambda d: d in leaves)
    parents: list[tuple[int, ...]] = [()] * len(sizes)
    for k, d in enumerate(order):
        earlier = min(k, len(sizes) - len(set(leaves)))
        count = int(torch.randint(min(max_parents, earlier) + 1, (), generator=generator))
        parents[d] = tuple(sorted(order[i] for i in torch.randperm(earlier, generator=generator)[:count].tolist()))
    shapes = [(*(sizes[p] for p in parents[d]), sizes[d]) for d in range(len(sizes))]
    tables = [_dirichlet(shape, concentration, generator) for shape in shapes]
    return BayesianNetwork(Space(tuple(sizes)), tuple(parents), tables)


def _dirichlet(shape: tuple[int, ...], concentration: float, generator: torch.Generator) -> Tensor:
    from scipy.special import gammaincinv

    # Gamma draws by inversion need nothing random but the generator.
    unit = torch.rand(shape, generator=generator, dtype=torch.float64)
    gamma = torch.from_numpy(gammaincinv(concentration, unit.numpy()))
    return gamma / gamma.sum(-1, keepdim=True)


def _with_rows(table: Tensor, variables: list[int]) -> Tensor:
    """A table with its variables ascending, and an axis of one row before them."""
    order = sorted(range(len(variables)), key=variables.__getitem__)
    return table.permute(order)[None]


def _scaled(evidence: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Weights of at most 1 in float64, and the logarithm of what they were divided by ``(n,)``."""
    tops = [each.double().amax(-1, keepdim=True).clamp(min=-1e300) for each in evidence]
    scaled = [(each.double() - top).exp() for each, top in zip(evidence, tops, strict=True)]
    return scaled, torch.cat(tops, -1).sum(-1)


def _check_one_each(what: str, count: int, sizes: tuple[int, ...]) -> None:
    if count != len(sizes):
        raise InputError(f"one entry for each of {len(sizes)} variables", str(count), where=what)


def _check_names(sizes: tuple[int, ...], names: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> None:
    _check_one_each("names", len(names), sizes)
    _check_one_each("values", len(values), sizes)
    if len(set(names)) < len(names):
        raise InputError("distinct names", ", ".join(names), where="names")
    for name, own, size in zip(names, values, sizes, strict=True):
        if len(own) != size or len(set(own)) < size:
            raise InputError(f"{size} distinct names", str(list(own)), where=f"values of {name!r}")


def _check_parents(parents: tuple[tuple[int, ...], ...], names: tuple[str, ...]) -> None:
    for name, own in zip(names, parents, strict=True):
        if len(set(own)) < len(own) or not set(own) <= set(range(len(names))):
            raise InputError(
                f"distinct variables from 0 to {len(names) - 1}", str(list(own)), where=f"parents of {name!r}"
            )


def _check_table(table: Tensor, shape: tuple[int, ...], where: str) -> None:
    if tuple(table.shape) != shape:
        raise InputError(
            f"shape {shape}", f"{tuple(table.shape)}", where, "parents first, in order, and the variable itself last"
        )
    check_entries(table, where)
    check_sums(table, where)


def asia() -> BayesianNetwork:
    """The chest-clinic network of Lauritzen and Spiegelhalter (1988); value 0 is "no", value 1 is "yes".

    Variables: a visit to Asia, tuberculosis, smoking, lung cancer, bronchitis, either tuberculosis or lung cancer, a
    positive x-ray, dyspnoea. ``either`` is a logical or, so 128 of the 256 states are impossible, and single flips
    cannot pass between the patients with ``either`` (mass .065) and those without (.935).

    >>> network = asia()
    >>> network.names
    ('asia', 'tub', 'smoke', 'lung', 'bronc', 'either', 'xray', 'dysp')
    >>> round(float(network.marginals()[5][1]), 6)
    0.064828
    """
    names = tuple(_YES_IF)
    parents = tuple(tuple(names.index(p) for p in own) for own, _ in _YES_IF.values())
    tables = []
    for _, numbers in _YES_IF.values():
        yes = torch.tensor(numbers, dtype=torch.float64)
        tables.append(torch.stack([1 - yes, yes], dim=-1))
    return BayesianNetwork(Space.bits(len(names)), parents, tables, names, (("no", "yes"),) * len(names))
