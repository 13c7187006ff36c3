"""Results: exact keys, whole files, readable Markdown, and no mixing of versions."""

import json
from dataclasses import replace

import pytest

from concrete_score.bench import Check
from concrete_score.errors import InputError
from concrete_score.experiments import Findings, Result, Settings
from concrete_score.experiments.result import refuse_others

FOUND = Findings(
    paper={"nltcs": -6.13, "gifts": {"connected": True}},
    ours={"nltcs": float("nan"), "toys|a": [1, 2]},
    checks=(Check.at_most("a | b", 0.5, 1.0), Check.equal("count", 3, 4)),
    images={"curve": b"\x89PNG"},
)
RESULT = Result("table9", "csm reproduce table9 --seed 1", "0.1.0", Settings(seed=1, quick=True), 2.0, FOUND)


def test_json_has_the_promised_keys_and_null_for_nan(tmp_path):
    RESULT.write(tmp_path / "deep" / "table9")
    written = json.loads((tmp_path / "deep" / "table9" / "table9.json").read_text())
    assert written == {
        "name": "table9",
        "command": "csm reproduce table9 --seed 1",
        "version": "0.1.0",
        "seed": 1,
        "quick": True,
        "seconds": 2.0,
        "paper": {"nltcs": -6.13, "gifts": {"connected": True}},
        "ours": {"nltcs": None, "toys|a": [1, 2]},
        "checks": [
            {"name": "a | b", "value": 0.5, "bound": 1.0, "ok": True},
            {"name": "count", "value": 3, "bound": 4, "ok": False},
        ],
    }


def test_markdown_rows_stay_rows():
    text = RESULT.to_markdown()
    assert "    csm reproduce table9 --seed 1\n" in text
    assert "| a \\| b | 0.5 | <= 1 | yes |" in text
    assert "| count | 3 | = 4 | **no** |" in text
    assert "| nltcs | -6.13 | nan |" in text
    assert "| gifts | connected yes |  |" in text
    assert "| toys\\|a |  | 1, 2 |" in text
    assert "![curve](curve.png)" in text


def test_all_files_and_nothing_else(tmp_path):
    written = RESULT.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in written}
    assert {path.name for path in written} == {"curve.png", "table9.md", "table9.json"}
    assert (tmp_path / "curve.png").read_bytes() == b"\x89PNG"


@pytest.mark.parametrize("content", ['{"version": "9.9"}', "{}", "not JSON", "[1]", '"text"'])
def test_what_is_not_of_this_version_is_refused(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError, match="force=True"):
        refuse_others(tmp_path, "a", "0.1.0", Settings())


def test_results_of_another_version_are_made_again_from_their_units(tmp_path):
    (tmp_path / "a.json").write_text('{"version": "9.9", "seed": 0, "quick": false}')
    (tmp_path / "units.jsonl").write_text("")
    refuse_others(tmp_path, "a", "0.1.0", Settings())
    with pytest.raises(InputError, match="got some of seed 0, full size"):
        refuse_others(tmp_path, "a", "0.1.0", Settings(seed=1))


def test_units_of_another_version_are_told():
    assert "stored units" not in RESULT.to_markdown()
    assert "stored units" not in replace(RESULT, units={"0.1.0": 3}).to_markdown()
    told = replace(RESULT, units={"0.0.9": 2, "0.1.0": 3}).to_markdown()
    assert "concrete-score 0.1.0, seed 1, the quick size, 2.0 s. Of 5 stored units: 2 of version 0.0.9." in told


def test_same_version_and_empty_place_are_fine(tmp_path):
    refuse_others(tmp_path, "a", "0.1.0", Settings())
    (tmp_path / "a.json").write_text('{"version": "0.1.0", "seed": 0, "quick": false}')
    refuse_others(tmp_path, "a", "0.1.0", Settings())


@pytest.mark.parametrize("settings", [Settings(seed=1), Settings(quick=True)])
def test_results_of_another_seed_or_size_are_refused(tmp_path, settings):
    (tmp_path / "a.json").write_text('{"version": "0.1.0", "seed": 0, "quick": false}')
    with pytest.raises(InputError, match=r"expected results of seed .*, got some of seed 0, full size"):
        refuse_others(tmp_path, "a", "0.1.0", settings)


def test_a_users_file_in_the_place_of_a_page_is_kept(tmp_path):
    (tmp_path / "a.md").write_text("my notes")
    with pytest.raises(InputError, match=r"a\.md: expected a new place for a, or its results, got a file that is none"):
        refuse_others(tmp_path, "a", "0.1.0", Settings())
    (tmp_path / "units.jsonl").write_text("")  # an experiment that was cut off goes on
    refuse_others(tmp_path, "a", "0.1.0", Settings())


def test_further_files_and_the_experiments_own_text(tmp_path):
    found = Findings({"a": 1}, {"a": 2}, (), files={"table.json": "[1]\n"}, text="## In its own words")
    result = Result("table9", "csm reproduce table9", "0.1.0", Settings(), 1.0, found)
    assert {path.name for path in result.write(tmp_path)} == {"table.json", "table9.md", "table9.json"}
    assert (tmp_path / "table.json").read_text() == "[1]\n"
    text = (tmp_path / "table9.md").read_text()
    assert text.endswith("## In its own words\n")
    assert "The paper and ours" not in text
