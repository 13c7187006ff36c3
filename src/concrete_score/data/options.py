"""How a person wants their table read: which columns, which bins, what is blank."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from concrete_score.data.frame import Frame
from concrete_score.errors import InputError, nearest

MAX_CATEGORIES = 256
MISSING = ("refuse", "drop", "category", "keep")
"""Blank cells: refuse them with a count; drop their rows; make them a category when fitted; keep them as unobserved."""
UNKNOWN = ("refuse", "skip")
"""Values never seen in training: refuse them by name, or skip their rows."""


@dataclass(frozen=True)
class TableOptions:
    """What `TableCodec.fit` is asked for.

    Args:
        columns: the columns to use, in this order; all if empty.
        drop: columns to leave out.
        bins: how many quantile ranges to cut a numeric column into.
        na: texts that mean a blank cell.
        max_categories: the most values a column may take.
        missing: ``refuse``, ``drop`` or ``category``.

    >>> TableOptions(bins={"age": 1})
    Traceback (most recent call last):
    concrete_score.errors.InputError: --bins age: expected 2 bins or more, got 1; ...
    """

    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    bins: Mapping[str, int] = field(default_factory=dict)
    na: tuple[str, ...] = ()
    max_categories: int = MAX_CATEGORIES
    missing: str = "refuse"

    def __post_init__(self) -> None:
        check_choice(self.missing, MISSING[:3], "--missing")
        if self.max_categories < 2:
            raise InputError("2 or more", str(self.max_categories), where="--max-categories")
        for name, count in self.bins.items():
            if count < 2:
                raise InputError("2 bins or more", str(count), where=f"--bins {name}", fix="say --bins COLUMN=10")

    def chosen(self, frame: Frame) -> Frame:
        """The columns to use.

        Raises:
            InputError: a named column is not in the table.
        """
        for flag, names in (("--columns", self.columns), ("--drop", self.drop), ("--bins", tuple(self.bins))):
            for name in names:
                if name not in frame.names:
                    fix = nearest(name, list(frame.names))
                    raise InputError("the name of a column", repr(name), where=f"{frame.where}: {flag}", fix=fix)
        frame = frame.keep(self.columns) if self.columns else frame
        return frame.drop([name for name in self.drop if name in frame.names])


def check_choice(value: str, known: tuple[str, ...], where: str) -> None:
    """Refuse a word that is not among those known."""
    if value not in known:
        raise InputError(f"one of {', '.join(known)}", repr(value), where=where, fix=nearest(value, list(known)))
