"""Sequences through every command: fit, sample, impute, evaluate, explain, show."""

import json

import numpy as np
import polars as pl
import pytest


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """An alignment whose columns 2 and 4 are copies of each other, and a wild type numbered from 11."""
    folder = tmp_path_factory.mktemp("family")
    random = np.random.default_rng(0)
    rows = ["".join(random.choice(list("ACDE"), 5, p=[0.4, 0.3, 0.2, 0.1])) for _ in range(400)]
    rows = [row[:3] + row[1] + row[4] for row in rows]
    rows[0] = "ACACA"
    text = "".join(f">s{k}/11-15\n{row}\n" for k, row in enumerate(rows))
    (folder / "family.a2m").write_text(text)
    (folder / "wild.fasta").write_text(">s0/11-15\nACACA\n")
    table = pl.DataFrame({"mutant": ["C12A", "C12A:C14A", "A11C"], "fitness": [0.1, 0.5, 0.3]})
    table.write_csv(folder / "mutants.csv")
    return folder


def test_a_family_goes_through_every_command(family, csm, misused):
    run, wild = str(family / "run"), str(family / "wild.fasta")

    def answer(*words):
        outcome = csm(*map(str, words), "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    options = ["--set", "batch_size=64", "--steps", "1500", "--weights", "identity=0.9"]
    found = answer("fit", family / "family.a2m", "--out", run, *options)
    assert (found["model"], found["objective"]) == ("potts", "pseudo_likelihood")
    shown = answer("show", run, "--contacts", family / "contacts.png")
    best = shown["couplings"][0]
    assert (best["first"], best["second"]) == ("12", "14")
    assert (family / "contacts.png").read_bytes().startswith(b"\x89PNG")
    relative = ("--relative-to", wild)
    effects = answer("evaluate", run, family / "mutants.csv", *relative, "--out", family / "effects.csv")
    assert effects["rows"] == 3
    assert effects["spearman"].keys() == {"fitness"}
    ratio = pl.read_csv(family / "effects.csv")["log_ratio"]
    assert ratio[1] > ratio[0] + 1  # one change breaks the copy, both together keep it
    changes = answer("explain", run, wild, "--all", "--out", family / "changes.csv")["changes"]
    assert len(changes) == 5 * 19
    single = next(each for each in changes if (each["column"], each["to"]) == ("12", "A"))
    assert single["log_ratio"] == pytest.approx(ratio[0], abs=1e-4)
    assert (family / "changes.png").read_bytes().startswith(b"\x89PNG")
    drawn = answer("sample", run, "-n", 50, "--given", "12=C")
    assert len(drawn["sequences"]) == 50
    assert all(text[1] == "C" for text in drawn["sequences"])
    (family / "holes.fasta").write_text(">h/11-15\nAC??A\n")
    assert answer("impute", run, family / "holes.fasta")["sequences"][0][3] == "C"
    for mutant, message in (("A12G", "C at position 12"), ("C12", "changes such as A42G"), ("C12B", "at position 12")):
        (family / "bad.csv").write_text(f"mutant\n{mutant}\n")
        assert message in misused("evaluate", run, str(family / "bad.csv"), *relative)


def test_a_table_of_mutants_is_read_as_it_is_told(family, csm, misused, tmp_path):
    run, wild, table = str(tmp_path / "run"), str(family / "wild.fasta"), tmp_path / "m.csv"
    assert csm("fit", str(family / "family.a2m"), "--out", run, "--steps", "5", "--no-report", "--quiet").code == 0
    table.write_bytes("mutant:größe\nC12A:1\n".encode("cp437"))
    words = ("evaluate", run, str(table), "--relative-to", wild, "--quiet")
    told = csm(*words, "--separator", ":", "--encoding", "cp437", "--out", str(tmp_path / "effects.csv"))
    assert told.code == 0, told.err
    assert pl.read_csv(tmp_path / "effects.csv").columns == ["mutant", "größe", "log_ratio"]
    table.write_text("mutant,fitness\nC12A,1\n,2\n")
    assert "m.csv: row 3: expected changes such as A42G:V84I, got a blank cell" in misused(*words)
