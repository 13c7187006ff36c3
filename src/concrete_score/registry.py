"""Every named piece of the library, as plain strings: kind -> name -> where it lives and what it is.

Nothing is imported until a name is looked up, and a name that is not listed here (or registered by an installed
package through the entry-point group ``concrete_score.KIND``) is never imported at all.
"""

from typing import Any, NamedTuple

from concrete_score.errors import InputError, nearest


class Entry(NamedTuple):
    """Where a name lives (``module:attribute``), one line of help, and the paper's section."""

    target: str
    help: str
    section: str = ""


_ROOT = "concrete_score."

BUILT_IN: dict[str, dict[str, Entry]] = {
    "neighborhoods": {
        "chain": Entry("neighborhoods.chain:chain", "each value points to the next one", "3.1, C.5"),
        "chain_two_way": Entry("neighborhoods.chain:chain_two_way", "each value and its two sides", "3.1"),
        "cycle": Entry("neighborhoods.cycle:cycle", "a chain whose last value points to the first", "3.1, C.5"),
        "cycle_two_way": Entry("neighborhoods.cycle:cycle_two_way", "a cycle walked both ways", "3.1"),
        "star": Entry("neighborhoods.star:star", "every value points to one center", "3.1, example 1"),
        "complete": Entry("neighborhoods.complete:complete", "every value points to every other", "3.1"),
        "grid": Entry("neighborhoods.grid:grid", "one site moves by one, wrapping around", "3.1, C.5"),
        "grid_bounded": Entry("neighborhoods.grid:grid_bounded", "one site moves by one, no wrapping", "3.1"),
        "hamming": Entry("neighborhoods.hamming:hamming", "one site takes any other value", "3.1"),
        "moore": Entry("neighborhoods.moore:moore", "every site moves by -1, 0 or 1", "4.3"),
        "explicit": Entry("neighborhoods.explicit:explicit", "any directed graph, from a list of edges", "4.2"),
    },
    "targets": {},
    "baselines": {},
    "experiments": {},
}


def kinds() -> list[str]:
    """The kinds of names there are."""
    return list(BUILT_IN)


def entries(kind: str) -> dict[str, Entry]:
    """All names of a kind, the library's own first, then those of installed packages.

    >>> entries("neighborhoods")["hamming"].help
    'one site takes any other value'
    """
    if kind not in BUILT_IN:
        raise InputError("a kind of name", repr(kind), fix=nearest(kind, kinds()))
    from importlib.metadata import entry_points

    found = {name: entry._replace(target=_ROOT + entry.target) for name, entry in BUILT_IN[kind].items()}
    for point in entry_points(group=f"concrete_score.{kind}"):
        package = point.dist.name if point.dist else "another package"
        found.setdefault(point.name, Entry(point.value, f"from {package}"))
    return found


def names(kind: str) -> list[str]:
    """The names of a kind.

    >>> "cycle" in names("neighborhoods")
    True
    """
    return list(entries(kind))


def load(kind: str, name: str) -> Any:
    """The object registered as ``name``.

    >>> load("neighborhoods", "hamming").__name__
    'hamming'
    """
    known = entries(kind)
    if name not in known:
        raise InputError(f"one of the registered {kind}", repr(name), fix=nearest(name, list(known)))
    from importlib import import_module

    module, _, attribute = known[name].target.partition(":")
    return getattr(import_module(module), attribute)
