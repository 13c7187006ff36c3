"""Which column depends on which: a Bayesian network's graph found in rows by counting."""

from collections.abc import Callable
from math import log, prod

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from concrete_score.baselines.families import CELLS, Families, Sites, conditional_log_likelihood
from concrete_score.errors import InputError
from concrete_score.randomness import generator
from concrete_score.shapes import States
from concrete_score.spaces import Space

Parents = tuple[tuple[int, ...], ...]
Tell = Callable[[int, int], None]
"""``tell(done, total)``: how far the search is."""
Move = tuple[tuple[int, int], ...]
"""``(child, parent)`` pairs to toggle."""

ROWS, TABLE = 50_000, 2**25
"""Rows and cells counted at most; more would hardly change a graph."""
CANDIDATES = 1024
"""The most other sites, those that tell most of it, that are tried as parents of a site."""
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
    does (Heckerman, Geiger and Chickering, 1995).

    Args:
        rows: ``(N, D)``; of many rows, `ROWS` are drawn, fewer where there are many sites.
        space: of the rows.
        max_parents: of one site.
        penalty: 1 is BIC; less of it finds more edges.
        observed: which cells are known ``(N, D)`` bool; see `families`.
        weights: of the rows ``(N,)``.
        tell: receives the number of sites whose first parents are settled, and of all.

    >>> a = torch.tensor([0, 0, 1, 1] * 100)
    >>> b = torch.tensor([0, 1] * 200)
    >>> learn_structure(torch.stack([a, b, a ^ b], 1), Space.bits(3), max_parents=1)
    ((), (), ())
    >>> learn_structure(torch.stack([a, b, a], 1), Space.bits(3))
    ((), (), (0,))
    """
    if rows.ndim != 2 or rows.shape[1] != space.num_sites or not len(rows):
        raise InputError(f"rows of {space.num_sites} sites", f"shape {tuple(rows.shape)}", where="rows")
    most = min(ROWS, max(1, TABLE // space.num_sites))
    if len(rows) > most:
        drawn = torch.randperm(len(rows), generator=generator(0, "rows to count"))[:most]
        rows = rows[drawn.to(rows.device)]
        observed = None if observed is None else observed[drawn.to(observed.device)]
        weights = None if weights is None else weights[drawn.to(weights.device)]
    known = None if observed is None else np.ascontiguousarray(observed.T.cpu())
    weigh = None if weights is None else weights.cpu().double().numpy()
    families = Families(np.ascontiguousarray(rows.T.cpu()), space.sizes, known, weigh)
    return Climb(families, max_parents, penalty, tell).run()


class Climb:
    """Hill climbing over acyclic graphs: gains are kept, and counted again only where a family changed.

    Args:
        families: counts the rows.
        max_parents: of one site.
        penalty: times BIC's.
        tell: see `learn_structure`.
    """

    def __init__(
        self, families: Families, max_parents: int, penalty: float = 1.0, tell: Tell = lambda done, total: None
    ) -> None:
        self.families, self.sizes, self.tell = families, np.array(families.sizes), tell
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

    def run(self) -> Parents:
        """Until no change pays."""
        sites = len(self.sizes)
        if self.most:
            self._begin()
        for _ in range(MOVES * sites):
            gain, move = self._choose()
            if gain <= 1e-9:
                break
            for child, other in move:
                self._toggle(child, other)
            for child, _ in move:
                self._count(child)
            self.tell(int((self.parents[:, 0] >= 0).sum()), sites)
        return tuple(tuple(sorted(each[each >= 0].tolist())) for each in self.parents)

    def score(self, parents: Parents) -> float:
        """Of a whole graph."""
        return sum(self._family(d, each) for d, each in enumerate(parents))

    def _family(self, child: int, parents: tuple[int, ...]) -> float:
        cells = int(self.sizes[list(parents)].prod())
        return self.families.log_likelihood(child, parents) - self.price * cells * (int(self.sizes[child]) - 1)

    def _begin(self) -> None:
        """The gains of all pairs, and the candidates of each site: the others that tell most of it."""
        sites, every = len(self.sizes), np.arange(len(self.sizes))
        self.candidates = [np.delete(every, child) for child in every]
        for child in range(sites):
            self._count(child)
            self.tell(0, sites)
        if sites - 1 > CANDIDATES:
            self.candidates = [np.sort(np.argpartition(-row, CANDIDATES)[:CANDIDATES]) for row in self.gain]

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
            gains = self.families.gains(child, parents.tolist(), other[possible])
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
