"""Encoded rows on the disk: the rows of memory, whole or not there, and of nothing but their own data."""

import errno
import json
import os
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from concrete_score import caches, fitting
from concrete_score.errors import InputError
from concrete_score.fitting import Request, hold_out
from concrete_score.training import holding
from concrete_score.training.examples import Examples
from concrete_score.training.holding import divide


def table(rows=900, blanks=False, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, rows)
    found = pl.DataFrame(
        {
            "color": np.array(["red", "blue", "grey", "teal"])[kind + rng.integers(0, 2, rows)],
            "age": rng.integers(18, 60, rows) + 10 * kind,
            "x": np.round(rng.normal(kind, 1.0, rows), 3),
            "w": rng.integers(1, 4, rows),
        }
    )
    if blanks:
        found = found.with_columns(pl.when(pl.Series(rng.random(rows) > 0.2)).then(pl.col("age")).alias("age"))
    return found


@pytest.fixture
def files(tmp_path):
    def write(rows=900, blanks=False, parts=3):
        whole = table(rows, blanks)
        for k in range(parts):
            whole.slice(k * rows // parts, rows // parts).write_parquet(tmp_path / f"{k}.parquet")
        return [tmp_path / f"{k}.parquet" for k in range(parts)]

    return write


def fit(data, tmp_path, stream, **options):
    request = Request(data, stream=stream, cache=tmp_path / "run.cache", training={"steps": 30, "seed": 3}, **options)
    job = fitting.prepare(request)
    return job, job.train().model.state_dict()


@pytest.mark.parametrize("blanks", [False, True])
@pytest.mark.parametrize("permuted", [True, False])
def test_weights_are_those_of_memory_bit_for_bit(files, tmp_path, monkeypatch, blanks, permuted):
    if not permuted:
        monkeypatch.setattr(holding, "PERMUTED", 0)
        monkeypatch.setattr(holding, "HELD_OUT", 50)
    paths = files(blanks=blanks)
    options = {"reading": {"weight": "w"}} if blanks else {"reading": {"drop": ["w"]}}
    (one, alone), (other, streamed) = (fit(paths, tmp_path, stream, **options) for stream in (False, True))
    assert one.codec == other.codec
    assert one.facts == other.facts
    assert isinstance(other.rows.states, torch.Tensor)
    for mine, theirs in ((one.rows, other.rows), (one.valid, other.valid)):
        for name in ("states", "observed", "weights"):
            a, b = getattr(mine, name), getattr(theirs, name)
            assert (a is None) == (b is None)
            assert a is None or torch.equal(a, b)
    assert one.valid_inside == pytest.approx(other.valid_inside, abs=1e-12)
    assert all(torch.equal(value, streamed[name]) for name, value in alone.items())


def test_a_cache_is_made_once_and_another_request_has_another(files, tmp_path):
    paths, said = files(), []
    request = Request(paths, stream=True, cache=tmp_path / "c", reading={"drop": ["w"]}, training={"steps": 5})
    fitting.prepare(request, say=lambda text: said.append(str(text)))
    (first,) = (tmp_path / "c").glob("*/cache.json")
    before = os.stat(first.parent / "rows.states").st_mtime_ns
    fitting.prepare(request)
    assert os.stat(first.parent / "rows.states").st_mtime_ns == before
    fitting.prepare(replace(request, training={"steps": 5, "seed": 1}))
    assert len(list((tmp_path / "c").glob("*/cache.json"))) == 2
    assert any("900 rows are encoded in" in text for text in said)
    caches.remove(tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_damaged_cache_is_made_again_and_one_of_other_data_is_refused(files, tmp_path):
    paths, said = files(), []
    request = Request(paths, stream=True, cache=tmp_path / "c", reading={"drop": ["w"]}, training={"steps": 5})
    rows = fitting.prepare(request).rows.states.clone()
    (manifest,) = (tmp_path / "c").glob("*/cache.json")
    states = manifest.parent / "rows.states"
    damaged = bytearray(states.read_bytes())
    damaged[7] ^= 1
    states.write_bytes(damaged)
    again = fitting.prepare(request, say=lambda text: said.append(str(text)))
    assert any("not as it was written; the rows are encoded again" in text for text in said)
    assert torch.equal(again.rows.states, rows)
    info = {**json.loads(manifest.read_text()), "key": "0" * 64}
    rest = {name: value for name, value in info.items() if name != "digest"}
    manifest.write_text(json.dumps({**rest, "digest": caches.digest(caches.canonical_json(rest))}))
    with pytest.raises(InputError, match="expected a cache of this data, got one of other data; remove"):
        fitting.prepare(request)


@pytest.mark.parametrize("fault", ["full", "killed"])
def test_what_breaks_off_leaves_nothing_and_can_be_done_again(files, tmp_path, monkeypatch, fault):
    paths = files()
    request = Request(paths, stream=True, cache=tmp_path / "c", reading={"drop": ["w"]}, training={"steps": 5})
    write = caches._Writer._write
    error = OSError(errno.ENOSPC, "No space left on device") if fault == "full" else KeyboardInterrupt()

    def broken(self, name, *rest):
        if self.rows:
            raise error
        write(self, name, *rest)

    monkeypatch.setattr(caches._Writer, "_write", broken)
    with pytest.raises(type(error)) as caught:
        fitting.prepare(request)
    if fault == "full":
        assert "No space left on device after" in str(caught.value)
        assert str(tmp_path / "c") in str(caught.value)
    assert not (tmp_path / "c").exists()
    monkeypatch.undo()
    assert len(fitting.prepare(request).rows) == 810
    # A process that was killed outright could not clean up; the next one to make the same cache does.
    (made,) = (tmp_path / "c").glob("*/cache.json")
    draft = tmp_path / "c" / f".{made.parent.name}.1.1.draft"
    draft.mkdir()
    made.unlink()
    assert len(fitting.prepare(request).rows) == 810
    assert not draft.exists()


def test_a_file_that_changes_under_a_fit_is_one_line(files, tmp_path, monkeypatch):
    paths = files()
    take = fitting.take_census

    def then_changed(*given):
        found = take(*given)
        table(300, seed=9).write_parquet(paths[1])
        return found

    monkeypatch.setattr(fitting, "take_census", then_changed)
    with pytest.raises(InputError, match=r"1.parquet: expected the file as it was .* got one that changed since"):
        fitting.prepare(Request(paths, stream=True, cache=tmp_path / "c"))
    assert not list((tmp_path / "c").glob("*/cache.json"))


def test_which_rows_are_held_out(monkeypatch):
    monkeypatch.setattr(holding, "PERMUTED", 100)
    small, large = divide(40, 2, 0.25, seed=1), divide(1000, 2, 0.25, seed=1)
    assert small.order is not None
    assert large.order is None
    for total, division in ((40, small), (1000, large)):
        both = torch.cat([division.places(total), division.valid])
        assert both.sort().values.tolist() == list(range(total))
    # Rows that are not held out stay where they are, but for those that fill gaps.
    places = large.places(1000)
    assert int((places != torch.arange(750)).sum()) == len(large.gaps)
    rows = Examples.of(torch.arange(2000).reshape(1000, 2))
    train, valid = hold_out(rows, 0.25, seed=1)
    assert torch.equal(train.states, rows.states[places])
    assert torch.equal(valid.states, rows.states[large.valid])
    monkeypatch.setattr(holding, "HELD_OUT", 10)
    assert len(divide(1000, 2, 0.25, seed=1).valid) == 10


def test_rows_that_are_dropped_or_skipped_are_not_in_the_cache(files, tmp_path):
    paths, said = files(blanks=True), []
    request = Request(paths, stream=True, cache=tmp_path / "c", reading={"missing": "drop", "drop": ["w"]})
    job = fitting.prepare(replace(request, training={"steps": 5}), say=lambda text: said.append(str(text)))
    kept = table(900, blanks=True)["age"].drop_nulls().len()
    assert job.facts["rows"] == kept
    assert f"{900 - kept:,} rows with blank cells dropped" in said
    assert job.rows.whole


def test_a_part_without_a_row_to_use_is_passed_over_unless_all_are(tmp_path):
    said, whole = [], table(60).drop("w").with_columns(pl.col("color").cast(pl.String))
    for k, part in enumerate((whole, whole.with_columns(age=pl.lit(None, pl.Int64)))):
        part.write_parquet(tmp_path / f"{k}.parquet")
    paths = [tmp_path / "1.parquet", tmp_path / "0.parquet"]
    request = Request(paths, stream=True, cache=tmp_path / "c", reading={"missing": "drop"}, training={"steps": 5})
    assert fitting.prepare(request, say=lambda text: said.append(str(text))).facts["rows"] == 60
    assert "60 rows with blank cells dropped" in said
    nothing = whole.with_columns(pl.when(pl.int_range(60) > 29).then(pl.col("age")).alias("age"))
    nothing.with_columns(pl.when(pl.int_range(60) < 30).then(pl.col("x")).alias("x")).write_parquet(paths[0])
    with pytest.raises(InputError, match=r"1.parquet: expected rows .* got none: 0 with unknown values, 60 with"):
        fitting.prepare(replace(request, data=paths[:1]))


def test_too_few_rows_to_hold_any_out_are_learned_from_all_the_same(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,y\nx,z\nw,y\n")
    for stream in (False, True):
        job, _ = fit(path, tmp_path, stream)
        assert (len(job.rows), len(job.valid)) == (3, 0)
