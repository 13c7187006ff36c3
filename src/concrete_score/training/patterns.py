"""Which cells of rows tend to be blank together, and in which rows: for samples that have blanks too.

Blanks are taken to be missing at random: how probable a pattern m is depends on a row x through its observed cells
alone. It is learned from the sites S that are never blank, by multinomial logistic regression over patterns,

    P(m | x) ∝ exp( b_m + Σ_{d in S} w_{m,d}(x_d) ).

The effects w are learned from rows drawn evenly over the table, for a table is often sorted by what its blanks depend
on. The b_m are then those at which each pattern is expected in as many of these rows as had it among all rows.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from concrete_score.errors import InputError
from concrete_score.models.layers import draw_categories
from concrete_score.randomness import generator, uniform
from concrete_score.shapes import States
from concrete_score.spaces import Space

PATTERNS, NAMED = 1000, 20_000
"""Patterns kept at most, and the cells that they name together; all others are kept as one rate a site."""
AT_ONCE = 2**18
"""Rows whose patterns are counted at a time."""
LEARNED, FEATURES, ROWS = 32, 1000, 50_000
"""Patterns whose rows are told apart, values of sites that tell them, and rows this is learned from, at most."""
PASSES = 200
"""Passes over these rows at most until patterns are as frequent as they were."""


@dataclass(frozen=True)
class BlankPatterns:
    """How often which sites are blank together.

    Args:
        sites: the blank sites of each pattern, the most frequent one first; none at all is a pattern too.
        counts: rows of each.
        others: rows of all other patterns.
        rates: the share of these in which each site is blank ``(D,)``.
        read: the sites S that tell in which rows a pattern is probable; none where that was not learned.
        effects: log-odds of the first patterns, and last of all others together: ``b_m``, then ``w_{m,d}(v)`` for
            every value v of every site of ``read``, ``(classes, 1 + Σ sizes)``.

    >>> seen = torch.tensor([[True, True], [True, False], [True, True]])
    >>> patterns = BlankPatterns.of(seen)
    >>> patterns.sites, patterns.counts
    (((), (1,)), (2, 1))
    >>> patterns.draw(torch.zeros(5, 2, dtype=torch.int64), Space.bits(2), torch.Generator().manual_seed(0)).shape
    torch.Size([5, 2])
    """

    sites: tuple[tuple[int, ...], ...]
    counts: tuple[int | float, ...]
    others: int | float
    rates: tuple[float, ...]
    read: tuple[int, ...] = ()
    effects: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def learn(cls, states: States, observed: Tensor, space: Space, weights: Tensor | None = None) -> "BlankPatterns":
        """The patterns of rows ``(N, D)``, and in which rows each is probable.

        >>> x = torch.arange(200)[:, None] % 2 * torch.ones(1, 2, dtype=torch.int64)
        >>> seen = torch.stack([torch.ones(200, dtype=torch.bool), x[:, 0] == 0], 1)  # blank wherever the first is 1
        >>> patterns = BlankPatterns.learn(x, seen, Space.bits(2))
        >>> drawn = patterns.draw(x, Space.bits(2), torch.Generator().manual_seed(0))
        >>> bool((drawn == seen).double().mean() > 0.95)
        True
        """
        found = cls.of(observed, weights)
        read = _narrowest(observed.all(0).nonzero().squeeze(-1).tolist(), space)
        if not read or len(found.sites) + (found.others > 0) < 2:
            return found
        part = _spread(len(states))
        features = _one_hot(states[part], read, space)
        each = None if weights is None else weights[part].numpy(force=True)
        effects = _log_odds(features, found.classes(observed[part]), each, found._class_rows)
        return found if effects is None else replace(found, read=read, effects=effects)

    @classmethod
    def of(cls, observed: Tensor, weights: Tensor | None = None) -> "BlankPatterns":
        """The patterns of rows ``(N, D)``; with ``weights``, a row counts as so many."""
        # Each pattern as bytes, in the order of its first row; a part of the rows at a time, for they may be a file.
        found: dict[bytes, float] = {}
        for packed, each in _packed(observed, weights):
            keys, inverse = np.unique(packed, return_inverse=True)
            firsts = np.full(len(keys), len(packed))
            np.minimum.at(firsts, inverse, np.arange(len(packed)))
            counts = np.bincount(inverse, each)
            for at in np.argsort(firsts):
                found[keys[at].tobytes()] = found.get(keys[at].tobytes(), 0.0) + float(counts[at])
        listed = sorted(found.items(), key=lambda item: -item[1])[:PATTERNS]
        blank = np.stack([np.unpackbits(np.frombuffer(key, np.uint8), count=observed.shape[1]) for key, _ in listed])
        kept = int((np.cumsum(blank.sum(1)) <= NAMED).sum())
        names = {key for key, _ in listed[:kept]}
        left = [(key, count) for key, count in found.items() if key not in names]
        others = sum(count for _, count in left)
        rates = np.zeros(observed.shape[1])
        for key, count in left:
            rates += count * np.unpackbits(np.frombuffer(key, np.uint8), count=observed.shape[1])
        sites = tuple(tuple(np.flatnonzero(row).tolist()) for row in blank[:kept])
        counted = tuple(_number(count) for _, count in listed[:kept])
        return cls(sites, counted, _number(others), tuple((rates / max(others, 1e-300)).tolist()))

    def classes(self, observed: Tensor) -> npt.NDArray[np.int64]:
        """Which of the patterns that are told apart each row has ``(N,)``; the last stands for all others."""
        table, last = (~observed).numpy(force=True), self._told_apart
        found = np.full(len(table), last)
        for pattern, sites in enumerate(self.sites[:last]):
            named = np.zeros(table.shape[1], dtype=bool)
            named[list(sites)] = True
            found[(table == named).all(1)] = pattern
        return found

    def draw(self, states: States, space: Space, generator: torch.Generator) -> Tensor:
        """Which cells of rows ``(n, D)`` are seen, bool ``(n, D)``."""
        blank = torch.zeros((len(self.sites) + 1, len(self.rates)), dtype=torch.bool)
        for pattern, sites in enumerate(self.sites):
            blank[pattern, list(sites)] = True
        weights = torch.tensor([*self.counts, self.others], dtype=torch.float64)
        unit = uniform((len(states), 2), generator, weights.device)
        chosen = draw_categories(weights.log(), unit[:, 0])
        if self.effects:
            last = self._told_apart
            told = draw_categories(self._log_chances(states, space), unit[:, 1:]).squeeze(-1)
            rest = torch.cat([torch.full((last,), -torch.inf), weights[last:].log()])
            chosen = torch.where(told < last, told, draw_categories(rest, unit[:, 0]))
        found = blank[chosen]
        other = chosen == len(self.sites)
        rates = torch.tensor(self.rates, dtype=torch.float64)
        found[other] = uniform((int(other.sum()), len(rates)), generator, rates.device) < rates
        return ~found

    @property
    def _told_apart(self) -> int:
        return min(len(self.sites), LEARNED)

    @property
    def _class_rows(self) -> npt.NDArray[np.float64]:
        """Rows of each pattern that is told apart, and last of all others together, where there are any."""
        last = self._told_apart
        rest = [sum(self.counts[last:]) + self.others] * (len(self.sites) > LEARNED or self.others > 0)
        return np.array([*self.counts[:last], *rest], dtype=np.float64)

    def _log_chances(self, states: States, space: Space) -> Tensor:
        """``log P(m | x)`` up to a constant a row ``(n, classes)``."""
        effects = torch.tensor(self.effects, dtype=torch.float64)
        found, first = effects[:, 0].expand(len(states), -1), 1
        for d in self.read:
            found = found + effects[:, first : first + space.sizes[d]].T[states[:, d].long().cpu()]
            first += space.sizes[d]
        return found

    def leave(self, data: Any, states: States, space: Space, names: Sequence[str], generator: torch.Generator) -> Any:
        """A table (of any kind that has ``with_blanks``) of these states, with cells of its columns ``names`` blank."""
        blank = (~self.draw(states, space, generator)).T.numpy(force=True)
        return data.with_blanks(dict(zip(names, blank, strict=True)))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        sites = [list(each) for each in self.sites]
        found = {"sites": sites, "counts": list(self.counts), "others": self.others, "rates": list(self.rates)}
        return {**found, "read": list(self.read), "effects": [list(each) for each in self.effects]}

    @classmethod
    def from_json(cls, value: Any, space: Space, where: str = "blanks") -> "BlankPatterns":
        """The patterns of plain values, every one of them checked.

        Raises:
            InputError: a field is missing, or of the wrong type or length.
        """
        try:
            found = cls(
                tuple(tuple(int(site) for site in each) for each in value["sites"]),
                tuple(float(count) for count in value["counts"]),
                float(value["others"]),
                tuple(float(rate) for rate in value["rates"]),
                tuple(int(site) for site in value.get("read", ())),
                tuple(tuple(float(effect) for effect in each) for each in value.get("effects", ())),
            )
            right = isinstance(value, Mapping) and found._fits(space)
        except (KeyError, TypeError, ValueError):
            right = False
        if not right:
            raise InputError(f"patterns of blanks among {space.num_sites} columns", repr(value)[:60], where=where)
        return found

    def _fits(self, space: Space) -> bool:
        """Whether lengths and ranges are those of a space."""
        sites = [*self.read, *(site for each in self.sites for site in each)]
        counts, effects = (*self.counts, self.others), [effect for each in self.effects for effect in each]
        right = len(self.sites) == len(self.counts) <= PATTERNS and len(self.rates) == space.num_sites
        right = right and all(0 <= rate <= 1 for rate in self.rates) and all(0 <= d < space.num_sites for d in sites)
        right = right and all(0 <= count < float("inf") for count in counts) and sum(counts) > 0
        width = 1 + sum(space.sizes[d] for d in self.read) if right else 0
        right = right and all(len(each) == width for each in self.effects) and bool(np.isfinite(effects).all())
        return right and len(self.effects) in (0, len(self._class_rows))


def _packed(observed: Tensor, weights: Tensor | None) -> Iterator[tuple[Any, Any]]:
    """The blank cells of each row as bits ``(n,)``, and its weight; a part of the rows at a time."""
    for start in range(0, len(observed), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        bits = np.ascontiguousarray(np.packbits((~observed[part]).numpy(force=True), axis=1))
        each = None if weights is None else weights[part].numpy(force=True)
        yield bits.view([("", bits.dtype)] * bits.shape[1]).reshape(-1), each


def _one_hot(states: States, read: Sequence[int], space: Space) -> Any:
    """The values of some sites as a sparse matrix of ones ``(N, Σ sizes)``."""
    from scipy.sparse import csr_matrix

    sizes = np.array([space.sizes[d] for d in read])
    columns = states[:, list(read)].numpy(force=True).astype(np.int64) + np.cumsum(sizes) - sizes
    rows = np.repeat(np.arange(len(columns)), len(read))
    return csr_matrix((np.ones(columns.size), (rows, columns.ravel())), shape=(len(columns), int(sizes.sum())))


def _narrowest(sites: Sequence[int], space: Space) -> tuple[int, ...]:
    """As many of the sites as have at most `FEATURES` values together, ascending."""
    narrow = sorted(sites, key=lambda d: space.sizes[d])
    within = np.cumsum([space.sizes[d] for d in narrow]) <= FEATURES
    return tuple(sorted(d for d, fits in zip(narrow, within, strict=True) if fits))


def _spread(rows: int) -> Tensor:
    """At most `ROWS` rows, one drawn of each of so many equal parts of the table ``(n,)``."""
    if rows <= ROWS:
        return torch.arange(rows)
    starts = torch.arange(ROWS + 1, dtype=torch.float64) * rows / ROWS
    inside = uniform((ROWS,), generator(0, "rows of blanks"), starts.device)
    return (starts[:-1] + inside * starts.diff()).long().clamp(max=rows - 1)


def _log_odds(
    features: Any, classes: npt.NDArray[np.int64], weights: Any, rows: npt.NDArray[np.float64]
) -> tuple[tuple[float, ...], ...] | None:
    """The effects of a logistic regression, a line a class; None where these rows hold one class.

    Args:
        features: of the rows that it is learned from.
        classes: of these rows.
        weights: as how many each of them counts.
        rows: of all the table that have each class, so many of them are expected.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    present = np.unique(classes)
    if len(present) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # nearly there is near enough
        model = LogisticRegression(max_iter=200).fit(features, classes, weights)
    slopes = np.zeros((len(rows), features.shape[1]))  # a class that none of these rows has depends on nothing
    slopes[present[1:] if len(present) == 2 else present] = model.coef_  # of two, the log-odds of the second
    slopes = np.round(slopes, 4)
    levels = _levels(features @ slopes.T, weights, rows)
    return tuple(tuple(line) for line in np.column_stack([np.round(levels, 6), slopes]).tolist())


def _levels(slopes: npt.NDArray[np.float64], weights: Any, rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The ``b_m`` that give classes of these log-odds, but for it, ``(N, C)`` their shares of the rows ``(C,)``."""
    from scipy.special import log_softmax, logsumexp

    each = np.zeros((len(slopes), 1)) if weights is None else np.log(np.maximum(weights, 1e-300))[:, None]
    wanted = np.log(np.maximum(rows, 1e-9)) - np.log(rows.sum())
    levels = wanted - logsumexp(slopes + each, axis=0) + logsumexp(each)
    for _ in range(PASSES):
        expected = logsumexp(log_softmax(slopes + levels, axis=1) + each, axis=0) - logsumexp(each)
        step = wanted - expected
        levels = levels + step
        if np.abs(step).max() < 1e-4:
            break
    found: npt.NDArray[np.float64] = levels - levels[0]
    return found


def _number(value: Any) -> int | float:
    """A count as a whole number where it is one."""
    return int(value) if value == int(value) else float(value)
