"""The command line's advice in Python's words: what is a flag there is a parameter here."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from concrete_score.errors import InputError

_NAME = r"('[^']*'|[^\s,]+)"
_FLAG = rf"--(?:bins|drop|na) {_NAME}"
_SAYINGS = (
    (rf"add {_FLAG}(?: {_FLAG})*", lambda found: _together(found[0])),
    (rf"--bins {_NAME}", lambda found: f"bins={{{_pair(found[1])}}}"),
    (rf"--drop {_NAME}", lambda found: f"leave out the column {found[1]}"),
    (r", or choose columns with --columns A,B", lambda found: ""),
    (r"--missing (\w+)", lambda found: f"missing={found[1]!r}"),
    (r", or add --unknown skip", lambda found: ""),
    (r"use --set (\S+)=VALUE", lambda found: f"use options={{'{found[1]}': VALUE}}"),
    (r"for example --set (\S+)=(\S+)", lambda found: f"for example options={{'{found[1]}': {found[2]}}}"),
    (r"--([a-z-]+)", lambda found: {"set": "options"}.get(found[1], found[1].replace("-", "_"))),
)


@contextmanager
def in_python() -> Iterator[None]:
    """Within it, an `InputError` speaks of parameters where the command line would speak of flags.

    >>> with in_python():
    ...     raise InputError("columns of categories", "'age' (numbers)", fix="add --bins age=10, or --drop age")
    Traceback (most recent call last):
    concrete_score.errors.InputError: expected columns of categories, got 'age' (numbers); add bins={'age': 10}, or
    leave out the column age
    """
    try:
        yield
    except InputError as error:
        where, fix = translated(error.where), translated(error.fix)
        if (where, fix) == (error.where, error.fix):
            raise
        raise InputError(error.expected, error.came, where, fix) from None


def translated(text: str) -> str:
    """One piece of advice.

    >>> translated("add --missing drop or --missing category")
    "add missing='drop' or missing='category'"
    >>> translated("add --drop id --bins age=10 --drop name --bins 'net pay=10' --na '?'")
    "add bins={'age': 10, 'net pay': 10} and blank the cells of '?' and leave out the columns id, name"
    """
    for pattern, saying in _SAYINGS:
        text = re.sub(pattern, saying, text)
    return text


def _together(flags: str) -> str:
    """Flags of several columns, each kind once."""
    found: dict[str, list[str]] = {"bins": [], "na": [], "drop": []}
    for kind, value in re.findall(rf"--(bins|drop|na) {_NAME}", flags):
        found[kind].append(value)
    parts = [f"add bins={{{', '.join(map(_pair, found['bins']))}}}"] if found["bins"] else []
    parts += [f"blank the cells of {', '.join(found['na'])}"] if found["na"] else []
    many = "s" if len(found["drop"]) > 1 else ""
    parts += [f"leave out the column{many} {', '.join(found['drop'])}"] if found["drop"] else []
    return " and ".join(parts)


def _pair(text: str) -> str:
    name, _, count = text.strip("'").rpartition("=")
    return f"{name!r}: {count}" if name else text
