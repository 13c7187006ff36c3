"""The table benchmark runs at small size; its bound is judged by ``csm bench``."""

from concrete_score.bench.tables import mixed_table, rare_rows_over_free, read_over_polars


def test_figure_at_small_size():
    check = read_over_polars(rows=2000, columns=20, repeats=1)
    assert check.value > 0
    assert check.bound == 2.0
    assert "2000 x 20" in check.name


def test_rare_rows_at_small_size():
    check = rare_rows_over_free(rows=20, chance=1e-2)
    assert check.value > 0
    assert check.bound == 20.0
    assert "0.01" in check.name


def test_the_table_is_mixed():
    kinds = {str(kind) for kind in mixed_table(10, 50).dtypes}
    assert kinds == {"Int64", "String", "Boolean", "Float64"}
