"""The figures of sequences are ratios of what they say."""

from concrete_score.bench import sequences


def test_figures_are_taken_at_a_small_size():
    for check in (sequences.potts_step(sites=8, batch=16), sequences.potts_ratios(sites=8)):
        assert check.value > 0
