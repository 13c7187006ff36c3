"""``csm explain``: the changes a row would welcome most, in the table's own words."""

import json
from math import exp, log

import numpy as np
import pytest

from concrete_score.answers import times_as_probable
from tests.cli import clinic

ROWS = [("no", 30, "True"), ("yes", 55, "False"), ("no", 41, "False")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return clinic.clinic_run(tmp_path_factory.mktemp("explain") / "run")


@pytest.fixture
def table(tmp_path):
    def write(rows, name="new.csv"):
        path = tmp_path / name
        path.write_text("\n".join(",".join(map(str, row)) for row in [clinic.COLUMNS, *rows]) + "\n")
        return str(path)

    return write


def truth(row):
    """All single changes of a row with their exact log-ratios, best first."""
    p = dict(zip(clinic.STATES, clinic.PMF, strict=True))
    found = []
    for d, values in enumerate((clinic.SMOKE, clinic.AGE, clinic.ILL)):
        for value in values:
            changed = (*row[:d], value, *row[d + 1 :])
            if changed != row:
                ratio = log(p[changed] / p[row]) if p[changed] else float("-inf")
                found.append((clinic.COLUMNS[d], row[d], value, ratio))
    return sorted(found, key=lambda change: -change[3])


def test_json_lists_the_best_changes_of_each_row_with_exact_ratios(csm, run, table):
    code, out, err = csm("explain", run, table(ROWS), "--json", "--quiet")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert (shown["rows"], shown["skipped"]) == (3, 0)
    assert [change["row"] for change in shown["changes"]] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for k, row in enumerate(ROWS):
        listed = shown["changes"][3 * k : 3 * k + 3]
        assert list(listed[0]) == ["row", "column", "from", "to", "log_ratio"]
        wanted = truth(row)[:3]
        assert [change["log_ratio"] for change in listed] == pytest.approx([each[3] for each in wanted], abs=1e-5)
        assert all(
            (change["column"], change["from"], change["to"]) in [each[:3] for each in truth(row)] for change in listed
        )
        assert (listed[0]["column"], listed[0]["to"]) == (wanted[0][0], wanted[0][2])


def test_top_limits_the_changes_and_negative_and_impossible_ones_are_listed(csm, run, table):
    shown = json.loads(csm("explain", run, table(ROWS), "--top", "1", "--json", "--quiet").out)
    assert [change["row"] for change in shown["changes"]] == [0, 1, 2]
    shown = json.loads(csm("explain", run, table([("no", 30, "False")]), "--top", "99", "--json", "--quiet").out)
    assert [change["log_ratio"] for change in shown["changes"]] == pytest.approx(
        [*(each[3] for each in truth(("no", 30, "False"))[:-1]), None], abs=1e-5
    )
    assert all((change["log_ratio"] or -1) < 0 for change in shown["changes"])


def test_for_people_times_as_probable(csm, run, table):
    out = csm("explain", run, table([("no", 30, "True"), ("no", 41, "False")]), "--top", "9", "--quiet").out
    best = truth(("no", 30, "True"))[0]
    assert best[2] == "False"
    assert f"{exp(best[3]):.1f} times as probable" in out
    assert "impossible" in out
    assert "less probable" in out


def test_rows_are_counted_as_in_the_file_and_out_takes_any_form(csm, run, table, tmp_path):
    rows = [("maybe", 30, "True"), ROWS[0], ("", 41, "True"), ROWS[1]]
    words = ("--unknown", "skip", "--missing", "drop", "--top", "2")
    for ending in ("csv", "parquet"):
        path = tmp_path / f"changes.{ending}"
        code, out, err = csm("explain", run, table(rows), *words, "--out", str(path))
        assert (code, out) == (0, "")
        assert "1 rows with blanks dropped" in err
    lines = (tmp_path / "changes.csv").read_text().splitlines()
    assert lines[0] == "row,column,from,to,log_ratio"
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "1", "3", "3"]
    assert lines[1].startswith("1,ill,True,False,")


def test_a_row_of_probability_zero_has_no_ratios_and_is_named_by_its_place(misused, run, table):
    rows = [("maybe", 30, "True"), ROWS[0], ("yes", 30, "True")]
    err = misused("explain", run, table(rows), "--unknown", "skip", "--quiet")
    assert "new.csv: row 2: " in err
    assert "probability 0" in err


@pytest.mark.parametrize(
    ("rows", "words", "told"),
    [
        (ROWS, ("--top", "0"), "--top"),
        (ROWS, ("--top", "few"), "--top"),
        ([("", 30, "True")], ("--missing", "refuse"), "--missing drop"),
        ([("maybe", 30, "True")], ("--unknown", "refuse"), "row 0, column 'smoke'"),
        ([("", "", "")], ("--missing", "drop"), "1 with blanks"),
        ([], (), "header"),
        (ROWS, ("--out", "changes.pdf"), "changes.pdf"),
    ],
)
def test_mistakes_are_one_line(misused, run, table, rows, words, told):
    assert told in misused("explain", run, table(rows), "--quiet", *words)


def test_an_existing_output_is_kept(misused, run, table, tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    assert "--force" in misused("explain", run, table(ROWS), "--out", str(tmp_path / "mine.csv"))
    (tmp_path / "folder.csv").mkdir()
    assert "a folder" in misused("explain", run, table(ROWS), "--out", str(tmp_path / "folder.csv"), "--force")
    err = misused("explain", run, table(ROWS), "--out", str(tmp_path / "mine.csv" / "changes.csv"))
    assert "a folder to write into" in err
    assert (tmp_path / "mine.csv").read_text() == "mine"


def test_names_of_a_stranger_are_escaped(csm, tmp_path):
    base = clinic.clinic_run(tmp_path / "run")
    codec = clinic.codec().to_json()
    codec["columns"][0] |= {"name": "\x1b[31mred", "values": ["\x1b]0;title\x07", "yes"]}
    clinic.forged(base, codec=codec)
    (tmp_path / "new.csv").write_text("\x1b[31mred,age,ill\nyes,55,True\n")
    out = csm("explain", base, str(tmp_path / "new.csv"), "--top", "9").out
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out


def test_the_title_is_true_of_changes_that_lower_the_probability_too(csm, run, table):
    out = csm("explain", run, table([("no", 30, False)]), "--quiet").out
    assert "less probable" in out
    assert "leave each row most probable" in out
    assert "raise" not in out


def test_large_ratios_have_words():
    assert times_as_probable(5.0) == "148.4 times as probable"
    assert times_as_probable(-800.0) == "e^800 times less probable"


def test_a_heat_map_that_exists_is_found_before_the_work(misused, tmp_path):
    path = clinic.energy_run(tmp_path / "run")
    np.save(tmp_path / "x.npy", np.zeros((1, 24), int))
    (tmp_path / "e.png").write_text("mine")
    words = ("explain", path, str(tmp_path / "x.npy"), "--all", "--quiet", "--out", str(tmp_path / "e.csv"))
    assert "e.png: expected a new output path" in misused(*words)
    assert not (tmp_path / "e.csv").exists()
