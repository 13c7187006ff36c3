"""``csm diagnose``: a verdict in words, and bad tables in one line each."""

import io
import json
import sys

import pytest

from tests.cli import clinic

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


def test_kinds_are_called_as_a_fit_calls_them(csm, table):
    lines = [line.split() for line in csm("diagnose", table, "--quiet").out.splitlines()]
    assert [line[1] for line in lines if line and line[0] in ("a", "b", "c")] == ["category"] * 3


def test_named_sets_and_other_neighborhoods(csm, data_dir):
    code, out, _ = csm("diagnose", "gifts:train", "--neighborhood", "grid", "--data-dir", str(data_dir), "--json")
    assert code == 0
    assert json.loads(out)["distinct_rows"] == 149


def test_columns_bins_and_blanks(csm, misused, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("id,age,smoke\n" + "".join(f"p{k},{k / 7},{['no', 'yes', 'NA', ''][k % 4]}\n" for k in range(400)))
    found = json.loads(csm("diagnose", str(path), "--missing", "drop", "--json").out)
    assert [column["kind"] for column in found["columns"]] == ["number", "text"]
    mended = ("--drop", "id", "--bins", "age=4")
    assert "got 200 ('smoke': 200)" in misused("diagnose", str(path), *mended, "--missing", "refuse")
    found = json.loads(csm("diagnose", str(path), *mended, "--missing", "drop", "--json").out)
    assert (found["rows"], found["dropped"]) == (200, 200)
    assert [column["size"] for column in found["columns"]] == [4, 2]
    words = ("--columns", "smoke,age", "--bins", "age=4", "--missing", "category", "--na", "")
    found = json.loads(csm("diagnose", str(path), *words, "--json").out)
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
        ("{table}", "--columns", "z"),
        ("{table}", "--column", "a"),
        ("{table}", "--column", "a=nombre"),
        ("{table}", "--missing", "keep"),
        ("{table}", "--max-categories", "1"),
    ],
)
def test_mistakes_are_one_line(misused, table, words):
    misused("diagnose", "--quiet", *(word.format(table=table) for word in words))


class TestRun:
    @pytest.fixture(autouse=True)
    def _short(self, monkeypatch):
        monkeypatch.setattr("concrete_score.diagnostics.mixing.KEPT", 60)
        monkeypatch.setattr("concrete_score.diagnostics.mixing.BURN_IN", 10)

    @pytest.fixture
    def run(self, tmp_path):
        return clinic.clinic_run(tmp_path / "run")

    @pytest.fixture
    def rows(self, csm, run, tmp_path):
        """Rows the model itself has drawn: the best data it could have."""
        path = tmp_path / "rows.csv"
        path.write_text(csm("sample", run, "-n", "400", "--quiet").out)
        return str(path)

    def test_a_sound_model_of_its_own_rows(self, csm, run, rows):
        code, out, _ = csm("diagnose", run, "--data", rows, "--json")
        assert code == 0
        found = json.loads(out)
        assert (found["run"], found["data"], found["rows"]) == (run, rows, 400)
        assert found["consistency"]["by_construction"] is True
        assert found["leak"]["leaks"] is False
        assert found["mixing"]["start"] == "data"
        shown = csm("diagnose", run, "--data", rows, "--quiet").out
        assert "Consistent by construction" in shown
        assert "No leak" in shown
        assert found["draws_from_noise"] is False
        assert shown.rstrip().endswith(found["verdict"])
        assert csm("diagnose", run, "--data", rows, "--json").out == out

    def test_without_rows_it_says_what_it_could_not_see(self, csm, run):
        found = json.loads(csm("diagnose", run, "--json").out)
        assert found["leak"] is None
        assert found["rows"] is None
        assert any("needs rows of data" in words for words in found["words"])

    def test_a_model_far_from_the_data_leaks(self, csm, run, tmp_path):
        path = tmp_path / "one.csv"
        path.write_text("smoke,age,ill\n" + "no,30,False\n" * 100)
        found = json.loads(csm("diagnose", run, "--data", str(path), "--json").out)
        assert found["leak"]["leaks"] is True
        assert found["healthy"] is False
        assert found["leak"]["held_out"] == 0

    def test_mistakes_are_one_line(self, misused, run, rows, table, tmp_path):
        assert "run" in misused("diagnose", table, "--data", table)
        assert "own columns" in misused("diagnose", run, "--drop", "age")
        assert "hamming" in misused("diagnose", run, "--neighborhood", "hammin")
        assert "nowhere.csv" in misused("diagnose", run, "--data", "nowhere.csv")
        strange = tmp_path / "strange.csv"
        strange.write_text("smoke,age,ill\nmaybe,30,True\n")
        assert "maybe" in misused("diagnose", run, "--data", str(strange), "--unknown", "refuse")
        (tmp_path / "run" / "run.json").write_text("{")
        assert "run.json" in misused("diagnose", run)
