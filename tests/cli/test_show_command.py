"""``csm show``: what a run is made of; damage is named, a stranger's words are escaped."""

import json

from tests.cli import clinic


def test_json_tells_columns_configuration_measures_and_verified_files(csm, tmp_path):
    path = clinic.clinic_run(tmp_path / "run")
    code, out, err = csm("show", path, "--json")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert [{key: value for key, value in column.items() if key != "why"} for column in shown["columns"]] == [
        {"name": "smoke", "kind": "text", "size": 2, "values": ["no", "yes"]},
        {"name": "age", "kind": "integer", "size": 3, "values": ["30", "41", "55"]},
        {"name": "ill", "kind": "text", "size": 2, "values": ["False", "True"]},
    ]
    assert shown["config"]["recipe"]["model"] == "table"
    assert shown["metrics"]["best_step"] == 5
    assert shown["metrics"]["valid"] == shown["metrics"]["valid_log_likelihood"] == -2.25
    assert [file["name"] for file in shown["files"]] == ["run.json", "model.safetensors", "metrics.jsonl"]
    sizes = [(tmp_path / "run" / file["name"]).stat().st_size for file in shown["files"]]
    assert [file["bytes"] for file in shown["files"]] == sizes
    assert (shown["seed"], shown["data"]["rows"]) == (0, 80)


def test_for_people(csm, tmp_path):
    code, out, _ = csm("show", clinic.clinic_run(tmp_path / "run"))
    assert code == 0
    for words in ("30, 41, 55", "model ", "maximum_likelihood", "best_step", "-2.25", "model.safetensors"):
        assert words in out


def test_settings_have_the_names_that_set_takes_and_lists_of_numbers_are_not_shown(csm, tmp_path):
    config = {"recipe": {"model": "made", "model_options": {"parents": [[], [0]], "hidden": [8, 8]}}}
    data = {"rows": 80, "blanks": {"sites": [[1], []], "rates": [0.0, 0.125]}}
    path = clinic.forged(clinic.clinic_run(tmp_path / "run"), data=data, config=config | {"training": {"lr": 0.1}})
    (tmp_path / "run" / "model.safetensors").unlink()
    (tmp_path / "run" / "metrics.jsonl").unlink()
    out = csm("show", path).out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in ("lr 0.1", "model made", "model.hidden [8, 8]", "model.parents 2 lists"):
        assert line in lines
    assert "blanks" not in out
    assert json.loads(csm("show", path, "--json").out)["data"] == data


def test_score_models_have_no_likelihood_and_old_runs_have_columns(csm, tmp_path):
    shown = json.loads(csm("show", clinic.energy_run(tmp_path / "run", sites=3), "--json").out)
    assert (shown["metrics"]["valid"], shown["metrics"]["valid_log_likelihood"]) == (-2.25, None)
    assert [column["name"] for column in shown["columns"]] == ["x0", "x1", "x2"]


def test_a_run_without_a_model_yet_is_shown(csm, tmp_path):
    path = clinic.clinic_run(tmp_path / "run")
    for name in ("model.safetensors", "metrics.jsonl"):
        (tmp_path / "run" / name).unlink()
    shown = json.loads(csm("show", path, "--json").out)
    assert shown["metrics"] == {
        "steps": 0,
        "best_step": None,
        "valid": None,
        "valid_log_likelihood": None,
        "went_back": 0,
    }
    assert [file["name"] for file in shown["files"]] == ["run.json"]


def test_many_values_are_counted_not_listed(csm, tmp_path):
    codec = clinic.codec().to_json()
    codec["columns"][1]["values"] = list(range(300))
    path = clinic.forged(clinic.clinic_run(tmp_path / "run"), codec=codec)
    (tmp_path / "run" / "model.safetensors").unlink()
    out = csm("show", path).out
    assert "0, 1, 2, 3, 4, 5, 6, 7, … (300 in all)" in out


def test_damage_is_named_in_one_line(misused, tmp_path):
    assert "csm fit" in misused("show", str(tmp_path / "nowhere"))
    assert "csm fit" in misused("show", str(tmp_path))
    path = clinic.clinic_run(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text("{}\n")
    assert "metrics.jsonl" in misused("show", path)
    (tmp_path / "run" / "metrics.jsonl").unlink()
    weights = (tmp_path / "run" / "model.safetensors").read_bytes()
    (tmp_path / "run" / "model.safetensors").write_bytes(weights[:100])
    assert "model.safetensors" in misused("show", path)
    (tmp_path / "run" / "run.json").write_text("{")
    assert "run.json" in misused("show", path)


def test_a_strangers_run_is_escaped_or_refused_never_obeyed(csm, misused, tmp_path):
    path = clinic.clinic_run(tmp_path / "run")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    codec = clinic.codec().to_json()
    codec["columns"][0] |= {"name": "\x1b[31mred", "values": ["\x07", "[link=x]"]}
    clinic.forged(path, codec=codec, created="\x1b]0;title\x07", data={"\x1bkey": "\nrow"}, seed=["\x1b"])
    out = csm("show", path).out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[link=x]" in out
    for change in ({"versions": 3}, {"data": None}, {"config": 7}, {"config": {"recipe": {}}}, {"codec": 0}, {"id": 5}):
        misused("show", clinic.forged(path, **{**info, **change}))
