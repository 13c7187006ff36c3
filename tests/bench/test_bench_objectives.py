"""The growth of a paired step runs at small size; its bound is judged by ``csm bench``, not here."""

from concrete_score.bench import objectives


def test_growth_at_small_size_compares_the_two_sizes_named():
    check = objectives.step_growth_over_network(few=4, many=8, batch=2)
    assert check.value > 0
    assert "8 sites / 4" in check.name


def test_step_and_network_evaluate_as_many_rows(monkeypatch):
    """Else the comparison would not be fair."""
    rows = []
    whole = objectives.MADE.log_density

    def watched(self, x):
        rows.append(x.shape[:-1].numel())
        return whole(self, x)

    monkeypatch.setattr(objectives.MADE, "log_density", watched)
    step, network = objectives._step_and_network(6, 5)
    step(), network()
    assert rows == [10, 10]
