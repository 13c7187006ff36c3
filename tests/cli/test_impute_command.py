"""``csm impute``: blanks filled by the model's own conditionals, and not a letter else changed."""

import csv
import datetime
import gzip
import io
import json
import sys

import numpy as np
import polars as pl
import pytest

from tests.cli import clinic


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return clinic.clinic_run(tmp_path_factory.mktemp("impute") / "run")


@pytest.fixture
def file(tmp_path):
    def write(text, name="holes.csv"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def mode(column, values, **observed):
    """The most probable value of a column given others, by the truth."""
    return max(values, key=lambda value: clinic.probability(**{column: value}, **observed))


HOLES = "smoke,age,ill\nno,30,\n,55,True\nyes,,True\n,,\nno,41,False\n,30,\n"


def test_each_blank_gets_its_most_probable_value_given_the_observed_cells(csm, run, file):
    code, out, err = csm("impute", run, file(HOLES))
    assert code == 0
    assert out.splitlines() == [
        "smoke,age,ill",
        f"no,30,{mode('ill', clinic.ILL, smoke='no', age=30)}",
        f"{mode('smoke', clinic.SMOKE, age=55, ill='True')},55,True",
        f"yes,{mode('age', clinic.AGE, smoke='yes', ill='True')},True",
        f"{mode('smoke', clinic.SMOKE)},{mode('age', clinic.AGE)},{mode('ill', clinic.ILL)}",
        "no,41,False",
        f"{mode('smoke', clinic.SMOKE, age=30)},30,{mode('ill', clinic.ILL, age=30)}",
    ]
    assert "8 blank cells filled by enumeration" in err


def test_other_cells_and_columns_come_through_as_they_were(csm, run, file):
    text = (
        'id,age,note,smoke,weight,ill\n007,30.0,"a, ""b""\n c",,0.10,True\n008,41, x ,yes,1e-3,\n'
        "009,55.00,,no,-.50,False\n010,,NA,no,,True\n"
    )
    code, out, _ = csm("impute", run, file(text), "--quiet")
    assert code == 0
    before, after = (list(csv.reader(io.StringIO(each))) for each in (text, out))
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        for name, was, is_now in zip(before[0], old, new, strict=True):
            if was or name not in clinic.COLUMNS:
                assert is_now == was
            else:
                assert is_now


def test_many_different_fractions_keep_their_spelling(csm, run, file, tmp_path):
    weights = [f"{k / 7:.3f}0" for k in range(1200)]
    lines = [f"{'' if k % 3 else 'no'},30,False,{weight}" for k, weight in enumerate(weights)]
    text = "smoke,age,ill,weight\n" + "\n".join(lines) + "\n"
    _, out, _ = csm("impute", run, file(text), "--quiet")
    assert [line.split(",")[3] for line in out.splitlines()[1:]] == weights
    packed = tmp_path / "holes.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert csm("impute", run, str(packed), "--quiet").out == out


def test_standard_input_keeps_its_spelling_too(csm, run, file, monkeypatch):
    lines = [f"{'' if k % 3 else 'no'},30,False,{k / 7:.3f}0" for k in range(1200)]
    text = "smoke,age,ill,weight\n" + "\n".join(lines) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert csm("impute", run, "-", "--quiet").out == csm("impute", run, file(text), "--quiet").out


def test_a_value_is_filled_in_as_the_table_spells_it(csm, run, file):
    out = csm("impute", run, file("smoke,age,ill\nyes,41.0,True\nyes,,True\n"), "--quiet").out
    assert mode("age", clinic.AGE, smoke="yes", ill="True") == 41
    assert out.splitlines()[2] == "yes,41.0,True"


def test_a_table_without_blanks_comes_out_as_it_went_in(csm, run, file):
    text = "age,smoke,ill,more\n30,no,True,\n41,yes,False,x\n"
    code, out, err = csm("impute", run, file(text))
    assert (code, out) == (0, text)
    assert err == "nothing is blank\n"


def test_parquet_keeps_its_kinds(csm, run, tmp_path):
    day = [datetime.date(2020, 1, 1), None, datetime.date(1999, 5, 5)]
    table = pl.DataFrame(
        {
            "smoke": pl.Series(["no", None, "yes"], dtype=pl.Categorical),
            "age": pl.Series([30, 55, None], dtype=pl.Int8),
            "ill": [None, "True", "True"],
            "day": day,
            "whole": [1.0, 2.0, float("nan")],
        }
    )
    table.write_parquet(tmp_path / "holes.parquet")
    code, _, err = csm(
        "impute", run, str(tmp_path / "holes.parquet"), "--out", str(tmp_path / "whole.parquet"), "--quiet"
    )
    assert (code, err) == (0, "")
    done = pl.read_parquet(tmp_path / "whole.parquet")
    assert done["age"].dtype == pl.Int8
    assert done["smoke"].dtype == pl.Categorical
    assert done["age"].to_list() == [30, 55, mode("age", clinic.AGE, smoke="yes", ill="True")]
    assert done["smoke"].to_list() == ["no", mode("smoke", clinic.SMOKE, age=55, ill="True"), "yes"]
    assert done["ill"].to_list() == [mode("ill", clinic.ILL, smoke="no", age=30), "True", "True"]
    assert done["day"].to_list() == day
    assert done["whole"].dtype == pl.Float64
    assert done["whole"][:2].to_list() == [1.0, 2.0]


def test_whole_numbers_above_two_to_the_63_stay_what_they_are(csm, tmp_path):
    numbers = pl.Series([2**63, None, 2**64 - 1, 7] * 15, dtype=pl.UInt64)
    table = pl.DataFrame({"a": ["x", "y"] * 30, "n": numbers})
    for suffix, write in (("parquet", table.write_parquet), ("csv", table.write_csv)):
        data, run, out = (str(tmp_path / name) for name in (f"holes.{suffix}", f"run-{suffix}", f"whole.{suffix}"))
        write(data)
        assert csm("fit", data, "--out", run, "--steps", "2", "--no-report", "--quiet").code == 0
        assert csm("impute", run, data, "--out", out, "--quiet").code == 0
        done = pl.read_parquet(out) if suffix == "parquet" else pl.read_csv(out, schema=table.schema)
        assert done.schema == table.schema
        known = numbers.is_not_null()
        assert done["n"].filter(known).to_list() == numbers.filter(known).to_list()
        assert set(done["n"]) == {2**63, 2**64 - 1, 7}


def test_days_and_truths_keep_their_kind_where_the_table_spells_the_value(csm, tmp_path):
    codec = clinic.codec().to_json()
    codec["columns"][0]["values"] = ["2020-01-01", "2020-01-02"]
    path = clinic.forged(clinic.clinic_run(tmp_path / "run"), codec=codec)
    day = datetime.date(2020, 1, 1)
    table = pl.DataFrame({"smoke": [day, None], "age": [30, 30], "ill": [False, None]})
    table.write_parquet(tmp_path / "holes.parquet")
    words = ("--out", str(tmp_path / "whole.parquet"), "--quiet")
    assert csm("impute", path, str(tmp_path / "holes.parquet"), *words).code == 0
    done = pl.read_parquet(tmp_path / "whole.parquet")
    assert done.schema == table.schema
    assert done.rows() == [(day, 30, False), (day, 30, False)]


def test_where_blank_was_a_value_it_stays(csm, tmp_path, file):
    codec = clinic.codec().to_json()
    codec["columns"][0] |= {"values": ["no"], "blank": True}
    path = clinic.forged(clinic.clinic_run(tmp_path / "run"), codec=codec)
    code, out, err = csm("impute", path, file("smoke,age,ill\n,41,\nno,30,True\n"))
    assert code == 0
    assert out.splitlines()[1] == f",41,{mode('ill', clinic.ILL, smoke='yes', age=41)}"
    assert "blank was a value in training: smoke" in err


def test_arrays_stay_arrays(csm, tmp_path):
    path = clinic.old_run(tmp_path / "run")
    np.save(tmp_path / "holes.npy", np.array([[0, 0, np.nan], [np.nan, 2, 1], [1, 1, 0]]))
    assert csm("impute", path, str(tmp_path / "holes.npy"), "--out", str(tmp_path / "whole.npy")).code == 0
    done = np.load(tmp_path / "whole.npy")
    assert done.dtype == np.float64
    smoke = clinic.SMOKE.index(mode("smoke", clinic.SMOKE, age=55, ill="True"))
    assert done.tolist() == [[0, 0, 0], [smoke, 2, 1], [1, 1, 0]]


def test_draws_are_stacked_copies_by_the_conditional_law(csm, run, file):
    text = "smoke,age,ill,note\nyes,,,a\nno,30,True,b\n"
    code, out, err = csm("impute", run, file(text), "--draws", "2000", "--seed", "1")
    header, *rows = list(csv.reader(io.StringIO(out)))
    assert code == 0
    assert header == ["draw", "smoke", "age", "ill", "note"]
    assert [row[0] for row in rows] == [str(k // 2) for k in range(4000)]
    assert all(row[1:] == ["no", "30", "True", "b"] for row in rows[1::2])
    assert all((row[1], row[4]) == ("yes", "a") for row in rows[::2])
    for age in clinic.AGE:
        for ill in clinic.ILL:
            p = clinic.probability(smoke="yes", age=age, ill=ill) / clinic.probability(smoke="yes")
            count = sum(row[2:4] == [str(age), ill] for row in rows[::2])
            assert count == 0 if p == 0 else abs(clinic.z(count, 2000, p)) < 4
    assert "cells filled by" in err
    assert csm("impute", run, file(text), "--draws", "2000", "--seed", "1").out == out
    assert csm("impute", run, file(text), "--draws", "2000", "--seed", "2").out != out
    one = list(csv.reader(io.StringIO(csm("impute", run, file("smoke,age,ill\nno,30,True\n"), "--draws", "2").out)))
    assert one[1:] == [["0", "no", "30", "True"], ["1", "no", "30", "True"]]


def test_json_has_the_table_and_how_it_was_filled(csm, run, file):
    code, out, err = csm("impute", run, file(HOLES), "--json", "--quiet")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert list(shown) == ["columns", "rows", "filled", "method"]
    assert (shown["filled"], shown["method"], len(shown["rows"])) == (8, "enumeration", 6)
    assert shown["rows"][4] == ["no", 41, "False"], "in the kind of the training data, as csm sample gives them"


def test_rows_with_unseen_values_are_refused_or_left_as_they_are(csm, misused, run, file):
    text = "smoke,age,ill\nmaybe,,True\nno,30,\n"
    code, out, err = csm("impute", run, file(text))
    assert (code, out.splitlines()[1].split(",")[0]) == (0, "maybe")
    assert "1 cells hold values never seen in training" in err
    err = misused("impute", run, file(text), "--quiet", "--unknown", "refuse")
    assert "'maybe'" in err
    assert "--unknown skip" in err
    code, out, err = csm("impute", run, file(text), "--unknown", "skip")
    assert code == 0
    assert out.splitlines()[1] == "maybe,,True"
    assert out.splitlines()[2] == "no,30,False"
    assert "1 rows with values never seen in training left as they are" in err


def test_words_for_blank_of_the_training_data_are_blank(csm, tmp_path, file):
    codec = {**clinic.codec().to_json(), "na": ["?"]}
    path = clinic.forged(clinic.clinic_run(tmp_path / "run"), codec=codec)
    out = csm("impute", path, file("smoke,age,ill,note\nno,30,?,?\n"), "--quiet").out
    assert out.splitlines()[1] == "no,30,False,?"


def test_ranges_are_filled_in_by_their_names(csm, tmp_path, file):
    codec = clinic.codec().to_json()
    codec["columns"][1] = {"name": "age", "kind": "bins", "edges": [0.0, 35.0, 50.0, 90.0], "blank": False}
    path = clinic.forged(clinic.clinic_run(tmp_path / "run"), codec=codec)
    rows = list(csv.reader(io.StringIO(csm("impute", path, file("smoke,age,ill\nyes,41.5,True\nyes,,True\n")).out)))
    assert rows[1:] == [["yes", "41.5", "True"], ["yes", "[35, 50)", "True"]]
    pl.DataFrame({"smoke": ["yes", "no"], "age": [41.5, None], "ill": ["True", "False"]}).write_parquet(
        tmp_path / "holes.parquet"
    )
    csm("impute", path, str(tmp_path / "holes.parquet"), "--out", str(tmp_path / "whole.parquet"))
    assert pl.read_parquet(tmp_path / "whole.parquet")["age"].to_list() == ["41.5", "[0, 35)"]


def test_observed_cells_that_cannot_be_are_named_by_their_row(misused, run, file):
    err = misused("impute", run, file("smoke,age,ill\nmaybe,30,\nno,30,\nyes,30,\n"), "--unknown", "skip", "--quiet")
    assert "holes.csv: row 2: " in err
    assert "probability" in err


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        (HOLES, ("--draws", "0"), "--draws"),
        (HOLES, ("--draws", "-1"), "--draws"),
        (HOLES, ("--sampler", "gibs"), "did you mean 'gibbs'"),
        (HOLES, ("--sampler", "langevin"), "langevin"),
        (HOLES, ("--out", "whole.docx"), "whole.docx"),
        ("draw,smoke,age,ill\n1,no,30,\n", ("--draws", "3"), "'draw'"),
        ("smoke,ages,ill\nno,30,\n", (), "none named 'age'"),
        ("smoke,age,ill\n", (), "header"),
        ("", (), "empty"),
    ],
)
def test_mistakes_are_one_line(misused, run, file, text, words, told):
    assert told in misused("impute", run, file(text), "--quiet", *words)


def test_an_existing_output_is_kept_unless_forced(csm, misused, run, file, tmp_path):
    path = tmp_path / "whole.csv"
    path.write_text("mine")
    assert "--force" in misused("impute", run, file(HOLES), "--out", str(path))
    assert path.read_text() == "mine"
    assert csm("impute", run, file(HOLES), "--out", str(path), "--force").code == 0
    assert path.read_text() == csm("impute", run, file(HOLES)).out


def test_kernels_fill_blanks_where_asked(csm, run, file):
    code, out, err = csm("impute", run, file("smoke,age,ill\nno,30,\nno,55,True\n"), "--sampler", "gibbs")
    assert code == 0
    assert "1 blank cell filled by gibbs" in err
    assert out.splitlines()[1:] == ["no,30,False", "no,55,True"]


def test_rows_left_as_they_are_at_the_end_of_many_are_written_too(csm, run, file, monkeypatch):
    monkeypatch.setattr("concrete_score.blocks.Filler.size", 4)
    text = "smoke,age,ill\n" + "no,30,\n" * 9 + "maybe,,True\n" * 9
    filled = ["no,30,False"] * 9 + ["maybe,,True"] * 9
    assert csm("impute", run, file(text), "--unknown", "skip", "--quiet").out.splitlines()[1:] == filled
    out = csm("impute", run, file(text), "--unknown", "skip", "--draws", "2", "--quiet").out
    rows = [line.split(",") for line in out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["0"] * 18 + ["1"] * 18
    assert [row[1] for row in rows] == (["no"] * 9 + ["maybe"] * 9) * 2
    both = csm("impute", run, file(text), file("smoke,age,ill\nmaybe,,True\n", "more.csv"), "--unknown", "skip").out
    assert both.splitlines()[1:] == [*filled, "maybe,,True"]


def test_draws_of_several_files_go_into_a_new_folder(csm, run, file, tmp_path):
    out = tmp_path / "new" / "folder" / "draws.csv"
    words = ("impute", run, file(HOLES, "a.csv"), file(HOLES, "b.csv"), "--draws", "2", "--quiet", "--out", str(out))
    assert csm(*words).code == 0
    assert len(out.read_text().splitlines()) == 1 + 2 * 12
    assert [path.name for path in out.parent.iterdir()] == ["draws.csv"]


def test_outputs_over_inputs_or_one_another_are_refused_at_the_start(misused, run, file, tmp_path):
    one, other = file(HOLES, "a.csv"), file(HOLES, "b.csv")
    same = str(tmp_path / "s.csv")
    err = misused("impute", run, one, "--quiet", "--out", same, "--probabilities", same)
    assert err.startswith("error: --probabilities: expected another file than the filled table")
    assert not (tmp_path / "s.csv").exists()
    for option in ("--out", "--probabilities"):
        err = misused("impute", run, one, other, option, other, "--force", "--quiet")
        assert "b.csv: expected another file than those that are read in parts, got one of them" in err
    assert (tmp_path / "b.csv").read_text() == HOLES
