"""One door for every kind of data: a codec and a format are one file each, files are read and models built once."""

import builtins
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import concrete_score as cs
from concrete_score import registry, runs
from concrete_score.cli.main import main
from concrete_score.registry import Entry
from concrete_score.training.recipe import Recipe

SMALL = ("--steps", "40", "--set", "model.hidden=8", "--set", "valid_every=20", "--quiet")


@pytest.fixture
def csm(capsys):
    """Call ``csm`` and get its standard output; it must succeed."""

    def call(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert not left.value.code, err
        return out

    return call


@pytest.fixture
def toys(monkeypatch):
    """The toy format and codec, registered by a line each."""
    installed = registry.installed
    lines = {
        "formats": {"hands": Entry("tests.toys.hands:hands", "hands of cards")},
        "codecs": {"cards": Entry("tests.toys.cards:CardsCodec", "hands of cards")},
    }
    monkeypatch.setattr(registry, "installed", lambda kind: {**installed(kind), **lines.get(kind, {})})


@pytest.fixture
def deal(tmp_path):
    """A file of pairs in which the second card has the first one's suit."""
    rng = np.random.default_rng(0)
    ranks, suits = rng.integers(0, 13, (400, 2)), rng.integers(0, 4, 400)
    lines = [" ".join(f"{'23456789TJQKA'[r]}{'SHDC'[s]}" for r in row) for row, s in zip(ranks, suits, strict=True)]
    path = tmp_path / "deal.hands"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_new_codec_and_a_new_format_go_through_every_command(toys, deal, tmp_path, csm):
    run = tmp_path / "run"
    found = json.loads(csm("fit", deal, "--out", run, "--json", "--steps", "300", "--quiet"))
    assert found["model"] == "made"
    drawn = json.loads(csm("sample", run, "-n", "50", "--given", "suit0=H", "--json", "--quiet"))["hands"]
    assert {hand[0][1] for hand in drawn} == {"H"}
    assert sum(hand[1][1] == "H" for hand in drawn) > 35
    csm("sample", run, "-n", "30", "--out", tmp_path / "drawn.hands", "--quiet")
    assert len((tmp_path / "drawn.hands").read_text().splitlines()) == 30
    (tmp_path / "torn.hands").write_text("KS ?\n? 7H\n2C 2C\n")
    filled = json.loads(csm("impute", run, tmp_path / "torn.hands", "--json", "--quiet"))
    assert (filled["filled"], filled["hands"][2]) == (4, ["2C", "2C"])
    assert (filled["hands"][0][0], filled["hands"][0][1][1], filled["hands"][1][1]) == ("KS", "S", "7H")
    (tmp_path / "odd.hands").write_text("KS 7H\n")
    changes = json.loads(csm("explain", run, tmp_path / "odd.hands", "--top", "2", "--json", "--quiet"))["changes"]
    assert {(c["column"], c["to"]) for c in changes} == {("suit0", "H"), ("suit1", "S")}
    assert json.loads(csm("evaluate", run, deal, "--json", "--quiet"))["method"] == "exact"
    assert "Cards:" in csm("show", run)
    assert "report.html" in [path.name for path in run.iterdir()]
    assert json.loads(csm("diagnose", deal, "--json", "--quiet"))["rows"] == 400


def test_a_new_codec_answers_in_python_too(toys, deal, tmp_path, csm):
    csm("fit", deal, "--out", tmp_path / "run", "--no-report", "--steps", "300", "--quiet")
    model = cs.load(tmp_path / "run")
    assert {hand[0][1] for hand in model.sample(20, given={"suit0": "D"})} == {"D"}
    assert model.impute([("KS", None)])[0][1][1] == "S"
    assert model.explain([("KS", "7H")], top=1)["to"][0] in ("H", "S")
    assert model.evaluate(str(deal)).log_likelihood == pytest.approx(model.score(str(deal)))
    with pytest.raises(cs.InputError, match="hands of cards, got rows"):
        model.score(cs.data.as_frame(np.zeros((2, 2), int)))


def test_an_image_run_samples_and_fills_in_python(tmp_path, csm):
    rng = np.random.default_rng(0)
    images = (rng.random((60, 4, 4)) < 0.5).astype(np.uint8) * 255
    images[:, 2:] = images[:, :2]
    np.save(tmp_path / "x.npy", images)
    words = ("--steps", "30", "--batch-size", "16", "--set", "model.width=8", "--quiet", "--no-report")
    csm("fit", tmp_path / "x.npy", "--out", tmp_path / "run", *words)
    model = cs.load(tmp_path / "run")
    with pytest.warns(UserWarning, match="unadjusted"):
        drawn = model.sample(5)
    assert (drawn.shape, drawn.dtype, set(np.unique(drawn)) <= {0, 255}) == ((5, 4, 4), np.uint8, True)
    torn = images[:3].astype(float)
    torn[:, 2:] = np.nan
    with pytest.warns(UserWarning, match="unadjusted"):
        whole = model.impute(torn)
    assert whole.shape == (3, 4, 4)
    assert (whole[:, :2] == images[:3, :2]).all()
    assert not np.isnan(whole).any()
    with pytest.warns(UserWarning, match="unadjusted"):
        assert model.impute(torn, draws=2).shape == (2, 3, 4, 4)
    assert model.evaluate(images).method == "variational"
    assert model.explain(images[:1], top=2).shape == (2, 5)


class Opened:
    """Counts how often a file is opened for reading, by whatever way Python has."""

    def __init__(self, monkeypatch, path):
        self.count, self.path = 0, str(path)
        for module, name in ((builtins, "open"), (io, "open"), (os, "open")):
            monkeypatch.setattr(module, name, self.counted(getattr(module, name)))
        for name in ("read_csv", "scan_csv", "read_parquet", "scan_parquet"):
            monkeypatch.setattr(pl, name, self.counted(getattr(pl, name)))

    def counted(self, opener):
        def call(file, *args, **options):
            self.count += isinstance(file, str | Path) and str(file) == self.path
            return opener(file, *args, **options)

        return call


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "npy"])
def test_a_fit_reads_its_file_once_and_builds_its_model_once(tmp_path, csm, monkeypatch, ending):
    table = pl.DataFrame(np.random.default_rng(0).integers(0, 3, (80, 3)), schema=["a", "b", "c"])
    path = tmp_path / f"table.{ending}"
    cs.data.write_file([cs.data.as_frame(table)], path)
    opened, builds, build = Opened(monkeypatch, path), [], Recipe.build_model
    monkeypatch.setattr(Recipe, "build_model", lambda self, *args: builds.append(1) or build(self, *args))
    csm("fit", path, "--out", tmp_path / "run", *SMALL)
    assert (opened.count, len(builds)) == (1, 1)
    assert (tmp_path / "run" / "report.html").exists()
    builds.clear()
    cs.ConcreteScoreEstimator(steps=20, options={"model.hidden": 8}).fit(table)
    assert len(builds) == 1


WALK = """
import sys, threading
from pathlib import Path
import concrete_score
root = str(Path(concrete_score.__file__).parent)
files = set()
def see(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & 1 and code.co_filename.startswith(root):  # neither module nor class bodies
        files.add(code.co_filename)
from concrete_score.cli.main import main
threading.setprofile(see)
sys.setprofile(see)
try:
    main(sys.argv[1:])
finally:
    sys.setprofile(None)
    print(len(files), *sorted(files), file=sys.stderr)
"""


def walked(*words):
    """How many files of the package a function runs in."""
    child = subprocess.run([sys.executable, "-c", WALK, *map(str, words)], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return int(child.stderr.splitlines()[-1].split()[0])


def test_few_files_are_walked(tmp_path):
    table = pl.DataFrame(np.random.default_rng(0).integers(0, 3, (80, 3)), schema=["a", "b", "c"])
    table.write_csv(tmp_path / "table.csv")
    assert walked("fit", tmp_path / "table.csv", "--out", tmp_path / "run", "--no-report", *SMALL) <= 52
    assert walked("sample", tmp_path / "run", "-n", "5", "--given", "a=1", "--quiet") <= 33


def test_old_runs_open_through_the_same_door():
    for path in sorted((Path(__file__).parent / "runs").glob("format-*")):
        if path.is_dir():
            assert cs.load(path).sample(2) is not None
            assert runs.verify(path)
