"""The imputation experiment, small: its protocol, its errors, and what it says of methods that are right or wrong."""

import numpy as np
import polars as pl
import pytest

from concrete_score.experiments import imputation
from concrete_score.experiments.imputation import GROUPS, Judged, Puzzle, lead
from concrete_score.experiments.imputers import RIVALS, installed
from concrete_score.experiments.result import Settings


def some_table(rows=1000, seed=0):
    rng = np.random.default_rng(seed)
    a, kind = rng.normal(size=rows), rng.integers(0, 3, rows)
    return pl.DataFrame({"a": a, "b": 2 * a + 0.1 * rng.normal(size=rows), "kind": [f"k{each}" for each in kind]})


@pytest.mark.slow
def test_a_small_table_is_filled_as_well_as_by_others(tmp_path):
    found = imputation.run(Settings(quick=True, store=tmp_path))
    # Seconds are for a quiet machine.
    assert [str(check) for check in found.checks if not check.ok and "seconds" not in check.name] == []
    assert set(found.ours["wine"]) >= {"ours", "boosting", "knn", "iterative"}
    assert 0 < found.ours["wine"]["ours"]["error"] < 1
    assert "wine" in found.text


def test_a_fifth_is_hidden_and_only_that_is_judged():
    puzzle = Puzzle.of(some_table(), 0)
    assert abs(puzzle.hidden.mean() - imputation.BLANK) < 4 * (0.16 / puzzle.hidden.size) ** 0.5
    x, truth = puzzle.numbers(puzzle.blanked), puzzle.numbers(puzzle.truth)
    assert np.array_equal(np.isnan(x), puzzle.hidden)
    assert np.array_equal(x[~puzzle.hidden], truth[~puzzle.hidden])
    right = Judged(puzzle.judged(truth))
    assert (right.accuracy[0], right.error[0]) == (1.0, 0.0)
    # The column's mean is off by a standard deviation; the next category is never right. Seen cells do not count.
    wrong = np.where(puzzle.hidden, np.nanmean(truth, 0), truth + 100)
    wrong[:, 2] = (truth[:, 2] + 1) % 3
    off = Judged(puzzle.judged(wrong))
    assert off.accuracy[0] == 0.0
    assert off.error[0] == pytest.approx(1.0, abs=0.1)


def test_errors_of_a_lead_are_those_of_independent_rows():
    """The jackknife over groups finds the standard error of a difference of two accuracies."""
    puzzle, rng = Puzzle.of(some_table(5000), 0), np.random.default_rng(1)
    truth = puzzle.numbers(puzzle.truth)

    def guessing(share):
        filled = truth.copy()
        miss = rng.random(len(truth)) > share
        filled[miss, 2] = (truth[miss, 2] + 1) % 3
        return Judged(puzzle.judged(filled)).accuracy

    cells = int(puzzle.hidden[:, 2].sum())
    expected = (0.8 * 0.2 / cells + 0.7 * 0.3 / cells) ** 0.5
    found = [lead(guessing(0.8), guessing(0.7)) for _ in range(20)]
    assert np.mean([gap for gap, _ in found]) == pytest.approx(0.1, abs=4 * expected / 20**0.5)
    assert np.mean([stderr for _, stderr in found]) == pytest.approx(expected, rel=0.15)
    assert lead(*2 * (guessing(0.5),)) == (0.0, 0.0)
    assert len(guessing(0.5)) == GROUPS + 1


@pytest.mark.parametrize("name", [name for name in RIVALS if name != "iterative" and installed(name)])
def test_rivals_fill_every_blank_and_nothing_else(name):
    puzzle = Puzzle.of(some_table(300), 0)
    x = puzzle.numbers(puzzle.blanked)
    filled = RIVALS[name](x, puzzle.categorical, 0)
    assert np.isfinite(filled).all()
    np.testing.assert_allclose(filled[~puzzle.hidden], x[~puzzle.hidden], atol=1e-9)
    assert set(np.unique(filled[:, 2])) <= {0.0, 1.0, 2.0}
    assert Judged(puzzle.judged(filled)).error[0] < 1.2


def test_a_rival_that_cannot_fill_is_reported(monkeypatch):
    def broken(x, categorical, seed):
        raise ValueError("data must be finite")

    monkeypatch.setitem(imputation.RIVALS, "knn", broken)
    found = imputation.fill_table(Settings(), "wine", "knn")
    assert found == {"failed": "ValueError: data must be finite"}
