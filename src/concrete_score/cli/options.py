"""What all commands share: common options, and where results and progress go."""

import json as json_text
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from concrete_score.bench.checks import Check
from concrete_score.errors import InputError, printable
from concrete_score.files import finite

if TYPE_CHECKING:
    import torch

P = ParamSpec("P")


@dataclass(frozen=True)
class Console:
    """The common options of one call, and its two ways to speak.

    >>> Console(json=True).give({"loss": float("nan")}, str)
    {
     "loss": null
    }
    """

    seed: int = 0
    device: str = "cpu"
    threads: int | None = None
    quiet: bool = False
    json: bool = False
    force: bool = False

    def say(self, message: str) -> None:
        """Progress, to standard error, unless quiet."""
        if not self.quiet:
            click.echo(printable(message), err=True)

    def give(self, value: Mapping[str, Any], text: Callable[[], str]) -> None:
        """The result, to standard output: one JSON object, or the text made for people."""
        click.echo(json_text.dumps(finite(value), indent=1, allow_nan=False) if self.json else text())

    def use_torch(self) -> "torch.device":
        """Set the number of threads and give the device, or say that it is not here."""
        import torch

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        try:
            # A device may be known by name and yet be absent; only use shows it.
            torch.zeros(1, device=self.device).item()
        except (RuntimeError, AssertionError):
            raise InputError(
                "a device that PyTorch can use here", repr(self.device), where="--device", fix="use --device cpu"
            ) from None
        return torch.device(self.device)


_OPTIONS = (
    click.option(
        "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Same seed, same result; 0 by default."
    ),
    click.option("--device", metavar="NAME", default="cpu", help="Where tensors live: cpu (the default), cuda, …"),
    click.option(
        "--threads", metavar="N", type=click.IntRange(min=1, max=1024), help="How many threads PyTorch may use."
    ),
    click.option("--quiet", is_flag=True, help="No progress on standard error."),
    click.option("--json", is_flag=True, help="Print one JSON object instead of a table."),
    click.option("--force", is_flag=True, help="Write over what is there."),
)


def common_options(command: Callable[Concatenate[Console, P], None]) -> Callable[..., None]:
    """Add the common options to a command and hand them over as one `Console`."""

    names = [field.name for field in fields(Console)]

    @wraps(command)
    def with_console(*args: Any, **given: Any) -> None:
        console = Console(**{name: given.pop(name) for name in names})
        command(console, *args, **given)

    wrapped: Callable[..., None] = with_console
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def examples(*lines: str) -> str:
    r"""The Examples section at the end of a command's help, kept line by line.

    >>> examples("csm demo")
    '\x08\nExamples:\n  csm demo'
    """
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> str:
    """A table for people; a stranger's control codes are shown, not obeyed.

    >>> print(table(["name", "edges"], [["star", 5]]))
    name   edges
    ────────────
    star   5
    """
    from io import StringIO

    from rich import box
    from rich.console import Console as RichConsole
    from rich.table import Table
    from rich.text import Text

    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left", title_style="bold")
    for column in columns:
        view.add_column(Text(column), overflow="fold")
    for row in rows:
        view.add_row(*(Text(printable(str(cell))) for cell in row))
    page = StringIO()
    screen = sys.stdout.isatty()
    # Into a file or a pipe no line is cut: other programs read it.
    RichConsole(file=page, width=None if screen else 1000, force_terminal=screen).print(view)
    body = "\n".join(line.rstrip() for line in page.getvalue().rstrip("\n").split("\n"))
    return f"{title}\n{body}" if title else body


def checks_table(checks: Sequence[Check], title: str = "") -> str:
    """Measured values beside their bounds.

    >>> print(checks_table([Check.at_most("a / b", 0.2, 0.5)]))
    check   value   bound    ok
    ────────────────────────────
    a / b   0.2     <= 0.5   yes
    """
    rows = [(check.name, check.value_text, check.bound_text, "yes" if check.ok else "NO") for check in checks]
    return table(["check", "value", "bound", "ok"], rows, title)
