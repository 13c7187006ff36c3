"""``csm demo``."""

import json


def reject(word):
    raise ValueError(f"{word} in JSON")


def test_json_is_one_object_without_nan(csm):
    code, out, err = csm("demo", "--json", "--quiet")
    found = json.loads(out, parse_constant=reject)
    assert (code, err) == (0, "")
    assert list(found) == ["seed", "rows", "preview", "explanation", "support", "models", "recovery"]
    assert [c for c in found["explanation"]["changes"] if c["log_ratio"] is None]


def test_text_names_the_impossible_and_the_pieces(csm):
    code, out, _ = csm("demo", "--seed", "1")
    assert code == 0
    assert "impossible" in out
    assert "128 of 256 states are possible; they form 2 pieces (masses 0.9352, 0.0648)" in out
    assert "chow_liu" in out


def test_out_is_written_whole_and_never_over_what_is_there(csm, misused, tmp_path):
    place = tmp_path / "new" / "place"
    assert csm("demo", "--out", str(place)).code == 0
    assert {path.name for path in place.iterdir()} == {"demo.json", "demo.png"}
    assert json.loads((place / "demo.json").read_text(), parse_constant=reject)["rows"] == 5000
    assert "--force" in misused("demo", "--out", str(place), "--quiet")
    assert csm("demo", "--out", str(place), "--force").code == 0
