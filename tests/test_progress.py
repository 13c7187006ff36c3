"""Progress of any long work: on standard error alone, and nothing a text holds is obeyed by a terminal."""

import os
import pty
from select import select

from concrete_score.cli.console import Console
from concrete_score.progress import Lines, progress


def test_lines_come_now_and_then_and_notes_at_once(monkeypatch):
    clock = iter([0.0, 1.0, 6.0, 6.0, 7.0, 8.0, 8.0, 9.0])
    monkeypatch.setattr("concrete_score.progress.monotonic", lambda: next(clock))
    lines = []
    update = Lines("sampling", lines.append)
    update(1, 4)
    update(2, 4)
    update(3, 4)
    update(3, 4, "look here", note=True)
    assert lines == ["sampling: 50 %", "look here"]


def test_the_first_line_may_come_sooner(monkeypatch):
    clock = iter([0.0, 0.5, 1.5, 1.5, 4.0, 7.0, 7.0])
    monkeypatch.setattr("concrete_score.progress.monotonic", lambda: next(clock))
    lines = []
    update = Lines("looking", lines.append, first=1.0)
    for done in range(4):
        update(done, 4)
    assert lines == ["looking: 25 %", "looking: 75 %"]


def test_nothing_to_do_is_no_error():
    lines = []
    Lines("sampling", lines.append, seconds=0.0)(0, 0)
    assert lines == ["sampling: 0 %"]


def test_quiet_plain_and_live(capsys, monkeypatch):
    with progress("sampling", quiet=True) as update:
        update(1, 2, "x", note=True)
    assert capsys.readouterr() == ("", "")
    with progress("sampling") as update:
        update(1, 2, "a\x1b[31m\nb", note=True)
    assert capsys.readouterr() == ("", "a\\x1b[31m\\nb\n")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress("sampling") as update:
        update(1, 2)
        update(1, 2, "[bold]note", note=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "[bold]note" in err


def test_a_message_does_not_share_a_line_with_the_bar(monkeypatch):
    master, slave = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with open(slave, "w") as screen:
        monkeypatch.setattr("sys.stderr", screen)
        console = Console()
        with console.progress("sampling") as update:
            update(1, 2)
            console.say("50 rows drawn")
            console.warn(["few"])
        console.say("done")
        screen.flush()
        shown = ""
        while select([master], [], [], 0.2)[0]:
            shown += os.read(master, 2**12).decode(errors="replace")
    os.close(master)
    for line in ("50 rows drawn", "warning: few", "done"):
        before = shown[: shown.index(line)]
        assert before.endswith(("\n", "\x1b[2K")), repr(before[-40:])
