"""The health of models: leaks, inconsistent scores and stuck chains are found, sound models pass."""

import json
from dataclasses import replace

import pytest
import torch

from concrete_score.diagnostics import diagnose_run, mass_leak, measure_consistency, measure_mixing
from concrete_score.diagnostics.consistency import edge_differences
from concrete_score.diagnostics.health import RunHealth
from concrete_score.errors import InputError
from concrete_score.models import DensityScore, Energy, mlp
from concrete_score.neighborhoods import cycle, cycle_two_way, grid, hamming, moore
from concrete_score.noise import categorical
from concrete_score.spaces import Space
from concrete_score.targets import Ising, asia, from_density, pmf, sixteen_categories
from tests.samplers.test_mh import Scores


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def truth():
    """Four bits that tend to agree, and then some: no state is rare enough to be left alone."""
    return from_density(Ising((2, 4), 0.3, field=0.2))


def leaky(p, share, known):
    """``p`` with a share of its mass on states that are neither known nor next to a known one."""
    table = p.probabilities * (1 - share)
    states = p.space.enumerate()
    far = ((states[:, None] != known).sum(-1) > 1).all(-1)
    return pmf(table + share * far.double() / far.double().sum(), p.space)


class TestLeak:
    def concentrated(self):
        """Eight bits whose mass is mostly on few states, so that there is a far away."""
        return from_density(Ising((2, 4), 1.0, field=0.5))

    @pytest.mark.parametrize("seed", range(3))
    def test_a_sound_model_does_not_leak(self, seed):
        p, g = self.concentrated(), seeded(seed)
        found = mass_leak(p, p.sample(300, g), p.sample(300, g), hamming(p.space), g)
        assert abs(found.z_score) < 4
        assert not found.leaks

    def test_the_shares_are_those_of_brute_force(self):
        p, g = self.concentrated(), seeded()
        known, held = p.sample(50, g), p.sample(200, g)
        drawn = p.sample(2000, seeded(7))
        found = mass_leak(p, known, held, hamming(p.space), seeded(7))

        def outside(x):
            return ((x[:, None] != known).sum(-1) > 1).all(-1).double().mean().item()

        assert found.model == outside(drawn)
        assert found.held_out == outside(held)

    @pytest.mark.parametrize("build", [grid, moore])
    def test_any_neighborhood_and_one_way_edges_count_both_ways(self, build):
        space = Space((5, 4))
        p, g = pmf(torch.full((5, 4), 1 / 20, dtype=torch.float64)), seeded()
        n, known = build(space), space.uniform(3, g)
        near = {tuple(y) for x in known for y in [x.tolist(), *n.neighbors(x)[n.valid(x)].tolist()]}
        held = space.enumerate()
        found = mass_leak(p, known, held, n, g)
        assert found.held_out == pytest.approx(1 - len(near) / 20)
        line = cycle(Space((6,)))
        x = torch.tensor([[3]])
        found = mass_leak(pmf([1 / 6] * 6), x, line.space.enumerate(), line, g)
        assert found.held_out == pytest.approx(3 / 6)  # all but 2, 3 and 4

    def test_hidden_mass_is_found_and_measured(self):
        p, g = self.concentrated(), seeded()
        known, held = p.sample(400, g), p.sample(400, g)
        found = mass_leak(leaky(p, 0.3, known), known, held, hamming(p.space), g)
        assert found.leaks
        assert found.excess == pytest.approx(0.3, abs=0.05)
        assert "self_proposal" in found.message

    def test_refusals(self):
        p = truth()
        for match, call in {
            "at least one row": lambda: mass_leak(
                p, p.sample(0, seeded()), p.sample(1, seeded()), hamming(p.space), seeded()
            ),
            "same space": lambda: mass_leak(
                p,
                torch.zeros(2, 3, dtype=torch.int64),
                torch.zeros(2, 3, dtype=torch.int64),
                hamming(Space.bits(3)),
                seeded(),
            ),
        }.items():
            with pytest.raises(InputError, match=match):
                call()


class TestConsistency:
    def test_a_density_is_consistent_by_construction(self):
        found = measure_consistency(truth(), truth().space.enumerate(), seeded())
        assert found.by_construction
        assert found.largest == 0
        assert "by construction" in found.message

    def test_the_scores_of_a_distribution_are_consistent(self):
        p = truth()
        found = measure_consistency(DensityScore(p, hamming(p.space)), p.space.enumerate(), seeded())
        assert max(found.worst, found.worst_path, found.misfit) < 1e-10
        assert found.message.startswith("Consistent")

    @pytest.mark.parametrize(("size", "word"), [(0.01, "Consistent"), (0.1, "Somewhat"), (2.0, "Inconsistent")])
    def test_contradictions_are_measured_and_named(self, size, word):
        n = hamming(Space.bits(4))
        noise = size * torch.randn(16, 4, generator=seeded(), dtype=torch.float64)
        scores = Scores(n, noise)
        found = measure_consistency(scores, n.space.enumerate(), seeded())
        # Every edge by hand: bit d of state i leads to i ^ (8 >> d).
        i, d = torch.meshgrid(torch.arange(16), torch.arange(4), indexing="ij")
        every = (noise[i, d] + noise[i ^ (8 >> d), d]).abs()
        drawn = edge_differences(scores, n.space.enumerate(), seeded())
        assert all(bool((every - value).abs().min() < 1e-12) for value in drawn)
        assert found.mean == pytest.approx(drawn.mean().item())
        assert found.mean == pytest.approx(every.mean().item(), rel=0.3)
        assert found.message.startswith(word)

    def test_one_way_edges_are_judged_by_the_loop_they_close(self):
        p = sixteen_categories()
        states = p.space.enumerate()
        good = measure_consistency(DensityScore(p, cycle(p.space)), states, seeded())
        assert (good.edges, good.mean, good.paths) == (0, None, None)
        assert good.misfit < 1e-10
        # All ratios up by a tenth: every one of them is off the best fit by just that.
        bad = Scores(cycle(p.space), DensityScore(p, cycle(p.space)).log_ratios(states) + 0.1)
        assert measure_consistency(bad, states, seeded()).misfit == pytest.approx(0.1)

    def test_impossible_neighbors_are_left_out(self):
        p = pmf([0.5, 0.0, 0.25, 0.25])
        found = measure_consistency(DensityScore(p, cycle_two_way(p.space)), torch.tensor([[2], [3]]), seeded())
        assert found.mean < 1e-12


class TestMixing:
    def test_good_chains_agree_with_exact_draws(self):
        p, g = truth(), seeded()
        found = measure_mixing(p, p.sample(32, g), g, exact=p)
        assert found.kernel == "gibbs"
        assert found.mixes
        assert abs(found.exact_z) < 4

    def test_stuck_chains_are_reported(self):
        """Two pieces of equal weight, which single moves do not join."""
        p, g = pmf([[0.3, 0.2, 0.0], [0.0, 0.0, 0.5]]), seeded()
        found = measure_mixing(p, p.sample(32, g), g, kernel="mh", exact=p)
        assert not found.mixes
        assert found.message.startswith("Chains do not mix")

    def test_asia_under_flips_is_caught(self):
        """Its small piece is never entered or left: the few chains there weigh too much or too little for ever."""
        model, g = asia(), seeded()
        found = measure_mixing(model, model.sample(32, g), g, kernel="mh", exact=model)
        assert not (found.mixes and found.agrees)

    def test_chains_that_miss_a_mode_together_are_caught_by_exact_draws(self):
        p, g = pmf([[0.2, 0.1, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.7]]), seeded()
        found = measure_mixing(p, torch.zeros(32, 2, dtype=torch.int64), g, exact=p)
        assert found.mixes
        assert not found.agrees
        assert found.exact_z < -10
        assert "but not with the model" in found.message


class TestHealth:
    def test_a_sound_model_is_healthy_and_json_is_plain(self):
        p, g = truth(), seeded()
        health = diagnose_run(p, p.sample(600, g), None, g)
        assert health.healthy
        found = json.loads(json.dumps(health.to_json(), allow_nan=False))
        assert set(found) == {"healthy", "consistency", "leak", "mixing", "words"}
        assert found["healthy"] is True
        assert found["leak"]["leaks"] is False
        assert found["mixing"]["kernel"] == "gibbs"
        assert len(found["words"]) == 3

    def test_the_same_seed_says_the_same(self):
        p = truth()
        rows = p.sample(100, seeded(1))
        one, two = (diagnose_run(p, rows, None, seeded(2), kept=20).to_json() for _ in range(2))
        assert one == two

    def test_a_leaky_model_is_not_healthy_even_without_held_out_rows(self):
        p, g = from_density(Ising((2, 4), 1.0, field=0.5)), seeded()
        rows = p.sample(600, g)
        health = diagnose_run(leaky(p, 0.4, rows), rows, None, g, kept=0)
        assert health.leak.leaks
        assert not health.healthy
        held = diagnose_run(leaky(p, 0.4, rows), rows, None, g, held_out=p.sample(300, g), kept=0)
        assert held.leak.rows == 300

    def test_stuck_chains_speak_against_a_model_only_where_nothing_else_draws(self):
        """Two pieces that single moves do not join: a table of them draws exactly, its scores alone do not."""
        p, g = pmf([[0.3, 0.2, 0.0], [0.0, 0.0, 0.5]]), seeded()
        rows = p.sample(400, g)
        table = diagnose_run(p, rows, None, g)
        assert not table.mixing.mixes
        assert table.healthy
        assert "Exact draws do not depend on it" in table.messages[-1]
        scores = diagnose_run(DensityScore(p, hamming(p.space)), rows, None, g)
        assert not scores.mixing.mixes
        assert not scores.healthy

    def test_a_verdict_does_not_contradict_a_finding_above_it(self):
        stuck = replace(diagnose_run(truth(), None, None, seeded(), kept=40, thin=1).mixing, exact_z=99.0)
        agreement = measure_consistency(truth(), truth().space.enumerate()[:9], seeded())
        odd, none = RunHealth(agreement, None, stuck), RunHealth(agreement, None, None)
        assert odd.healthy
        assert "do not trust short chains" in odd.verdict()
        assert none.verdict() == "Nothing speaks against this model."

    def test_a_score_model_needs_no_density(self):
        n = hamming(Space((3, 2, 2)))
        net = mlp(n, generator=seeded(), hidden=8)
        health = diagnose_run(net, n.space.uniform(40, seeded()), None, seeded())
        assert health.leak is None
        assert any("needs exact draws" in note for note in health.notes)
        assert health.mixing.diagnosis.disagreement is None or health.mixing.diagnosis.disagreement >= 0
        assert health.consistency.mean > 0

    def test_a_noise_conditional_model_is_judged_at_its_weakest_level(self):
        space = Space((3, 2))
        net = mlp(hamming(space), "denoising", categorical(space, [0.9, 0.5]), generator=seeded(), hidden=8)
        wanted = measure_consistency(net.at(0), space.enumerate(), seeded())
        health = diagnose_run(net, space.enumerate(), None, seeded())
        assert health.consistency.misfit == wanted.misfit

    @pytest.mark.parametrize("samplable", [True, False])
    def test_without_rows_it_says_what_it_could_not_see(self, samplable):
        model = truth() if samplable else Energy(Space.bits(20), (4,), generator=seeded())
        health = diagnose_run(model, None, None, seeded(), kept=20)
        assert health.leak is None
        assert health.mixing.start == ("model" if samplable else "uniform")
        assert "needs rows of data" in health.messages[-1]

    def test_rows_the_model_forbids_are_no_starts(self):
        p = pmf([0.5, 0.5, 0.0])
        health = diagnose_run(p, torch.tensor([[2], [2], [2], [2]]), None, seeded())
        assert health.mixing is None
        assert "no start of positive probability" in health.messages[-1]
        mixed = diagnose_run(p, torch.tensor([[2], [0], [1], [2]]), None, seeded())
        assert mixed.mixing.diagnosis.chains == 32

    def test_refusals_come_before_any_work(self):
        p, g = truth(), seeded()
        before = g.get_state()
        for match, call in {
            "density model or a score model": lambda: diagnose_run(p.space, None, None, g),
            "same space": lambda: diagnose_run(p, None, hamming(Space.bits(3)), g),
            "value from 0 to 1": lambda: diagnose_run(p, torch.full((2, 8), 2), None, g),
            "at least one": lambda: diagnose_run(p, torch.zeros(0, 8, dtype=torch.int64), None, g),
        }.items():
            with pytest.raises(InputError, match=match):
                call()
        assert torch.equal(g.get_state(), before)
