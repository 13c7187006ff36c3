"""Commands in a row, with real pipes: fit, sample, fit again, evaluate elsewhere; readers that stop early."""

import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.cli import clinic

CSM = (sys.executable, "-m", "concrete_score")
SMALL = ("--steps", "20", "--batch-size", "32", "--set", "model.hidden=4", "--set", "valid_every=10", "--quiet")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return clinic.clinic_run(tmp_path_factory.mktemp("pipes") / "run")


def start(*words, **streams):
    """``csm`` in a process of its own."""
    # Under another folder a relative path to the library would not lead anywhere.
    paths = os.pathsep.join(map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))))
    environment = {**ENVIRONMENT, "PYTHONPATH": paths}
    return subprocess.Popen([*CSM, *words], stderr=subprocess.PIPE, text=True, env=environment, **streams)


def piped(first, second):
    """``csm first | csm second``: what came out of the end."""
    with start(*first, stdout=subprocess.PIPE) as source:
        with start(*second, stdin=source.stdout, stdout=subprocess.PIPE) as sink:
            source.stdout.close()
            out, err = sink.communicate(timeout=180)
        told = source.stderr.read()
    assert (source.returncode, sink.returncode, told, err) == (0, 0, "", "")
    return out


@pytest.mark.slow
def test_what_is_sampled_can_be_fitted_and_sampled_again(run, csm, tmp_path):
    again = str(tmp_path / "again")
    out = piped(("sample", run, "-n", "300", "--quiet"), ("fit", "-", "--out", again, *SMALL, "--json"))
    assert json.loads(out)["steps"] == 20
    columns = json.loads(csm("show", again, "--json").out)["columns"]
    assert [column["values"] for column in columns] == [["no", "yes"], ["30", "41", "55"], ["False", "True"]]
    shown = json.loads(csm("sample", again, "-n", "10", "--given", "age=41", "--json").out)
    assert all(row[1] == 41 for row in shown["rows"])


def test_samples_are_evaluated_near_their_own_entropy(run, csm, monkeypatch):
    text = csm("sample", run, "-n", "2000").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    shown = json.loads(csm("evaluate", run, "-", "--json").out)
    entropy = sum(-p * np.log(p) for p in clinic.PMF if p)
    assert abs(-shown["log_likelihood"] - entropy) < 4 * shown["stderr"]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_reader_that_has_seen_enough_ends_it_without_a_word(run, words):
    with start("sample", run, "-n", "200000", "--quiet", *words, stdout=subprocess.PIPE) as source:
        assert source.stdout.readline()
        source.stdout.close()
        assert source.stderr.read() == ""
    assert source.returncode == 141


def test_a_run_copied_elsewhere_gives_the_same_number_and_the_same_rows(run, csm, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "new.csv").write_text("smoke,age,ill\nno,30,True\nyes,55,False\n")
    words = (str(tmp_path / "new.csv"), "--json", "--quiet")
    with start("evaluate", "copy", *words, stdout=subprocess.PIPE, cwd=tmp_path) as there:
        out, err = there.communicate(timeout=120)
    assert (there.returncode, err) == (0, "")
    assert out == csm("evaluate", run, *words).out
    assert csm("sample", run, "-n", "9").out == csm("sample", str(tmp_path / "copy"), "-n", "9").out


def test_a_full_disk_is_one_line_and_exit_1(run):
    if not os.path.exists("/dev/full"):
        pytest.skip("no device that is always full")
    with open("/dev/full", "w") as full, start("sample", run, "-n", "5", "--quiet", stdout=full) as done:
        _, err = done.communicate(timeout=120)
    assert done.returncode == 1
    assert err.count("\n") == 1
