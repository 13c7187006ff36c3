"""``csm data``: names, splits and files; offline in one line."""

import json


def test_list_for_people_and_machines(csm):
    code, out, _ = csm("data", "list")
    assert code == 0
    assert "nltcs" in out
    assert "train 16181, valid 2157, test 3236" in out
    sets = {one["name"]: one for one in json.loads(csm("data", "list", "--json").out)["data_sets"]}
    assert len(sets) == 40
    assert sets["gifts"]["splits"]["train"]["rows"] == 2777


def test_fetch_finds_and_checks_what_is_here(csm, data_dir):
    code, out, err = csm("data", "fetch", "gifts", "nltcs:test", "--data-dir", str(data_dir), "--json")
    assert code == 0
    found = json.loads(out)["files"]
    assert [(file["name"], file["split"]) for file in found] == [
        ("gifts", "train"),
        ("gifts", "valid"),
        ("gifts", "test"),
        ("gifts", "items"),
        ("nltcs", "test"),
    ]
    assert all(file["path"].startswith(str(data_dir)) for file in found)
    assert "gifts:train" in err


def test_fetch_offline_is_one_line_that_says_where_to_put_the_file(misused, tmp_path, monkeypatch):
    monkeypatch.setenv("CONCRETE_SCORE_CACHE", str(tmp_path))
    monkeypatch.delenv("CONCRETE_SCORE_DATA", raising=False)
    err = misused("data", "fetch", "gifts:test", "--url", "http://127.0.0.1:9", "--quiet")
    assert str(tmp_path / "amazon" / "gifts" / "gifts.test.data.gz") in err


def test_unknown_names_are_one_line(misused):
    assert "did you mean 'nltcs'" in misused("data", "fetch", "nltc")
    assert "a split of gifts" in misused("data", "fetch", "gifts:tests")
    misused("data", "fetch")
    misused("data", "nothing")
