"""Runs: what is kept, when, in how much memory, and a diagnosis that tells mixed chains from stuck ones."""

import resource

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.models.score import DensityScore
from concrete_score.neighborhoods import cycle_two_way, hamming
from concrete_score.noise import Triangular
from concrete_score.samplers import MALA, Exact, Gibbs, MetropolisHastings, run, stream
from concrete_score.samplers.diagnosis import judge, summarize
from concrete_score.spaces import Space
from concrete_score.targets import Ising, pmf, sixteen_categories


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def mean(x):
    return x.double().mean(-1)


def test_draws_are_those_of_the_plain_loop():
    kernel, start = MetropolisHastings(Ising((3, 3), 0.3)), torch.zeros(5, 9, dtype=torch.int64)
    samples = run(kernel, start, steps=12, burn_in=4, thin=3, generator=seeded())
    state, g, wanted = kernel.init(start), seeded(), []
    for i in range(1, 17):
        state, _ = kernel.step(state, g)
        if i > 4 and (i - 4) % 3 == 0:
            wanted.append(state.x)
    assert samples.draws.dtype == torch.uint8
    assert torch.equal(samples.draws.long(), torch.stack(wanted))
    assert torch.equal(samples.rows, torch.cat(wanted))
    assert torch.equal(samples.state.x, state.x)
    assert samples.diagnosis.passes == 16


def test_a_run_goes_on_from_where_another_ended():
    kernel, g = MetropolisHastings(Ising((3, 3), 0.3)), seeded()
    whole = run(kernel, torch.zeros(4, 9, dtype=torch.int64), steps=20, generator=seeded()).draws
    first = run(kernel, torch.zeros(4, 9, dtype=torch.int64), steps=8, generator=g)
    second = run(kernel, first.state, steps=12, generator=g)
    assert torch.equal(torch.cat([first.draws, second.draws]), whole)


def test_progress_hears_of_every_step_and_nothing_need_be_kept():
    heard = []
    kernel = Gibbs(Ising((3, 3), 0.3))
    samples = run(
        kernel, 4, steps=6, burn_in=2, generator=seeded(), keep=False, progress=lambda i, n: heard.append((i, n))
    )
    assert heard == [(i, 8) for i in range(1, 9)]
    assert len(samples.draws) == 0
    assert samples.diagnosis.draws == 6


def test_independent_draws_are_worth_themselves():
    p = sixteen_categories()
    d = run(Exact(p), 4, steps=1000, generator=seeded(), statistics={"value": mean}).diagnosis
    assert d.mixed
    assert d.acceptance == 1
    assert 3000 < d.statistics["value"].ess < 5000
    wanted = (p.probabilities * torch.arange(16)).sum().item()
    assert abs(d.statistics["value"].mean - wanted) < 5 * d.statistics["value"].standard_error
    assert "nothing speaks against" in str(d)


def test_the_standard_error_is_honest_for_correlated_chains():
    # Over many groups of four chains the error of the mean, in standard errors, has a spread of one.
    p = pmf([0.1, 0.2, 0.3, 0.4])
    kernel = MetropolisHastings(p, cycle_two_way(p.space), laziness=0.5)
    wanted = (p.probabilities * torch.arange(4)).sum().item()
    g = seeded()
    draws = run(kernel, p.sample(400, g), steps=300, generator=g, diagnose=False).draws[..., 0].double()
    groups = [summarize(trace) for trace in draws.split(4, 1)]
    spread = torch.tensor([(s.mean - wanted) / s.standard_error for s in groups]).square().mean().sqrt().item()
    assert 0.8 < spread < 1.25


def test_stuck_chains_are_told_in_plain_words():
    line = MetropolisHastings(pmf([0.5 - 5e-10, 1e-9, 0.5 - 5e-10, 0.0]), cycle_two_way(Space((4,))))
    d = run(line, [[0], [2]], steps=200, generator=seeded(), statistics={"value": mean}).diagnosis
    assert not d.mixed
    said = " ".join(d.warnings)
    assert "hardly move" in said
    assert "have not mixed: R-hat of value" in said
    assert "log_density never changed" in said


def test_words_for_each_way_to_fail():
    g = seeded()
    fine = summarize(torch.randn(500, 4, generator=g))
    apart = summarize(torch.randn(500, 4, generator=g) + torch.arange(4))
    short = summarize(torch.randn(10, 2, generator=g))
    assert judge(0.5, {"a": fine}) == ()
    assert "R-hat of a" in judge(0.5, {"a": apart})[0]
    assert judge(0.5, {"a": short})
    assert "hardly move" in judge(0.001, {"a": fine})[0]


def test_the_disagreement_of_scores_is_in_the_diagnosis():
    p = pmf([0.1, 0.2, 0.3, 0.4])
    kernel = MetropolisHastings(DensityScore(p, hamming(p.space)))
    d = run(kernel, 4, steps=10, generator=seeded(), statistics={"value": mean}).diagnosis
    assert d.disagreement == pytest.approx(0, abs=1e-12)
    assert run(MetropolisHastings(p), 4, steps=10, generator=seeded()).diagnosis.disagreement is None


def test_points_between_states_run_too():
    noise = Triangular.of(sixteen_categories())
    samples = run(MALA(noise), torch.full((4, 1), 3.0), steps=50, generator=seeded())
    assert samples.draws.dtype == torch.float64
    assert samples.diagnosis.statistics["log_density"].mean < 0


def test_bad_numbers_are_refused_before_any_step():
    kernel, g = MetropolisHastings(Ising((2, 2), 0.3)), seeded()
    before = g.get_state()
    for bad in ({"steps": 0}, {"steps": 5, "thin": 6}, {"steps": 5, "burn_in": -1}, {"steps": 5, "thin": 0}):
        with pytest.raises(InputError, match=r"steps|thin|burn_in"):
            run(kernel, 4, generator=g, **bad)
    with pytest.raises(InputError, match="at least 2 chains for R-hat"):
        run(kernel, 1, steps=10, generator=g)
    with pytest.raises(InputError, match="at least 4 draws"):
        run(kernel, 4, steps=10, thin=5, generator=g)
    p = pmf([0.5, 0.5])
    scores_only = MetropolisHastings(DensityScore(p, hamming(p.space)))
    with pytest.raises(InputError, match="statistic to watch"):
        run(scores_only, 4, steps=10, generator=g)
    with pytest.raises(InputError, match="at least 1 chain"):
        stream(kernel, 0, steps=3, generator=g)
    with pytest.raises(InputError, match="value from 0 to 1"):  # at once, not at the first draw
        stream(kernel, [[0, 0, 0, 2]], steps=3, generator=g, clamped=torch.tensor([False, False, False, True]))
    assert torch.equal(g.get_state(), before)
    with pytest.raises(InputError, match="one number a chain"):
        run(kernel, 4, steps=10, generator=g, statistics={"all": lambda x: x.double()})


def test_one_chain_runs_when_no_diagnosis_is_asked_for():
    samples = run(MetropolisHastings(Ising((2, 2), 0.3)), 1, steps=5, generator=seeded(), diagnose=False)
    assert samples.diagnosis is None
    assert samples.draws.shape == (5, 1, 4)


@pytest.mark.slow
def test_a_thousand_chains_of_784_sites_run_in_constant_memory():
    model = Ising((28, 28), 0.3)
    kernel = MetropolisHastings(model)
    peaks, g = [], seeded()
    clamped = torch.zeros(784, dtype=torch.bool)
    clamped[:100] = True
    start = model.space.uniform(1024, g)
    for draw in stream(kernel, start, steps=1000, thin=200, generator=g, clamped=clamped):
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        assert torch.equal(draw.state.x[:, :100], start[:, :100])
    assert len(peaks) == 5
    assert peaks[-1] - peaks[0] < 20_000  # kilobytes
