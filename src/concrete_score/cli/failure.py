"""How a mistake of ours ends: one line for the user, and a file with all that a report of it needs."""

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from concrete_score import __version__
from concrete_score.errors import printable
from concrete_score.files import short

LOGS = "CONCRETE_SCORE_LOGS"
"""The environment variable that names another folder for such files than the user's own."""


def explain_failure(error: BaseException, words: Sequence[str] | None) -> str:
    """One line about an exception that nobody foresaw; it names the file that holds the traceback."""
    what = f"{type(error).__name__}: {short(error)}"
    path = _write(error, words)
    if path is None:
        return f"internal error ({what}), and no log file could be written; please report it"
    return f"internal error ({what}); the details are in {path}, please report it with that file"


def _write(error: BaseException, words: Sequence[str] | None) -> Path | None:
    """The log file of an exception, or None where there is no place for one."""
    command = [printable(word)[:200] for word in (sys.argv[1:] if words is None else words)]
    facts = [
        f"concrete-score {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: csm {' '.join(command)[:2000]}",
        "",
        "".join(traceback.format_exception(error)),
    ]
    name = f"csm-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.log"
    for folder in _folders():
        path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(facts), encoding="utf-8", errors="backslashreplace")
        except (OSError, ValueError):
            continue
        return path
    return None


def _folders() -> list[Path]:
    if chosen := os.environ.get(LOGS):
        return [Path(chosen), Path(tempfile.gettempdir())]
    from platformdirs import user_log_path

    return [user_log_path("concrete-score"), Path(tempfile.gettempdir())]
