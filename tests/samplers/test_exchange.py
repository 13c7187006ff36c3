"""Chains for ArviZ: names, shapes and numbers are those of the run, and ArviZ's own diagnoses agree with ours."""

import sys

import numpy as np
import pytest
import torch

from concrete_score import __version__
from concrete_score.errors import InputError
from concrete_score.samplers import Gibbs, MetropolisHastings, run
from concrete_score.targets import Ising

pytest.importorskip("arviz_base", reason="arviz-base is not installed: pip install 'concrete-score[arviz]'")


def chains(kernel=Gibbs, **options):
    told = {"steps": 200, "burn_in": 20, "generator": torch.Generator().manual_seed(0), **options}
    return run(kernel(Ising((2, 3), 0.2)), 4, **told)


def test_dimensions_are_chain_draw_and_site():
    samples = chains(thin=2, statistics={"magnetization": lambda x: x.double().mean(-1)})
    tree = samples.to_arviz(list("abcdef"))
    states = tree["posterior"]["x"]
    assert states.dims == ("chain", "draw", "site")
    assert states.shape == (4, 100, 6)
    assert list(states["site"].values) == list("abcdef")
    for chain in range(4):
        assert np.array_equal(states.values[chain], samples.draws[:, chain].numpy())
    watched = tree["posterior"]["magnetization"]
    assert watched.dims == ("chain", "draw")
    assert np.allclose(watched.values, states.values.mean(-1))


def test_statistics_of_the_sampler_are_those_of_the_run():
    samples = chains(MetropolisHastings, thin=5)
    tree = samples.to_arviz()
    stats = tree["sample_stats"]
    target = Ising((2, 3), 0.2)
    log_density = target.log_density(samples.draws.long())
    assert np.allclose(stats["lp"].values, log_density.T.numpy())
    rate = stats["acceptance_rate"].values
    assert rate.shape == (4, 40)
    assert np.allclose(rate * 5, (rate * 5).round())  # of five moves each
    assert 0 < rate.mean() < 1
    assert rate.mean() == pytest.approx(samples.diagnosis.acceptance)


def test_who_made_it_and_how():
    tree = chains(thin=2).to_arviz()
    assert tree.attrs["inference_library"] == "concrete_score"
    assert tree.attrs["inference_library_version"] == __version__
    assert (tree.attrs["tuning_steps"], tree.attrs["thin"]) == (20, 2)
    assert tree.attrs["sampling_time"] > 0


def test_arviz_finds_the_effective_draws_that_we_do():
    from arviz_stats.base import array_stats

    samples = chains(steps=500)
    lp = samples.to_arviz()["sample_stats"]["lp"].values
    found = float(array_stats.ess(lp, chain_axis=0, draw_axis=1, method="mean"))
    assert found == pytest.approx(samples.diagnosis.statistics["log_density"].ess, rel=1e-9)


def test_chains_without_a_diagnosis_have_no_log_density():
    tree = chains(diagnose=False).to_arviz()
    assert set(tree["sample_stats"].data_vars) == {"acceptance_rate"}
    assert set(tree["posterior"].data_vars) == {"x"}


def test_what_cannot_be_given_away_is_refused(monkeypatch):
    with pytest.raises(InputError, match="expected 6 names, one a site, got 2"):
        chains().to_arviz(["a", "b"])
    with pytest.raises(InputError, match="keep=True"):
        chains(keep=False).to_arviz()
    with pytest.raises(InputError, match="rename it"):
        chains(statistics={"x": lambda x: x.double().mean(-1)}).to_arviz()
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(InputError, match=r"pip install 'concrete-score\[arviz\]'"):
        chains().to_arviz()
