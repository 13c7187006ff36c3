"""All of a table's unusable columns in one message, with the flags that mend them."""

from collections.abc import Mapping
from math import isfinite
from shlex import quote

from concrete_score.data.frame import Frame, Numbers
from concrete_score.data.meaning import NUMBER, Meaning
from concrete_score.data.options import TableOptions
from concrete_score.errors import InputError

_FEW = 3
"""Words in a column of numbers that may mean blank."""


def refuse_columns(frame: Frame, meanings: Mapping[str, Meaning], options: TableOptions) -> None:
    """Refuse a table that cannot be a product of categories.

    Raises:
        InputError: fewer than two columns, or columns of non-integer numbers, of too many values, of one value alone,
            or blank throughout.
    """
    if len(meanings) < 2:
        raise InputError("two columns or more", _one(meanings), where=frame.where, fix=_separator_hint(frame))
    if all(meaning.blanks == frame.num_rows for meaning in meanings.values()):
        raise InputError("a table with values", "blank cells alone", where=frame.where, fix="give rows with values")
    found = [(name, *fault) for name, meaning in meanings.items() if (fault := _fault(name, meaning, frame, options))]
    if found:
        faults = ", ".join(f"{name!r} ({reason})" for name, reason, _ in found)
        flags = " ".join(dict.fromkeys(flag for *_, flag in found))
        raise InputError(
            f"columns of 2 to {options.max_categories} categories",
            faults,
            where=frame.where,
            fix=f"add {flags}, or choose columns with --columns A,B",
        )


def refuse_blanks(frame: Frame, counts: Mapping[str, int], fix: str) -> None:
    """Refuse blank cells, saying how many there are and in which columns."""
    if total := sum(counts.values()):
        worst = sorted(counts.items(), key=lambda item: -item[1])
        named = [f"{name!r}: {count}" for name, count in worst if count]
        more = f" and {len(named) - 5} more columns" if len(named) > 5 else ""
        raise InputError("no blank cells", f"{total} ({', '.join(named[:5])}{more})", where=frame.where, fix=fix)


def _fault(name: str, meaning: Meaning, frame: Frame, options: TableOptions) -> tuple[str, str] | None:
    drop, cut = f"--drop {quote(name)}", f"--bins {quote(name + '=10')}"
    if meaning.blanks == frame.num_rows:
        return "blank in every row", drop
    if name in options.bins:
        return None if meaning.numeric else _not_numbers(name, frame, drop)
    if meaning.kind == NUMBER:
        return "non-integer numbers", cut
    if meaning.distinct > options.max_categories:
        return f"{meaning.distinct} values", cut if meaning.numeric else drop
    if meaning.distinct + (meaning.blanks > 0 and options.missing == "category") < 2:
        return "one value in every row", drop
    return None


def _not_numbers(name: str, frame: Frame, drop: str) -> tuple[str, str]:
    """Why a column cannot be cut: it is text, or numbers but for a word or two, which --na would make blank."""
    column = frame[name]
    words = [] if isinstance(column, Numbers) else [str(value) for value in column.values if not _number(str(value))]
    if isinstance(column, Numbers) or not 1 <= len(words) <= _FEW < len(column.values):
        return "not numbers, so no bins", drop
    return f"numbers but for {', '.join(map(repr, words))}", " ".join(f"--na {quote(word)}" for word in words)


def _number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _one(meanings: Mapping[str, Meaning]) -> str:
    return f"one, {next(iter(meanings))!r}" if meanings else "none"


def _separator_hint(frame: Frame) -> str:
    name = frame.names[0].strip() if len(frame.columns) == 1 else ""
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars"), (" ", "spaces")):
        if mark in name:
            return f"its cells seem parted by {word}: part them by commas"
    return "give a table whose columns depend on one another"
