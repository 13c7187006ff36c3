"""Counting families: a site, its parents, and every site that might join them, all at once by matrix products.

The rows of a family's table are its *cells*, ``K`` combinations of the parents' values times the ``V`` values of the
child. The counts of all candidates e in all cells are one product of one-hot matrices, ``(K V, N) @ (N, Σ_e V_e)``;
whole numbers below 2**24 are exact in float32.

Blanks: with ``observed``, every table counts the rows in which all of its own sites are known, and a candidate's gain
compares the family with and without it on the same rows. That is right on average where blanks are unrelated to the
values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from concrete_score.spaces import Space

CELLS = 2**14
"""Entries of one conditional table at most."""
SMALL, FEW = 8, 64
"""Sites of at most so many values, in families of at most so many cells, are counted by products; others one by one."""
CHUNK = 2**22
"""Entries of the tables counted at once."""
BLOCK = 256
"""Cells of the families counted at once where all pairs are."""


@dataclass(frozen=True, eq=False)
class Families:
    """Tables of counts, and the gain in log-likelihood of each site as one more parent.

    Args:
        columns: the sites' values ``(D, N)``, narrow integers.
        space: of the rows.
        observed: which cells are known ``(D, N)`` bool; all by default.
        weights: of the rows ``(N,)`` float64; 1 by default.

    >>> rows = torch.tensor([[0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0]])
    >>> Families(rows.T, Space.bits(3)).gains(0, (), torch.tensor([1, 2])).exp().round().tolist()
    [1.0, 16.0]
    """

    columns: Tensor
    space: Space
    observed: Tensor | None = None
    weights: Tensor | None = None

    def table(self, sites: Sequence[int]) -> Tensor:
        """How often each combination of the sites' values occurs ``(V_1, …, V_n)`` float64."""
        code, shape = self._code(sites), [self.space.sizes[d] for d in sites]
        return self._bincount(code, prod(shape) + 1)[:-1].reshape(shape)

    def log_likelihood(self, child: int, parents: Sequence[int]) -> float:
        """``max Σ log p(child | parents)`` over the rows in which all of them are known."""
        return conditional_log_likelihood(self.table([*parents, child]))

    def gains(self, child: int, parents: Sequence[int], candidates: Tensor) -> Tensor:
        """By how much each candidate as one more parent raises the log-likelihood of the child ``(C,)`` float64.

            Σ_kvu n log n − Σ_ku n log n − Σ_kv n log n + Σ_k n log n,    n the counts of parents k, child v, candidate u

        Args:
            child: a site.
            parents: its parents.
            candidates: other sites ``(C,)``.
        """
        shape = (prod(self.space.sizes[d] for d in parents), self.space.sizes[child])
        return self._gains(self._code([*parents, child])[None], shape, candidates)[0]

    def pair_gains(self) -> Tensor:
        """``[child, other]``: the gain of a first parent, N times their mutual information ``(D, D)`` float64."""
        sizes = self.space.sizes_tensor()
        every = torch.arange(len(sizes))
        found = torch.empty((len(sizes), len(sizes)), dtype=torch.float64)
        for size in sizes.unique().tolist():
            most = max(1, min(BLOCK // size, CHUNK // (size * self.columns.shape[1])))
            for children in torch.split(every[sizes == size], most):
                code = torch.stack([self._code([d]) for d in children.tolist()])
                found[children] = self._gains(code, (1, size), every)
        return found

    def _gains(self, code: Tensor, shape: tuple[int, int], candidates: Tensor) -> Tensor:
        """Of several families of one shape, parents' cells and child's values, by their rows' codes ``(B, N)``."""
        gains = torch.empty((len(code), len(candidates)), dtype=torch.float64)
        for place, counts in self._joint(code, prod(shape), candidates):
            n = counts.reshape(*counts.shape[:2], *shape, -1)  # (B, C, K, V, U)
            gain = _xlogx(n).sum((2, 3, 4)) - _xlogx(n.sum(3)).sum((2, 3))
            n = n.sum(4)
            gains[:, place] = gain - _xlogx(n).sum((2, 3)) + _xlogx(n.sum(3)).sum(2)
        return gains

    def _joint(self, code: Tensor, cells: int, candidates: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Counts of the cells with the values of some of the candidates ``(B, c, cells, U)``, and which they are."""
        sizes = self.space.sizes_tensor()[candidates]
        for size in sizes.unique().tolist():
            quick = size <= SMALL and cells <= FEW
            most = CHUNK // (len(code) * max(cells * size, 1 if quick else code.shape[1]))
            count = self._by_product if quick else self._one_by_one
            for place in torch.split((sizes == size).nonzero().squeeze(1), max(1, most)):
                yield place, count(code, cells, candidates[place], size)

    def _by_product(self, code: Tensor, cells: int, sites: Tensor, size: int) -> Tensor:
        hot = self._hot.new_zeros(len(code), cells + 1, code.shape[1])
        hot.scatter_(1, code[:, None], 1.0 if self.weights is None else self.weights.expand_as(code)[:, None])
        hot = hot[:, :-1].flatten(0, 1)
        lines = (self._first[sites][:, None] + torch.arange(size - 1)).flatten()
        values = self._hot if len(lines) == len(self._hot) else self._hot[lines]
        counts = (hot @ values.T).double().reshape(len(code), cells, len(sites), size - 1).transpose(1, 2)
        if self._known is None:
            total = hot.sum(1, dtype=torch.float64).reshape(len(code), 1, cells).expand(-1, len(sites), -1)
        else:
            total = (hot @ self._known[sites].T).double().reshape(len(code), cells, -1).transpose(1, 2)
        return torch.cat([total[..., None] - counts.sum(-1, keepdim=True), counts], -1)

    def _one_by_one(self, code: Tensor, cells: int, sites: Tensor, size: int) -> Tensor:
        wide = size + 1  # the last value: unknown
        tables = torch.arange(len(code) * len(sites)).reshape(len(code), len(sites), 1)
        place = (tables * (cells + 1) + code[:, None]) * wide + self._values[sites]
        weights = None if self.weights is None else self.weights.expand_as(place).flatten()
        counts = torch.bincount(place.flatten(), weights, minlength=tables.numel() * (cells + 1) * wide)
        return counts.double().reshape(len(code), len(sites), cells + 1, wide)[:, :, :-1, :-1]

    def _code(self, sites: Sequence[int]) -> Tensor:
        """The combination of the sites' values of each row ``(N,)``; one more where any is unknown."""
        code = torch.zeros(self.columns.shape[1], dtype=torch.int64)
        unknown = torch.zeros_like(code, dtype=torch.bool)
        for d in sites:
            code = code * self.space.sizes[d] + self.columns[d]
            if self.observed is not None:
                unknown |= ~self.observed[d]
        return code.masked_fill_(unknown, prod(self.space.sizes[d] for d in sites))

    def _bincount(self, code: Tensor, length: int) -> Tensor:
        return torch.bincount(code, self.weights, minlength=length).double()

    @cached_property
    def _values(self) -> Tensor:
        """The values ``(D, N)``; a site's size where it is unknown."""
        if self.observed is None:
            return self.columns
        wide = self.columns.to(torch.int32)
        return torch.where(self.observed, wide, self.space.sizes_tensor()[:, None].to(wide))

    @cached_property
    def _first(self) -> Tensor:
        """The first line of each site in `_hot`; -1 for sites that are not there ``(D,)``."""
        lines = [size - 1 if size <= SMALL else 0 for size in self.space.sizes]
        first = torch.tensor(lines).cumsum(0) - torch.tensor(lines)
        return torch.where(torch.tensor(self.space.sizes) <= SMALL, first, -1)

    @cached_property
    def _hot(self) -> Tensor:
        """All small sites, a line for each value but the first ``(L, N)``."""
        dtype = torch.float32 if self.weights is None else torch.float64
        small = [(d, value) for d, size in enumerate(self.space.sizes) if size <= SMALL for value in range(1, size)]
        hot = torch.zeros(len(small), self.columns.shape[1], dtype=dtype)
        for line, (d, value) in zip(hot, small, strict=True):
            line.copy_(self._values[d] == value)
        return hot

    @cached_property
    def _known(self) -> Tensor | None:
        """Which cells are known, as numbers ``(D, N)``; None where all are."""
        return None if self.observed is None else self.observed.to(self._hot.dtype)


def conditional_log_likelihood(counts: Tensor) -> float:
    """The largest log-likelihood of the last site given the others, by their table of counts.

    >>> from math import log
    >>> round(conditional_log_likelihood(torch.tensor([[2.0, 2.0], [0.0, 3.0]])) / log(2), 6)
    -4.0
    """
    return float(_xlogx(counts).sum() - _xlogx(counts.sum(-1)).sum())


def _xlogx(counts: Tensor) -> Tensor:
    return torch.xlogy(counts, counts)
