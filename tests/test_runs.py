"""Run directories: every file verifies itself, and nothing strange in its place is believed or opened."""

import errno
import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from concrete_score import runs
from concrete_score.cli.console import SKIN
from concrete_score.errors import InputError
from concrete_score.files import canonical_json, digest
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training import TrainingSettings
from concrete_score.training.recipe import Recipe

SPACE = Space((2, 3))
ROWS = SPACE.uniform(60, generator(0, "rows")).to(torch.uint8)
FORMAT_1 = Path(__file__).parent / "runs" / "format-1"
FILES = ("run.json", "model.safetensors", "metrics.jsonl", "checkpoint/step-00000012.safetensors")


def begin(path, **given):
    settings = TrainingSettings(steps=12, batch_size=8, valid_every=4, check_every=2, **given)
    recipe = Recipe(model_options={"hidden": 3, "blocks": 0}).resolved()
    return runs.create(
        path,
        config={"recipe": recipe.to_json(), "training": settings.to_json()},
        codec={"kind": "integers", "sizes": list(SPACE.sizes)},
        data={"rows": len(ROWS), "sha256": "0"},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two finished runs of the same configuration."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("one", "two"):
        runs.train(begin(folder / name), ROWS, ROWS)
    return folder


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished / "one", tmp_path / "run")
    return tmp_path / "run"


def refused(path, name):
    """The run does not verify, and the message names the file."""
    with pytest.raises(InputError) as told:
        runs.verify(path)
    assert Path(name).name in str(told.value)
    assert "\n" not in str(told.value)


def test_a_finished_run_verifies_and_gives_its_best_model(finished):
    run = runs.open(finished / "one")
    assert set(run.verify()) == set(FILES)
    model = run.model()
    assert model.log_density(SPACE.enumerate()).exp().sum().item() == pytest.approx(1, abs=1e-6)
    lines = run.journal.read()
    best = max(line["valid"] for line in lines)
    assert float(model.log_density(ROWS.long()).double().mean()) == pytest.approx(best, abs=1e-6)
    assert run.recipe.model == "made"
    assert run.space == SPACE


@pytest.mark.parametrize("name", FILES)
def test_any_edited_byte_is_refused_with_the_files_name(copy, name):
    whole = (copy / name).read_bytes()
    picks = torch.randint(len(whole), (40,), generator=torch.Generator().manual_seed(0)).tolist()
    for place in {0, 7, 8, len(whole) - 1, *picks}:
        for change in (1, 0x20):
            (copy / name).write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
            refused(copy, name)
    (copy / name).write_bytes(whole)
    assert runs.verify(copy)


@pytest.mark.parametrize("name", FILES)
def test_truncated_files_are_refused(copy, name):
    whole = (copy / name).read_bytes()
    for length in (0, 1, 8, len(whole) // 2, len(whole) - 1):
        (copy / name).write_bytes(whole[:length])
        refused(copy, name)


@pytest.mark.parametrize("name", FILES[1:])
def test_files_of_another_run_are_refused(copy, finished, name):
    shutil.copy(finished / "two" / name, copy / name)
    refused(copy, name)


def test_a_missing_line_of_metrics_is_refused(copy):
    lines = (copy / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    for kept in (lines[:-1], lines[1:], [lines[1], lines[0], *lines[2:]], [*lines, lines[-1]]):
        (copy / "metrics.jsonl").write_bytes(b"".join(kept))
        refused(copy, "metrics.jsonl")
    (copy / "metrics.jsonl").unlink()
    refused(copy, "metrics.jsonl")


def test_a_checkpoint_in_the_models_place_or_under_another_name_is_refused(copy):
    shutil.copy(copy / FILES[3], copy / "model.safetensors")
    refused(copy, "model.safetensors")
    shutil.copy(copy / FILES[3], copy / "checkpoint/step-00000099.safetensors")
    with pytest.raises(InputError, match="step-00000099"):
        runs.verify(copy)
    with pytest.warns(UserWarning, match="step-00000099.* is damaged"):
        assert runs.open(copy).checkpoint().step < 99


class Trap:
    sprung = False

    def __reduce__(self):
        return Trap.spring, ()

    @staticmethod
    def spring():
        Trap.sprung = True


@pytest.mark.parametrize("name", FILES)
def test_a_booby_trapped_pickle_is_never_opened(copy, name):
    bait = pickle.dumps(Trap())
    (copy / name).write_bytes(bait)
    refused(copy, name)
    torch.save({"x": Trap()}, copy / name)
    refused(copy, name)
    assert not Trap.sprung
    pickle.loads(bait)
    assert Trap.sprung  # the trap itself works
    Trap.sprung = False


def rewrite(path, **changes):
    """An honest-looking run.json with other contents."""
    info = {**json.loads((path / "run.json").read_text()), **changes}
    info.pop("digest")
    text = json.dumps({**info, "digest": digest(canonical_json(info))}, indent=1, ensure_ascii=False) + "\n"
    (path / "run.json").write_text(text)


def test_a_newer_format_is_refused_with_what_to_do(copy):
    rewrite(copy, format=2)
    with pytest.raises(InputError, match="newer concrete-score"):
        runs.open(copy)


def test_names_are_looked_up_in_the_registry_only(copy):
    config = json.loads((copy / "run.json").read_text())["config"]
    for name in ("os:system", "concrete_score.models.made:MADE", "../made"):
        rewrite(copy, config={**config, "recipe": {**config["recipe"], "model": name}})
        with pytest.raises(InputError, match="registered models"):
            runs.open(copy).model()


def test_half_written_files_are_swept_and_metrics_cut_back(tmp_path):
    stop = iter(range(100))
    run = begin(tmp_path / "run")
    ended = runs.train(run, ROWS, ROWS, interrupted=lambda: next(stop) >= 7)
    assert (ended.why, ended.step) == ("interrupted", 7)
    run.journal.append(step=8, loss=1.0, valid=0.0, best_step=8)
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step":9,"lo')
    (run.path / ".model.1.7f.draft.safetensors").write_bytes(b"half")
    again = runs.open(tmp_path / "run")
    runs.train(again, ROWS, ROWS)
    assert [line["step"] for line in again.journal.read()] == [0, 4, 8, 12]
    assert not list(run.path.glob(".*"))
    whole = begin(tmp_path / "whole")
    runs.train(whole, ROWS, ROWS)
    assert all(
        torch.equal(a, b)
        for a, b in zip(whole.model().state_dict().values(), again.model().state_dict().values(), strict=True)
    )
    assert [line | {"digest": ""} for line in whole.journal.read()] == [
        line | {"digest": ""} for line in again.journal.read()
    ]


def test_only_two_checkpoints_are_kept(tmp_path):
    run = begin(tmp_path / "run", checkpoint_seconds=1e-9)
    runs.train(run, ROWS, ROWS)
    assert [path.name for path in run.checkpoints()] == ["step-00000011.safetensors", "step-00000012.safetensors"]
    runs.verify(run.path)


def test_an_occupied_place_is_refused_and_force_removes_only_a_run(copy, tmp_path):
    before = (copy / "run.json").read_bytes()
    with pytest.raises(InputError, match="choose another, or replace it with force=True") as told:
        begin(copy)
    flags = "choose another, continue it with --resume, or replace it with --force"
    assert told.value.render(SKIN).endswith(flags)
    assert (copy / "run.json").read_bytes() == before
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious.txt").write_text("mine")
    with pytest.raises(InputError, match="no run"):
        runs.create(other, config={}, codec={}, data={}, force=True)
    assert (other / "precious.txt").read_text() == "mine"
    (copy / "notes.txt").write_text("mine")
    runs.create(copy, config={}, codec={}, data={}, force=True)
    assert {path.name for path in copy.iterdir()} == {"run.json", "checkpoint", "notes.txt"}


def test_no_run_and_no_model_yet_are_told_apart(tmp_path):
    with pytest.raises(InputError, match=r"make one with fit\(\)") as told:
        runs.open(tmp_path / "nothing")
    assert told.value.render(SKIN).endswith("make one with csm fit")
    run = begin(tmp_path / "run")
    assert runs.verify(run.path) == ["run.json"]
    with pytest.raises(InputError, match="a fitted model, got a run without one yet") as told:
        run.model()
    assert told.value.render(SKIN).endswith("continue it with csm fit --resume")


def test_format_1_loads_forever():
    run = runs.open(FORMAT_1)
    run.verify()
    with (FORMAT_1.parent / "format-1.json").open() as file:
        expected = json.load(file)
    found = run.model().log_density(run.space.enumerate()).double()
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=1e-5, rtol=0)
    assert run.checkpoint().step == 12


def test_force_replaces_only_what_verifies_as_a_run(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "run.json").write_text("{}")
    (mine / "model.safetensors").write_text("precious")
    with pytest.raises(InputError, match=r"run\.json does not verify"):
        runs.create(mine, config={}, codec={}, data={}, force=True)
    assert (mine / "model.safetensors").read_text() == "precious"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "step-00000001.safetensors").write_text("precious")
    run = runs.create(tmp_path / "run", config={}, codec={}, data={})
    (run.path / "checkpoint").rmdir()
    (run.path / "checkpoint").symlink_to(elsewhere)
    with pytest.raises(InputError, match="a link in the place of checkpoint/"):
        runs.create(run.path, config={}, codec={}, data={}, force=True)
    assert (elsewhere / "step-00000001.safetensors").read_text() == "precious"


def test_a_run_that_ended_is_not_continued_with_a_damaged_model(copy):
    file = copy / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match="do not match their SHA-256"):
        runs.train(runs.open(copy), ROWS, ROWS)
    file.unlink()
    with pytest.raises(InputError, match="a fitted model"):
        runs.train(runs.open(copy), ROWS, ROWS)


def test_only_our_own_half_written_files_are_swept(copy):
    """Files that merely look like drafts are a user's, and what lies behind a link is not of this run."""
    mine = [
        copy / name for name in (".notes.draft.txt", ".model.draft.safetensors", ".thesis.12.7f.draft.txt", ".draft")
    ]
    for path in mine:
        path.write_text("mine")
    ours = [copy / ".model.12.7f.draft.safetensors", copy / "checkpoint" / ".step-00000012.12.7f.draft.safetensors"]
    for path in ours:
        path.write_bytes(b"half")
    run = runs.open(copy)
    run.rewind(run.checkpoint())
    assert all(path.read_text() == "mine" for path in mine)
    assert not any(path.exists() for path in ours)
    away = copy.parent / "away"
    (copy / "checkpoint").rename(away)
    (copy / "checkpoint").symlink_to(away)
    left = away / ".step-00000012.12.7f.draft.safetensors"
    left.write_bytes(b"half")
    run.rewind(run.checkpoint())
    assert left.exists()


def test_a_run_killed_before_its_first_file_stood_is_begun_again(tmp_path):
    """Its folder, lock, place of checkpoints and half-written run.json are no files of somebody else."""
    folder = tmp_path / "run"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / ".lock").touch()
    (folder / ".run.12.7f.draft.json").write_text("{")
    run = begin(folder)
    runs.train(run, ROWS, ROWS)
    assert not list(folder.glob(".run*"))
    runs.verify(folder)
    for name in ("checkpoint/mine.txt", ".run.draft.json", ".mine.12.7f.draft.json"):
        other = tmp_path / name.replace("/", "-")
        (other / name).parent.mkdir(parents=True)
        (other / name).write_text("mine")
        with pytest.raises(InputError, match="a folder of other files"):
            begin(other)


def test_a_disk_that_is_full_when_measurements_are_synced_is_told_with_the_path(tmp_path, monkeypatch):
    run = begin(tmp_path / "run")
    run.journal.append(step=0, loss=1.0, valid=0.0, best_step=0)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="bytes are free there") as told:
        run.journal.mark()
    assert told.value.filename == str(run.journal.path)


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(copy, name):
    (copy / name).unlink()
    os.mkfifo(copy / name)
    with pytest.raises(InputError):
        runs.verify(copy)


def test_metrics_after_an_interruption_are_those_of_an_undisturbed_run(tmp_path):
    """Also where a checkpoint falls between a look at the loss and the validation that reports it."""
    settings = {"steps": 12, "batch_size": 8, "valid_every": 5, "check_every": 4}
    recipe = Recipe(model_options={"hidden": 3, "blocks": 0}).resolved()

    def made(path):
        return runs.create(
            path,
            config={"recipe": recipe.to_json(), "training": TrainingSettings(**settings).to_json()},
            codec={"kind": "integers", "sizes": list(SPACE.sizes)},
            data={"rows": len(ROWS), "sha256": "0"},
        )

    whole = made(tmp_path / "whole")
    runs.train(whole, ROWS, ROWS)
    for step in range(1, 12):
        count = iter(range(100))
        runs.train(
            made(tmp_path / f"{step}"), ROWS, ROWS, interrupted=lambda count=count, step=step: next(count) >= step
        )
        again = runs.open(tmp_path / f"{step}")
        runs.train(again, ROWS, ROWS)
        assert again.journal.read() == whole.journal.read()


def test_a_crafted_checkpoint_is_refused_in_one_line(copy):
    from concrete_score.training.store import TensorFile, write

    run = runs.open(copy)
    path = run.checkpoints()[-1]
    file = run._read_checkpoint(path)
    for state in ({**file.state, "metrics": {"lines": "x", "digest": 3}}, {"metrics": {"lines": 0, "digest": ""}}, {}):
        write(path, TensorFile("checkpoint", run.id, file.step, state, {}))
        with pytest.raises(InputError, match=r"run\.json|metrics\.jsonl"):
            runs.train(runs.open(copy), ROWS, ROWS)


def test_an_error_of_ours_after_the_checkpoint_is_not_blamed_on_the_run(tmp_path, monkeypatch):
    """A step that fails for a reason of its own is no fault of run.json, also where a training goes on."""
    from concrete_score.training.loop import _Loop

    run, count = begin(tmp_path / "run"), iter(range(100))
    runs.train(run, ROWS, ROWS, interrupted=lambda: next(count) >= 5)

    def broken(self):
        raise TypeError("a mistake of ours")

    monkeypatch.setattr(_Loop, "_step", broken)
    with pytest.raises(TypeError, match="a mistake of ours"):
        runs.train(runs.open(run.path), ROWS, ROWS)


ODD_STATES = {
    "guard": [{"best": "x"}, {"rollbacks": None}, {"other": 1}, 3],
    "best_step": ["x", None, 1.5],
    "seconds": ["x", [1]],
    "ended": [1, None],
    "restarted_at": [None, {}],
}


@pytest.mark.parametrize("name", ODD_STATES)
def test_a_checkpoint_of_other_types_is_refused_before_a_step(tmp_path, name):
    from concrete_score.training.store import TensorFile, write

    run, count = begin(tmp_path / "run"), iter(range(100))
    runs.train(run, ROWS, ROWS, interrupted=lambda: next(count) >= 5)
    (path,) = run.checkpoints()
    file = run._read_checkpoint(path)
    for value in ODD_STATES[name]:
        write(path, TensorFile("checkpoint", run.id, file.step, {**file.state, name: value}, file.tensors))
        with pytest.raises(InputError, match=r"run\.json: checkpoint: expected a checkpoint of this model"):
            runs.train(runs.open(run.path), ROWS, ROWS)
    shapes = {key: torch.stack([value, value]) if "exp_avg" in key else value for key, value in file.tensors.items()}
    write(path, TensorFile("checkpoint", run.id, file.step, file.state, shapes))
    with pytest.raises(InputError, match=r"run\.json: checkpoint: expected a checkpoint of this model"):
        runs.train(runs.open(run.path), ROWS, ROWS)
