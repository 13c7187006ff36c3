"""``csm demo``."""

import json
from functools import partial

import pytest

from concrete_score.experiments import demo


def reject(word):
    raise ValueError(f"{word} in JSON")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The demo in a few seconds."""
    monkeypatch.setattr(demo, "run", partial(demo.run, rows=1000, steps=200))


def test_json_is_one_object_without_nan(csm):
    code, out, err = csm("demo", "--json", "--quiet")
    found = json.loads(out, parse_constant=reject)
    assert (code, err) == (0, "")
    assert list(found) == [
        "seed",
        "rows",
        "preview",
        "support",
        "models",
        "samples",
        "imputation",
        "explanation",
    ]


def test_text_tells_the_pieces_and_ends_with_three_commands(csm):
    code, out, _ = csm("demo", "--seed", "1")
    assert code == 0
    assert "128 of 256 states are possible; they form 2 pieces (masses 0.9352, 0.0648)" in out
    assert "chow_liu" in out
    assert [line.split()[:2] for line in out.splitlines()[-3:]] == [
        ["csm", "fit"],
        ["csm", "sample"],
        ["csm", "explain"],
    ]


@pytest.mark.slow
def test_out_is_written_whole_and_never_over_what_is_there(csm, misused, tmp_path):
    place = tmp_path / "new" / "place"
    assert csm("demo", "--out", str(place)).code == 0
    assert {path.name for path in place.iterdir()} == {"demo.json", "demo.png", "clinic.csv", "run"}
    assert json.loads((place / "demo.json").read_text(), parse_constant=reject)["rows"] == 1000
    assert "--force" in misused("demo", "--out", str(place), "--quiet")
    assert csm("demo", "--out", str(place), "--force").code == 0
    assert csm("show", str(place / "run")).code == 0
