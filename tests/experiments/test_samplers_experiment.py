"""Samplers side by side: promises become checks, tables say what was measured, and all of it runs at small size."""

import pytest

from concrete_score.bench import efficiency, problems, suite
from concrete_score.bench.dmala import TextbookDMALA
from concrete_score.bench.plain_annealing import PlainBlockGibbs, PlainRBMPath
from concrete_score.experiments import Settings, samplers
from concrete_score.experiments.samplers import units
from concrete_score.likelihood import RBMPath, default_kernel
from concrete_score.randomness import generator
from concrete_score.targets import random_rbm


def row(kernel, **given):
    base = dict.fromkeys(efficiency.Worth.__dataclass_fields__, 1.0)
    return {**base, "kernel": kernel, "long_enough": True, "z": 0.5, **given}


def measured(per_second=50.0):
    kernels = ["textbook", "multi_site", "dlmc", "path_auxiliary", "colored", "gwg", "sweep", "tempering", "auxiliary"]
    kernels.append(efficiency.HIDDEN)
    each = [row(k, per_second=per_second, slow_per_second=per_second) for k in kernels]
    rows = {name: [dict(one) for one in each] for name in problems.PROBLEMS}
    more = {
        "cost": {"colored, slope in sites": 1.0, "colored, by sites": {"900": 1.0}},
        "tempering_cost": {"over_before": 0.1, "over_apart": 0.2},
        "single_flips": {"time": 1.0, "time_error": 0.1},
        "independent_sets": {
            "gain": 0.5, "gain_error": 0.1, "ours": 44.0, "textbook": 43.5, "seconds_a_graph": 1.0,
            "textbook_seconds_a_graph": 1.0, "sets": {"ours": [44]},
        },
        "sandwich": {
            "seconds_ratio": 0.4, "wider_by": 0.0, "wider_error": 0.1,
            **{way: {"width": 0.1, "width_error": 0.01, "seconds": 1.0, "raise": -80.0} for way in ("fast", "plain")},
        },
    }  # fmt: skip
    return rows, {name: name for name in rows}, more


def test_every_promise_is_a_check():
    rows, titles, more = measured()
    found = list(samplers.checks(rows, titles, more))
    assert len(found) == len(samplers.BARS) + 8
    failing = [check.name for check in found if not check.ok]
    assert len(failing) == 1  # all kernels forget alike here, and so single flips as fast as the rest
    assert all("single informed flips" in name for name in failing)
    slow, _, _ = measured(per_second=1.0)
    assert sum(not check.ok for check in samplers.checks(slow, titles, more)) == 1 + len(samplers.BARS)


def test_the_table_names_every_problem_and_marks_short_runs():
    rows, titles, more = measured()
    rows["potts_4"][1]["long_enough"] = False
    text = samplers.text(rows, titles, more)
    assert all(f"### {name}" in text for name in rows)
    assert text.count(" *") == 2
    assert samplers.plot(rows, titles).axes


@pytest.mark.parametrize("name", sorted(problems.SMALL))
def test_the_textbook_energy_is_the_density(name):
    problem = problems.SMALL[name]()
    x = problem.model.space.uniform(20, generator(0))
    energy = problem.energy(TextbookDMALA(problem.model.space, problem.energy).init(x).memory)
    assert (energy.double() - problem.model.log_density(x)).abs().max() < 1e-3


def test_written_plainly_an_rbm_anneals_alike():
    g = generator(0)
    model = random_rbm(6, 3, 0.8, g)
    fast, plain = RBMPath(model), PlainRBMPath(RBMPath(model))
    x = model.space.enumerate()
    assert (fast.increment(x, 0.2, 0.9) - plain.increment(x, 0.2, 0.9)).abs().max() < 1e-5
    kernel = PlainBlockGibbs(plain.at(0.5))
    start = model.space.state(x.new_tensor(5)).expand(20_000, -1)
    means = [each.step(each.init(start), g)[0].x.double().mean(0) for each in (kernel, default_kernel(fast.at(0.5)))]
    assert (means[0] - means[1]).abs().max() < 5 * (0.5 / 20_000) ** 0.5


@pytest.mark.slow
def test_the_group_of_samplers_has_a_figure_a_problem():
    assert [suite.MEMBERS[name] for name in suite.chosen(["samplers"])] == list(problems.PROBLEMS)
    check = efficiency.best_over_textbook("ising_0.3", efficiency.QUICK, problems.SMALL)
    assert check.value > 0
    assert "textbook DMALA" in check.name


def test_single_units_at_small_size():
    settings = Settings(quick=True)
    assert units.cost(settings)["colored, slope in sites"] > -1
    assert 0 < units.tempering_cost(settings)["over_before"] < 2
    sets = units.independent_sets(settings)
    assert sets["ours"] >= 5
    bounds = units.sandwich(settings)
    assert abs(bounds["fast"]["log_z_from_below"] - bounds["plain"]["log_z_from_below"]) < 5
