"""``csm compare``: anybody's synthetic table beside the real one, in sentences and as JSON; mistakes in one line."""

import json

import numpy as np
import polars as pl
import pytest

from concrete_score.comparison import compare_draws
from concrete_score.model import load
from tests.cli import clinic
from tests.comparison import law

KEYS = ["rows", "notes", "shape", "trend", "two_sample", "usefulness", "copies", "nearest", "membership", "findings"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Real, synthetic and held-out rows of one law, in three formats, and a table of copies."""
    folder = tmp_path_factory.mktemp("compare")
    real, synthetic, holdout, random = law.draws(0, 200, 200, 200)
    real.write_csv(folder / "real.csv")
    synthetic.write_csv(folder / "synthetic.tsv", separator="\t")
    holdout.write_parquet(folder / "holdout.parquet")
    law.planted(random, synthetic, real).write_csv(folder / "copies.csv")
    names = ("real.csv", "synthetic.tsv", "holdout.parquet", "copies.csv")
    return tuple(str(folder / name) for name in names)


def test_every_part_in_one_object_and_the_same_again(csm, files, tmp_path):
    real, synthetic, holdout, _ = files
    words = ("compare", real, synthetic, "--holdout", holdout, "--target", "sex", "--json")
    code, out, err = csm(*words, "--out", str(tmp_path / "scores.csv"))
    assert code == 0
    assert err.splitlines()[-1].startswith("15 scores written")
    found = json.loads(out)
    assert list(found) == KEYS
    assert found["rows"] == {"real": 200, "synthetic": 200, "holdout": 200}
    assert found["membership"] is None
    assert found["usefulness"]["metric"] == "auc"
    assert [each["flagged"] for each in found["findings"]] == [None, None, False, None, False, False, False]
    assert all("±" in each["text"] for each in found["findings"])
    assert json.loads(csm(*words, "--quiet", "--threads", "1").out) == found
    scores = pl.read_csv(tmp_path / "scores.csv")
    assert scores.columns == ["column", "with", "metric", "score", "real", "synthetic"]
    assert scores["with"].null_count() == 5
    assert scores["score"][:5].mean() == pytest.approx(found["shape"]["score"])


def test_copies_are_told_to_people(csm, files):
    real, _, _, copies = files
    code, out, err = csm("compare", real, copies, "--quiet", "--drop", "sex", "--column", "age=category")
    assert (code, err) == (0, "")
    assert out.startswith("Rows: 200 real, 200 synthetic.\ncolumn")
    assert "age      category" in out
    assert "sex" not in out
    assert "LOOK  5.00 % ± 1.54 % of the synthetic rows are real rows" in out
    assert "shows only beside held-out rows: give --holdout." in out


def test_the_run_that_made_it_betrays_members_or_not(csm, tmp_path):
    run = clinic.clinic_run(tmp_path / "run")
    random = np.random.default_rng(0)
    paths = [str(tmp_path / f"{name}.csv") for name in ("real", "synthetic", "holdout")]
    for path in paths:
        drawn = random.choice(len(clinic.STATES), 120, p=clinic.PMF)
        pl.DataFrame([clinic.STATES[at] for at in drawn], clinic.COLUMNS, orient="row").write_csv(path)
    words = ("compare", *paths[:2], "--holdout", paths[2], "--run", run, "--json", "--quiet")
    found = json.loads(csm(*words).out)["membership"]
    assert found["rows"] == [120, 120]
    assert abs(found["auc"] - 0.5) < 4 * found["stderr"]
    assert not found["flagged"]
    tables = [pl.read_csv(path) for path in (paths[0], paths[2])]
    values = compare_draws(load(run), *tables, parts=["resemblance", "membership"]).values()
    assert values["membership"] == found
    assert values["shape"]["error"] < 0.2
    assert "--holdout" in csm("compare", *paths[:2], "--run", run).err


def test_mistakes_are_one_line(misused, files, tmp_path):
    real, synthetic, holdout, _ = files
    table = pl.read_csv(real)
    other, none, empty = (str(tmp_path / f"{name}.csv") for name in ("other", "none", "empty"))
    table.rename({"pay": "wage"}).drop("sex").write_csv(other)
    table.rename({name: f"{name}2" for name in table.columns}).write_csv(none)
    table.head(0).write_csv(empty)
    told = misused("compare", real, other)
    assert "other.csv without 'pay', 'sex'" in told
    assert "real.csv without 'wage'" in told
    assert "--drop pay --drop sex --drop wage" in told
    assert "give tables of the same columns" in misused("compare", real, none)
    assert "a header alone" in misused("compare", real, empty)
    assert "nowhere.csv" in misused("compare", real, "nowhere.csv")
    assert "did you mean 'sex'?" in misused(
        "compare", real, synthetic, "--holdout", holdout, "--target", "sx", "--quiet"
    )
    assert "add --holdout" in misused("compare", real, synthetic, "--target", "sex")
    assert "for example --column zip=category" in misused("compare", real, synthetic, "--column", "age")
    assert "did you mean 'number'?" in misused("compare", real, synthetic, "--column", "age=nmber")
    assert "expected dates alone" in misused("compare", real, synthetic, "--column", "sex=date")
    assert "the name of a column" in misused("compare", real, synthetic, "--drop", "sx")
    assert "expected a table, got images" in misused("compare", real, "digits")
    run = clinic.clinic_run(tmp_path / "run")
    assert "expected a table, got a run; draw rows with csm sample and give these" in misused("compare", real, run)
    assert "an output ending in" in misused("compare", real, synthetic, "--out", str(tmp_path / "x.txt"))
