"""Errors that teach: what was expected, what came, where, and what to do, as data that each skin spells its own way.

The library never spells a flag: it names an `Option`, which the command line shows as ``--missing drop`` and Python as
``missing='drop'``. Advice that needs an option which a skin does not have is left out there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

NAMED = 40
"""Known names listed for a mistyped one; of a wide table's columns the rest is counted."""


LONGEST = 2000
"""Characters of a message; of a longer one the middle is left out."""


@dataclass(frozen=True)
class Option:
    """An option of the tool by name, with the value to give it.

    ``value`` is None to speak of the option alone, True for a flag, a list for an option that may be repeated, and a
    mapping for one that takes ``key=value``.
    """

    name: str
    value: Any = None


@dataclass(frozen=True)
class Command:
    """A command of the tool: ``csm impute`` on the command line, ``impute()`` in Python."""

    name: str


Part = str | Option | Command
Text = Part | tuple[Part, ...]
"""One part, or several that follow one another."""


@runtime_checkable
class Skin(Protocol):
    """How one way into the library spells options and commands; None where it does not have them."""

    verb: str
    """What one does with an option: add it, pass it."""

    def options(self, options: Sequence[Option]) -> str | None: ...
    def command(self, command: Command) -> str | None: ...


class PythonSkin:
    """Options as keyword arguments.

    >>> PythonSkin().options([Option("bins", {"age": 10}), Option("drop", ["id"]), Option("bins", {"pay": 10})])
    "bins={'age': 10, 'pay': 10}, drop=['id']"
    """

    verb = "pass"
    renamed: Mapping[str, str] = {"seed": "random_state", "set": "options", "out": "path"}
    absent = frozenset({"resume", "report", "threads", "json", "quiet", "jobs", "quick"})

    def options(self, options: Sequence[Option]) -> str | None:
        """Options of one name become one argument."""
        if any(option.name in self.absent for option in options):
            return None
        merged: dict[str, Any] = {}
        for option in options:
            name = self.renamed.get(option.name, option.name.replace("-", "_"))
            merged[name] = _merge(merged.get(name), option.value)
        return ", ".join(name if value is None else f"{name}={value!r}" for name, value in merged.items())

    def command(self, command: Command) -> str | None:
        """A method of the same name; a command of two words has none, and is named as it is typed."""
        return f"{command.name}()" if command.name.isidentifier() else f"'csm {command.name}'"


PYTHON: Skin = PythonSkin()


class InputError(ValueError):
    """A user's mistake, described in one line.

    Args:
        expected: what would have been right.
        came: what was given instead.
        where: the file, row, column or option at fault; several parts are joined by colons.
        fix: what to do about it; a list holds alternatives. One that begins with an option is advice to give it.

    >>> print(InputError("a size of at least 1", "0", where="sizes[2]", fix="drop the site"))
    sizes[2]: expected a size of at least 1, got 0; drop the site
    >>> remedies = [Option("missing", "drop"), ("fill them with ", Command("impute"))]
    >>> print(InputError("no blank cells", "3", "t.csv", remedies))
    t.csv: expected no blank cells, got 3; pass missing='drop', or fill them with impute()
    """

    def __init__(self, expected: str, came: str, where: Text = "", fix: Text | list[Any] = "") -> None:
        self.expected, self.came, self.where, self.fix = expected, came, where, fix
        super().__init__(self.render(PYTHON))

    def render(self, skin: Skin) -> str:
        """The line in a skin's words; control characters are escaped."""
        parts = self.where if isinstance(self.where, tuple) else (self.where,)
        where = ": ".join(text for part in parts if (text := spell((part,), skin, bare=True)))
        fixes = self.fix if isinstance(self.fix, list) else [self.fix]
        advice = _listed([text for each in fixes if (text := spell(each, skin))])
        place, what_to_do = f"{where}: " if where else "", f"; {advice}" if advice else ""
        return bounded(printable(f"{bounded(place, 600)}expected {self.expected}, got {self.came}{what_to_do}"))

    def moved(self, where: Text) -> "InputError":
        """The same mistake found somewhere else."""
        return InputError(self.expected, self.came, where, self.fix)

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, Text, Text | list[Any]]]:
        return InputError, (self.expected, self.came, self.where, self.fix)


def spell(text: Text, skin: Skin, *, bare: bool = False) -> str | None:
    """Parts in a skin's words, or None where it lacks one of them; neighboring options are spelled together.

    Text that begins with an option is advice to give it, unless ``bare``.
    """
    parts = text if isinstance(text, tuple) else (text,)
    spelled: list[str] = []
    at = 0
    while at < len(parts):
        part = parts[at]
        if isinstance(part, str):
            found: str | None = part
        elif isinstance(part, Command):
            found = skin.command(part)
        else:
            group = [part]
            while at + 1 < len(parts) and isinstance(following := parts[at + 1], Option):
                group.append(following)
                at += 1
            found = skin.options(group)
            if found and not spelled and not bare:
                found = f"{skin.verb} {found}"
        if found is None:
            return None
        spelled.append(found)
        at += 1
    return "".join(spelled)


def _merge(old: Any, new: Any) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **new}
    return [*old, *new] if isinstance(old, list) and isinstance(new, list) else new


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else ", or ".join([", ".join(texts[:-1]), texts[-1]]) if texts else ""


def printable(text: str) -> str:
    r"""Text on one line, with control characters escaped so that a terminal cannot obey them.

    >>> printable("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def bounded(text: str, most: int = LONGEST) -> str:
    """Text of at most so many characters and a few more: the middle of a longer one is left out.

    >>> bounded("a" * 50, 20)
    'aaaaaaaaaa … 30 characters … aaaaaaaaaa'
    """
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … {len(text) - 2 * half:,} characters … {text[-half:]}"


def nearest(name: str, known: Sequence[str]) -> str:
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


def check_count(value: Any, where: Text, least: int = 1, most: int | None = None) -> int:
    """A whole number of at least ``least`` and at most ``most``, booleans excluded.

    Raises:
        InputError: anything else.

    >>> check_count(0, "n")
    Traceback (most recent call last):
    concrete_score.errors.InputError: n: expected a whole number of at least 1, got 0
    """
    from operator import index

    try:
        number = index(value) if not isinstance(value, bool) else None
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"a whole number {limit}", bounded(repr(value), 100), where)
    return number
