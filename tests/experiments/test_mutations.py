"""The planted Potts model, small: what is planted is found."""

import numpy as np
import pytest

from concrete_score.experiments import mutations
from concrete_score.experiments.result import Settings


def test_what_is_planted_is_found(tmp_path):
    found = mutations.run(Settings(quick=True, store=tmp_path))
    assert [str(check) for check in found.checks if not check.ok] == []


@pytest.mark.slow
def test_forty_sites_are_found_too():
    assert mutations.planted(Settings())["correlation"] >= 0.9


def test_ranks_are_correlated():
    one = np.arange(50.0)
    assert mutations.spearman(one, np.exp(one)) == pytest.approx(1.0)
    noisy = one + np.random.default_rng(0).normal(0, 20, 50)
    assert 0 < mutations.bootstrap(one, noisy, 0) < 0.2
