"""Errors that teach: what was expected, what came, where, and what to do."""

NAMED = 40
"""Known names told to who mistyped one; of a wide table's columns the rest is counted."""


class InputError(ValueError):
    """A user's mistake, told in one line.

    Args:
        expected: what would have been right.
        came: what was given instead.
        where: the file, row, column or argument at fault.
        fix: what to do about it.

    >>> print(InputError("a size of at least 1", "0", where="sizes[2]", fix="drop the site"))
    sizes[2]: expected a size of at least 1, got 0; drop the site
    """

    def __init__(self, expected: str, came: str, where: str = "", fix: str = "") -> None:
        self.expected, self.came, self.where, self.fix = expected, came, where, fix
        place = f"{where}: " if where else ""
        advice = f"; {fix}" if fix else ""
        super().__init__(printable(f"{place}expected {expected}, got {came}{advice}"))

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, str, str]]:
        return InputError, (self.expected, self.came, self.where, self.fix)


def printable(text: str) -> str:
    r"""Keep a stranger's words on one line and away from the terminal's control codes.

    >>> printable("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def nearest(name: str, known: list[str]) -> str:
    """Advice for a mistyped name: the closest known one, and all of them, or the first of many.

    >>> nearest("haming", ["grid", "hamming"])
    "did you mean 'hamming'? Known: grid, hamming"
    >>> nearest("year", [f"x{i}" for i in range(1000)])[-17:]
    'x39, and 960 more'
    """
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    more = f", and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return f"{guess}Known: {', '.join(known[:NAMED])}{more}"
