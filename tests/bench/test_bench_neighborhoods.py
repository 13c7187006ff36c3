"""The neighborhoods' figures run at small size; bounds are judged by ``csm bench``, not here."""

import pytest

from concrete_score.bench import neighborhoods


@pytest.mark.parametrize("figure", [neighborhoods.draw_over_clone, neighborhoods.neighbors_over_fill])
def test_graph_figures_at_small_size(figure):
    check = figure(rows=100)
    assert check.value > 0
    assert "100" in check.name


def test_growth_at_small_size_compares_the_two_sizes_named():
    check = neighborhoods.step_growth_over_network(few=4, many=8, batch=2)
    assert check.value > 0
    assert "8 sites / 4" in check.name


def test_step_and_network_evaluate_as_many_rows(monkeypatch):
    """Else the comparison would not be fair."""
    rows = []
    whole = neighborhoods.MADE.log_density

    def watched(self, x):
        rows.append(x.shape[:-1].numel())
        return whole(self, x)

    monkeypatch.setattr(neighborhoods.MADE, "log_density", watched)
    step, network = neighborhoods._step_and_network(6, 5)
    step(), network()
    assert rows == [10, 10]
