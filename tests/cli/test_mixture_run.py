"""Every command on a run whose model is a mixture, learned from an ordinary table: numbers, words and blanks."""

import json
from pathlib import Path

import pytest
import torch

from concrete_score import runs


@pytest.fixture
def table(tmp_path):
    """Numbers that follow a word, another word, and one cell in nine blank."""
    gen = torch.Generator().manual_seed(0)
    group = torch.randint(3, (240,), generator=gen).tolist()
    size = (torch.randn(240, generator=gen) + torch.tensor(group) * 2).tolist()
    other = torch.randint(2, (240,), generator=gen).tolist()
    cells = [["abc"[g], f"{s:.2f}", ("no", "yes")[o]] for g, s, o in zip(group, size, other, strict=True)]
    for k in range(0, 240, 3):
        cells[k][k % 9 // 3] = ""
    path = tmp_path / "t.csv"
    path.write_text("group,size,other\n" + "".join(f"{','.join(row)}\n" for row in cells))
    return str(path)


@pytest.mark.slow
def test_all_commands_answer(csm, table, tmp_path):
    run = str(tmp_path / "run")
    code, out, err = csm("fit", table, "--out", run, "--model", "mixture", "--steps", "12", "--json")
    assert code == 0, err
    assert json.loads(out)["model"] == "mixture"
    assert "mixed with" in err
    assert "chosen: by validation, weights " in err
    again = csm("fit", table, "--out", run, "--resume", "--json")
    assert json.loads(again.out)["valid_log_likelihood"] == json.loads(out)["valid_log_likelihood"]
    assert csm("show", run).code == 0
    assert len(json.loads(csm("sample", run, "-n", "7", "--json").out)["rows"]) == 7
    given = json.loads(csm("sample", run, "-n", "7", "--given", "size>0", "--given", "other=yes", "--json").out)
    place = given["columns"].index("other")
    assert {row[place] for row in given["rows"]} == {"yes"}
    few = tmp_path / "few.csv"
    few.write_text("".join(Path(table).read_text().splitlines(keepends=True)[:31]))
    found = json.loads(csm("evaluate", run, str(few), "--json").out)
    assert found["rows"] == 30
    assert -20 < found["lower"] < 0
    assert json.loads(csm("explain", run, str(few), "--top", "1", "--json").out)
    filled = csm("impute", run, str(few)).out.splitlines()
    assert len(filled) == 31
    assert not any(cell == "" for line in filled for cell in line.split(","))
    assert len(csm("impute", run, str(few), "--draws", "2").out.splitlines()) == 61
    assert csm("diagnose", run, "--quiet").code == 0


def test_minutes_end_it_and_what_was_learned_is_kept(csm, table, tmp_path):
    run = str(tmp_path / "run")
    code, out, err = csm("fit", table, "--out", run, "--model", "mixture", "--minutes", "0.02", "--json")
    assert code == 0, err
    assert json.loads(out)["seconds"] < 60
    weights = runs.open(run).model().log_weights.exp()
    assert weights.sum().item() == pytest.approx(1)
