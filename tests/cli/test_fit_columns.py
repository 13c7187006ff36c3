"""What a fit tells of the columns it found: reasons whole, and of many columns those that want a look by name."""

import random

from concrete_score.cli.console import table

FIT = ("--steps", "1", "--no-report", "--force")
WHY = "190 texts, none of them frequent: left aside, drawn back from those that were seen, by itself"


def test_a_reason_is_whole_in_a_pipe(csm, tmp_path):
    path = tmp_path / "fixed.csv"
    path.write_text("fixed,a,b\n" + "".join(f"7,{i % 2},{i // 2 % 2}\n" for i in range(40)))
    err = csm("fit", str(path), "--out", str(tmp_path / "run"), *FIT).err
    assert "one value in every row: kept aside, and given back\n" in err


def test_a_reason_is_folded_on_a_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    rows = [("name", "text", WHY)]
    folded = table(["column", "kind", "why"], rows, screen=True)
    assert "…" not in folded
    assert max(map(len, folded.replace("\x1b[1m", "").replace("\x1b[0m", "").split("\n"))) <= 60
    for word in WHY.split():
        assert word in folded
    assert WHY in table(["column", "kind", "why"], rows, screen=False)


def test_of_many_columns_those_that_are_not_modelled_are_named(csm, tmp_path):
    random.seed(0)
    names = ["key", *(f"k{i}" for i in range(12)), *(f"x{i}" for i in range(50))]
    rows = [[f"id{r}", *["same"] * 12, *(random.choice("ab") for _ in range(50))] for r in range(40)]
    path, run = tmp_path / "wide.csv", tmp_path / "run"
    path.write_text("\n".join(",".join(row) for row in [names, *rows]) + "\n")
    err = csm("fit", str(path), "--out", str(run), *FIT).err
    assert "63 columns: 50 category, 12 constant, 1 identifier\n" in err
    assert "identifier: key\n" in err
    assert "constant: k0, k1, k2, k3, k4, k5, k6, k7, k8, k9 … and 2 more\n" in err
    assert f"what was made of each column, and why: csm show {run}\n" in err
