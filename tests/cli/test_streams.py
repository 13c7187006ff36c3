"""`csm fit` of several files, a folder and tables too large for memory, from the first row to the report."""

import json
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from tests.test_caches import table


@pytest.fixture
def folder(tmp_path):
    whole = table(600).drop("w")
    (tmp_path / "sales").mkdir()
    for k in range(3):
        whole.slice(200 * k, 200).write_parquet(tmp_path / "sales" / f"{k}.parquet")
    whole.write_csv(tmp_path / "big.csv")
    return tmp_path


def model_of(run):
    return (run / "model.safetensors").read_bytes()[-2000:]


def test_several_files_are_one_table_streamed_or_not(csm, folder):
    files = [str(folder / "sales" / f"{k}.parquet") for k in range(3)]
    found = {}
    for name, data, options in (
        ("memory", files, []),
        ("stream", files, ["--stream", "--keep-cache"]),
        ("folder", [str(folder / "sales")], ["--stream"]),
    ):
        run = folder / name
        told = csm("fit", *data, "--out", str(run), "--steps", "40", "--no-report", "--json", *options)
        assert told.code == 0, told.err
        found[name] = json.loads(told.out)["valid_log_likelihood"]
        assert (run.with_name(f"{name}.cache")).exists() == (name == "stream")
    assert found["memory"] == found["stream"] == found["folder"]
    assert "540 rows to learn from, 60 held out" in told.err


def test_a_table_too_large_for_memory_is_streamed_by_itself(csm, folder, monkeypatch):
    monkeypatch.setattr("concrete_score.data.streams.memory_limit", lambda: 20_000)
    told = csm("fit", str(folder / "big.csv"), "--out", str(folder / "run"), "--steps", "20")
    assert told.code == 0, told.err
    assert "so that it stays on the disk" in told.err
    assert not (folder / "run.cache").exists()
    assert csm("show", str(folder / "run")).code == 0


def test_columns_that_differ_are_one_line(csm, folder):
    pl.DataFrame({"color": ["red"], "age": [1.5], "x": [0.1]}).write_parquet(folder / "sales" / "9.parquet")
    told = csm("fit", str(folder / "sales"), "--out", str(folder / "run"), "--stream")
    assert told.code == 2
    assert "9.parquet: column 'age': expected Int64 as in" in told.err
    assert not (folder / "run").exists()


def test_an_interrupted_fit_keeps_its_cache_and_goes_on_to_the_same_weights(csm, folder):
    files = [str(folder / "sales" / f"{k}.parquet") for k in range(3)]
    words = ["--steps", "400", "--no-report", "--stream", "--set", "checkpoint_seconds=0.05"]
    command = [sys.executable, "-m", "concrete_score", "fit", *files, "--out", str(folder / "run"), *words]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(folder.glob("run/checkpoint/step-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert "--stream" in err.splitlines()[-1]
    assert (folder / "run.cache").exists()
    shutil.copytree(folder / "run", folder / "copy")  # whose cache is not beside it
    for name in ("run", "copy"):
        told = csm("fit", *files, "--out", str(folder / name), "--resume", "--stream", "--no-report")
        assert told.code == 0, told.err
        assert not (folder / f"{name}.cache").exists()
    assert model_of(folder / "run") == model_of(folder / "copy")


def test_other_data_cannot_continue_a_run(csm, folder):
    files = [str(folder / "sales" / f"{k}.parquet") for k in range(3)]
    assert csm("fit", *files, "--out", str(folder / "run"), "--steps", "10", "--no-report", "--stream").code == 0
    told = csm("fit", *files[:2], "--out", str(folder / "run"), "--resume", "--stream")
    assert told.code == 2
    assert "expected the data of this run, 600 rows" in told.err


def test_the_estimator_takes_an_iterable_of_batches():
    import concrete_score as cs

    whole = table(600).drop("w")
    how = {"steps": 30, "random_state": 1}
    alone = cs.ConcreteScoreEstimator(**how).fit(whole)
    for batches in ([whole[:300], whole[300:]], (whole.slice(at, 100) for at in range(0, 600, 100))):
        found = cs.ConcreteScoreEstimator(**how).fit(batches)
        assert np.array_equal(found.score_samples(whole[:50]), alone.score_samples(whole[:50]))
        assert found.feature_names_in_.tolist() == whole.columns


def test_a_table_without_rows_is_one_line_for_every_command(csm, folder):
    (folder / "none").mkdir()
    empty = str(folder / "none" / "e.parquet")
    pl.read_parquet(folder / "sales" / "0.parquet").clear().write_parquet(empty)
    run, fit = str(folder / "run"), ("--no-report", "--quiet", "--steps", "10")
    assert csm("fit", str(folder / "sales"), "--out", run, *fit).code == 0
    for words in (
        ("evaluate", run, str(folder / "none")),
        ("impute", run, str(folder / "none")),
        ("fit", str(folder / "none"), "--out", f"{run}2", *fit),
        ("fit", empty, "--out", f"{run}2", "--stream", *fit),
    ):
        told = csm(*words)
        assert (told.code, told.out) == (2, "")
        assert "e.parquet: expected a table with rows, got none" in told.err


def test_a_fit_that_is_refused_after_its_rows_were_encoded_leaves_no_cache(csm, folder):
    told = csm("fit", str(folder / "sales"), "--out", str(folder / "run"), "--stream", "--objective", "denoising")
    assert told.code == 2
    assert "rows are encoded in" in told.err
    assert not list(folder.glob("run*"))


def test_a_run_in_the_working_directory(csm, folder, monkeypatch):
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    told = csm("fit", "../big.csv", "--out", ".", "--stream", "--no-report", "--steps", "10", "--quiet")
    assert told.code == 0, told.err
    assert (folder / "here" / "run.json").exists()
    assert not (folder / "here.cache").exists()
