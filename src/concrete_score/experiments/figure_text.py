"""Words and tables shared by the figures' Markdown."""

from collections.abc import Iterable, Sequence

from concrete_score.errors import InputError


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(table(["toy", "error"], [["2spirals", "0.06"]]))
    | toy | error |
    | --- | --- |
    | 2spirals | 0.06 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def number(value: float | None, digits: int = 3) -> str:
    """A number in a few digits; what JSON could not hold was infinite.

    >>> number(0.06011, 2), number(None), number(7000.0)
    ('0.06', '∞', '7e+03')
    """
    return "∞" if value is None else f"{value:.{digits}g}"


def pack(counts: Sequence[int]) -> str:
    """Many small counts as one short string: how often a value repeats is written after it.

    >>> pack([0, 0, 0, 2, 1, 1])
    '0x3 2 1x2'
    """
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return " ".join(str(value) if times == 1 else f"{value}x{times}" for value, times in runs)


def unpack(text: str, size: int) -> list[int]:
    """The counts of `pack`.

    Raises:
        InputError: there are not ``size`` of them.

    >>> unpack("0x3 2 1x2", 6)
    [0, 0, 0, 2, 1, 1]
    """
    counts: list[int] = []
    for word in text.split():
        value, _, times = word.partition("x")
        counts += [int(value)] * int(times or 1)
    if len(counts) != size:
        raise InputError(f"{size} counts", str(len(counts)), where="a stored unit", fix="remove it, and run again")
    return counts
