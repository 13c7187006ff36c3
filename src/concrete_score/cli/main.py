"""``csm``: how commands are found, and how each of them ends.

Exit codes: 0 done; 2 bad input or usage, in one line on stderr; 1 any other failure; 130 on Ctrl-C. A mistake in the
library itself is one line too, which names the file that holds its traceback.
"""

import errno
import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from threading import current_thread, main_thread
from typing import Any, NamedTuple, NoReturn

import click

from concrete_score import __version__
from concrete_score.errors import InputError, bounded, printable

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
_MISPLACED = frozenset(
    (
        errno.EISDIR,
        errno.ENOTDIR,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENAMETOOLONG,
        errno.ELOOP,
        errno.ENOENT,
        errno.ENXIO,
        errno.ENODEV,
    )
)
"""Errors of a path that is the caller's mistake; a full disk is not."""


class Listed(NamedTuple):
    """Where a command lives (``module:attribute``) and its line in ``csm --help``."""

    target: str
    help: str


COMMANDS = {
    "demo": Listed("concrete_score.cli.demo:demo", "The main job on embedded data, against the known truth."),
    "fit": Listed("concrete_score.cli.fit:fit", "Learn a model from a table or images, into a run directory."),
    "sample": Listed("concrete_score.cli.sample:sample", "Draw rows or images from a run, also given some columns."),
    "evaluate": Listed("concrete_score.cli.evaluate:evaluate", "A table's log-likelihood, exact or between bounds."),
    "explain": Listed("concrete_score.cli.explain:explain", "The single changes that make each row likelier."),
    "impute": Listed("concrete_score.cli.impute:impute", "Fill blank cells or pixels, likeliest or drawn."),
    "compare": Listed("concrete_score.cli.compare:compare", "A synthetic table beside the real one: alike? private?"),
    "explore": Listed("concrete_score.cli.explore:explore", "A local page: set some columns and see the others."),
    "show": Listed("concrete_score.cli.show:show", "A run's columns, configuration, measurements and files."),
    "diagnose": Listed("concrete_score.cli.diagnose:diagnose", "What a table can teach, or how healthy a run is."),
    "export": Listed("concrete_score.cli.export:export", "A run's scoring as a program of torch.export."),
    "data": Listed("concrete_score.cli.data:data", "Named data sets, listed and fetched."),
    "list": Listed("concrete_score.cli.list_names:list_names", "Names with one line and the paper's section."),
    "reproduce": Listed("concrete_score.cli.reproduce:reproduce", "The paper's figures and tables, checked."),
    "bench": Listed("concrete_score.cli.bench:bench", "Performance, as ratios taken in one run."),
}


class LazyGroup(click.Group):
    """Commands kept as plain strings; asking for help imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else f" Known: {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}.{guess}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Run 'csm COMMAND --help' for a command's options and examples.",
)
@click.version_option(__version__, prog_name="csm", message="%(prog)s %(version)s")
@click.pass_context
def csm(ctx: click.Context) -> None:
    """Generative models of discrete data through their probability ratios (Concrete scores).

    Results go to standard output, as a table or as one JSON object with --json; progress goes to standard error.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    _open_closed_streams()
    _escape_unprintable()
    _clean_up_on_sigterm()
    warnings.formatwarning = _plain_warning
    try:
        code: Any = csm.main(None if argv is None else list(argv), prog_name="csm", standalone_mode=False)
    except InputError as error:
        from concrete_score.cli.console import SKIN

        _leave(error.render(SKIN), MISUSED)
    except click.ClickException as error:
        _leave(_explain(error), error.exit_code)
    except click.Abort:
        _leave("interrupted", INTERRUPTED)
    except OSError as error:
        misplaced = error.errno in _MISPLACED and error.filename is not None
        _leave(_explain_os(error, misplaced), MISUSED if misplaced else FAILED)
    except Exception as error:
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "allocate memory" in str(error)):
            _leave("not enough memory for what was asked; ask for less (rows, draws, units or a smaller batch)", FAILED)
        from concrete_score.cli.failure import explain_failure

        _leave(explain_failure(error, argv), FAILED)
    sys.exit(code or 0)


def _plain_warning(message: Warning | str, *about: Any, **more: Any) -> str:
    return f"warning: {printable(str(message))}\n"


def _explain(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    return f"{message} (see '{context.command_path} --help')" if context else message


def _explain_os(error: OSError, misplaced: bool = False) -> str:
    place = f": {bounded(str(error.filename), 300)}" if error.filename is not None else ""
    advice = "; check the path, or choose another" if misplaced else ""
    return f"{error.strerror or error}{place}{advice}"


def _leave(message: str, code: int) -> NoReturn:
    _drop_unwritable_output()
    click.echo(f"error: {bounded(printable(message))}", err=True)
    sys.exit(code)


def _clean_up_on_sigterm() -> None:
    # Python ends at once on SIGTERM; an exception still removes what was being written.
    if current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def _open_closed_streams() -> None:
    # The first file opened would take the number of a stream that is closed, and receive what is printed.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False, encoding="utf-8"))  # noqa: SIM115


def _escape_unprintable() -> None:
    # A terminal that cannot show a character shows its code instead of ending the program.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_unwritable_output() -> None:
    # What could not be written would be tried again, and complained about, when the interpreter ends.
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
