"""Files as they are, through every command that reads DATA: noticed and said, or told by an option."""

import json

import numpy as np
import pytest

SMALL = ("--steps", "30", "--set", "model.hidden=4", "--set", "valid_every=15")


def table(separator=";", names=True, seed=0):
    rng = np.random.default_rng(seed)
    rows = [
        separator.join((("jä", "nein")[a], ("groß", "klein")[a ^ b], "xy"[b])) for a, b in rng.integers(0, 2, (40, 2))
    ]
    return "\n".join([separator.join(("straße", "größe", "art"))] * names + rows) + "\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that learned from a semicolon file in Latin-1, with nothing said about it."""
    from concrete_score.cli.main import main

    home = tmp_path_factory.mktemp("reading")
    (home / "t.csv").write_bytes(table().encode("latin-1"))
    with pytest.raises(SystemExit) as left:
        main(["fit", str(home / "t.csv"), "--out", str(home / "run"), *SMALL, "--no-report", "--quiet"])
    assert not left.value.code
    return home / "run"


def test_fit_says_what_it_noticed(csm, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(table().encode("latin-1"))
    code, _, err = csm("fit", str(path), "--out", str(tmp_path / "run"), *SMALL)
    assert code == 0
    assert f"note: {path}: read as Latin-1, so that line 1 has 'straße'; if that is wrong, add --encoding NAME" in err
    assert f"note: {path}: its cells are separated by semicolons; if that is wrong, add --separator comma" in err
    told = json.loads(csm("show", str(tmp_path / "run"), "--json").out)
    assert [column["name"] for column in told["columns"]] == ["straße", "größe", "art"]


FORMS = {
    "as in training": (table().encode("latin-1"), ()),
    "commas and UTF-8": (table(",").encode(), ()),
    "UTF-16 and tabs": (table("\t").encode("utf-16"), ()),
    "told": (table(":").encode("cp437"), ("--encoding", "cp437", "--separator", ":", "--header", "yes")),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_command_reads_a_later_file_by_the_same_rules(csm, run, tmp_path, form):
    data, options = FORMS[form]
    path = str(tmp_path / "new.csv")
    (tmp_path / "new.csv").write_bytes(data)
    known = json.loads(csm("evaluate", str(run), str(run.parent / "t.csv"), "--json", "--quiet").out)
    assert json.loads(csm("evaluate", str(run), path, "--json", "--quiet", *options).out) == known
    explained = json.loads(csm("explain", str(run), path, "--json", "--quiet", *options).out)
    assert explained["rows"] == 40
    filled = json.loads(csm("impute", str(run), path, "--json", "--quiet", *options).out)
    assert (filled["columns"], len(filled["rows"])) == (["straße", "größe", "art"], 40)
    assert json.loads(csm("diagnose", path, "--json", "--quiet", *options).out)["rows"] == 40


def test_a_resumed_run_and_its_report_read_the_file_as_told(csm, run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(table(":").encode("cp437"))
    told = ("--encoding", "cp437", "--separator", ":")
    assert csm("fit", str(path), "--out", str(run), "--resume", "--quiet", *told).code == 0
    assert csm("diagnose", str(run), "--data", str(path), "--quiet", *told).code == 0


def test_the_command_to_continue_repeats_how_the_file_is_read():
    from pathlib import Path

    from concrete_score.cli.fit import _continue_command

    reading = {"encoding": "cp437", "header": None, "separator": ";", "bins": {"a": 2}}
    told = _continue_command(Path("run"), ("t.csv",), None, None, reading, ("mlflow",), None, steps=3)
    assert told == "csm fit t.csv --encoding cp437 --separator ';' --logger mlflow --out run --resume"


def test_options_of_text_files_alone(misused, tmp_path):
    np.save(tmp_path / "t.npy", np.eye(2, dtype=int))
    said = misused("diagnose", str(tmp_path / "t.npy"), "--separator", ";")
    assert said.endswith("t.npy: --separator: expected an option of text tables alone, got a npy file; leave it out\n")
    said = misused("diagnose", "nltcs", "--encoding", "latin-1")
    assert said == "error: --encoding: expected an option of files of text, got the name 'nltcs'; leave it out\n"
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    assert "--encoding: expected the name of a text encoding, got 'klingon'" in misused(
        "fit", str(path), "--out", str(tmp_path / "run"), "--encoding", "klingon"
    )
    assert "--separator: expected a separator" in misused("diagnose", str(path), "--separator", "ab")
    assert "--header" in misused("diagnose", str(path), "--header", "perhaps")


def test_python_is_told_by_reading(run, tmp_path):
    import concrete_score as cs

    path = tmp_path / "new.csv"
    path.write_text(table(":"), encoding="cp437")
    model = cs.load(run)
    notes = []
    reading = {"encoding": "cp437", "separator": ":"}
    assert len(model.read(str(path), reading=reading, say=notes.append).data) == 40
    assert notes == []
    path.write_text(table("|"), encoding="utf-8")
    assert len(model.read(path, say=notes.append).data) == 40
    assert notes[0][:2] == (f"note: {path}: ", "its cells are separated by bars; if that is wrong, add ")


def test_what_was_noticed_is_said_where_files_are_read_in_parts(csm, run):
    path = str(run.parent / "t.csv")
    err = csm("evaluate", str(run), path, path).err
    assert err.count(f"note: {path}: read as Latin-1, so that line 1 has 'straße'") == 1
    assert err.count("separated by semicolons") == 1
