"""The figures of the structure search run at small size; bounds are judged by ``csm bench``, not here."""

from concrete_score.bench import structure


def test_search_figures_at_small_size():
    check = structure.search_over_product(sites=20, rows=100)
    assert check.value > 0
    assert check.bound == 200.0
    assert 0.01 < structure.search_memory(sites=20, rows=100).value < 2.0
