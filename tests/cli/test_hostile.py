"""Words, numbers and surroundings that nobody gives in earnest end in one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from concrete_score.errors import InputError, Option, bounded
from tests.cli.clinic import clinic_run, forged

DIGITS = "9" * 400


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "x,1\ny,2\n" * 20)
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        ("--steps", DIGITS),
        ("--seed", DIGITS),
        ("--batch-size", DIGITS),
        ("--batch-size", "1000000000000"),
        ("--lr", DIGITS),
        ("--minutes", DIGITS),
        ("--set", f"lr={DIGITS}"),
        ("--set", f"seed={DIGITS}"),
        ("--set", f"patience={DIGITS}"),
        ("--set", f"model.hidden={DIGITS}"),
        ("--set", "model.hidden=1000000000"),
        ("--set", "model.blocks=1000000000"),
        ("--set", "model.hidden=" + "[" * 3000),
        ("--set", "steps=" + "[" * 3000),
        ("--device", "x"),
        ("--model", "energy", "--set", "model.hidden=[100000,100000]"),
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_numbers_and_brackets_without_end_are_one_line(misused, data, tmp_path, words):
    told = misused("fit", data, "--out", str(tmp_path / "run"), "--quiet", *words)
    assert len(told) < 1000
    assert not (tmp_path / "run").exists()


def test_sizes_are_refused_with_the_number_and_the_way_to_raise_the_limit(misused, data, tmp_path):
    words = ("fit", data, "--out", str(tmp_path / "run"), "--quiet")
    assert "a batch that takes at most 2 GiB of memory, got about" in misused(*words, "--batch-size", "1000000000")
    assert "CONCRETE_SCORE_MEMORY=" in misused(*words, "--set", "model.hidden=1000000")


@pytest.mark.parametrize("count", [2, 3, 4, 6])
@pytest.mark.parametrize("row", ["{n},{n}", "{n}.5,x{n}", "{n},", "2020-01-0{n},1{n}"])
def test_tables_of_very_few_rows_are_fitted_or_refused(csm, tmp_path, count, row):
    """None of them is held out, and a mean over none is no number."""
    rows = [row.format(n=1 + n % 4) for n in range(count)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *rows]) + "\n")
    words = ("--quiet", "--no-report", "--steps", "3")
    code, _, err = csm("fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "run"), *words)
    assert (code, err) == (0, "")
    assert csm("evaluate", str(tmp_path / "run"), str(tmp_path / "t.csv"), "--quiet").code == 0


@pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK"])
@pytest.mark.parametrize("value", ["x", "-1", "", "1" * 30])
def test_a_launchers_number_that_is_none(misused, data, tmp_path, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert f"error: {name}: expected a whole number" in misused("fit", data, "--out", str(tmp_path / "run"), "--quiet")


def test_names_too_long_are_exit_2(misused, data, tmp_path):
    assert "File name too long" in misused("fit", data, "--out", str(tmp_path / ("o" * 300)), "--quiet")
    run = clinic_run(tmp_path / "run")
    assert "File name too long" in misused("sample", run, "-n", "1", "--out", str(tmp_path / ("o" * 300 + ".csv")))


def test_an_address_that_is_none_of_the_web(misused, tmp_path, monkeypatch):
    monkeypatch.setenv("CONCRETE_SCORE_CACHE", str(tmp_path))
    monkeypatch.delenv("CONCRETE_SCORE_DATA", raising=False)
    for url in ("x", "file:///etc", "ftp://host"):
        assert "begins with https:// or http://" in misused("data", "fetch", "nltcs", "--quiet", "--url", url)
    for url in ("http://[", "http://a b", "http://127.0.0.1:999999"):
        misused("data", "fetch", "nltcs", "--quiet", "--url", url)


def test_lines_of_an_error_are_bounded(misused, tmp_path):
    error = InputError("x" * 10**6, "y" * 10**6, "z" * 10**6, [Option("drop", ["c" * 100] * 10_000)])
    assert len(str(error)) < 2100
    assert bounded("ab") == "ab"
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{d}" for d in range(300)) + "\n" + ("1," * 300)[:-1] + "\n")
    assert len(misused("fit", str(path), "--out", str(tmp_path / "run"), "--quiet")) < 2100


def run_python(*words, **options):
    """A fresh interpreter of one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run([sys.executable, *words], stderr=subprocess.PIPE, timeout=300, env=environment, **options)


def test_nothing_is_imported_from_the_working_directory(data, tmp_path):
    for name in ("polars", "numpy", "click", "torch"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w').write('yes')\nraise SystemExit(3)\n")
    done = run_python("-m", "concrete_score", "show", data, cwd=tmp_path, stdout=subprocess.PIPE)
    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_no_traceback(tmp_path, closed):
    """And nothing that is printed ends up in a file that took the stream's number."""
    run = clinic_run(tmp_path / "run")
    words = [sys.executable, "-m", "concrete_score", "sample", run, "-n", "2", "--out", str(tmp_path / "out.csv")]
    script = f"import os; os.close({closed}); os.execv({sys.executable!r}, {words!r})"
    done = run_python("-c", script, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


@pytest.mark.slow
def test_without_docstrings_and_asserts(tmp_path):
    run = clinic_run(tmp_path / "run")
    done = run_python(
        "-OO",
        "-m",
        "concrete_score",
        "evaluate",
        run,
        "-",
        "--quiet",
        stdout=subprocess.PIPE,
        input=b"smoke,age,ill\nno,30,False\n",
    )
    assert done.returncode == 0, done.stderr


def test_dates_and_decimals_in_json(csm, tmp_path):
    import datetime
    import decimal

    import polars as pl

    run, path = clinic_run(tmp_path / "run"), tmp_path / "holes.parquet"
    pl.DataFrame(
        {
            "smoke": [None, "no"],
            "age": [30, 41],
            "ill": ["True", "False"],
            "day": [datetime.date(2020, 1, 1)] * 2,
            "at": [datetime.datetime(2020, 1, 1, 12)] * 2,
            "paid": [decimal.Decimal("1.10")] * 2,
        }
    ).write_parquet(path)
    code, out, _ = csm("impute", run, str(path), "--json", "--quiet")
    assert code == 0
    assert json.loads(out)["rows"][1][3:] == ["2020-01-01", "2020-01-01 12:00:00", "1.10"]


ODD_PARTS = {
    "config": [{}, {"recipe": {}}, {"recipe": 3, "training": {}}],
    "recipe": [{"model": {}}, {"objective": []}, {"edges": 7}, {"model_options": [[1]]}, {"noise_options": "x"}],
    "data": [{}, {"rows": "x"}, {"rows": 80}, {"rows": 80, "sha256": -1}],
}


@pytest.mark.parametrize("part", ODD_PARTS)
@pytest.mark.parametrize("command", ["resume", "report"])
def test_parts_of_an_untrusted_run_that_are_no_such_thing_are_refused(csm, tmp_path, command, part):
    rows, run = tmp_path / "rows.csv", Path(clinic_run(tmp_path / "run"))
    rows.write_text("smoke,age,ill\nno,30,False\nyes,55,True\n")
    words = {
        "resume": ["fit", str(rows), "--out", str(run), "--resume", "--no-report", "--quiet"],
        "report": ["show", str(run), "--report", str(rows), "--quiet"],
    }[command]
    info = json.loads((run / "run.json").read_text())
    for value in ODD_PARTS[part]:
        config = dict(info["config"])
        if part == "recipe":
            value = {**config, "recipe": {**config["recipe"], **value}}
        forged(str(run), **{"config" if part == "recipe" else part: value})
        code, _, err = csm(*words)
        assert code == 2, err
        assert err.count("\n") == 1
        assert "run.json: expected " in err


@pytest.mark.parametrize("command", ["sample", "evaluate", "show", "diagnose", "resume"])
@pytest.mark.parametrize("size", [10**7, 10**12, 10**400])
def test_an_untrusted_runs_sizes_are_refused(csm, tmp_path, command, size):
    run = clinic_run(tmp_path / "run")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    recipe = {**info["config"]["recipe"], "model": "made", "model_options": {"hidden": size}}
    forged(run, config={**info["config"], "recipe": recipe})
    data = tmp_path / "t.csv"
    data.write_text("smoke,age,ill\nno,30,False\nyes,41,True\n")
    words = {
        "sample": ("sample", run, "-n", "1"),
        "evaluate": ("evaluate", run, str(data)),
        "show": ("show", run, "--report", str(data)),
        "diagnose": ("diagnose", run),
        "resume": ("fit", str(data), "--out", run, "--resume"),
    }[command]
    code, out, err = csm(*words, "--quiet")
    assert (code, err.count("\n")) == (2, 1), (out, err)


def test_arrays_of_letters_beyond_unicode(misused, tmp_path):
    array = np.array([["a"], ["b"]])
    array.view(np.uint32)[0, 0] = 0x7FFFFFFF
    np.save(tmp_path / "t.npy", array)
    misused("fit", str(tmp_path / "t.npy"), "--out", str(tmp_path / "run"), "--quiet")
