"""The page a run leaves: ``report.html`` at the end of ``csm fit``, and again by ``csm show RUN --report DATA``."""

from typing import TYPE_CHECKING

import click

from concrete_score.cli.options import Console
from concrete_score.errors import InputError, printable

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from concrete_score.cli.fit_job import Source
    from concrete_score.runs import Run

no_report_option = click.option("--no-report", is_flag=True, help="Do not write RUN/report.html at the end.")


def leave_report(
    run: "Run", rows: "Tensor", valid: "Tensor | None", device: "str | torch.device", console: Console
) -> None:
    """Write the report of a training that has ended; what goes wrong here is a warning, for the run itself is whole."""
    from concrete_score.report import write_report

    console.say("writing the report …")
    try:
        path = write_report(run, rows, valid, device=device)
    except (InputError, OSError, RuntimeError, MemoryError) as error:
        reason = printable(" ".join(str(error).split()))[:200]
        click.echo(f"warning: the run is whole, but its report was not written: {reason}", err=True)
    else:
        console.say(f"report: {path}")


def rewrite_report(run: "Run", source: "Source", console: Console) -> None:
    """Write the report of a run again, from the data it learned from.

    Raises:
        InputError: other data, or a run without a model.
    """
    device = console.use_torch()
    from concrete_score.cli.fit_job import rows_of_run
    from concrete_score.cli.open_run import strangers
    from concrete_score.report import write_report

    rows, valid = rows_of_run(run, source, console.say)
    console.say("writing the report …")
    with strangers(run):
        path = write_report(run, rows, valid, device=device)
    console.say(f"report: {path}")
