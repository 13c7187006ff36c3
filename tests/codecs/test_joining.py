"""Ranges are joined where they say the same of all other columns, and only there."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2, chi2_contingency, norm

from concrete_score.codecs import TableCodec, joining
from concrete_score.codecs.joining import LEAST, _different, join


def test_the_score_is_the_normal_score_of_the_likelihood_ratio_test():
    rng = np.random.default_rng(0)
    tables = [rng.poisson(40, (2, width)) for width in (2, 3, 9)]
    for table in tables:
        found = _different(table, np.array([[0, 1]]), np.array([0]))
        statistic = chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
        assert found[0] == pytest.approx(norm.isf(chi2.sf(statistic, table.shape[1] - 1)), abs=0.1)
    both = np.concatenate(tables, 1)
    each = [_different(table, np.array([[0, 1]]), np.array([0]))[0] for table in tables]
    assert _different(both, np.array([[0, 1]]), np.array([0, 2, 5]))[0] == pytest.approx(max(each))


def test_cells_of_two_kinds_end_in_two_groups_and_chance_seldom_parts_them():
    rng, parted = np.random.default_rng(1), 0
    chain = np.stack([np.arange(11), np.arange(1, 12)], 1)
    for _ in range(20):
        table = np.stack([rng.multinomial(400, [0.3, 0.3, 0.4]) for _ in range(12)])
        parted += len(set(join(chain, [table], least=1))) > 1
        table[5:] = np.stack([rng.multinomial(400, [0.5, 0.3, 0.2]) for _ in range(7)])
        assert join(chain, [table], least=2).tolist() == [0] * 5 + [5] * 7
    assert parted <= 1


def table(n, rng):
    kind = rng.integers(0, 2, n)
    measured = np.where(kind == 0, rng.normal(0, 1, n), rng.normal(3, 1, n)).round(2)
    return pl.DataFrame(
        {"kind": np.array(["a", "b"])[kind], "measured": measured, "alone": rng.normal(0, 1, n).round(2)}
    )


def test_a_table_keeps_the_ranges_that_tell_its_columns_of_one_another():
    rng = np.random.default_rng(0)
    codec = TableCodec.fit(table(8_000, rng))
    _, measured, alone = codec.columns
    assert alone.size == 4  # says nothing of the others
    assert 4 <= measured.size <= 10
    fresh = table(8_000, rng)
    states = codec.encode(fresh).states.numpy()
    counts = np.zeros((2, measured.size))
    np.add.at(counts, (states[:, 0], states[:, 1]), 1)
    joint = (counts + 1e-9) / counts.sum()
    information = (joint * np.log(joint / (joint.sum(0) * joint.sum(1, keepdims=True)))).sum()
    values = fresh["measured"].to_numpy()
    ratio = norm.logpdf(values, 3, 1) - norm.logpdf(values, 0, 1)
    chance = 1 / (1 + np.exp(-np.where(fresh["kind"].to_numpy() == "b", ratio, -ratio)))
    best = np.log(2) + np.log(chance).mean()
    assert best - 0.03 < information < best + 0.01


def test_of_very_many_columns_those_are_looked_at_that_say_something(monkeypatch):
    rng = np.random.default_rng(4)
    n, parted = 4_000, {}
    near, level = rng.normal(0, 1, n), rng.normal(0, 1, n)
    columns = {
        "near": near.round(2),
        "parted": (near + rng.normal(0, 0.3, n)).round(2),
        "level": level.round(2),
        "leveled": np.digitize(level + rng.normal(0, 0.2, n), [-1, 0, 1]),
        "same": rng.normal(0, 1, n).round(2),
        **{f"noise {k}": rng.integers(0, 3, n) for k in range(16)},
    }
    for most in (4, 100):
        monkeypatch.setattr(joining, "MOST", most)
        codec = TableCodec.fit(pl.DataFrame(columns))
        parted[most] = {column.name: column.size for column in codec.columns}
    for name in ("near", "parted", "level"):
        assert parted[4][name] > LEAST
        assert abs(parted[4][name] - parted[100][name]) <= 2
    assert parted[4]["same"] == LEAST


def test_counts_among_measurements_are_cells_of_their_own():
    rng = np.random.default_rng(3)
    n = 8_000
    counted = rng.random(n) < 0.4
    numbers = np.where(counted, rng.poisson(5.0, n), rng.normal(5.0, 2.0, n).round(2))
    codec = TableCodec.fit(pl.DataFrame({"how": np.where(counted, "counted", "measured"), "number": numbers}))
    codes = codec.encode(pl.DataFrame({"how": ["counted"] * 3, "number": [4.0, 5.0, 6.0]})).states[:, 1]
    others = codec.encode(pl.DataFrame({"how": ["measured"] * 3, "number": [4.01, 5.01, 6.01]})).states[:, 1]
    assert not set(codes.tolist()) & set(others.tolist())


def test_a_small_table_may_have_a_number_of_one_range_and_blanks():
    given = pl.DataFrame({"turnout": np.arange(400) ** 2 / 100, "share": [1.74, 2.14, 4.96, 7.19] + [None] * 396})
    codec = TableCodec.infer(given, {})
    assert codec.columns[codec.names.index("turnout")].size >= LEAST
    assert codec.columns[codec.names.index("share")].size == 1
    observed = codec.encode(given, missing="unobserved").observed
    assert observed[:, codec.names.index("share")].tolist() == [True] * 4 + [False] * 396
