"""Text by masked diffusion, small: a planted language."""

import pytest

from concrete_score.experiments import sequences
from concrete_score.experiments.result import Settings


@pytest.mark.slow
def test_a_planted_language_is_learned_and_filled_in(tmp_path):
    found = sequences.run(Settings(quick=True, store=tmp_path))
    assert [str(check) for check in found.checks if not check.ok] == []
    assert "planted, 8 passes" in found.text
    assert found.images["sequences"].startswith(b"\x89PNG")


def test_the_middle_third_is_counted_by_characters():
    text = sequences.planted(0)
    assert text.middle.sum(-1).unique().tolist() == [4]
    assert text.lengths.unique().tolist() == [12]
