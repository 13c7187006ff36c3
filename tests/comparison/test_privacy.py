"""Copies and nearest rows: planted ones are found, honest tables pass, and the errors are those of dealing rows out."""

import itertools

import numpy as np
import polars as pl
import pytest
from scipy.stats import fisher_exact

from concrete_score.cli.console import SKIN
from concrete_score.comparison import compare
from concrete_score.comparison.copies import _against_itself
from concrete_score.comparison.nearest import dealing_error
from concrete_score.comparison.tables import align
from concrete_score.data import as_frame
from concrete_score.errors import spell
from tests.comparison import law

PRIVACY = ("copies", "nearest")


def flags(*tables, seed=0):
    """Which tests flag a table, by part."""
    return [finding.flagged for finding in compare(*tables, parts=PRIVACY, seed=seed).findings]


def check(seeds, **sizes):
    """How many honest and how many planted tables are flagged, with and without held-out rows."""
    counts = np.zeros(4, dtype=int)
    for seed in range(seeds):
        real, honest, holdout, random = law.draws(seed, **sizes)
        dishonest = law.planted(random, honest, real)
        outcomes = [flags(real, table, *held, seed=seed) for held in ([holdout], []) for table in (honest, dishonest)]
        counts += [any(outcome) for outcome in outcomes]
    return counts.tolist()


def test_planted_copies_are_flagged_and_honest_tables_are_not():
    honest, planted, honest_alone, planted_alone = check(3, real=400, synthetic=400, holdout=400)
    assert (planted, planted_alone) == (3, 3)
    assert (honest, honest_alone) == (0, 0)


@pytest.mark.slow
def test_twenty_seeds_of_planted_copies_and_of_honest_tables():
    honest, planted, honest_alone, planted_alone = check(20, real=1000, synthetic=1000, holdout=500)
    assert (planted, planted_alone) == (20, 20)
    assert max(honest, honest_alone) <= 1


def test_a_table_beside_itself_is_the_same_rows():
    real, other, *_ = law.draws(0, 60, 60)
    found = compare(real, real[::-1], parts=["copies"])
    assert found.values()["copies"]["same_rows"] is True
    assert found.findings[0] == (
        "copies",
        "The two tables are the same rows, each as often in the one as in the other.",
        True,
    )
    assert compare(real, other, parts=["copies"]).values()["copies"]["same_rows"] is False


@pytest.mark.parametrize("different", [1.0, 0.9])
def test_texts_copied_cell_by_cell_are_named_with_the_option_that_leaves_them_out(different):
    names = [f"name {int(at * different)}" for at in range(50)]
    real = pl.DataFrame({"name": names, "few": ["a", "b"] * 25, "x": range(0, 100, 2)})
    copied = real.with_columns(pl.Series("x", range(1, 101, 2)))
    fresh = copied.with_columns(pl.Series("name", [f"other {at % 40}" for at in range(50)]))
    (_, told), honest = compare(real, copied, parts=["copies"]).findings, compare(real, fresh, parts=["copies"])
    assert spell(told.text, SKIN, bare=True) == (
        "Values of 'name', which nearly all differ, are copied from real rows: to leave them out, fit with --drop name."
    )
    assert told.flagged is None
    assert honest.values()["copies"]["copied_columns"] == []
    assert len(honest.findings) == 1


def test_near_copies_gather_among_the_closest_rows():
    real, honest, holdout, random = law.draws(5)
    near = law.planted(random, honest, real, 0.1)
    near = near.with_columns(pl.col("pay") + 0.01)
    copied, _, closest = compare(real, near, holdout, parts=PRIVACY).findings
    assert not copied.flagged
    assert closest.flagged
    assert "more than chance" in closest.text


def test_a_model_that_favors_frequent_rows_copies_nothing():
    random = np.random.default_rng(3)
    weights = random.dirichlet(np.full(400, 0.3))
    cells = np.array(list(itertools.product(range(20), repeat=2)))
    real, holdout = (pl.DataFrame(cells[random.choice(400, 600, p=weights)], ["a", "b"]) for _ in range(2))
    sharper = weights**2 / (weights**2).sum()
    synthetic = pl.DataFrame(cells[random.choice(400, 600, p=sharper)], ["a", "b"])
    found = compare(real, synthetic, holdout, columns={"a": "category", "b": "category"}, parts=["copies"])
    value = found.values()["copies"]
    counts = [[value["rows"], 600 - value["rows"]], [round(600 * value["chance_rate"])] * 2]
    counts[1][1] = 600 - counts[1][0]
    assert fisher_exact(counts, "greater").pvalue < 0.003  # the rates alone would accuse it
    assert not value["flagged"]


def test_the_rates_are_compared_by_fishers_exact_test():
    real = pl.DataFrame({"x": np.arange(100) + 0.5})
    synthetic = pl.DataFrame({"x": np.append(np.arange(30) + 0.5, np.arange(70) + 0.25)})
    holdout = pl.DataFrame({"x": np.append(np.arange(3) + 0.5, np.arange(47) + 0.75)})
    value = compare(real, synthetic, holdout, parts=["copies"]).values()["copies"]
    assert (value["rows"], value["rate"], value["chance_rate"]) == (30, 0.3, 3 / 50)
    # Of the values that occur once, 27 were seen in the real table alone, and none of the held-out ones.
    assert (value["single_real"], value["single_holdout"]) == (27, 0)
    rates, dealt = fisher_exact([[30, 70], [3, 47]], "greater").pvalue, (100 / 150) ** 27
    assert value["p_value"] == pytest.approx(max(rates, dealt))


def test_without_held_out_rows_chance_is_how_often_a_real_row_occurs_again():
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.full(500, 0.5))
    drawn = [random.choice(500, 300, p=weights) for _ in range(150)]
    found = [_against_itself(_one_column(rows), 0) for rows in drawn]
    rates = np.array([each["chance_rate"] for each in found])
    # A fresh row stands in the real table with the probability that the real table covers.
    truth = np.mean([weights[np.unique(rows[1:])].sum() for rows in drawn])
    assert abs(rates.mean() - truth) < 4 * rates.std() / np.sqrt(150) + 0.002
    assert np.mean([each["chance_rate_stderr"] for each in found]) >= rates.std()


def _one_column(rows):
    table = as_frame(pl.DataFrame({"x": rows}))
    return align([table, table], kinds={"x": "category"})


def test_the_error_of_dealing_is_the_spread_over_all_deals():
    counts = np.array([3.0, 0.0, 1.5, 0.5, 2.0, 0.0])
    for real in (1, 2, 4):
        sums = [counts[list(places)].sum() for places in itertools.combinations(range(6), real)]
        assert dealing_error(counts, real) == pytest.approx(np.std(sums), abs=1e-12)


def test_nearest_rows_are_those_of_the_stated_distance():
    real, synthetic, holdout, random = law.draws(2, 40, 30, 20)
    holed = [
        table.with_columns(
            pl.when(pl.Series(random.random(len(table)) > 0.2)).then(pl.col(n)).alias(n) for n in ("pay", "sex")
        )
        for table in (real, synthetic, holdout)
    ]
    value = compare(*holed, parts=["nearest"]).values()["nearest"]
    tables = align([as_frame(table) for table in holed])
    shares, lows = [], []
    for row in range(30):
        apart = [
            [
                np.mean([_apart(column, tables, row, table, other) for column in tables.columns])
                for other in range(tables.rows[table])
            ]
            for table in (0, 2)
        ]
        lows.append(min(apart[0]))
        tied = [sum(each < min(*apart[0], *apart[1]) + 1e-9 for each in side) for side in apart]
        shares.append(tied[0] / sum(tied))
    assert value["all"]["share"] == pytest.approx(np.mean(shares))
    assert value["chance"] == 40 / 60
    assert value["distance"]["real"] == pytest.approx(np.median(lows))


def _apart(column, tables, row, table, other):
    a, b = column.cells[1][row], column.cells[table][other]
    if not column.ordered:
        return float(a != b)
    if np.isnan(a) or np.isnan(b):
        return float(np.isnan(a) != np.isnan(b))
    return abs(_rank(column, a) - _rank(column, b))


def _rank(column, value):
    known = np.concatenate([column.cells[0], column.cells[2]])
    known = known[~np.isnan(known)]
    return float(((known < value).sum() + (known <= value).sum()) / (2 * len(known)))


def test_tables_in_which_nearly_all_rows_tie_have_the_share_of_chance():
    random = np.random.default_rng(1)
    real, synthetic, holdout = (pl.DataFrame(random.integers(0, 2, (n, 4)), list("abcd")) for n in (300, 200, 60))
    value = compare(real, synthetic, holdout, parts=["nearest"]).values()["nearest"]
    for name in ("all", "closest"):
        assert abs(value[name]["share"] - 300 / 360) < 3 * value[name]["stderr"]


def test_without_held_out_rows_it_says_what_cannot_be_judged():
    real, synthetic, *_ = law.draws(0, 100, 100)
    copied, nearest = compare(real, synthetic, parts=PRIVACY).to_json()["findings"]
    assert "Held-out rows would judge this better" in copied["text"]
    assert nearest["flagged"] is None
    assert nearest["text"].endswith("give holdout.")
