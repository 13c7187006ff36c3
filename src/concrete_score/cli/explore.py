"""``csm explore``: a local page on which columns are set and the rest is seen."""

from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import click

from concrete_score.cli.console import (
    Console,
    common_options,
    data_dir_option,
    examples,
    file_options,
    open_model,
    read_data,
    run_argument,
)
from concrete_score.errors import InputError


@click.command(
    epilog=examples(
        "csm explore runs/clinic",
        "csm explore runs/clinic --start strange.csv",
        "csm explore runs/digits --port 8000 --no-browser",
        "csm explore runs/family --start wild.fasta",
    )
)
@run_argument
@click.option("--start", metavar="DATA", help="Begin with the first row, image or sequence of DATA.")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=0, help="By default any that is free.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@data_dir_option
@file_options
@common_options
def explore(
    console: Console,
    path: Path,
    start: str | None,
    port: int,
    no_browser: bool,
    data_dir: str | None,
    reading: dict[str, Any],
) -> None:
    """Open a page on which you set some columns of RUN and see the others' distributions at once.

    Beside them: example draws, the log-probability of what is set, and the single changes that would raise it most. Of
    images, paint pixels and watch the rest fill in; of sequences, the map of all mutations. The page is served to this
    machine alone, under an address with a random token, loads nothing from elsewhere and changes nothing. Ctrl-C ends
    it.
    """
    _refuse_without_extra()
    model = open_model(path, console)
    given = None
    if start is not None:
        given = read_data(model, start, console, filling=True, data_dir=data_dir, reading=reading)
    from concrete_score.explorer.guard import new_token
    from concrete_score.explorer.server import HOST, Explorer, listen, serve

    at, token = listen(port), new_token()
    number = at.getsockname()[1]
    url = f"http://{HOST}:{number}/{token}/"

    def started() -> None:
        console.give({"url": url, "host": HOST, "port": number}, lambda: url)
        console.say("open this address in a browser of this machine; Ctrl-C ends the page")
        if not no_browser:
            Thread(target=show, daemon=True).start()

    def show() -> None:
        if not _open(url):
            console.say("no browser was found: open the address yourself")

    serve(Explorer(model, given), token, at, started)


def _refuse_without_extra() -> None:
    """Refuse where the server's packages are absent.

    Raises:
        InputError: they are; the extra is named.
    """
    absent = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if absent:
        fix = "install them: pip install 'concrete-score[explore]'"
        raise InputError("the packages of the extra 'explore'", f"no {' and no '.join(absent)}", fix=fix)


def _open(url: str) -> bool:
    """Whether a browser was found that shows an address beside this terminal, and not in it."""
    import os
    import webbrowser

    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    beside = not isinstance(found, webbrowser.GenericBrowser) or isinstance(found, webbrowser.BackgroundBrowser)
    return (beside or "BROWSER" in os.environ) and found.open(url)
