"""``report.html`` on the command line: written by ``csm fit``, again by ``csm show --report``, never in the way."""

import json

import pytest

from tests.report import cases

FIT = ("--steps", "20", "--set", "valid_every=10", "--set", "model.hidden=8")


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    """A small table's file; chains are kept short."""
    monkeypatch.setattr("concrete_score.diagnostics.mixing.KEPT", 60)
    monkeypatch.setattr("concrete_score.diagnostics.mixing.LIMITED_THIN", 1)
    cases.table(["smoke", "cough", cases.SCRIPT], rows=120).write_csv(tmp_path / "clinic.csv")
    return str(tmp_path / "clinic.csv")


def test_fit_leaves_a_report_and_show_writes_the_same_again(csm, clinic, tmp_path):
    run = tmp_path / "run"
    code, out, err = csm("fit", clinic, "--out", str(run), *FIT, "--json")
    assert code == 0
    assert json.loads(out)["steps"] == 20
    assert f"report: {run / 'report.html'}" in err
    page = (run / "report.html").read_bytes()
    assert b"Chow" in page
    assert b"<script" not in page
    (run / "report.html").unlink()
    code, out, err = csm("show", str(run), "--report", clinic, "--json")
    assert code == 0
    assert (run / "report.html").read_bytes() == page
    files = {file["name"]: file["verified"] for file in json.loads(out)["files"]}
    assert files["report.html"] is False
    assert files["model.safetensors"] is True
    (line,) = [line for line in csm("show", str(run)).out.splitlines() if "report.html" in line]
    assert line.endswith("not checked")


def test_no_report_where_none_is_wanted_and_force_removes_an_old_one(csm, clinic, tmp_path):
    run = tmp_path / "run"
    assert csm("fit", clinic, "--out", str(run), *FIT, "--no-report", "--quiet").code == 0
    assert not (run / "report.html").exists()
    (run / "report.html").write_text("old")
    assert csm("fit", clinic, "--out", str(run), *FIT, "--no-report", "--quiet", "--force").code == 0
    assert not (run / "report.html").exists()
    assert csm("fit", clinic, "--out", str(run), "--resume", "--quiet").err == ""
    assert (run / "report.html").exists()


def test_a_report_that_cannot_be_written_is_a_warning(csm, clinic, tmp_path):
    run = tmp_path / "run"
    assert csm("fit", clinic, "--out", str(run), *FIT, "--no-report", "--quiet").code == 0
    (run / "report.html").mkdir()
    code, out, err = csm("fit", clinic, "--out", str(run), "--resume", "--quiet", "--json")
    assert (code, json.loads(out)["best_step"] >= 0) == (0, True)
    assert err.startswith("warning: the run is whole, but its report was not written: ")
    assert err.count("\n") == 1


def test_other_data_and_runs_without_a_model_are_refused(csm, misused, clinic, tmp_path):
    run = tmp_path / "run"
    csm("fit", clinic, "--out", str(run), *FIT, "--no-report", "--quiet")
    cases.table(["smoke", "cough", cases.SCRIPT], rows=121).write_csv(tmp_path / "other.csv")
    assert "the data of this run" in misused("show", str(run), "--report", str(tmp_path / "other.csv"), "--quiet")
    assert "nowhere" in misused("show", str(run), "--report", str(tmp_path / "nowhere.csv"), "--quiet")
    (run / "model.safetensors").unlink()
    for file in (run / "checkpoint").iterdir():
        file.unlink()
    assert "--resume" in misused("show", str(run), "--report", clinic, "--quiet")
    assert not (run / "report.html").exists()
