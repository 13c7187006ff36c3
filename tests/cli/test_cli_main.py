"""The promises every command keeps: exit codes, one line for a mistake, light start, and no stray control codes."""

import errno
import os
import subprocess
import sys

import click
import pytest

from concrete_score.cli.main import COMMANDS
from concrete_score.cli.main import csm as group
from concrete_score.errors import InputError

HEAVY = ("torch", "scipy", "sklearn", "matplotlib", "networkx", "rich", "numpy")


def python(*words, **options):
    """A fresh interpreter; its streams as text."""
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, **options)


@pytest.fixture
def broken(monkeypatch):
    """Put in a command's place one that raises what it is given."""

    def put(error: BaseException) -> None:
        @click.command()
        def command() -> None:
            raise error

        monkeypatch.setattr(group, "get_command", lambda ctx, name: command)

    return put


def test_version(csm):
    assert csm("--version") == (0, "csm 0.2.0\n", "")


@pytest.mark.parametrize("words", [("--help",), ("-h",), ()])
def test_help_names_every_command_with_its_line(csm, words):
    code, out, err = csm(*words)
    assert (code, err) == (0, "")
    for name, entry in COMMANDS.items():
        assert f"  {name}" in out
        assert entry.help in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_that_start_with_its_name(csm, name):
    code, out, err = csm(name, "--help")
    assert (code, err) == (0, "")
    assert "Usage: csm " + name in out
    shown = out.split("Examples:\n")[1].strip().splitlines()
    assert shown
    assert all(line.strip().startswith(f"csm {name}") for line in shown)
    for option in ("--seed", "--device", "--threads", "--quiet", "--json", "--force"):
        assert option in out


def test_mistyped_command_gets_the_nearest(misused):
    assert "Did you mean 'reproduce'?" in misused("repoduce")


def test_unlike_any_command_gets_all_of_them(misused):
    assert "Known: demo, fit, sample, evaluate" in misused("zzz")


def test_mistyped_option_gets_the_nearest_and_the_place_of_help(misused):
    err = misused("list", "--jsn")
    assert "--json" in err
    assert "'csm list --help'" in err


@pytest.mark.parametrize(
    "words",
    [
        ("reproduce",),
        ("list", "--seed", "one"),
        ("list", "--seed", "-1"),
        ("list", "--threads", "0"),
        ("list", "neighborhoods", "too", "many"),
        ("--nothing",),
    ],
)
def test_usage_errors_are_one_line(misused, words):
    misused(*words)


def test_a_strangers_control_codes_are_shown_not_obeyed(misused):
    for words in (("\x1b[31mred\x07\n",), ("list", "\x1b]0;title\x07\nsecond line"), ("list", "--\x1bx")):
        err = misused(*words)
        assert err.rstrip("\n").isprintable()


def test_input_error_in_a_command_is_one_line(broken, misused):
    broken(InputError("a table", "an empty file", where="data.csv\n\x1b", fix="add rows"))
    assert misused("list") == "error: data.csv\\n\\x1b: expected a table, got an empty file; add rows\n"


def test_failing_file_system_is_one_line_and_exit_1(broken, csm):
    broken(OSError(28, "No space left on device", "results/figure1.json"))
    assert csm("list") == (1, "", "error: No space left on device: results/figure1.json\n")


def test_ctrl_c_is_130(broken, csm):
    broken(KeyboardInterrupt())
    code, out, err = csm("list")
    assert (code, out) == (130, "")
    assert "Traceback" not in err


def test_a_mistake_of_ours_is_one_line_that_names_the_file_with_its_traceback(broken, csm, tmp_path, monkeypatch):
    monkeypatch.setenv("CONCRETE_SCORE_LOGS", str(tmp_path / "logs"))
    broken(ZeroDivisionError("bug"))
    code, out, err = csm("list")
    (log,) = (tmp_path / "logs").iterdir()
    assert (code, out) == (1, "")
    what = "internal error (ZeroDivisionError: bug)"
    assert err == f"error: {what}; the details are in {log}, please report it with that file\n"
    assert "Traceback" in log.read_text()
    assert "command: csm list" in log.read_text()


def test_importing_the_package_and_asking_for_help_load_nothing_heavy():
    program = (
        "import sys, concrete_score\n"
        "from concrete_score.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        f"sys.exit(','.join(name for name in {HEAVY} if name in sys.modules) or 0)"
    )
    done = python("-c", program)
    assert (done.returncode, done.stderr) == (0, "")


def test_module_is_the_command_and_misuse_leaves_no_traceback():
    done = python("-m", "concrete_score", "list", "neighbors")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_full_disk_is_one_line_and_exit_1():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "concrete_score", "--help"], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1


def test_a_reader_that_stops_reading_is_no_noise():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "concrete_score", "--help"], stdout=write, stderr=subprocess.PIPE, timeout=60
    )
    os.close(write)
    assert done.stderr == b""


def test_letters_the_terminal_lacks_are_spelt_out():
    words = ("-m", "concrete_score", "list", "neighborhoods")
    done = python(*words, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "hamming" in done.stdout


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_is_one_line(csm, monkeypatch, error):
    def ask(*words, **options):
        raise error

    monkeypatch.setattr("concrete_score.cli.main.csm.main", ask)
    code, out, err = csm("list")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "not enough memory" in err


def test_without_a_place_for_its_log_a_mistake_of_ours_is_still_one_line(csm, monkeypatch):
    def ask(*words, **options):
        raise RuntimeError("a defect")

    monkeypatch.setattr("concrete_score.cli.main.csm.main", ask)
    monkeypatch.setattr("concrete_score.cli.failure._folders", lambda: [])
    code, out, err = csm("list")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "internal error (RuntimeError: a defect), and no log file could be written" in err


@pytest.mark.parametrize("number", [errno.ENAMETOOLONG, errno.EACCES, errno.EROFS, errno.ENOENT])
def test_a_path_that_cannot_be_is_a_mistake_of_the_caller(broken, csm, number):
    broken(OSError(number, "cannot be", "o" * 1000))
    code, out, err = csm("list")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.endswith("; check the path, or choose another\n")
    assert len(err) < 500
