"""The slow twin of the structure search: scores by enumeration of cells, every change tried at every step."""

from itertools import product
from math import log

from concrete_score.baselines.structure import FINE


def slow_log_likelihood(rows, sizes, child, parents, weights=None):
    """Of a child given its parents, by a loop over rows and cells; None marks a blank, and its rows are left out."""
    counts = {}
    for k, row in enumerate(rows):
        cell = tuple(row[p] for p in parents)
        if None not in (*cell, row[child]):
            counts[cell, row[child]] = counts.get((cell, row[child]), 0.0) + (1.0 if weights is None else weights[k])
    found = 0.0
    for cell in product(*(range(sizes[p]) for p in parents)):
        given = [counts.get((cell, v), 0.0) for v in range(sizes[child])]
        found += sum(n * log(n / sum(given)) for n in given if n > 0)
    return found


def slow_score(rows, sizes, graph):
    """BIC of a whole graph."""
    total = 0.0
    for child, parents in enumerate(graph):
        cells = 1
        for p in parents:
            cells *= sizes[p]
        price = log(len(rows)) / 2 * cells * (sizes[child] - 1)
        total += slow_log_likelihood(rows, sizes, child, sorted(parents)) - price
    return total


def changes(graph, most):
    """Every acyclic graph one addition, removal or reversal away, in order, with whether its edge leads forward."""
    for child in range(len(graph)):
        for other in range(len(graph)):
            if other == child:
                continue
            toggled = [set(each) for each in graph]
            toggled[child] ^= {other}
            yield from _legal(toggled, most, other < child)
            if other in graph[child]:
                toggled[other] |= {child}
                yield from _legal(toggled, most, child < other)


def _legal(graph, most, forward):
    left = [set(each) for each in graph]
    known = set()
    while any(d not in known and left[d] <= known for d in range(len(left))):
        known |= {d for d in range(len(left)) if left[d] <= known}
    if len(known) == len(graph) and max(map(len, graph)) <= most:
        yield [set(each) for each in graph], forward


def slow_structure(rows, sizes, most=3):
    """Greedy hill climbing by `slow_score`."""
    graph = [set() for _ in sizes]
    while True:
        here = slow_score(rows, sizes, graph)
        tried = [(round(slow_score(rows, sizes, g) - here, FINE), forward, g) for g, forward in changes(graph, most)]
        gain, _, best = max(tried, key=lambda each: each[:2], default=(0.0, False, graph))
        if gain <= 0:
            return tuple(tuple(sorted(each)) for each in graph)
        graph = best
