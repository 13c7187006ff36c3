"""Running ``csm`` inside the test, with its two streams and exit code."""

from typing import NamedTuple

import pytest

from concrete_score.cli.main import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def csm(capsys):
    """Call ``csm`` with words and get its exit code and what it wrote."""

    def call(*words: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main(words)
        return Outcome(left.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def misused(csm):
    """Call ``csm`` with a mistake: exit 2, nothing on standard output, one line ``error: …`` on standard error."""

    def call(*words: str) -> str:
        code, out, err = csm(*words)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        return err

    return call


@pytest.fixture(autouse=True)
def _no_reports(request, monkeypatch):
    """A report takes longer than all else that a small fit does: only its own tests have it written."""
    if not request.module.__name__.endswith("test_report_command"):
        monkeypatch.setattr("concrete_score.cli.fit._write_report", lambda *_: None)
