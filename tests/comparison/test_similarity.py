"""Shapes and trends: SDMetrics' own numbers, weights that are repetitions, and values known by hand."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from concrete_score.comparison import compare
from concrete_score.comparison.similarity import Similarity, cramers_v, mean
from concrete_score.comparison.tables import align
from concrete_score.data import as_frame, load
from tests.comparison import law

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def tables():
    return align([load(HERE / "real.csv"), load(HERE / "synthetic.csv")])


@pytest.fixture(scope="module")
def expected():
    """What SDMetrics 0.32.0 gives for the two tables beside this file: numbers, dates, categories, blanks."""
    return json.loads((HERE / "sdmetrics.json").read_text())


def test_every_shape_and_trend_is_that_of_sdmetrics(tables, expected):
    assert expected["sdmetrics"] == "0.32.0"
    found = Similarity(tables)
    scores = found.scores(*found.equal)
    for name, score in zip(tables.names, scores.shape, strict=True):
        assert score == pytest.approx(expected["shapes"][name], abs=1e-6)
    for (i, j), score, (one, other, value) in zip(found.pairs, scores.trend, expected["trends"], strict=True):
        assert (tables.names[i], tables.names[j]) == (one, other)
        assert score == pytest.approx(value, abs=1e-6)


def test_the_means_are_those_of_sdmetrics_with_its_thresholds_and_without(expected):
    found = compare(load(HERE / "real.csv"), load(HERE / "synthetic.csv"), parts=["resemblance"]).values()
    assert found["shape"]["score"] == pytest.approx(expected["shape"], abs=1e-6)
    assert found["trend"]["score"] == pytest.approx(expected["trend"], abs=1e-6)
    assert found["trend"]["related_score"] == pytest.approx(expected["related"], abs=1e-6)
    assert 0 < found["shape"]["stderr"] < 0.05
    assert 0 < found["trend"]["same_law"] < found["trend"]["error"]


def test_random_tables_with_blanks_agree_with_sdmetrics_if_it_is_installed():
    properties = pytest.importorskip("sdmetrics.reports.single_table._properties")
    sdtypes = {"number": "numerical", "date": "datetime", "category": "categorical"}
    for seed in range(3):
        real, synthetic, _, random = law.draws(seed, 300, 200)
        holed = [
            table.with_columns(
                pl.when(pl.Series(random.random(len(table)) > 0.1)).then(pl.col(n)).alias(n) for n in table.columns
            )
            for table in (real, synthetic)
        ]
        found = Similarity(align([as_frame(table) for table in holed]))
        metadata = {"columns": {column.name: {"sdtype": sdtypes[column.kind]} for column in found.columns}}
        scores = found.scores(*found.equal)
        for property_, ours in (
            (properties.ColumnShapes(), scores.shape),
            (properties.ColumnPairTrends(), scores.trend),
        ):
            property_.get_score(*(table.to_pandas() for table in holed), metadata)
            assert np.allclose(property_.details["Score"], ours, atol=1e-6)


def test_whole_weights_are_repetitions(tables):
    random = np.random.default_rng(0)
    counts = [random.integers(1, 4, n) for n in tables.rows]
    repeated = [
        replace(column, cells=tuple(np.repeat(cells, count) for cells, count in zip(column.cells, counts, strict=True)))
        for column in tables.columns
    ]
    twin = Similarity(replace(tables, columns=tuple(repeated), rows=tuple(int(count.sum()) for count in counts)))
    found, (n, m) = Similarity(tables), tables.rows
    weights = np.append(counts[0], np.zeros(m)), np.append(np.zeros(n), counts[1])
    weighed, plain = found.scores(*weights), twin.scores(*twin.equal)
    assert np.allclose(weighed.shape, plain.shape, atol=1e-12)
    assert np.allclose(weighed.trend, plain.trend, atol=1e-12)


def test_a_table_is_like_itself(tables):
    twice = replace(tables, columns=tuple(replace(c, cells=(c.cells[0],) * 2) for c in tables.columns), rows=(60, 60))
    found = Similarity(twice)
    assert np.allclose(found.scores(*found.equal).errors(), 0, atol=1e-12)


def test_constants_and_blank_columns_have_no_correlation():
    a = as_frame(pl.DataFrame({"x": [0.5] * 20, "y": np.arange(20.0), "z": np.arange(20.0) ** 2}))
    b = as_frame(pl.DataFrame({"x": [0.5] * 19 + [1.0], "y": np.arange(20.0), "z": [None] * 20}))
    found = Similarity(align([a, b], kinds=dict.fromkeys("xyz", "number")))
    scores = found.scores(*found.equal)
    assert scores.shape[:2].tolist() == pytest.approx([0.95, 1.0])
    assert np.isnan(scores.shape[2])
    assert np.isnan(scores.trend).all()
    assert np.isnan(mean(scores.trend))


def test_correlations_of_large_numbers_lose_no_digits():
    random = np.random.default_rng(1)
    x = random.normal(size=500)
    y = x + random.normal(size=500)
    table = as_frame(pl.DataFrame({"x": 1e9 + x, "y": 1e12 + 1e3 * y}))
    found = Similarity(align([table, table]))
    assert found.correlations(found.equal[0])[0, 1] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-5)


def test_cramers_v():
    assert cramers_v(np.array([[1, 1], [2, 2]])) == pytest.approx(0)
    assert cramers_v(np.array([[4, 0, 0], [0, 3, 3], [0, 0, 0]])) == pytest.approx(1)
    assert np.isnan(cramers_v(np.array([[4, 2]])))
