"""What the attack found, a test an item, through the command line and the public Python interface alone.

So they run on older code as well: ``python -m tests.faults.before`` shows that each of them fails there. Numbers in the
names are those of the findings: 1 imports, 2 quotes, 3 replaced files, 4 writers, 5 types, 6 bounds, 7 tracebacks,
8 checkpoints, 9 contradictions, low: what is smaller.
"""

import csv
import gzip
import io
import json
import os
import random
import shutil
import stat
import struct
import subprocess
import sys
import threading
import zipfile
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest

from tests.faults import fits
from tests.faults.nursery import Nursery

pytestmark = pytest.mark.slow
DIGITS = "9" * 400
QUICK = ("--quiet", "--no-report", "--steps", "20", "--batch-size", "8", "--model", "made")
SMALL = ("--set", "model.hidden=4", "--set", "valid_every=10", "--set", "check_every=5")
OFTEN = ("--set", "checkpoint_seconds=0.000001")


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as started:
        yield started


@pytest.fixture(scope="module")
def clinic(nursery, tmp_path_factory):
    """A table, and a run of it."""
    folder, rng = tmp_path_factory.mktemp("clinic"), random.Random(0)
    rows = [f"{rng.choice('xy')},{rng.choice('123')},{rng.choice(('no', 'yes'))}" for _ in range(60)]
    (folder / "t.csv").write_text("\n".join(["a,b,c", *rows]) + "\n")
    ended = nursery.csm("fit", folder / "t.csv", "--out", folder / "run", *QUICK, *SMALL, *OFTEN)
    assert ended.code == 0, ended.err
    return folder


@pytest.fixture
def data(clinic):
    return clinic / "t.csv"


@pytest.fixture
def run(clinic, tmp_path):
    shutil.copytree(clinic / "run", tmp_path / "run")
    return tmp_path / "run"


def refused(ended, *words, codes=(2,)):
    """One short line that says these words, and nothing else."""
    assert ended.code in codes, f"exit {ended.code}: {ended.err[-300:]}"
    assert "Traceback" not in ended.err
    lines = ended.err.splitlines()
    assert len(lines) == 1, ended.err[-300:]
    assert lines[0].startswith("error: ")
    assert len(lines[0]) < 2200
    for word in words:
        assert word in lines[0]


def done(ended):
    assert ended.code == 0, f"exit {ended.code}: {ended.err[-300:]}"
    assert "Traceback" not in ended.err


def forged(run, change):
    """An untrusted run: fields changed, the digest made to match."""
    from hashlib import sha256

    info = json.loads((run / "run.json").read_text())
    info.pop("digest")
    change(info)
    spelled = json.dumps(info, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    text = json.dumps({**info, "digest": sha256(spelled).hexdigest()}, indent=1, ensure_ascii=False)
    (run / "run.json").write_text(text + "\n")


# --- 1: nothing is imported from the working directory


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_1_a_file_polars_py_beside_a_parquet_file_is_not_executed(nursery, run, tmp_path, command):
    import polars as pl

    rows = pl.DataFrame({"a": ["x", "y"] * 30, "b": ["1", "2", "3"] * 20, "c": ["no", "yes"] * 30})
    rows.write_parquet(tmp_path / "t.parquet")
    for name in ("polars", "numpy", "pyarrow"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w').write('yes')\n")
    words = {"fit": ("fit", "t.parquet", "--out", "new", *QUICK), "evaluate": ("evaluate", run, "t.parquet", "--quiet")}
    done(nursery.csm(*words[command], folder=tmp_path))
    assert not (tmp_path / "executed").exists()


# --- 2: a table is read as a strict reader reads it


def test_2_stray_quotes_do_not_swallow_the_rows_between(nursery, tmp_path):
    lines = ["a,b", "1,x", '"5" x",y', "2,x", "1,y", '"5" x",y', "2,x", "1,y"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    refused(nursery.csm("fit", tmp_path / "t.csv", "--out", tmp_path / "run", *QUICK), "line 3")


def read_many(paths, out):
    """For every file the number of rows that ``csm diagnose`` looked at, or that it refused."""
    from concrete_score.cli.main import main

    found = {}
    for path in paths:
        said, sys.stderr = sys.stderr, io.StringIO()
        code = 0
        try:
            main(["diagnose", path, "--json"])
        except SystemExit as left:
            code = left.code
        text, sys.stderr = sys.stderr.getvalue(), said
        told = [line for line in text.splitlines() if line.startswith("looking at ")]
        found[path] = int(told[0].split()[2]) if code == 0 and told else None
    Path(out).write_text(json.dumps(found))


def test_2_malformed_tables_are_refused_and_the_others_keep_every_row(nursery, tmp_path):
    """Three hundred tables of quotes in odd places, held against Python's strict reader."""
    rng, strict = random.Random(2), {}
    cells = ("x", "y", '"x"', '"y"', 'x"', '"x" y"', '"x""y"', '"x', '"x"y', '"x\ny"')
    for number in range(300):
        lines = ["a,b", *[f"{rng.choice('xy')},{rng.choice('xy')}" for _ in range(rng.randint(5, 9))]]
        for _ in range(rng.choice((1, 2, 2))):
            lines.insert(rng.randint(1, len(lines)), f"{rng.choice(cells)},{rng.choice('xy')}")
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join(lines) + "\n")
        try:
            rows = list(csv.reader(io.StringIO(path.read_text(), newline=""), strict=True))
            strict[str(path)] = len(rows) - 1 if {len(row) for row in rows} == {2} else None
        except csv.Error:
            strict[str(path)] = None
    done(nursery.call(read_many, list(strict), str(tmp_path / "found.json")))
    found = json.loads((tmp_path / "found.json").read_text())
    assert sum(rows is None for rows in strict.values()) > 50
    wrong = {Path(path).name: (rows, found[path]) for path, rows in strict.items() if rows != found[path]}
    assert not wrong


# --- 3: what is replaced, and what is not


def test_3_force_keeps_a_folder_that_merely_holds_a_file_run_json(nursery, data, tmp_path):
    mine = tmp_path / "mine"
    (mine / "checkpoint").mkdir(parents=True)
    texts = {"run.json": '{"format": 1}', "model.safetensors": "precious", "checkpoint/thesis.txt": "precious"}
    for name, text in texts.items():
        (mine / name).write_text(text)
    refused(nursery.csm("fit", data, "--out", mine, "--force", *QUICK), "run.json")
    assert {name: (mine / name).read_text() for name in texts} == texts


def test_3_force_follows_no_link_out_of_a_run(nursery, data, run, tmp_path):
    away = tmp_path / "away"
    shutil.move(run / "checkpoint", away)
    (away / "step-00000001.safetensors").write_text("precious")
    (run / "checkpoint").symlink_to(away)
    nursery.csm("fit", data, "--out", run, "--force", *QUICK)
    assert (away / "step-00000001.safetensors").read_text() == "precious"


def test_3_a_pipe_is_written_to_and_stays_one(nursery, run, tmp_path):
    pipe, read = tmp_path / "pipe.csv", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    done(nursery.csm("sample", run, "-n", "3", "--out", pipe, "--force", "--quiet"))
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader.join(30)
    assert len(read[0].splitlines()) == 4


def test_3_permissions_are_kept(nursery, run, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("secret")
    out.chmod(0o600)
    done(nursery.csm("sample", run, "-n", "3", "--out", out, "--force", "--quiet"))
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [".notes.draft.txt", ".thesis.12.draft.txt", "checkpoint/.mine.draft"])
def test_3_resume_removes_only_drafts_of_its_own(nursery, data, run, name):
    (run / name).write_text("precious")
    (run / "model.safetensors").unlink()
    (run / "checkpoint" / "step-00000020.safetensors").unlink()
    done(nursery.csm("fit", data, "--out", run, "--resume", *QUICK, *SMALL, *OFTEN))
    assert (run / name).read_text() == "precious"


@pytest.mark.parametrize("stored", ["another seed", "another size", "a user's page"])
def test_3_reproduce_keeps_what_is_not_of_the_same_seed_and_size(nursery, tmp_path, stored):
    folder = tmp_path / "figure1"
    if stored == "a user's page":
        folder.mkdir()
        (folder / "figure1.md").write_text("my notes")
    else:
        done(nursery.csm("reproduce", "figure1", "--quick", "--out", tmp_path, "--quiet"))
        name = {"another seed": "seed", "another size": "quick"}[stored]
        found = json.loads((folder / "figure1.json").read_text())
        (folder / "figure1.json").write_text(json.dumps({**found, name: {"seed": 7, "quick": False}[name]}))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(nursery.csm("reproduce", "figure1", "--quick", "--out", tmp_path, "--quiet"), "--force")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# --- 4: one writer


def two_writers(run, first, second):
    """One goes on for long; the other comes when it is at work, and says how it was answered."""
    from time import sleep

    from concrete_score.cli.main import main

    if not (child := os.fork()):
        try:
            main(first)
        finally:
            os._exit(0)
    try:
        while not any((Path(run) / "checkpoint").glob("step-*")):
            sleep(0.01)
        main(second)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_4_a_second_writer_is_told_and_a_dead_one_holds_nothing(nursery, data, tmp_path):
    words = ["fit", str(data), "--out", str(tmp_path / "run"), *QUICK, *SMALL, "--set", "checkpoint_seconds=0.01"]
    long = [*words, "--steps", "1000000"]
    ended = nursery.call(two_writers, str(tmp_path / "run"), long, [*long, "--resume"], seconds=60)
    refused(ended, str(tmp_path / "run"))
    done(nursery.csm(*words, "--force"))


def writers_at_once(run, words):
    """Six times two writers that begin together: one writes, the other is told, and the run is readable."""
    from concrete_score.cli.main import main

    def forked(*given):
        if child := os.fork():
            return child
        code = 70
        try:
            main([*given])
        except SystemExit as left:
            code = left.code or 0
        finally:
            os._exit(code)

    def code(child):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    for number in range(6):
        codes = {code(child) for child in [forked(*words), forked(*words)]}
        assert 0 in codes, (number, codes)
        assert codes <= {0, 2}, (number, codes)
        assert code(forked("evaluate", run, words[1], "--quiet")) == 0, number
        assert code(forked("show", run)) == 0, number


@pytest.mark.parametrize("how", ["--resume", "--force"])
def test_4_writers_that_begin_together_leave_a_readable_run(nursery, data, run, how):
    if how == "--resume":
        (run / "model.safetensors").unlink()
        (run / "checkpoint" / "step-00000020.safetensors").unlink()
    words = ["fit", str(data), "--out", str(run), *QUICK, *SMALL, *OFTEN, how]
    done(nursery.call(writers_at_once, str(run), words))


def write_from_threads(path):
    """Eight threads write one file; it is always one of their texts."""
    from concurrent.futures import ThreadPoolExecutor

    from concrete_score.files import write_text

    texts = {str(number) * 50_000 for number in range(8)}
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            list(pool.map(lambda text: write_text(path, text), texts))
            assert Path(path).read_text() in texts


def test_4_threads_do_not_share_a_draft(nursery, tmp_path):
    done(nursery.call(write_from_threads, str(tmp_path / "out.txt")))


# --- 5: types


def whole_numbers_beside_blanks():
    import pandas as pd

    from concrete_score import ConcreteScoreEstimator

    large = 2**53 + 1
    rows = pd.DataFrame({"a": ["x", "y", "x"] * 20})
    rows["n"] = pd.array([large, None, large + 1] * 20, dtype="Int64")
    found = ConcreteScoreEstimator(steps=5, missing="drop").fit(rows).impute(rows)
    assert found["n"].dtype == "Int64"
    known = rows["n"].notna()
    assert found["n"][known].tolist() == rows["n"][known].tolist()
    assert set(found["n"]) <= {large, large + 1}


def test_5_whole_numbers_beside_blanks_keep_every_digit(nursery):
    done(nursery.call(whole_numbers_beside_blanks))


def _others():
    import datetime as dt
    from decimal import Decimal

    import pandas as pd

    return {
        "dates": [dt.date(2020, 1, 2), None, dt.date(2020, 1, 3)],
        "decimals": [Decimal("1.10"), None, Decimal("2.20")],
        "bytes": [b"\0", b"", None],
        "empty strings": np.array(["", "q", None], dtype=object),
        "unsigned": np.array([2**64 - 1, 0, 2**63], dtype="uint64"),
        "whole": pd.array([2**62 + 1, None, 3], dtype="Int64"),
    }


def column_not_known(kind):
    import pandas as pd

    from concrete_score import ConcreteScoreEstimator

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.choice(["x", "y"], 40), "b": rng.choice([1, 2, 3], 40)})
    model = ConcreteScoreEstimator(steps=5).fit(rows)
    rows = pd.DataFrame({"a": ["x", None, "y"], "b": [1, 2, 3]}).assign(**{kind: _others()[kind]})
    found = model.impute(rows)
    pd.testing.assert_frame_equal(found[["b", kind]], rows[["b", kind]])


@pytest.mark.parametrize("kind", ["dates", "decimals", "bytes", "empty strings", "unsigned", "whole"])
def test_5_columns_that_are_not_known_keep_values_and_types(nursery, kind):
    done(nursery.call(column_not_known, kind))


# --- 6: bounds before work


def _bomb(kind, path):
    if kind == "npz":  # more than two gigabytes of zeros
        packed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        with packed, packed.open("x.npy", "w", force_zip64=True) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (9 * 2**18, 1024)}
            np.lib.format.write_array_header_1_0(file, header)
            for _ in range(9 * 2**4):
                file.write(bytes(2**24))
    else:
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(b"a,b\n")
            for _ in range(150):
                file.write(b"x,y\n" * 2**20)


@pytest.mark.parametrize("kind", ["npz", "csv.gz"])
def test_6_files_that_unpack_to_much_are_refused_before_they_are(nursery, tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    _bomb(kind, path)
    ended = nursery.csm("fit", path, "--out", tmp_path / "run", *QUICK, seconds=60, memory=10 * 2**30)
    # A table of text that is too large for memory is read in parts, and this one says nothing.
    refused(ended, "at most 2 GiB of memory" if kind == "npz" else "a column with two values or more")


@pytest.mark.parametrize("setting", ["batch_size=1000000000", "model.hidden=1000000"])
def test_6_sizes_asked_for_are_refused_with_the_number(nursery, data, tmp_path, setting):
    words = ("--quiet", "--no-report", "--steps", "20", "--model", "made", "--set", setting)
    refused(nursery.csm("fit", data, "--out", tmp_path / "run", *words, seconds=100), "at most 2 GiB of memory")


def test_6_sizes_of_an_untrusted_run_are_refused_on_resume(nursery, run, data):
    forged(run, lambda info: info["config"]["recipe"]["model_options"].update(hidden=10**6))
    refused(nursery.csm("fit", data, "--out", run, "--resume", "--no-report", "--quiet", seconds=100))


@pytest.mark.parametrize("command", ["resume", "report"])
@pytest.mark.parametrize("config", [{"recipe": 3, "training": {}}, {}], ids=["numbers", "nothing"])
def test_6_parts_of_an_untrusted_run_that_are_no_such_thing_are_refused(nursery, run, data, command, config):
    forged(run, lambda info: info.update(config=config))
    words = {
        "resume": ("fit", data, "--out", run, "--resume", "--no-report"),
        "report": ("show", run, "--report", data),
    }
    refused(nursery.csm(*words[command], "--quiet", seconds=100), "run.json")


# --- 7: no traceback


@pytest.mark.parametrize("kind", ["dates", "decimals"])
def test_7_dates_and_decimals_in_json(nursery, run, tmp_path, kind):
    import datetime as dt
    from decimal import Decimal

    import polars as pl

    cell = {"dates": dt.date(2020, 1, 1), "decimals": Decimal("1.10")}[kind]
    rows = pl.DataFrame({"a": [None, "x"], "b": ["1", "2"], "c": ["no", "yes"], "other": [cell] * 2})
    rows.write_parquet(tmp_path / "t.parquet")
    ended = nursery.csm("impute", run, tmp_path / "t.parquet", "--json", "--quiet")
    done(ended)
    assert json.loads(ended.out)["rows"][1][3] == str(cell)


def test_7_text_beyond_unicode(nursery, tmp_path):
    array = np.array([["a"], ["b"]] * 20)
    array.view(np.uint32)[0, 0] = 0x7FFFFFFF
    np.save(tmp_path / "t.npy", array)
    refused(nursery.csm("fit", tmp_path / "t.npy", "--out", tmp_path / "run", *QUICK))


def test_7_two_hundred_axes(nursery, tmp_path):
    (tmp_path / "x-idx3-ubyte").write_bytes(struct.pack(">BBBB", 0, 0, 8, 200) + struct.pack(">I", 1) * 200 + b"\0")
    refused(nursery.csm("fit", tmp_path / "x-idx3-ubyte", "--out", tmp_path / "run", *QUICK))


@pytest.mark.parametrize("option", ["--steps", "--seed", "--batch-size", "lr", "patience", "seed"])
def test_7_numbers_of_four_hundred_digits(nursery, data, tmp_path, option):
    words = (option, DIGITS) if option.startswith("-") else ("--set", f"{option}={DIGITS}")
    refused(nursery.csm("fit", data, "--out", tmp_path / "run", "--quiet", "--no-report", *words, seconds=60))


@pytest.mark.parametrize("name", ["steps", "model.hidden", "model.blocks"])
def test_7_brackets_without_end(nursery, data, tmp_path, name):
    words = ("--quiet", "--no-report", "--set", f"{name}={'[' * 3000}")
    refused(nursery.csm("fit", data, "--out", tmp_path / "run", *words))


CLOSED = {
    "fit": ("fit", "{data}", "--out", "{new}", *QUICK),
    "sample": ("sample", "{run}", "-n", "2"),
    "evaluate": ("evaluate", "{run}", "{data}"),
    "explain": ("explain", "{run}", "{data}"),
    "impute": ("impute", "{run}", "{data}"),
    "show": ("show", "{run}"),
    "diagnose": ("diagnose", "{data}"),
    "data": ("data", "list"),
    "list": ("list",),
    "reproduce": ("reproduce", "figure1", "--quick", "--out", "{new}"),
}


def closed_stream(number, words):
    """The command with a stream closed, as ``csm … >&-`` has it."""
    import sys

    setattr(sys, ("stdin", "stdout")[number], None)  # what Python makes of it
    os.close(number)
    from concrete_score.cli.main import main

    main(words)


@pytest.mark.parametrize("command", CLOSED)
def test_7_a_closed_standard_output_is_no_traceback(nursery, run, data, tmp_path, command):
    words = [word.format(run=run, data=data, new=tmp_path / "new") for word in CLOSED[command]]
    done(nursery.call(closed_stream, 1, words))


@pytest.mark.parametrize("command", ["evaluate", "impute", "explain"])
def test_7_a_closed_standard_input_is_one_line(nursery, run, command):
    refused(nursery.call(closed_stream, 0, [command, str(run), "-", "--quiet"]))


@pytest.mark.parametrize("url", ["x", "http://["])
def test_7_a_bad_address(nursery, tmp_path, url):
    environment = {"CONCRETE_SCORE_CACHE": str(tmp_path), "CONCRETE_SCORE_DATA": ""}
    refused(nursery.csm("data", "fetch", "nltcs", "--quiet", "--url", url, environment=environment, seconds=60))


def test_7_a_length_that_is_no_number(nursery, tmp_path):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "x")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {"CONCRETE_SCORE_CACHE": str(tmp_path), "CONCRETE_SCORE_DATA": ""}
        url = f"http://127.0.0.1:{server.server_port}"
        refused(nursery.csm("data", "fetch", "nltcs", "--quiet", "--url", url, environment=environment, seconds=60))
        server.shutdown()


@pytest.mark.parametrize("value", ["x", ""])
def test_7_a_launchers_number_that_is_none(nursery, data, tmp_path, value):
    ended = nursery.csm("fit", data, "--out", tmp_path / "run", *QUICK, environment={"WORLD_SIZE": value})
    refused(ended, "WORLD_SIZE")


def device_x():
    import pandas as pd

    from concrete_score import ConcreteScoreEstimator

    rows = pd.DataFrame({"a": ["x", "y"] * 20, "b": [1, 2] * 20})
    with pytest.raises(ValueError, match=r"^[^\n]*got 'x'[^\n]*$"):
        ConcreteScoreEstimator(steps=2, device="x").fit(rows)


def test_7_a_device_that_is_none(nursery):
    done(nursery.call(device_x))


def test_7_python_without_docstrings_and_asserts(run, data):
    words = [sys.executable, "-OO", "-m", "concrete_score", "evaluate", str(run), str(data), "--quiet"]
    ended = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert ended.returncode == 0, ended.stderr[-300:]


def broken_command():
    import click

    from concrete_score.cli.main import csm, main

    def fail():
        raise ZeroDivisionError("bug")

    csm.get_command = lambda ctx, name: click.Command("list", callback=fail)
    main(["list"])


def test_7_a_mistake_of_ours_is_one_line_that_names_a_log_file(nursery, tmp_path):
    ended = nursery.call(broken_command, environment={"CONCRETE_SCORE_LOGS": str(tmp_path / "logs")})
    refused(ended, "internal error", "report", str(tmp_path / "logs"), codes=(1,))
    (log,) = (tmp_path / "logs").iterdir()
    assert "ZeroDivisionError: bug" in log.read_text()


# --- 8: checkpoints


def test_8_a_damaged_newest_checkpoint_leaves_the_older_one(nursery, data, clinic, run):
    older, newest = sorted((run / "checkpoint").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    ended = nursery.csm("fit", data, "--out", run, "--resume", *QUICK, *SMALL, *OFTEN)
    done(ended)
    assert newest.name in ended.err
    assert older.name in ended.err
    assert fits.content(run) == fits.content(clinic / "run")


# --- 9: contradictions


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "steps=abc", "--steps", "5"),
        ("--set", "steps=6", "--steps", "5"),
        ("--set", "seed=2", "--seed", "1"),
        ("--set", "lr=x", "--lr", "0.1"),
        ("--set", "batch_size=-3", "--batch-size", "8"),
    ],
    ids=" ".join,
)
def test_9_contradictions_are_refused_even_where_another_option_wins(nursery, data, tmp_path, words):
    refused(nursery.csm("fit", data, "--out", tmp_path / "run", "--quiet", "--no-report", *words))


# --- low


def interrupted_everywhere(data, folder, words):
    """A fit cut off by Ctrl-C during each of its steps, and continued."""
    import signal

    from concrete_score.cli.main import main

    def call(out, *more):
        try:
            main([*words, "--out", str(out), *more])
        except SystemExit as left:
            return left.code
        return 0

    def measured(out):
        lines = [json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]
        return [{name: value for name, value in line.items() if name != "digest"} for line in lines]

    import torch

    whole = Path(folder) / "whole"
    call(whole)
    kinds = [torch.optim.Adam, torch.optim.AdamW]  # older code has one of these
    with suppress(ImportError):
        from concrete_score.training.optimizers import AdamW

        kinds.append(AdamW)
    steps = [kind.step for kind in kinds]
    for cut in range(1, 19):
        count = iter(range(1000))

        def counted(self, *given, count=count, cut=cut, **named):
            if next(count) == cut:
                os.kill(os.getpid(), signal.SIGINT)
            return steps[kinds.index(type(self))](self, *given, **named)

        for kind in kinds:
            kind.step = counted
        assert call(Path(folder) / str(cut)) == 130, f"not interrupted in step {cut}"
        for kind, step in zip(kinds, steps, strict=True):
            kind.step = step
        assert not call(Path(folder) / str(cut), "--resume")
        found, expected = measured(Path(folder) / str(cut)), measured(whole)
        differ = [(a, b) for a, b in zip(found, expected, strict=True) if a != b]
        assert not differ, f"interrupted in step {cut}: {differ[0]}"


def test_low_metrics_after_an_interruption_are_those_of_an_undisturbed_run(nursery, data, tmp_path):
    words = ["fit", str(data), *QUICK, "--set", "model.hidden=4", "--set", "valid_every=7", "--set", "check_every=4"]
    done(nursery.call(interrupted_everywhere, str(data), str(tmp_path), words))


def test_low_lines_of_an_error_are_bounded_and_come_at_once(nursery, tmp_path):
    width = 20_000
    names, ones = ",".join(f"c{d}" for d in range(width)), ",".join(["1"] * width)
    (tmp_path / "wide.csv").write_text("\n".join([names, ones, ones, ones]) + "\n")
    refused(nursery.csm("fit", tmp_path / "wide.csv", "--out", tmp_path / "run", *QUICK, seconds=30))


@pytest.mark.parametrize("command", ["fit", "sample"])
def test_low_names_that_are_too_long_are_exit_2(nursery, run, data, tmp_path, command):
    name = tmp_path / ("o" * 300 + ".csv")
    words = {"fit": ("fit", data, *QUICK), "sample": ("sample", run, "-n", "1", "--quiet")}[command]
    refused(nursery.csm(*words, "--out", name), "; ")


def without_room(words):
    """The disk is full from the third call to have a file synced on."""
    import errno

    from concrete_score.cli.main import main

    sync, count = os.fsync, iter(range(10**6))

    def full(handle):
        if next(count) >= 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    os.fsync = full
    main(words)


def test_low_a_full_disk_says_where_and_how_much(nursery, data, tmp_path):
    words = ["fit", str(data), "--out", str(tmp_path / "run"), *QUICK]
    refused(nursery.call(without_room, words), str(tmp_path / "run"), "bytes are free", codes=(1,))
