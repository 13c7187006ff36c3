"""``csm fit --logger`` and ``csm export``."""

import json

import pytest
import torch

import concrete_score as cs
from concrete_score.training import loggers


class Recorder:
    seen: list  # shared by all of a test

    def begin(self, about):
        self.seen.append(("begin", about.name, about.id, about.config["recipe.model"]))

    def log(self, step, values):
        self.seen.append(("log", step))

    def end(self, why, values):
        self.seen.append(("end", why))


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(Recorder, "seen", [], raising=False)
    monkeypatch.setattr(loggers, "WandB", Recorder)
    return Recorder


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    lines = [f"{'yes' if i % 3 else 'no'},{'abc'[i * i % 3]}" for i in range(90)]
    path.write_text("smoke,grade\n" + "\n".join(lines) + "\n")
    return path


def test_a_logger_is_told_of_the_run(csm, recorder, table, tmp_path):
    out = tmp_path / "run"
    done = csm("fit", str(table), "--out", str(out), "--steps", "40", "--logger", "wandb", "--quiet")
    assert done.code == 0
    first, *lines, last = recorder.seen
    assert first == ("begin", "run", json.loads((out / "run.json").read_text())["id"], "made")
    assert last == ("end", "steps")
    assert lines


def test_an_unknown_logger_is_refused_before_anything_is_written(misused, table, tmp_path):
    out = tmp_path / "run"
    assert "did you mean 'mlflow'" in misused("fit", str(table), "--out", str(out), "--logger", "mlfow")
    assert not out.exists()


def test_export_writes_a_program_that_scores_encoded_rows(csm, misused, table, tmp_path):
    run, file = tmp_path / "run", tmp_path / "model.pt2"
    csm("fit", str(table), "--out", str(run), "--steps", "20", "--quiet")
    value = json.loads(csm("export", str(run), str(file), "--json").out)
    assert value["output"] == "log_density"
    assert value["largest_difference"] <= 1e-6
    model = cs.load(run)
    rows = model.read(table).rows.states.long()
    theirs = torch.export.load(file).module()(rows).double()
    assert torch.allclose(theirs, torch.from_numpy(model.score_samples(table)), atol=1e-6)
    assert "--force" in misused("export", str(run), str(file))
    assert "ends in .pt2" in misused("export", str(run), str(tmp_path / "model.bin"))
