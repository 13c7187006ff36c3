"""``csm evaluate``: the mean log-likelihood, what it means, and which rows were left out."""

import io
import json
import sys
from functools import partial

import numpy as np
import pytest

from concrete_score.cli.evaluate import MEANINGS, render
from concrete_score.likelihood import Budget, LogLikelihood
from tests.cli import clinic

KEYS = "rows, skipped, log_likelihood, lower, upper, raise, stderr, bound_stderr, bits_per_site, method"
ROWS = [("no", 30, "False"), ("yes", 55, "True"), ("no", 41, "True"), ("no", 30, "False")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return clinic.clinic_run(tmp_path_factory.mktemp("evaluate") / "run")


@pytest.fixture
def table(tmp_path):
    def write(rows, header=clinic.COLUMNS, name="new.csv"):
        path = tmp_path / name
        path.write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")
        return str(path)

    return write


def truth(rows):
    return np.array([np.log(clinic.PMF[clinic.STATES.index(row)]) for row in rows])


def test_json_has_the_promised_keys_and_the_exact_mean(csm, run, table):
    code, out, err = csm("evaluate", run, table(ROWS), "--json", "--quiet")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert ", ".join(shown) == KEYS
    values = truth(ROWS)
    assert shown["log_likelihood"] == pytest.approx(values.mean(), abs=1e-6)
    assert shown["lower"] == shown["upper"] == shown["log_likelihood"]
    assert shown["stderr"] == pytest.approx(values.std(ddof=1) / 2, abs=1e-6)
    assert shown["bits_per_site"] == pytest.approx(-values.mean() / 3 / np.log(2), abs=1e-6)
    assert (shown["rows"], shown["skipped"], shown["raise"], shown["method"]) == (4, 0, None, "exact")


def test_for_people_there_is_a_sentence_on_what_the_method_means(csm, run, table):
    out = csm("evaluate", run, table(ROWS)).out
    assert f"{truth(ROWS).mean():.4f}" in out
    assert MEANINGS["exact"] in out
    assert "raise" not in out


@pytest.mark.parametrize("method", ["sandwich", "ais", "variational", "none"])
def test_bounds_are_named_for_what_they_are_and_raise_is_none(method):
    bounds = {"lower": -3.0, "upper": -2.5} if method == "sandwich" else {"upper": -2.5} if method == "ais" else {}
    found = LogLikelihood(rows=5, sites=3, method=method, **bounds, raise_=-2.75)
    text = render("x.csv", found, 0)
    assert MEANINGS[method] in text
    assert "raise is no bound" in text
    assert "log_likelihood " not in text
    for name, value in bounds.items():
        assert f"{name} " in text
        assert f"{value:.4f}" in text


def test_one_log_likelihood_a_row_by_its_place_in_the_file(csm, run, table, tmp_path):
    rows = [ROWS[0], ("no", 99, "True"), ROWS[1], ("", 30, "True"), ROWS[2]]
    words = ("--unknown", "skip", "--missing", "drop", "--out", str(tmp_path / "rows.csv"))
    code, out, err = csm("evaluate", run, table(rows), *words, "--json")
    assert code == 0
    assert json.loads(out)["skipped"] == 2
    assert "1 rows with values never seen" in err
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0] == "row,log_likelihood"
    assert [int(line.split(",")[0]) for line in lines[1:]] == [0, 2, 4]
    assert [float(line.split(",")[1]) for line in lines[1:]] == pytest.approx(list(truth(ROWS[:3])), abs=1e-6)


def test_an_impossible_row_is_null_in_json_and_said(csm, run, table):
    code, out, err = csm("evaluate", run, table([*ROWS, ("yes", 30, "True")]), "--json", "--quiet")
    assert code == 0
    assert json.loads(out)["log_likelihood"] is None
    assert err.startswith("warning: the model gives some row probability zero")


def test_standard_input_and_columns_in_another_order_with_more_beside_them(csm, run, monkeypatch, table):
    text = "note,ill,smoke,age\n" + "".join(f"x{k},{i},{s},{a}\n" for k, (s, a, i) in enumerate(ROWS))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert json.loads(csm("evaluate", run, "-", "--json").out) == json.loads(
        csm("evaluate", run, table(ROWS), "--json").out
    )


def test_named_sets_are_judged_on_their_test_rows(csm, data_dir, tmp_path):
    import torch

    from concrete_score.training.recipe import Recipe

    path = clinic.write_run(
        tmp_path / "run",
        {"kind": "integers", "sizes": [2] * 16},
        Recipe(model="table").to_json(),
        {"logits": torch.zeros(2**16)},
    )
    shown = json.loads(csm("evaluate", path, "nltcs", "--data-dir", str(data_dir), "--json", "--quiet").out)
    assert shown["rows"] == 3236
    assert shown["log_likelihood"] == pytest.approx(-16 * np.log(2), abs=1e-4)


def test_mistakes_in_the_table_are_one_line(misused, run, table, tmp_path):
    good = table(ROWS)
    strict = ("--unknown", "refuse", "--missing", "refuse", "--quiet")
    assert "'30'" in misused("evaluate", run, table([(30, "no", "False")], name="a.csv"), *strict)
    assert "none named 'smoke'" in misused("evaluate", run, table(ROWS, ("smok", "age", "ill"), "b.csv"), "--quiet")
    err = misused("evaluate", run, table([*ROWS, ("maybe", 30, "True")], name="c.csv"), *strict)
    assert "'maybe'" in err
    assert "row 4, column 'smoke'" in err
    assert "--unknown skip" in err
    err = misused("evaluate", run, table([*ROWS, ("", 30, ""), ("", 41, "True")], name="d.csv"), *strict)
    assert "3 ('smoke': 2, 'ill': 1)" in err
    assert "--missing drop" in err
    blank = table([("", "", "")] * 3, name="e.csv")
    assert "no blank cells" in misused("evaluate", run, blank, *strict)
    assert "3 with blanks" in misused("evaluate", run, blank, "--missing", "drop", "--quiet")
    strange = table([("maybe", 30, "True")], name="f.csv")
    assert "1 with unknown values" in misused("evaluate", run, strange, "--unknown", "skip", "--quiet")
    assert "header" in misused("evaluate", run, table([], name="g.csv"), "--quiet")
    assert "nowhere" in misused("evaluate", run, "nowhere.csv", "--quiet")
    for words in (("--bound-rows", "1"), ("--missing", "category"), ("--unknown", "keep"), ("--out", "x.doc")):
        assert words[0] in misused("evaluate", run, good, *words, "--quiet") or words[0] == "--out"
    (tmp_path / "rows.csv").write_text("mine")
    assert "--force" in misused("evaluate", run, good, "--out", str(tmp_path / "rows.csv"), "--quiet")
    assert (tmp_path / "rows.csv").read_text() == "mine"


def test_rows_of_a_model_that_is_only_bounded_are_refused_before_the_work(misused, tmp_path):
    path = clinic.energy_run(tmp_path / "run")
    np.save(tmp_path / "x.npy", np.zeros((3, 24), int))
    err = misused("evaluate", path, str(tmp_path / "x.npy"), "--out", str(tmp_path / "rows.csv"), "--quiet")
    assert "--out" in err
    assert "exact log-likelihood of every row" in err
    assert not (tmp_path / "rows.csv").exists()


def test_an_energy_model_is_bounded_on_some_rows_the_same_each_time(csm, tmp_path, monkeypatch):
    little = partial(Budget, steps=10, chains=8, raise_chains=2, pilot_steps=4, pilot_chains=8)
    monkeypatch.setattr("concrete_score.likelihood.Budget", little)
    path = clinic.energy_run(tmp_path / "run")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (40, 24)))
    words = ("evaluate", path, str(tmp_path / "x.npy"), "--bound-rows", "30", "--json")
    code, out, err = csm(*words)
    shown = json.loads(out)
    assert code == 0
    assert shown["method"] == "ais"
    assert (shown["rows"], shown["log_likelihood"], shown["lower"]) == (30, None, None)
    # A small untrained network is close to uniform.
    assert abs(shown["upper"] + 24 * np.log(2)) < 3
    assert "evaluating 40 rows" in err
    assert csm(*words).out == out


UNSEEN = [("maybe", 30, "True")]
SKIPPING = ("--unknown", "skip", "--quiet")


def test_rows_that_were_skipped_are_counted_where_there_are_only_bounds(csm, tmp_path, monkeypatch):
    little = partial(Budget, steps=10, chains=8, raise_chains=2, pilot_steps=4, pilot_chains=8)
    monkeypatch.setattr("concrete_score.likelihood.Budget", little)
    path, names = clinic.energy_run(tmp_path / "run"), [f"x{d}" for d in range(24)]
    rows = [[k % 2] * 24 for k in range(10)] + [[7] * 24] * 3
    for name in ("a.csv", "b.csv", "bad.csv"):
        lines = [names, *(rows[10:] if name == "bad.csv" else rows)]
        (tmp_path / name).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    a, b, bad = (str(tmp_path / name) for name in ("a.csv", "b.csv", "bad.csv"))
    words = ("evaluate", path, "--unknown", "skip", "--bound-rows", "4", "--json")
    code, out, err = csm(*words, a, b)
    assert code == 0, err
    assert (json.loads(out)["rows"], json.loads(out)["skipped"]) == (4, 6)
    assert "6 rows with values never seen in training skipped" in err
    assert json.loads(csm(*words, a).out)["skipped"] == 3
    code, _, err = csm("evaluate", path, bad, bad, *SKIPPING)
    assert (code, "expected rows to use, got none: 6 with unknown values, 0 with blanks" in err) == (2, True)


def test_parts_of_which_all_rows_are_skipped_are_refused_as_one_file_is(misused, run, table, tmp_path):
    a, b = table(UNSEEN * 2, name="a.csv"), table(UNSEEN, name="b.csv")
    for out in ((), ("--out", str(tmp_path / "rows.csv"))):
        err = misused("evaluate", run, a, b, *SKIPPING, *out)
        assert "a.csv and 1 more: expected rows to use, got none: 3 with unknown values, 0 with blanks" in err
    assert not (tmp_path / "rows.csv").exists()


def test_a_block_without_rows_has_no_lines(csm, run, table, tmp_path, monkeypatch):
    monkeypatch.setattr("concrete_score.blocks.Scoring.size", 2)
    path, out = table([ROWS[0], *UNSEEN * 4, ROWS[1], *UNSEEN * 4]), tmp_path / "rows.csv"
    code, _, err = csm("evaluate", run, path, *SKIPPING, "--out", str(out))
    assert code == 0, err
    assert [line.split(",")[0] for line in out.read_text().splitlines()] == ["row", "0", "5"]


def test_a_value_never_seen_in_a_later_file_is_not_blamed_on_the_first(misused, run, table):
    a, b = table(ROWS, name="a.csv"), table([ROWS[0], *UNSEEN], name="b.csv")
    err = misused("evaluate", run, a, b, "--unknown", "refuse", "--quiet")
    assert "a.csv and 1 more files: row 5, column 'smoke'" in err


def test_several_tables_may_be_asked_about_beside_a_data_folder(csm, run, table, tmp_path):
    path = table(ROWS)
    words = ("--data-dir", str(tmp_path), "--json", "--quiet")
    assert json.loads(csm("evaluate", run, path, path, *words).out)["rows"] == 8


def test_a_file_that_is_read_in_parts_is_not_written_over(misused, run, table):
    a, b = table(ROWS, name="a.csv"), table(ROWS, name="b.csv")
    assert "got one of them" in misused("evaluate", run, a, b, "--out", a, "--force", "--quiet")
