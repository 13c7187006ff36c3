"""Notebooks dealt out evenly over the processes of a parallel build, which take pages that lie next to each other."""

from typing import Any


def spread(names: list[str], heavy: set[str]) -> list[str]:
    """The same names, the heavy ones at equal distances.

    >>> spread(["a", "b", "c", "d", "e", "f"], {"a", "b"})
    ['a', 'c', 'd', 'b', 'e', 'f']
    """
    first, rest = [name for name in names if name in heavy], [name for name in names if name not in heavy]
    found = []
    for number, name in enumerate(first):
        start, stop = (len(rest) * k // len(first) for k in (number, number + 1))
        found += [name, *rest[start:stop]]
    return found or rest


def on_read(app: Any, env: Any, names: list[str]) -> None:
    texts = {name: env.doc2path(name).read_text(encoding="utf-8") for name in names}
    names[:] = spread(names, {name for name, text in texts.items() if "```{code-cell}" in text})


def setup(app: Any) -> dict[str, Any]:
    app.connect("env-before-read-docs", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
