"""Sequences with their class as a named field through every command: the real splice set, or else one like it."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

ROWS, AROUND = 600, slice(27, 33)
"""Examples, and the letters around the splice: a reduced size."""


def splice():
    """Classes and sequences; donors (EI) hold GT after the middle, acceptors (IE) AG before it."""
    path = Path(os.environ.get("CONCRETE_SCORE_DATA", "")) / "splice" / "splice.arff.gz"
    random = np.random.default_rng(0)
    if path.exists():
        text = gzip.decompress(path.read_bytes()).decode()
        lines = [line.split(",") for line in text.splitlines() if line.count(",") == 61]
        lines = [[each.strip() for each in line] for line in lines if not line[0].startswith(("%", "@"))]
        rows = [(line[-1], "".join(line[1:-1])) for line in lines]
        return [rows[k] for k in random.permutation(len(rows))[:ROWS]]
    rows = []
    for kind in random.choice(["EI", "IE", "N"], ROWS):
        letters = "".join(random.choice(list("ACGT"), 60))
        motif = {"EI": letters[28:30] + "GT", "IE": "AG" + letters[30:32], "N": letters[28:32]}[kind]
        rows.append((kind, letters[:28] + motif + letters[32:]))
    return rows


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("splice")
    records = [f">s{k} class={kind}\n{text[AROUND]}\n" for k, (kind, text) in enumerate(splice())]
    (folder / "train.fasta").write_text("".join(records[:-50]))
    (folder / "test.fasta").write_text("".join(records[-50:]))
    hidden = [record.split("class=")[0] + "class=?" + record[record.index("\n") :] for record in records[-50:]]
    (folder / "hidden.fasta").write_text("".join(hidden))
    return folder


def classes(headers):
    return [header.split("class=")[1] for header in headers]


def test_splice_goes_through_every_command(files, csm, misused):
    run = str(files / "run")

    def answer(*words):
        outcome = csm(*map(str, words), "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)

    options = ["--extra", "class", "--steps", 150, "--set", "l2=0.003"]
    found = answer("fit", files / "train.fasta", "--out", run, *options)
    assert found["model"] == "potts"
    drawn = answer("sample", run, "-n", 100, "--given", "class=EI")
    assert set(classes(drawn["ids"])) == {"EI"}
    donors = np.mean([text[3:5] == "GT" for text in drawn["sequences"]])
    assert donors > 0.5  # one in sixteen by chance
    filled = answer("impute", run, files / "hidden.fasta")
    truth = [line.split("class=")[1] for line in (files / "test.fasta").read_text().splitlines() if line[0] == ">"]
    assert np.mean([one == other for one, other in zip(classes(filled["ids"]), truth, strict=True)]) > 0.65
    assert answer("evaluate", run, files / "test.fasta")["rows"] > 40
    changes = answer("explain", run, files / "test.fasta", "--top", 30)["changes"]
    assert {each["to"] for each in changes if each["column"] == "class"} <= {"EI", "IE", "N"}
    assert any(each["column"] == "class" for each in changes)
    (files / "bad.fasta").write_text(">b class=XX\n" + "A" * 6 + "\n")
    assert "one of EI, IE, N" in misused("evaluate", run, str(files / "bad.fasta"), "--unknown", "refuse")
    message = misused("fit", str(files / "test.fasta"), "--out", str(files / "other"), "--extra", "kind")
    assert "kind=VALUE" in message
