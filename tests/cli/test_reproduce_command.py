"""``csm reproduce``, on an experiment made for the test and on figure 1."""

import json
import sys
from types import ModuleType

import pytest

from concrete_score import registry
from concrete_score.bench import Check
from concrete_score.experiments import Findings


@pytest.fixture
def value(monkeypatch):
    """Register one experiment whose measured value the test sets."""
    measured = {"value": 0.05}

    def run(settings):
        check = Check.at_most("error", measured["value"], 0.1)
        return Findings({"error": 0.2}, {"error": measured["value"], "seed": settings.seed}, (check,))

    module = ModuleType("concrete_score.experiments.made_up")
    module.run = run
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = registry.Entry("experiments.made_up:run", "made for a test")
    monkeypatch.setitem(registry.BUILT_IN, "experiments", {"made_up": entry})
    return measured


def test_json_is_what_is_written(csm, value, tmp_path):
    code, out, _ = csm("reproduce", "made_up", "--out", str(tmp_path), "--json", "--seed", "3", "--check")
    shown = json.loads(out)
    assert code == 0
    assert list(shown) == ["name", "command", "version", "seed", "quick", "seconds", "paper", "ours", "checks"]
    assert shown["ours"] == {"error": 0.05, "seed": 3}
    assert json.loads((tmp_path / "made_up" / "made_up.json").read_text()) == shown


def test_all_gives_one_object(csm, value, tmp_path):
    shown = json.loads(csm("reproduce", "all", "--out", str(tmp_path), "--json", "--quiet").out)
    assert [result["name"] for result in shown["results"]] == ["made_up"]


@pytest.mark.parametrize("bad", [0.5, float("nan")])
def test_failed_check_is_named_with_exit_1_only_when_asked(csm, value, tmp_path, bad):
    value["value"] = bad
    assert csm("reproduce", "made_up", "--out", str(tmp_path)).code == 0
    code, out, err = csm("reproduce", "made_up", "--out", str(tmp_path), "--check", "--quiet")
    assert code == 1
    assert "NO" in out
    assert err.startswith("error: 1 failed: made_up: error: ")
    assert err.count("\n") == 1


def test_unknown_experiment_gets_the_nearest(misused, value):
    assert "did you mean 'made_up'?" in misused("reproduce", "madeup")


def test_unwritable_place_is_exit_2_in_one_line(csm, value, tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, out, err = csm("reproduce", "made_up", "--out", str(tmp_path / "file"), "--quiet")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_another_versions_results_are_kept_unless_forced(csm, misused, value, tmp_path):
    kept = tmp_path / "made_up" / "made_up.json"
    kept.parent.mkdir()
    kept.write_text('{"version": "0.0.1"}')
    words = ("reproduce", "made_up", "--out", str(tmp_path), "--quiet")
    assert "--force" in misused(*words)
    assert kept.read_text() == '{"version": "0.0.1"}'
    assert csm(*words, "--force").code == 0
    assert json.loads(kept.read_text())["version"] != "0.0.1"


def test_figure1_holds(csm, tmp_path):
    code, _, _ = csm("reproduce", "figure1", "--check", "--out", str(tmp_path))
    assert code == 0
    assert {path.name for path in (tmp_path / "figure1").iterdir()} == {"figure1.json", "figure1.md", "figure1.png"}
