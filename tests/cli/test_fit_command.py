"""``csm fit``: what it prints, what it refuses, and that no ending loses a run."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from concrete_score import runs
from concrete_score.files import locked
from concrete_score.randomness import generator
from concrete_score.spaces import Space

SMALL = ("--steps", "30", "--batch-size", "8", "--set", "model.hidden=4", "--set", "valid_every=10", "--quiet")
WHOLE = ("--steps", "1500", "--set", "model.hidden=4", "--batch-size", "8", "--quiet")
KEYS = "run, model, objective, edges, neighborhood, steps, best_step, seconds, valid_log_likelihood, diverged, seed"


@pytest.fixture
def data(tmp_path):
    """A small table in a file."""
    path = tmp_path / "table.npy"
    np.save(path, Space((2, 3, 2)).uniform(100, generator(0, "rows")).numpy())
    return str(path)


def weights(path):
    return dict(runs.open(path).model_file().tensors)


def equal(one, two):
    return set(one) == set(two) and all(torch.equal(one[name], two[name]) for name in one)


def test_json_has_the_promised_keys_and_the_run_verifies(csm, data, tmp_path):
    code, out, err = csm("fit", data, "--out", str(tmp_path / "run"), *SMALL, "--json", "--seed", "3")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert ", ".join(shown) == KEYS
    assert (shown["model"], shown["objective"], shown["edges"]) == ("made", "maximum_likelihood", None)
    assert (shown["steps"], shown["diverged"], shown["seed"]) == (30, False, 3)
    run = runs.open(tmp_path / "run")
    assert run.info["data"]["rows"] == 100
    assert len(run.verify()) == 4
    best = [line["valid"] for line in run.journal.read() if line["step"] == shown["best_step"]]
    assert best == [shown["valid_log_likelihood"]]


def test_score_models_have_no_likelihood_and_names_are_spelled_out(csm, data, tmp_path):
    words = ("--model", "mlp", "--objective", "logistic", "--set", "average=0.9")
    shown = json.loads(csm("fit", data, "--out", str(tmp_path / "run"), *SMALL, *words, "--json").out)
    assert (shown["edges"], shown["neighborhood"], shown["valid_log_likelihood"]) == ("paired", "hamming", None)


def test_the_same_seed_gives_the_same_model_and_another_does_not(csm, data, tmp_path):
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        assert csm("fit", data, "--out", str(tmp_path / name), *SMALL, "--seed", seed).code == 0
    assert equal(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert not equal(weights(tmp_path / "a"), weights(tmp_path / "c"))


def test_text_tables_and_held_out_files_are_read(csm, tmp_path):
    rows = Space((2, 3)).uniform(50, generator(0, "rows")).numpy()
    np.savetxt(tmp_path / "a.data", rows, fmt="%d", delimiter=",")
    np.savez(tmp_path / "v.npz", x=rows[:10], other=rows)
    code, out, _ = csm(
        "fit", str(tmp_path / "a.data"), "--valid", str(tmp_path / "v.npz"), "--out", str(tmp_path / "r"), *SMALL
    )
    assert code == 0
    assert "valid_log_likelihood" in out
    assert runs.open(tmp_path / "r").info["data"]["valid"]["rows"] == 10


def test_named_sets_bring_their_own_held_out_rows(csm, data_dir, tmp_path):
    assert csm("fit", "nltcs", "--out", str(tmp_path / "run"), *SMALL).code == 0
    info = runs.open(tmp_path / "run").info["data"]
    assert (info["rows"], info["valid"]["rows"]) == (16181, 2157)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--set", "batchsize=3"), "did you mean 'batch_size'"),
        (("--set", "lr"), "KEY=VALUE"),
        (("--set", "model.hiden=3"), "did you mean 'hidden'"),
        (("--model", "mad"), "--model: expected one of the registered models, got 'mad'; did you mean 'made'"),
        (("--valid", "missing.csv"), "--valid: expected an existing file"),
        (("--set", "model.blocks=100000000"), "blocks: expected a whole number from 0 to 1000"),
        (("--objective", "csmm"), "did you mean 'csm'"),
        (("--edges", "paired"), "no edges"),
        (("--lr", "-1"), "lr"),
        (("--steps", "0"), "steps"),
        (("--valid-fraction", "1"), "--valid-fraction"),
        (("--model", "mlp", "--objective", "maximum_likelihood"), "normalized"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(misused, data, tmp_path, words, told):
    assert told in misused("fit", data, "--out", str(tmp_path / "run"), "--quiet", *words)
    assert not (tmp_path / "run").exists()


def test_bad_tables_are_refused_by_file_row_and_column(misused, tmp_path):
    (tmp_path / "ragged.data").write_text("0,1\n1\n")
    (tmp_path / "empty.data").write_text("")
    (tmp_path / "table.csv").write_text("a,b\n")
    (tmp_path / "broken.data.gz").write_bytes(b"\x1f\x8bnot gzip")
    np.save(tmp_path / "constant.npy", np.array([[0.5, 1], [0.5, 1]]))
    np.save(tmp_path / "flat.npy", np.ones(3, int))
    np.save(tmp_path / "objects.npy", np.array([[object()]]), allow_pickle=True)
    for path in sorted(tmp_path.iterdir()):
        assert path.name in misused("fit", str(path), "--out", str(tmp_path / "run"), "--quiet")
    (tmp_path / "blank.csv").write_text("a,b\n1,2\n,3\n4,\n")
    words = ("--missing", "refuse", "--quiet")
    told = misused("fit", str(tmp_path / "blank.csv"), "--out", str(tmp_path / "run"), *words)
    for word in ("'a': 1", "'b': 1", "--missing drop"):
        assert word in told
    assert "'nothing'" in misused("fit", "nothing", "--out", str(tmp_path / "run"), "--quiet")


def test_the_usual_words_mean_blank_and_blanks_are_told(csm, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,x\n2,y\n2,?\nnan,x\n2,nan\n" * 5)
    told = csm("fit", str(path), "--out", str(tmp_path / "run"), "--steps", "1", "--no-report").err
    assert "15 cells (30.0%) are blank: they count as not observed" in told
    words = ("--missing", "drop", "--steps", "1", "--no-report")
    told = csm("fit", str(path), "--out", str(tmp_path / "other"), *words).err
    assert "15 rows with blank cells dropped" in told
    told = csm("fit", str(path), "--out", str(tmp_path / "valued"), "--na", "none", *words[2:]).err
    assert "blank" not in told


def test_what_was_made_of_each_column_is_shown(csm, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("id,age,k\n" + "".join(f"{i},{20 + i % 50}.5,same\n" for i in range(100)))
    told = csm("fit", str(path), "--out", str(tmp_path / "run"), "--steps", "1", "--no-report").err
    for word in ("identifier", "number", "constant", "one value in every row: kept aside", "50 different numbers"):
        assert word in told
    rows = csm("sample", str(tmp_path / "run"), "-n", "3", "--given", "age<25", "--quiet").out.splitlines()
    assert [row.split(",")[0] for row in rows] == ["id", "100", "101", "102"]
    assert all(float(row.split(",")[1]) < 25 and row.endswith(",same") for row in rows[1:])


def test_a_run_that_exists_is_kept_unless_forced(csm, misused, data, tmp_path):
    out = str(tmp_path / "run")
    csm("fit", data, "--out", out, *SMALL)
    before = (tmp_path / "run" / "run.json").read_bytes()
    assert "--resume" in misused("fit", data, "--out", out, *SMALL)
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    assert csm("fit", data, "--out", out, *SMALL, "--force").code == 0
    assert (tmp_path / "run" / "run.json").read_bytes() != before


def test_resume_refuses_other_data_and_another_configuration(csm, misused, data, tmp_path):
    out = str(tmp_path / "run")
    csm("fit", data, "--out", out, *SMALL)
    kept = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    np.save(tmp_path / "other.npy", np.load(data)[:-1])
    assert "SHA-256" in misused("fit", str(tmp_path / "other.npy"), "--out", out, "--resume", "--quiet")
    for words in (("--steps", "31"), ("--seed", "1"), ("--set", "model.hidden=5"), ("--objective", "logistic")):
        assert "--resume" in misused("fit", data, "--out", out, "--resume", "--quiet", *words)
    assert kept == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert csm("fit", data, "--out", out, "--resume", "--quiet").code == 0  # finished: told again


def test_a_job_started_anew_goes_on_with_its_own_run_and_no_other(csm, misused, data, tmp_path, monkeypatch):
    out = str(tmp_path / "run")
    words = ("fit", data, "--out", out, *SMALL)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
    assert csm(*words).code == 0
    before = runs.open(out).id
    assert "one that exists" in misused(*words)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert csm(*words).code == 0
    assert csm(*words, "--force").code == 0
    assert runs.open(out).id == before
    for name in ("another", "none"):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", name)
        assert "one that exists" in misused(*words)


def test_damage_is_refused_on_resume(misused, csm, data, tmp_path):
    csm("fit", data, "--out", str(tmp_path / "run"), *SMALL)
    (tmp_path / "run" / "metrics.jsonl").write_text("{}\n")
    assert "metrics.jsonl" in misused("fit", data, "--out", str(tmp_path / "run"), "--resume", "--quiet")


def test_an_unwritable_place_is_one_line(csm, data, tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, out, err = csm("fit", data, "--out", str(tmp_path / "file" / "run"), *SMALL)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_divergence_exits_0_with_a_usable_model_and_1_without(csm, tmp_path):
    np.save(tmp_path / "gaps.npy", np.array([[0, 0], [2, 1], [4, 0], [7, 1]] * 5))
    words = ("--model", "table", "--objective", "csm", "--edges", "all", "--lr", "0.5", "--quiet", "--json")
    more = ("--batch-size", "16", "--set", "schedule=constant", "--set", "valid_every=20", "--set", "retries=0")
    code, out, err = csm(
        "fit", str(tmp_path / "gaps.npy"), "--out", str(tmp_path / "a"), *words, *more, "--steps", "900"
    )
    if code == 0:
        assert json.loads(out)["diverged"] is True
        assert err.startswith("warning: training diverged")
        assert runs.open(tmp_path / "a").model().logits.isfinite().all()
    else:
        assert code == 1
        assert err.startswith("error: training diverged")
    assert err.count("\n") == 1


def start(data, out, *words, steps=1500):
    """``csm fit --resume`` in a process of its own, saving all the time."""
    command = [sys.executable, "-m", "concrete_score", "fit", data, "--out", str(out), "--resume", "--quiet"]
    settings = (
        "--steps",
        str(steps),
        "--set",
        "model.hidden=4",
        "--batch-size",
        "8",
        "--set",
        "checkpoint_seconds=0.2",
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, *settings, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def wait_for_checkpoint(process, out, after=-1):
    """The newest step on disk once it is beyond ``after``."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        names = sorted(path.name for path in (out / "checkpoint").glob("step-*"))
        if names and int(names[-1][5:13]) > after:
            return int(names[-1][5:13])
        time.sleep(0.01)
    return after


def killed_and_resumed(data, tmp_path, kills):
    chance, out, step = random.Random(0), tmp_path / "killed", -1
    for _ in range(kills):
        process = start(data, out)
        step = wait_for_checkpoint(process, out, step)
        time.sleep(chance.random() * 0.3)
        process.kill()
        process.communicate()
        if runs.exists(out):
            runs.verify(out)
    process = start(data, out)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    return out


@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_saved_and_the_end_is_the_same(csm, data, tmp_path):
    assert csm("fit", data, "--out", str(tmp_path / "whole"), *WHOLE).code == 0
    out = killed_and_resumed(data, tmp_path, kills=2)
    runs.verify(out)
    assert equal(weights(tmp_path / "whole"), weights(out))
    newest = [runs.open(path).checkpoint() for path in (tmp_path / "whole", out)]
    assert equal(*(snapshot.tensors for snapshot in newest))


@pytest.mark.slow
def test_ten_kills(csm, data, tmp_path):
    assert csm("fit", data, "--out", str(tmp_path / "whole"), *WHOLE).code == 0
    assert equal(weights(tmp_path / "whole"), weights(killed_and_resumed(data, tmp_path, kills=10)))


def test_ctrl_c_saves_and_says_how_to_go_on(data, tmp_path):
    process = start(data, tmp_path / "run", steps=10**6)
    wait_for_checkpoint(process, tmp_path / "run")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert f"continue with: csm fit {data} --out {tmp_path / 'run'} --resume" in err
    assert err.count("\n") == 1
    runs.verify(tmp_path / "run")


def launch(*words):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "-m", "concrete_score", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


@pytest.mark.slow
def test_two_processes_speak_with_one_voice_and_a_killed_one_leaves_a_resumable_run(csm, data, tmp_path):
    process = launch("fit", data, "--out", str(tmp_path / "both"), *SMALL, "--json")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(out)["steps"] == 30
    csm("fit", data, "--out", str(tmp_path / "one"), *SMALL)
    one, both = weights(tmp_path / "one"), weights(tmp_path / "both")
    assert all(torch.allclose(one[name], both[name], atol=1e-5) for name in one)

    broken = tmp_path / "broken"
    process = launch(
        "fit", data, "--out", str(broken), "--steps", "1000000", "--set", "checkpoint_seconds=0.1", "--quiet"
    )
    wait_for_checkpoint(process, broken)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "lost another process of this job" in err
    assert "--resume" in err
    runs.verify(broken)
    assert runs.open(broken).checkpoint().step > 0


def test_a_refused_table_is_one_line_even_where_nobody_asked_for_quiet(misused, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    for name in ("empty.csv", "nowhere.csv"):
        assert name in misused("fit", str(tmp_path / name), "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_damaged_newest_checkpoint_leaves_the_older_one(csm, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (60, 3)))
    words = (
        "fit",
        str(tmp_path / "x.npy"),
        "--steps",
        "60",
        "--set",
        "checkpoint_seconds=1e-9",
        "--set",
        "valid_every=20",
    )
    assert csm(*words, "--out", str(tmp_path / "whole"), "--quiet").code == 0
    assert csm(*words, "--out", str(tmp_path / "cut"), "--quiet").code == 0
    run = runs.open(tmp_path / "cut")
    older, newest = run.checkpoints()
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged .*; the older {older.name} is used"):
        assert csm("fit", words[1], "--out", str(tmp_path / "cut"), "--resume", "--quiet").code == 0
    one, two = (runs.open(tmp_path / name).model_file().tensors for name in ("whole", "cut"))
    assert all((one[name] == two[name]).all() for name in one)
    assert runs.verify(tmp_path / "cut")


def test_contradictions_and_unusable_settings_are_refused_even_where_another_option_wins(misused, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (60, 3)))
    words = ("fit", str(tmp_path / "x.npy"), "--out", str(tmp_path / "run"))
    assert "steps: expected a whole number, got 'abc'" in misused(*words, "--set", "steps=abc", "--steps", "5")
    assert "one value for steps, got 5 and 6" in misused(*words, "--set", "steps=6", "--steps", "5")
    assert "one value for seed, got 1 and 2" in misused(*words, "--set", "seed=2", "--seed", "1")


def test_two_writers_of_one_run_are_one_too_many(misused, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (60, 3)))
    with locked(tmp_path / "run"):
        error = misused("fit", str(tmp_path / "x.npy"), "--out", str(tmp_path / "run"), "--steps", "5", "--quiet")
    assert "another process is writing" in error
