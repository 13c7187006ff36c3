"""``csm export``: a run's scoring as a file that PyTorch runs without this library."""

from pathlib import Path

import click

from concrete_score.cli.console import Console, common_options, examples, open_model, run_argument, table


@click.command(epilog=examples("csm export runs/clinic clinic.pt2", "csm export runs/digits digits.pt2 --force --json"))
@run_argument
@click.argument("file", metavar="FILE.pt2", type=click.Path(path_type=Path))
@common_options
def export(console: Console, path: Path, file: Path) -> None:
    """Write what scores rows in RUN as a program of torch.export, for any number of rows.

    A density gives the log-density of each encoded row; a score model, such as a U-Net, gives the log-ratios of its
    neighbors, at the noise level that is its second argument. How rows are encoded, and what comes out, is described in
    concrete_score.json inside the file. The program is loaded again and compared with the model before it is written.
    """
    model = open_model(path, console)
    found = model.export(file, force=console.force)
    value = {
        "file": str(found.path),
        "output": found.output,
        "inputs": list(found.inputs),
        "largest_difference": found.largest_difference,
    }
    console.give(value, lambda: table(["fact", "value"], [(name, str(each)) for name, each in value.items()]))
