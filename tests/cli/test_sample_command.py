"""``csm sample``: rows of the model's own law, under conditions, in every form; mistakes in one line."""

import json
import os
import subprocess
import sys
from collections import Counter
from time import monotonic, sleep

import numpy as np
import polars as pl
import pytest

from concrete_score.codecs import TableCodec
from concrete_score.data import read_file
from tests.cli import clinic


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return clinic.clinic_run(tmp_path_factory.mktemp("sample") / "run")


def rows_of(text):
    return [tuple(line.split(",")) for line in text.splitlines()]


def test_csv_on_standard_output_by_the_models_law(csm, run):
    code, out, err = csm("sample", run, "-n", "4000")
    header, *rows = rows_of(out)
    assert code == 0
    assert header == clinic.COLUMNS
    assert len(rows) == 4000
    counts = Counter(rows)
    for state, p in zip(clinic.STATES, clinic.PMF, strict=True):
        count = counts.pop(tuple(map(str, state)), 0)
        assert count == 0 if p == 0 else abs(clinic.z(count, 4000, p)) < 4
    assert not counts
    assert "4,000 rows drawn by" in err
    assert "warning" not in err


def test_conditions_hold_and_the_rest_follows_the_conditional_law(csm, run):
    _, out, _ = csm("sample", run, "-n", "3000", "--given", "smoke=yes", "--given", "ill=True", "--quiet")
    rows = rows_of(out)[1:]
    assert {(row[0], row[2]) for row in rows} == {("yes", "True")}
    p = clinic.probability(smoke="yes", ill="True", age=41) / clinic.probability(smoke="yes", ill="True")
    assert abs(clinic.z(sum(row[1] == "41" for row in rows), 3000, p)) < 4


@pytest.mark.parametrize(
    ("conditions", "meets"),
    [
        (["age>=41"], lambda smoke, age, ill: age >= 41),
        (["age>30", "age<55", "smoke!=no"], lambda smoke, age, ill: age == 41 and smoke == "yes"),
        (["age in 30,55", "ill<True"], lambda smoke, age, ill: age in (30, 55) and ill == "False"),
    ],
)
def test_comparisons_hold_and_their_probability_is_said(csm, run, conditions, meets):
    words = [word for text in conditions for word in ("--given", text)]
    code, out, err = csm("sample", run, "-n", "3000", *words)
    assert code == 0
    counts = Counter(rows_of(out)[1:])
    allowed = {tuple(map(str, state)): p for state, p in zip(clinic.STATES, clinic.PMF, strict=True) if meets(*state)}
    total = sum(allowed.values())
    assert f"the condition has probability {total:.3g}\n" in err
    for state, p in allowed.items():
        count = counts.pop(state, 0)
        assert count == 3000 * p / total if p in (0, total) else abs(clinic.z(count, 3000, p / total)) < 4
    assert not counts


def test_the_same_seed_gives_the_same_rows_and_another_does_not(csm, run):
    one, two, other = (csm("sample", run, "-n", "50", "--seed", seed).out for seed in ("0", "0", "1"))
    assert one == two
    assert one != other


def test_blanks_of_a_table_without_any_are_none_and_it_is_said(csm, run):
    code, out, err = csm("sample", run, "-n", "50", "--blanks")
    assert code == 0
    assert "nothing was blank in training" in err
    assert out == csm("sample", run, "-n", "50")[1]


def test_rows_are_written_in_parts_that_make_the_whole(csm, run, tmp_path, monkeypatch):
    draw = ("sample", run, "-n", "70", "--quiet")
    sizes, decode = [], TableCodec.decode
    monkeypatch.setattr("concrete_score.blocks.SAMPLED", 30)
    monkeypatch.setattr(TableCodec, "decode", lambda codec, x, *rest: sizes.append(len(x)) or decode(codec, x, *rest))
    wanted = rows_of(csm(*draw).out)[1:]
    assert (len(wanted), sizes) == (70, [30, 30, 10])
    for ending in ("csv", "tsv.gz", "parquet", "npy"):
        path = tmp_path / f"drawn.{ending}"
        code, _, err = csm(*draw[:-1], "--out", str(path))
        assert code == 0
        assert f"70 rows written to {path}" in err
        assert [tuple(map(str, row)) for row in read_file(path).rows()] == wanted
    assert [tuple(map(str, row)) for row in json.loads(csm(*draw, "--json").out)["rows"]] == wanted


def test_json_has_columns_and_rows_of_the_columns_own_kinds(csm, run):
    code, out, err = csm("sample", run, "-n", "3", "--json", "--quiet")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert list(shown) == ["columns", "rows"]
    assert shown["columns"] == list(clinic.COLUMNS)
    assert all(tuple(row) in clinic.STATES for row in shown["rows"])
    assert len(shown["rows"]) == 3


@pytest.mark.parametrize("ending", ["csv", "tsv", "data", "parquet", "npy", "npz", "csv.gz"])
def test_the_ending_decides_the_form_and_all_say_the_same(csm, run, tmp_path, ending):
    path = tmp_path / f"drawn.{ending}"
    code, out, err = csm("sample", run, "-n", "20", "--out", str(path))
    assert (code, out) == (0, "")
    assert str(path) in err
    wanted = rows_of(csm("sample", run, "-n", "20").out)[1:]
    assert [tuple(map(str, row)) for row in read_file(path).rows()] == wanted


def test_a_folder_that_lacks_is_made_and_nothing_is_left_beside_the_file(csm, run, tmp_path):
    path = tmp_path / "deep" / "er" / "drawn.parquet"
    assert csm("sample", run, "-n", "5", "--out", str(path)).code == 0
    assert [each.name for each in path.parent.iterdir()] == ["drawn.parquet"]
    assert pl.read_parquet(path).schema == {"smoke": pl.String, "age": pl.Int64, "ill": pl.String}


def test_runs_of_integer_tables_still_sample(csm, tmp_path):
    path = clinic.old_run(tmp_path / "run")
    _, out, _ = csm("sample", path, "-n", "40", "--quiet", "--given", "x0=1")
    header, *rows = rows_of(out)
    assert header == ("x0", "x1", "x2")
    assert {row[0] for row in rows} == {"1"}
    csm("sample", path, "-n", "40", "--out", str(tmp_path / "x.npy"))
    assert np.load(tmp_path / "x.npy").dtype == np.int64


def test_an_existing_output_is_kept_unless_forced(csm, misused, run, tmp_path):
    path = tmp_path / "drawn.csv"
    path.write_text("mine")
    assert "--force" in misused("sample", run, "-n", "5", "--out", str(path))
    assert path.read_text() == "mine"
    assert csm("sample", run, "-n", "5", "--out", str(path), "--force").code == 0
    assert path.read_text().startswith("smoke,")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-n", "0"), "-n"),
        (("-n", "-3"), "-n"),
        (("-n", "many"), "-n"),
        ((), "-n"),
        (("-n", "5", "--given", "smok=yes"), "did you mean 'smoke'"),
        (("-n", "5", "--given", "smoke"), "COLUMN=VALUE"),
        (("-n", "5", "--given", "smoke=ye"), "did you mean 'yes'"),
        (("-n", "5", "--given", "smoke="), "--given"),
        (("-n", "5", "--given", "smoke=yes", "--given", "smoke=no"), "one value for 'smoke'"),
        (("-n", "5", "--given", "smoke=yes", "--given", "age=30"), "probability 0 for smoke=yes, age=30"),
        (("-n", "5", "--given", "age>55"), "--given: expected a condition that some value of 'age' meets, got age>55"),
        (("-n", "5", "--given", "age>=41", "--given", "age<=30"), "none for age>=41 and age<=30"),
        (("-n", "5", "--given", "age>young"), "a number to compare 'age' with"),
        (("-n", "5", "--sampler", "gibs"), "did you mean 'gibbs'"),
        (("-n", "5", "--out", "drawn.xlsx"), ".csv"),
        (("-n", "5", "--device", "warp"), "--device"),
    ],
)
def test_mistakes_are_one_line(misused, run, words, told):
    assert told in misused("sample", run, "--quiet", *words)


def test_no_run_a_damaged_run_and_one_without_a_model(misused, tmp_path):
    assert "csm fit" in misused("sample", str(tmp_path / "nowhere"), "-n", "5")
    path = tmp_path / "run"
    clinic.clinic_run(path)
    weights = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    assert "model.safetensors" in misused("sample", str(path), "-n", "5")
    (path / "model.safetensors").unlink()
    assert "--resume" in misused("sample", str(path), "-n", "5")
    (path / "model.safetensors").mkdir()
    assert "model.safetensors" in misused("sample", str(path), "-n", "5")
    (path / "run.json").write_text((path / "run.json").read_text().replace("smoke", "choke"))
    assert "damaged" in misused("sample", str(path), "-n", "5")


def test_a_strangers_run_is_refused_in_one_line_whatever_it_says(misused, tmp_path):
    base = clinic.clinic_run(tmp_path / "run")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    recipe = info["config"]["recipe"]
    for change in (
        {"config": {}},
        {"config": {**info["config"], "recipe": {**recipe, "model": "os:system"}}},
        {"config": {**info["config"], "recipe": {**recipe, "model_options": {"normalized": [[]], "dtype": 3}}}},
        {"config": {**info["config"], "recipe": {**recipe, "model": "made", "model_options": {"hidden": 10**15}}}},
        {"config": {**info["config"], "recipe": {**recipe, "model": "made", "model_options": {"blocks": 10**8}}}},
        {"config": {**info["config"], "recipe": []}},
        {"config": 3},
        {"codec": {"kind": "table"}},
        {"codec": {"kind": "integers", "sizes": [2, -1]}},
        {"codec": {"kind": "integers", "sizes": [2, 2]}},
        {"codec": None},
        {"codec": {"kind": ["table"]}},
    ):
        assert "run.json" in misused("sample", clinic.forged(base, **{**info, **change}), "-n", "5", "--quiet")


def test_a_strangers_names_reach_the_screen_escaped_and_a_pipe_unchanged(csm, misused, tmp_path, monkeypatch):
    base = clinic.clinic_run(tmp_path / "run")
    codec = clinic.codec().to_json()
    codec["columns"][0] |= {"name": "\x1b[31mred", "values": ["\x1b]0;title\x07", "yes"]}
    clinic.forged(base, codec=codec)
    assert csm("sample", base, "-n", "5").out.startswith("\x1b[31mred,age,ill\n")
    err = misused("sample", base, "-n", "5", "--given", "\x1b[31mred=\x07")
    assert err.rstrip("\n").isprintable()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    shown = csm("sample", base, "-n", "50", "--quiet").out
    assert all(line.isprintable() for line in shown.split("\n"))
    assert shown.startswith("\\x1b[31mred,age,ill\n")


def test_a_dash_is_no_file(misused, run):
    assert "leave it out for standard output" in misused("sample", run, "-n", "2", "--out", "-")


def test_a_folder_that_is_not_theirs_is_refused_before_the_work(misused, run, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: not mode & os.W_OK)
    err = misused("sample", run, "-n", "2", "--out", str(tmp_path / "drawn.csv"))
    assert f"{tmp_path}: expected a folder to write into" in err


def test_a_program_told_to_end_leaves_no_draft(run, tmp_path):
    out = tmp_path / "drawn.csv"
    words = [sys.executable, "-m", "concrete_score", "sample", run, "-n", "900000000", "--out", str(out), "--quiet"]
    with subprocess.Popen(words) as drawing:
        deadline = monotonic() + 120
        while not list(tmp_path.iterdir()) and monotonic() < deadline:
            sleep(0.05)
        (draft,) = tmp_path.iterdir()
        assert draft.match(f".drawn.{drawing.pid}.*.draft.csv")
        drawing.terminate()
        assert drawing.wait(60) == 143
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_never_learned_is_called_so(csm, run, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(csm("sample", run, "-n", "200", "--quiet").out)
    words = ("--model", "mlp", "--objective", "logistic", "--lr", "1e6", "--steps", "40", "--set", "valid_every=10")
    assert csm("fit", str(path), "--out", str(tmp_path / "run"), *words, "--quiet", "--no-report").code == 1
    code, out, err = csm("sample", str(tmp_path / "run"), "-n", "3")
    assert (code, len(rows_of(out))) == (0, 4)
    assert "as it was before training" in err
