"""Which column depends on which: a Bayesian network's graph found in rows by counting."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, prod

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.randomness import draw_different, generator
from concrete_score.shapes import States
from concrete_score.spaces import Space

Parents = tuple[tuple[int, ...], ...]
Tell = Callable[[int, int], None]
"""``tell(done, total)``: how far the search is."""
Move = tuple[tuple[int, int], ...]
"""``(child, parent)`` pairs to toggle."""

ROWS, TABLE = 50_000, 2**25
"""Rows and cells counted at most; more would hardly change a graph."""
Sites = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float64]
Lines = npt.NDArray[np.uint64]

CELLS = 2**14
"""Entries of one conditional table at most."""
CHEAP = 128
"""Lines to AND, cells times a site's values but one, up to which that is faster than counting rows one by one."""
CHUNK = 2**22
"""Entries of the tables, or rows times candidates, counted at once."""
LINES = 512
"""Values of the sites whose tables with other sites are one matrix product."""


@dataclass(frozen=True, eq=False)
class Families:
    """Tables of counts, and the gain in log-likelihood of each site as one more parent.

    Args:
        columns: the sites' values ``(D, N)``, integers however narrow.
        sizes: of the sites.
        observed: which cells are known ``(D, N)`` bool; all by default.
        weights: of the rows ``(N,)``; 1 by default.

    >>> rows = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 1, 0]])
    >>> np.exp(Families(rows.T, (2, 2, 2)).gains(0, (), np.array([1, 2]))).round().tolist()
    [1.0, 16.0]
    """

    columns: npt.NDArray[np.integer]
    sizes: tuple[int, ...]
    observed: npt.NDArray[np.bool_] | None = None
    weights: Counts | None = None

    @property
    def total(self) -> float:
        """The number of rows, or their weight."""
        return float(self.columns.shape[1] if self.weights is None else self.weights.sum())

    def table(self, sites: Sequence[int]) -> Counts:
        """How often each combination of the sites' values occurs ``(V_1, …, V_n)``."""
        shape = [self.sizes[d] for d in sites]
        counts = np.bincount(self._code(sites), self.weights, minlength=prod(shape) + 1)
        return counts[:-1].astype(np.float64).reshape(shape)

    def log_likelihood(self, child: int, parents: Sequence[int]) -> float:
        """``max Σ log p(child | parents)`` over the rows in which all of them are known."""
        return conditional_log_likelihood(self.table([*parents, child]))

    def gains(self, child: int, parents: Sequence[int], candidates: Sites) -> Counts:
        """By how much each candidate as one more parent raises the log-likelihood of the child ``(C,)``.

            Σ_kvu n log n − Σ_ku n log n − Σ_kv n log n + Σ_k n log n,    n counts parents k, child v, candidate u

        Args:
            child: a site.
            parents: its parents.
            candidates: other sites ``(C,)``.
        """
        shape = (prod(self.sizes[d] for d in parents), self.sizes[child])
        gains = np.empty(len(candidates))
        for place, counts in self._joint(self._code([*parents, child]), prod(shape), candidates):
            n = counts.reshape(len(place), *shape, -1)  # (c, K, V, U)
            gain = _xlogx(n).sum((1, 2, 3)) - _xlogx(n.sum(2)).sum((1, 2))
            n = n.sum(3)
            gains[place] = gain - _xlogx(n).sum((1, 2)) + _xlogx(n.sum(2)).sum(1)
        return gains

    def pair_gains(self, tell: Tell = lambda done, total: None) -> Counts:
        """`gains` of every site as the only parent of every other ``(D, D)``; for sites of many values.

        The tables of all pairs are one matrix product of the rows' one-hot codes.
        """
        blocks = _blocks(self.sizes)
        found = np.zeros((len(self.sizes), len(self.sizes)))
        tell(0, 1)
        for number, block in enumerate(blocks):
            lines = self._one_hot(block)
            for other in blocks[: number + 1]:
                counts = (lines @ (lines if other is block else self._one_hot(other)).T).numpy().astype(np.float64)
                found[np.ix_(block, other)] = self._pair_gains(counts, block, other)
                found[np.ix_(other, block)] = found[np.ix_(block, other)].T
            tell((number + 1) ** 2, len(blocks) ** 2)
        return found

    def _pair_gains(self, counts: Counts, block: Sites, other: Sites) -> Counts:
        sizes = np.array(self.sizes)
        first, second = (sizes[each].cumsum() - sizes[each] for each in (block, other))
        across = np.add.reduceat(counts, second, 1)  # of each value of the block's sites with any of the other's
        joint = np.add.reduceat(np.add.reduceat(_xlogx(counts), first, 0), second, 1)
        one = np.add.reduceat(_xlogx(across), first, 0)
        two = np.add.reduceat(_xlogx(np.add.reduceat(counts, first, 0)), second, 1)
        found: Counts = joint - one - two + _xlogx(np.add.reduceat(across, first, 0))
        return found

    def _one_hot(self, sites: Sites) -> Tensor:
        """``(L, N)`` for the values of all of them; 0 throughout where a cell is unknown."""
        sizes = np.array(self.sizes)[sites]
        lines = torch.zeros(int(sizes.sum()), self.columns.shape[1])
        place = torch.from_numpy((sizes.cumsum() - sizes)[:, None] + self.columns[sites])
        known = torch.ones(()) if self.observed is None else torch.from_numpy(self.observed[sites]).float()
        return lines.scatter_(0, place, known.expand(place.shape))

    def _joint(self, code: Sites, cells: int, candidates: Sites) -> Iterator[tuple[Sites, Counts]]:
        """Counts of the cells with the values of some of the candidates ``(c, cells, U)``, and which they are."""
        sizes = np.array(self.sizes)[candidates]
        lines: Lines | None = None  # the rows of each cell, the same for candidates of all sizes
        for size in np.unique(sizes).tolist():
            places = (sizes == size).nonzero()[0]
            quick = self.weights is None and cells * (size - 1) <= CHEAP
            if quick and lines is None:
                lines = _lines(code == np.arange(cells)[:, None])
            rows = lines if quick else None
            most = max(1, CHUNK // max(cells * (size + 1), 0 if quick else len(code)))
            for start in range(0, len(places), most):
                place = places[start : start + most]
                yield place, self._counts(code, cells, candidates[place], size, rows)

    def _counts(self, code: Sites, cells: int, sites: Sites, size: int, rows: Lines | None) -> Counts:
        if rows is None:
            return self._one_by_one(code, cells, sites, size)
        counts = np.empty((len(sites), cells, size))
        for value in range(1, size):
            counts[:, :, value] = _ones(self._bits[self._first[sites] + value - 1], rows)
        known = np.bincount(code, minlength=cells)[:cells] if self._known is None else _ones(self._known[sites], rows)
        counts[:, :, 0] = known - counts[:, :, 1:].sum(-1)
        return counts

    def _one_by_one(self, code: Sites, cells: int, sites: Sites, size: int) -> Counts:
        wide = size + 1  # the last value: unknown
        tables = np.arange(len(sites))[:, None]
        place = (tables * (cells + 1) + code) * wide + self._values[sites]
        weights = None if self.weights is None else np.broadcast_to(self.weights, place.shape).ravel()
        counts = np.bincount(place.ravel(), weights, minlength=len(sites) * (cells + 1) * wide)
        return counts.astype(np.float64).reshape(len(sites), cells + 1, wide)[:, :-1, :-1]

    def _code(self, sites: Sequence[int]) -> Sites:
        """The combination of the sites' values in each row ``(N,)``; one more than there are where any is unknown."""
        code = np.zeros(self.columns.shape[1], dtype=np.int64)
        for d in sites:
            code *= self.sizes[d]
            code += self.columns[d]
        if self.observed is not None:
            code[~self.observed[list(sites)].all(0)] = prod(self.sizes[d] for d in sites)
        return code

    @cached_property
    def _values(self) -> npt.NDArray[np.integer]:
        """The values ``(D, N)``; a site's size where it is unknown."""
        if self.observed is None:
            return self.columns
        return np.where(self.observed, self.columns.astype(np.int32), np.array(self.sizes, np.int32)[:, None])

    @cached_property
    def _first(self) -> Sites:
        """The first line of each site in `_bits` ``(D,)``."""
        lines = self._num_lines
        return lines.cumsum() - lines

    @property
    def _num_lines(self) -> Sites:
        """All values but the first, of sites that are ever counted by lines."""
        more = np.array(self.sizes) - 1
        return np.where(more <= CHEAP // 2, more, 0)

    @cached_property
    def _bits(self) -> Lines:
        """In which rows a site has a value: a line for each of its values but the first ``(L, N / 64)``."""
        bits = np.empty((self._num_lines.sum(), -(-self.columns.shape[1] // 64)), dtype=np.uint64)
        for d, (first, count) in enumerate(zip(self._first, self._num_lines, strict=True)):
            bits[first : first + count] = _lines(self._values[d] == np.arange(1, count + 1)[:, None])
        return bits

    @cached_property
    def _known(self) -> Lines | None:
        """In which rows a site is known ``(D, N / 64)``; None where all are."""
        return None if self.observed is None else _lines(self.observed)


def _blocks(sizes: Sequence[int]) -> list[Sites]:
    """All sites, so many in a row that together they have about `LINES` values."""
    part = np.array(sizes).cumsum() // LINES
    return np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(part)) + 1)


def conditional_log_likelihood(counts: Counts) -> float:
    """The largest log-likelihood of the last site given the others, by their table of counts.

    >>> round(float(conditional_log_likelihood(np.array([[2.0, 2.0], [0.0, 3.0]])) / np.log(2)), 6)
    -4.0
    """
    given = counts.reshape(-1, counts.shape[-1]).sum(1)
    return float(_xlogx(counts).sum() - _xlogx(given).sum())


def _lines(rows: npt.NDArray[np.bool_]) -> Lines:
    """Rows marked true ``(L, N)`` as bits, 64 to a word."""
    packed = np.packbits(rows, axis=1)
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))).view(np.uint64)


def _ones(lines: Lines, rows: Lines) -> npt.NDArray[np.int64]:
    """How many rows each line has in common with each other line ``(L, W), (R, W) -> (L, R)``."""
    if lines.shape[1] > 4 * len(rows):
        return np.stack([np.bitwise_count(lines & row).sum(1, dtype=np.int64) for row in rows], 1)
    found = np.zeros((len(lines), len(rows)), dtype=np.int64)
    for word, other in zip(lines.T, rows.T, strict=True):
        found += np.bitwise_count(word[:, None] & other)
    return found


def _xlogx(counts: Counts) -> Counts:
    """``n log n``, 0 at 0; rows may weigh less than 1."""
    return counts * np.log(np.where(counts > 0, counts, 1.0))


STAGES = (4, 16)
"""Values of the parents that are taken first, and next."""
CANDIDATES, FEWEST = 1024, 128
"""The most other sites, those that tell most of it, that are tried as parents of a site: fewer the more values there
are to count, down to the second."""
MOVES = 50
"""Changes of edges a site at most: with blanks, gains of different rows could go in a circle."""
FINE = 6
"""Gains are compared to so many decimals: either direction of a lone edge gains the same."""


def learn_structure(
    rows: States,
    space: Space,
    max_parents: int = 3,
    *,
    penalty: float = 1.0,
    observed: Tensor | None = None,
    weights: Tensor | None = None,
    tell: Tell = lambda done, total: None,
) -> Parents:
    """The parents of every site in the network that greedy search finds best by BIC.

        score = Σ_d [ max log-likelihood of x_d given its parents − penalty · ½ log N · (V_d − 1) Π V_parents ]

    From no edges at all, the edge whose addition, removal or reversal raises the score most is changed, until none
    does (Heckerman, Geiger and Chickering, 1995). Two columns of many values that depend on the same columns of few
    values tell each other more than either of these does, and an edge between them leads astray: where sizes differ, a
    second search takes parents of few values first (`STAGES`), and the better network is kept.

    Args:
        rows: ``(N, D)``; of many rows, `ROWS` are drawn, fewer where there are many sites.
        space: of the rows.
        max_parents: of one site.
        penalty: 1 is BIC; less of it finds more edges.
        observed: which cells are known ``(N, D)`` bool; see `families`.
        weights: of the rows ``(N,)``.
        tell: receives the number of sites whose first parents are settled, and of all.

    >>> import torch
    >>> a = torch.tensor([0, 0, 1, 1] * 100)
    >>> b = torch.tensor([0, 1] * 200)
    >>> learn_structure(torch.stack([a, b, a ^ b], 1), Space.bits(3), max_parents=1)
    ((), (), ())
    >>> learn_structure(torch.stack([a, b, a], 1), Space.bits(3))
    ((), (), (0,))
    """
    if rows.ndim != 2 or rows.shape[1] != space.num_sites or not len(rows):
        raise InputError(f"rows of {space.num_sites} sites", f"shape {tuple(rows.shape)}", where="rows")
    families = _count_by(rows, space, observed, weights)
    stages = [most for most in STAGES if min(space.sizes) <= most < max(space.sizes)]
    # Pairs of sites of few values are counted faster by the bits of their rows.
    counted = weights is None and max(space.sizes) * (max(space.sizes) - 1) > CHEAP
    searches = counted + 1 + bool(stages)
    pairs = families.pair_gains(_part(tell, 0, searches)) if counted else None
    climb = Climb(families, max_parents, penalty, _part(tell, int(counted), searches), pairs)
    found = climb.run()
    if stages:
        again = Climb(families, max_parents, penalty, _part(tell, searches - 1, searches), pairs)
        found = max(found, again.run(stages), key=climb.score)
    return found


def _part(tell: Tell, number: int, parts: int) -> Tell:
    """Tells how far one of several searches is as a part of them all."""
    return lambda done, total: tell(number * total + done, parts * total)


def _count_by(rows: States, space: Space, observed: Tensor | None, weights: Tensor | None) -> Families:
    """Of many rows, some that are drawn."""
    most = min(ROWS, max(1, TABLE // space.num_sites))
    if len(rows) > most:
        drawn = draw_different(len(rows), most, generator(0, "rows to count"))
        rows = rows[drawn.to(rows.device)]
        observed = None if observed is None else observed[drawn.to(observed.device)]
        weights = None if weights is None else weights[drawn.to(weights.device)]
    known = None if observed is None else np.ascontiguousarray(observed.T.cpu())
    weigh = None if weights is None else weights.cpu().double().numpy()
    return Families(np.ascontiguousarray(rows.T.cpu()), space.sizes, known, weigh)


class Climb:
    """Hill climbing over acyclic graphs: gains are kept, and counted again only where a family changed.

    Args:
        families: counts the rows.
        max_parents: of one site.
        penalty: times BIC's.
        tell: see `learn_structure`.
        pairs: gains of all pairs ``(D, D)``, where they are counted already.
    """

    def __init__(
        self,
        families: Families,
        max_parents: int,
        penalty: float = 1.0,
        tell: Tell = lambda done, total: None,
        pairs: Counts | None = None,
    ) -> None:
        self.families, self.sizes, self.tell, self.pairs = families, np.array(families.sizes), tell, pairs
        self.widest = max(families.sizes, default=0)
        """Values of a new parent at most."""
        self.price = penalty * log(max(families.total, 1.0)) / 2
        sites = len(self.sizes)
        self.most = min(max_parents, sites - 1)
        self.parents = np.full((sites, max(1, self.most)), -1)
        """Of each site, then -1."""
        self.gain = np.full((sites, sites), -np.inf)
        """``[child, other]``: of the other as one more parent; -inf where it is none to add."""
        self.loss = np.full(self.parents.shape, -np.inf)
        """``[child, i]``: of letting its parent i go."""
        self.reach = np.zeros((sites, sites), dtype=bool)
        """``[a, b]``: a path of edges leads from a to b."""
        self.best, self.choice = np.full(sites, -np.inf), np.zeros(sites, dtype=np.int64)
        """The best legal addition to each child, and the parent it adds; a path may have made it illegal since."""
        self.candidates: list[Sites] = []

    def run(self, stages: Sequence[int] = ()) -> Parents:
        """Until no change pays: first with new parents of at most so many values as each stage allows, then of any."""
        if self.most:
            self._begin()
        for most in [*stages, int(self.sizes.max(initial=0))]:
            changed, self.widest = self.widest != most, most
            for child in range(len(self.sizes) if changed else 0):
                self._count(child)
            self._climb()
        return tuple(tuple(sorted(each[each >= 0].tolist())) for each in self.parents)

    def score(self, parents: Parents) -> float:
        """Of a whole graph."""
        return sum(self._family(d, each) for d, each in enumerate(parents))

    def _family(self, child: int, parents: tuple[int, ...]) -> float:
        cells = int(self.sizes[list(parents)].prod())
        return self.families.log_likelihood(child, parents) - self.price * cells * (int(self.sizes[child]) - 1)

    def _climb(self) -> None:
        sites, most = len(self.sizes), 0
        for _ in range(MOVES * sites):
            gain, move = self._choose()
            if gain <= 1e-9:
                break
            for child, other in move:
                self._toggle(child, other)
            for child, _ in move:
                self._count(child)
            most = max(most, int((self.parents[:, 0] >= 0).sum()))  # an edge that goes takes nothing back
            self.tell(sites + most, 2 * sites)

    def _begin(self) -> None:
        """The gains of all pairs, and the candidates of each site: the others that tell most of it."""
        sites, every = len(self.sizes), np.arange(len(self.sizes))
        self.candidates = [np.delete(every, child) for child in every]
        for child in range(sites):
            self._count(child)
            self.tell(child + 1, 2 * sites)
        most = max(FEWEST, 2 * CANDIDATES // int(self.sizes.max()))
        if sites - 1 > most:
            self.candidates = [np.sort(np.argpartition(-row, most)[:most]) for row in self.gain]

    def _count(self, child: int) -> None:
        """The gains of one family, as it now is."""
        parents = self.parents[child][self.parents[child] >= 0]
        counts = self.families.table([*parents.tolist(), child])
        cells, price = prod(counts.shape[:-1]), self.price * (int(self.sizes[child]) - 1)
        now = conditional_log_likelihood(counts)
        self.loss[child] = -np.inf
        for i in range(len(parents)):
            fewer = counts.sum(i)
            self.loss[child, i] = conditional_log_likelihood(fewer) - now + price * (cells - prod(fewer.shape[:-1]))
        self.gain[child] = -np.inf
        if len(parents) < self.most:
            other = self.candidates[child]
            more = price * cells * (self.sizes[other] - 1)
            # No parent can gain more than all that is left to explain.
            possible = (more < -now) & (self.sizes[other] * counts.size <= CELLS) & ~np.isin(other, parents)
            possible &= self.sizes[other] <= self.widest
            tried = other[possible]
            if len(parents) or self.pairs is None:
                gains = self.families.gains(child, parents.tolist(), tried)
            else:
                gains = self.pairs[child, tried]
            self.gain[child, other[possible]] = gains - more[possible]
        self._look(np.array([child]))

    def _look(self, children: Sites) -> None:
        """The best legal addition to each of some children; of equal ones the first."""
        legal = np.where(self.reach[children], -np.inf, self.gain[children].round(FINE))
        self.choice[children], self.best[children] = legal.argmax(1), legal.max(1)

    def _choose(self) -> tuple[float, Move]:
        """The best legal change; of equal ones that whose last edge leads to a later site, and then the first."""
        order = np.arange(len(self.sizes))
        while True:
            child = _first(self.best, self.choice < order)
            parent = int(self.choice[child])
            if self.best[child] <= 0 or not self.reach[child, parent]:
                break
            self._look(order[child : child + 1])
        found: list[tuple[float, bool, tuple[int, int, int], Move]] = []
        found.append((float(self.best[child]), parent < child, (-child, -parent, 0), ((child, parent),)))
        children, slots = (self.parents >= 0).nonzero()
        if len(children):
            parents, drop = self.parents[children, slots], self.loss[children, slots]
            turn = np.where(self._turns(children, slots), drop + self.gain[parents, children], -np.inf)
            at = _first(drop.round(FINE), parents < children)
            c, p = int(children[at]), int(parents[at])
            found.append((float(drop[at].round(FINE)), p < c, (-c, -p, 0), ((c, p),)))
            at = _first(turn.round(FINE), children < parents)
            c, p = int(children[at]), int(parents[at])
            found.append((float(turn[at].round(FINE)), c < p, (-c, -p, -1), ((c, p), (p, c))))
        gain, _, _, move = max(found)
        return gain, move

    def _turns(self, children: Sites, slots: Sites) -> npt.NDArray[np.bool_]:
        """Which edges may be turned around: no path leads from the parent to the child besides the edge."""
        family = self.parents[children]
        parents = family[np.arange(len(children)), slots]
        around = self.reach[parents[:, None], family] & (family >= 0)
        result: npt.NDArray[np.bool_] = ~around.any(1)
        return result

    def _toggle(self, child: int, other: int) -> None:
        """Add or remove an edge, and with it the paths through it."""
        family = [each for each in self.parents[child].tolist() if each >= 0]
        if other in family:
            family.remove(other)
            self.parents[child] = family + [-1] * (self.parents.shape[1] - len(family))
            self._forget_paths(other)
        else:
            family.append(other)
            self.parents[child, : len(family)] = family
            before = np.append(self.reach[:, other].nonzero()[0], other)
            after = np.append(self.reach[child].nonzero()[0], child)
            self.reach[np.ix_(before, after)] = True

    def _forget_paths(self, start: int) -> None:
        """Trace again all paths from a site and from those before it; these have more additions open to them now."""
        before = np.append(self.reach[:, start].nonzero()[0], start)
        # Whoever reaches another reaches more than the other does: fewest first is children first.
        before = before[np.argsort(self.reach[before].sum(1), kind="stable")]
        self.reach[before] = False
        for site in before:
            children = (self.parents == site).any(1)
            self.reach[site] = children | self.reach[children].any(0)
        self._look(before)


def _first(gain: npt.NDArray[np.float64], preferred: npt.NDArray[np.bool_]) -> int:
    """The place of the largest gain; of equal ones the first preferred one, or else the first."""
    tied = gain == gain.max()
    return int((tied & preferred).argmax() if (tied & preferred).any() else tied.argmax())
