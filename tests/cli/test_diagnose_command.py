"""``csm diagnose``: a verdict in words, and bad tables in one line each."""

import io
import json
import sys

import pytest

ROWS = "".join(f"{k % 2},{'x' if k % 2 else 'y'},{k % 3}\n" for k in range(60))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"a,b,c\n{ROWS}")
    return str(path)


def test_verdict_for_people_and_machines(csm, table):
    code, out, _ = csm("diagnose", table, "--quiet")
    assert code == 0
    assert "Split:" in out
    found = json.loads(csm("diagnose", table, "--json").out)
    assert found["verdict"] == "split"
    assert (found["rows"], found["distinct_rows"], found["components"]) == (60, 6, 2)
    assert found["component_shares"] == [0.5, 0.5]
    assert found["columns"][1] == {"name": "b", "kind": "text", "size": 2}
    assert found["observed_edge_share"] == 12 / (6 * 4)


def test_named_sets_and_other_neighborhoods(csm, data_dir):
    code, out, _ = csm("diagnose", "gifts:train", "--neighborhood", "grid", "--data-dir", str(data_dir), "--json")
    assert code == 0
    assert json.loads(out)["distinct_rows"] == 149


def test_columns_bins_and_blanks(csm, misused, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("id,age,smoke\n" + "".join(f"p{k},{k / 7},{['no', 'yes', 'NA', ''][k % 4]}\n" for k in range(400)))
    err = misused("diagnose", str(path))
    assert "--drop id" in err
    assert "--bins age=10" in err
    mended = ("--drop", "id", "--bins", "age=4")
    assert "got 100 ('smoke': 100)" in misused("diagnose", str(path), *mended)
    found = json.loads(csm("diagnose", str(path), *mended, "--missing", "drop", "--na", "NA", "--json").out)
    assert (found["rows"], found["dropped"]) == (200, 200)
    assert [column["size"] for column in found["columns"]] == [4, 2]
    found = json.loads(
        csm("diagnose", str(path), "--columns", "smoke,age", "--bins", "age=4", "--missing", "category", "--json").out
    )
    assert [column["size"] for column in found["columns"]] == [4, 4]


def test_standard_input_is_csv(csm, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"a,b,c\n{ROWS}".encode())))
    assert json.loads(csm("diagnose", "-", "--json").out)["rows"] == 60


@pytest.mark.parametrize(
    "words",
    [
        ("nowhere.csv",),
        ("{table}", "--neighborhood", "hammin"),
        ("{table}", "--neighborhood", "cycle"),
        ("{table}", "--neighborhood", "explicit"),
        ("{table}", "--bins", "a"),
        ("{table}", "--bins", "a=1"),
        ("{table}", "--bins", "=4"),
        ("{table}", "--drop", "z"),
        ("{table}", "--columns", "a"),
        ("{table}", "--missing", "keep"),
        ("{table}", "--max-categories", "1"),
    ],
)
def test_mistakes_are_one_line(misused, table, words):
    misused("diagnose", "--quiet", *(word.format(table=table) for word in words))
