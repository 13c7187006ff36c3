"""The options of commands that read a table: which columns, which bins, what is blank, and where named sets lie."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from concrete_score.errors import InputError

if TYPE_CHECKING:
    from concrete_score.data import TableOptions


class TableWishes(NamedTuple):
    """The table options of one call, as given."""

    columns: str | None
    drop: tuple[str, ...]
    bins: tuple[str, ...]
    na: tuple[str, ...]
    max_categories: int
    missing: str

    @classmethod
    def none(cls) -> "TableWishes":
        """Nothing asked for."""
        return cls(None, (), (), (), 256, "refuse")

    def options(self) -> "TableOptions":
        """The same for the codec.

        Raises:
            InputError: ``--bins`` is not ``COLUMN=COUNT``.
        """
        from concrete_score.data import TableOptions

        return TableOptions(
            columns=tuple(self.columns.split(",")) if self.columns else (),
            drop=self.drop,
            bins=dict(_pair(text) for text in self.bins),
            na=self.na,
            max_categories=self.max_categories,
            missing=self.missing,
        )


_OPTIONS = (
    click.option("--columns", metavar="A,B,…", help="Use these columns alone."),
    click.option("--drop", metavar="COLUMN", multiple=True, help="Leave a column out; may be repeated."),
    click.option("--bins", metavar="COLUMN=COUNT", multiple=True, help="Cut a column of numbers into quantile ranges."),
    click.option("--na", metavar="TEXT", multiple=True, help="Take this text for a blank cell; may be repeated."),
    click.option(
        "--max-categories", metavar="N", type=click.IntRange(min=2), default=256, help="Most values a column; 256."
    ),
    click.option(
        "--missing",
        type=click.Choice(["refuse", "drop", "category"]),
        default="refuse",
        help="Blank cells: refuse them (the default), drop their rows, or make them a category.",
    ),
)

data_dir_option = click.option(
    "--data-dir", metavar="DIR", type=click.Path(), help="A folder of named data sets, looked into first."
)

unknown_option = click.option(
    "--unknown",
    type=click.Choice(["refuse", "skip"]),
    default="refuse",
    help="Rows with values never seen in training: refuse them (the default), or skip them.",
)


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the table options to a command and hand them over as ``wishes``."""

    @wraps(command)
    def with_wishes(*args: Any, **given: Any) -> None:
        command(*args, wishes=TableWishes(*(given.pop(name) for name in TableWishes._fields)), **given)

    wrapped: Callable[..., None] = with_wishes
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def _pair(text: str) -> tuple[str, int]:
    name, sign, count = text.rpartition("=")
    if not sign or not name or not count.isdecimal() or len(count) > 6:
        raise InputError("COLUMN=COUNT", repr(text), where="--bins", fix="say --bins age=10")
    return name, int(count)
