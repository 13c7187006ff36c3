"""Answers by blocks: the same numbers however the rows are cut, and whoever works on them."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from concrete_score import blocks
from concrete_score.blocks import Evaluation, joined_copies
from concrete_score.codecs import TableCodec
from concrete_score.data.evenly import RowSample, some_rows
from concrete_score.data.frame import Frame, as_frame
from concrete_score.data.streams import stream_batches
from concrete_score.likelihood.exact import exact, mean_and_stderr
from concrete_score.model import Model
from concrete_score.models import MADE
from concrete_score.randomness import generator
from concrete_score.targets import pmf

ROWS = 61


def mixed(rows, seed, blank=0.0):
    random = np.random.default_rng(seed)
    table = pl.DataFrame(
        {
            "id": [f"p{k:04d}" for k in range(rows)],
            "sex": random.choice(["f", "m"], rows),
            "city": random.choice(["Aachen", "Bonn", "Celle", "Dessau"], rows),
            "income": np.round(random.gamma(3.0, 900.0, rows), 2),
            "visits": random.poisson(40, rows),
            "child": random.integers(0, 3, rows),
        }
    )
    holes = [
        pl.when(pl.Series(random.random(rows) >= blank)).then(pl.col(name)).alias(name) for name in table.columns[1:]
    ]
    return table.with_columns(holes) if blank else table


@pytest.fixture(scope="module")
def model():
    codec = TableCodec.fit(mixed(400, 0))
    network = MADE(codec.space, hidden=16, generator=torch.Generator().manual_seed(3)).requires_grad_(False)
    return Model.of(network, codec, seed=5)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "SAMPLED", 16)
    monkeypatch.setattr(blocks.Scoring, "size", 16)
    monkeypatch.setattr(blocks.Filler, "size", 16)
    monkeypatch.setattr(blocks.Telling, "size", 16)


def cut(table, *ends):
    """The rows of a table in parts that end there."""
    return stream_batches([table[a:b] for a, b in zip((0, *ends), (*ends, len(table)), strict=True)])


CUTS = [(), (1,), (16, 32), (7, 8, 40, 60)]


def test_draws_do_not_depend_on_the_number_of_processes_or_of_rows(model):
    one = model.sample(ROWS)
    assert one.equals(model.sample(ROWS, jobs=2))
    assert one[:16].equals(model.sample(16))
    assert len(one.unique()) > 50
    conditioned = model.sample(40, {"sex": "f"})
    assert conditioned.equals(model.sample(40, {"sex": "f"}, jobs=2))


@pytest.mark.parametrize("blank", [0.0, 0.3])
def test_log_likelihoods_do_not_depend_on_how_rows_are_cut(model, blank):
    table = mixed(ROWS, 1, blank)
    whole = model.score_samples(table)
    assert np.array_equal(whole, model.score_samples(table, jobs=2))
    wanted = model.evaluate(model.read(table))
    for ends in CUTS:
        found = Evaluation()
        parts = list(found.over(model.scored(cut(table, *ends))))
        assert np.array_equal(torch.cat([part.values for part in parts]).numpy(), whole)
        assert torch.cat([part.row for part in parts]).tolist() == list(range(ROWS))
        assert found.found == wanted
        assert found.counted.unobserved == (table.null_count().sum_horizontal()[0] > 0) * sum(
            None in row[1:] for row in table.rows()
        )
    mean, stderr = mean_and_stderr(torch.from_numpy(whole))
    assert wanted.lower == pytest.approx(mean, rel=1e-14)
    assert wanted.stderr == pytest.approx(stderr, rel=1e-12)


@pytest.mark.parametrize("draws", [None, 3])
def test_filled_cells_do_not_depend_on_how_rows_are_cut(model, draws):
    table = mixed(ROWS, 2, 0.3)
    whole = model.impute(table, draws)
    assert whole.null_count().sum_horizontal()[0] == 0
    assert whole.equals(model.impute(table, draws, jobs=2))
    for ends in CUTS:
        data = [block.filled.data for block in model.filled(cut(table, *ends), draws)]
        assert Frame.join(joined_copies(data, draws)).table.equals(whole)


def test_probabilities_do_not_depend_on_how_rows_are_cut(model):
    table = mixed(ROWS, 2, 0.2)
    whole = model.probabilities(model.read(table, filling=True)).table
    parts = Frame.join(model.probability_parts(cut(table, 5, 33))).table
    assert parts.equals(whole)
    assert set(whole["row"]) == {k for k, row in enumerate(table.rows()) if None in row[1:]}


def test_a_block_whose_rows_are_all_left_out_is_counted(model):
    table = mixed(48, 3).with_columns(sex=pl.Series(["f"] * 16 + ["x"] * 16 + ["m"] * 16))
    found = Evaluation()
    parts = list(found.over(model.scored(cut(table, 20), unknown="skip")))
    assert [len(part.row) for part in parts] == [16, 0, 16]
    assert (found.counted.rows, found.counted.unknown, found.found.rows) == (32, 16, 32)
    filled = [block.filled.data for block in model.filled(cut(table, 20), unknown="skip")]
    assert Frame.join(filled).table.equals(table)


def test_a_row_is_named_by_its_number_in_the_whole(model):
    table = mixed(48, 3).with_columns(sex=pl.Series(["f"] * 40 + ["x"] * 8))
    with pytest.raises(ValueError, match="row 40, column 'sex'"):
        list(model.scored(cut(table, 20), unknown="refuse"))


def test_rows_that_stand_for_all_are_the_same_however_they_are_cut():
    rows = np.arange(60_000)[:, None]
    frames = [[as_frame(part) for part in np.split(rows, ends)] for ends in ([], [5, 9_000], [8192, 16384])]
    chosen = [some_rows(parts, 100, 3) for parts in frames]
    assert chosen[0].frame.table.equals(chosen[1].frame.table)
    assert chosen[0].frame.table.equals(chosen[2].frame.table)
    assert [each.rows for each in chosen] == [60_000] * 3


def test_every_row_is_as_likely_to_be_chosen():
    table, counts = as_frame(np.arange(20)[:, None]), np.zeros(20)
    for seed in range(400):
        sample = RowSample(5)
        sample.add(table.take(np.arange(12)), 12, generator(seed, "a"))
        sample.add(table.take(np.arange(12, 20)), 8, generator(seed, "b"))
        counts[sample.found.table["x0"].to_numpy()] += 1
        assert sample.found.table["x0"].is_sorted()
    assert counts.sum() == 2000
    assert ((counts - 100) ** 2 / 75).sum() < 43.8  # chi-squared of 19 degrees of freedom at 0.001


def test_log_likelihoods_of_parts_join_to_those_of_the_whole():
    target = pmf(np.random.default_rng(0).dirichlet(np.ones(8)))
    rows = torch.randint(8, (40, 1), generator=generator(1, "rows"))
    whole, parts = exact(target, rows), [exact(target, part) for part in rows.split((1, 20, 3, 16))]
    found = parts[0]
    for part in parts[1:]:
        found = found.joined(part)
    assert (found.rows, found.method) == (40, "exact")
    assert found.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-14)
    assert found.stderr == pytest.approx(whole.stderr, rel=1e-12)


def test_a_part_that_is_only_bounded_bounds_the_whole():
    target = pmf([0.25, 0.75])
    one = exact(target, [[0], [1]])
    other = replace(one, method="importance", log_likelihood=None, upper=None, bound_stderr=0.3)
    found = one.joined(other)
    assert (found.method, found.log_likelihood, found.upper) == ("importance", None, None)
    assert (found.lower, found.bound_stderr) == (pytest.approx(one.lower), pytest.approx(0.15))
