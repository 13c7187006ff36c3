"""Figure 4 at a size of seconds: every unit runs, training goes on where it stopped, and every check can fail."""

import json
from copy import deepcopy
from dataclasses import replace
from shutil import rmtree

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from concrete_score import runs
from concrete_score.cli.main import csm
from concrete_score.experiments import figure4
from concrete_score.experiments.figure4.learning import (
    FEW,
    Levels,
    NetworkPlan,
    SampleJudge,
    TensorCache,
    classifier_of,
    labelled_images,
    learn,
    learned,
)
from concrete_score.experiments.figure4.report import _reached
from concrete_score.experiments.figure4.units import (
    SAMPLERS,
    Figure4Size,
    best_of,
    log_losses,
    lower_half,
    packed,
    painted,
    starts,
    unpacked,
)
from concrete_score.experiments.result import Settings
from concrete_score.models.ideal import IdealDenoiser
from concrete_score.models.unet import unet
from concrete_score.neighborhoods import hamming
from concrete_score.noise import SIGMAS, flip_probability
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training import TrainingSettings

TINY = Figure4Size(
    network=NetworkPlan(
        dataset="digits",
        width=8,
        levels=Levels(8),
        training={"steps": 12, "batch_size": 32, "lr": 1e-2, "average": 0.5, "valid_every": 6},
        valid_rows=32,
    ),
    samples=140,
    reference=300,
    resamples=3,
    classifier_steps=30,
    mixture={"components": 3, "steps": 3},
    made={"hidden": 64, "blocks": 1},
    made_training={"steps": 10, "valid_every": 5},
    mh_steps=2,
    informed_steps=2,
    bound_rows=16,
    painted=12,
    painted_at_once=6,
    painted_levels=8,
    draws=3,
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.getbasetemp() / "figure4-cache"
    monkeypatch.setenv("CONCRETE_SCORE_CACHE", str(folder))
    monkeypatch.setattr(figure4.units, "QUICK", TINY)
    return folder


@pytest.fixture
def store(tmp_path_factory):
    return tmp_path_factory.getbasetemp() / "figure4-results"


@pytest.mark.slow
def test_every_unit_runs_and_is_not_done_again(store, own_cache, monkeypatch):
    settings = Settings(quick=True, store=store)
    found = figure4.run(settings)
    assert len(found.checks) == 8
    assert set(found.images) == {"figure4", "figure4-quality", "figure4-trajectory", "figure4-painting"}
    assert all(data.startswith(b"\x89PNG") for data in found.images.values())
    assert all(how.title in found.text for how in SAMPLERS.values())
    json.dumps(dict(found.ours))
    assert "grid" not in json.dumps(dict(found.ours))
    assert runs.verify(TINY.network.path)
    assert TINY.network.path.is_relative_to(own_cache)
    assert not list(store.rglob("*.safetensors"))

    def refuse(*_, **__):
        raise AssertionError("done again")

    monkeypatch.setattr(runs, "train", refuse)
    monkeypatch.setattr(SampleJudge, "__call__", refuse)
    again = figure4.run(settings)
    assert again.checks == found.checks
    assert again.text == found.text


@pytest.mark.slow
def test_samplers_count_their_passes(store):
    """One pass a level for the reverse chain; one a step, and one to begin each level, for Metropolis-Hastings."""
    settings = Settings(quick=True, store=store)
    found = figure4.run(settings).ours
    assert found["reverse_8"]["passes"] == 8
    assert found["paper"]["passes"] == 7 * (TINY.mh_steps + 1)
    assert found["paper"]["notes"] == []
    assert found["reverse_8"]["notes"] != []
    assert found["paper"]["samples"] == FEW
    assert found["paper"]["frechet"] is None


def test_training_goes_on_where_it_stopped():
    base = TINY.network.training
    whole = replace(TINY.network, seed=5, training={**base, "checkpoint_seconds": 1e-6})
    learn(whole)
    straight = learned(whole).state_dict()
    rmtree(whole.path)

    def stop(line):
        if "step 6" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(whole, stop)
    assert 0 < whole.run().checkpoint().step < 12
    numbers = learn(whole)
    assert numbers["steps"] == 12
    assert [step for step, _ in numbers["curve"]] == [0, 6, 12]
    assert learn(whole) == numbers
    for name, value in learned(whole).state_dict().items():
        assert value.equal(straight[name]), name


def test_the_network_is_the_one_that_its_parts_make():
    """By name in the registry, and bit for bit: weights, noise and objective."""
    plan = replace(TINY.network, seed=7)
    data, recipe, settings = plan.images(), plan.recipe(), TrainingSettings.of({**plan.training, "seed": plan.seed})
    noise = plan.levels.noise(data.space)
    sizes = {"width": plan.width, "blocks": plan.blocks, "depth": plan.depth}
    parts = unet(hamming(data.space), noise=noise, shape=data.shape, **sizes, generator=generator(plan.seed, "weights"))
    built = recipe.build(data.space, settings)
    for name, value in parts.state_dict().items():
        assert value.equal(built.model.state_dict()[name]), name
    assert built.model.noise.table.equal(noise.table)
    assert built.objective.noise.table.equal(noise.table)
    assert plan.run().recipe.build(data.space, settings).model.noise.table.equal(noise.table)


def test_commands_open_the_network(tmp_path, capsys):
    learn(TINY.network)
    path = str(TINY.network.path)
    out = tmp_path / "grid.npy"
    csm(["sample", path, "-n", "4", "--passes", "2", "--out", str(out)], standalone_mode=False)
    assert np.load(out).shape == (4, 8, 8)
    csm(["evaluate", path, str(out), "--json", "--quiet"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["rows"] == 4


def test_another_plan_has_another_run():
    assert TINY.network.path != replace(TINY.network, width=12).path


def test_a_file_of_another_cache_is_refused(tmp_path):
    one, other = TensorCache({"a": 1}), TensorCache({"a": 2})
    one.put("x", {"t": torch.ones(2)})
    other.folder.mkdir(parents=True, exist_ok=True)
    other.path("x").write_bytes(one.path("x").read_bytes())
    with pytest.raises(ValueError, match="another run"):
        other.get("x")


def test_the_papers_levels_are_among_ours():
    levels = Levels(16)
    noise = levels.noise(Space.bits(4))
    flips = [noise.site_log_prob(level, 0).exp()[0, 1].item() for level in range(noise.num_levels)]
    assert flips == sorted(flips)
    assert [flips[level] for level in levels.paper] == pytest.approx([flip_probability(s) for s in SIGMAS], rel=1e-12)
    assert len(levels.even(16)) == 16
    assert not set(levels.even(16)) & set(levels.paper)
    even = [levels.log_snr(level) for level in levels.even(16)]
    assert even == pytest.approx([5 - 14 * i / 15 for i in range(16)], rel=1e-9)
    assert levels.even(2) == (levels.even(16)[0], levels.even(16)[-1])
    for low in range(1, noise.num_levels):
        noise.step_log_prob(low - 1, low)


@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 100))
def test_packing_is_undone(rows, sites, seed):
    states = Space.bits(sites).uniform(rows, generator(seed))
    assert unpacked(packed(states), sites).equal(states)


def test_the_first_chains_start_alike():
    model = TINY.network.run().recipe.build(TINY.network.images().space, TINY.network.run().settings).model
    few, many = starts(model, FEW, 3), starts(model, FEW + 20, 3)
    assert len(many) == FEW + 20
    assert many[:FEW].equal(few)
    assert not starts(model, FEW, 4).equal(few)


def test_marginals_of_independent_pixels_are_exact():
    """Where hidden pixels depend on nothing, corrupting what was observed costs nothing: E P(x_d | x̃) = P(x_d)."""
    space, shape = Space.bits(6), (2, 3)
    chance = torch.tensor([0.5, 0.2, 0.9, 0.7, 0.1, 0.4], dtype=torch.float64)
    states = space.enumerate()
    pmf = torch.where(states == 1, chance, 1 - chance).prod(-1)
    size = replace(
        TINY, network=replace(TINY.network, levels=Levels(12)), draws=2_000, painted_levels=12, painted_steps=2
    )
    ideal = IdealDenoiser.of(pmf, size.network.levels.noise(space), hamming(space))
    rows = torch.tensor([[1, 0, 1, 0, 0, 0], [0, 1, 0, 1, 1, 1]])
    hidden = lower_half(shape)
    log_probs, draws, _ = painted(ideal, rows, hidden, size, generator(0))
    assert log_probs.exp().sum(-1).allclose(torch.ones(2, 6, dtype=torch.float64))
    assert draws[:, :, ~hidden].equal(rows[:, ~hidden].expand(2_000, -1, -1))
    error = 5 * (chance[hidden] * (1 - chance[hidden]) / 2_000).sqrt()  # the head's probabilities vary less than bits
    assert ((log_probs[:, hidden, 1].exp() - chance[hidden]).abs() < error).all()
    seen = draws[:, 0, hidden].double().mean(0)
    assert ((seen - chance[hidden]).abs() < error).all()


def test_log_losses_are_of_hidden_pixels_alone():
    log_probs = torch.tensor([[[0.9, 0.1], [0.5, 0.5], [0.25, 0.75], [0.5, 0.5]]], dtype=torch.float64).log()
    rows = torch.tensor([[1, 1, 0, 1]])
    expected = (torch.log(torch.tensor(4.0)) + torch.log(torch.tensor(2.0))) / 2
    assert log_losses(log_probs, rows, lower_half((2, 2))).item() == pytest.approx(expected.item())


def test_the_judge_tells_copies_and_noise_from_images():
    data = labelled_images("digits")
    classifier = classifier_of(data, TensorCache({"judge": 1}), 150, 0)
    judge = SampleJudge(data, classifier, 600, 200, resamples=10)
    fresh, copies = judge(data.test[:200].long()), judge(data.train[:200].long())
    noise = judge(data.space.uniform(200, generator(0)))
    assert fresh["memorization"]["passed"]
    assert not copies["memorization"]["passed"]
    assert copies["memorization"]["copies"] == 1
    assert noise["frechet"] > 5 * fresh["frechet"]
    assert noise["confidence"] < fresh["confidence"]
    assert fresh["frechet_few"] > 0


def _sound():
    near = {"near": 0.01, "near_stderr": 0.001, "fresh_near": 0.01}
    plain = {"frechet": 30.0, "frechet_few": 40.0, "shares": [0.1] * 10, "memorization": near}
    found = {name: dict(plain) for name in (*figure4.BASELINES, *SAMPLERS)}
    found["independent"]["frechet"] = 100.0
    for name, how in SAMPLERS.items():
        found[name] |= {"passes": 50, "frechet": 10.0 if how.many else None, "frechet_few": 20.0}
    found["paper"] |= {"passes": 5_000, "frechet_few": 25.0}
    return found, {"difference": -0.01}


def test_sound_findings_pass():
    found, painting = _sound()
    assert all(check.ok for check in figure4.checks_of(found, painting))


@pytest.mark.parametrize(
    ("number", "spoil"),
    [
        (0, lambda found, painting: found["made"].update(frechet=9.0)),
        (1, lambda found, painting: found["mixture"].update(frechet=9.0)),
        (2, lambda found, painting: found["independent"].update(frechet=29.0)),
        (3, lambda found, painting: found["heat_bath"].update(frechet=9.0, shares=[0.03, *[0.97 / 9] * 9])),
        (4, lambda found, painting: found["heat_bath"].update(frechet=9.0, shares=[0.19, *[0.09] * 9])),
        (
            5,
            lambda found, painting: found["heat_bath"].update(
                frechet=9.0, memorization={"near": 0.04, "near_stderr": 0.001, "fresh_near": 0.01}
            ),
        ),
        (6, lambda found, painting: found["paper"].update(frechet_few=15.0)),
        (6, lambda found, painting: found["paper"].update(passes=499)),
        (7, lambda found, painting: painting.update(difference=0.001)),
    ],
)
def test_each_check_fails_on_its_own_number(number, spoil):
    found, painting = deepcopy(_sound())
    spoil(found, painting)
    checks = figure4.checks_of(found, painting)
    assert [i for i, check in enumerate(checks) if not check.ok] == [number]


def test_the_best_sampler_is_one_of_ours_with_many_samples():
    found, _ = _sound()
    found["informed"]["frechet_few"] = 0.0
    found["reverse_16"]["frechet"] = 1.0
    assert best_of(found) == "reverse_16"


def test_the_text_tells_who_is_as_good_as_the_paper():
    found, _ = _sound()
    found["informed"]["frechet_few"] = 26.0
    found["paper"] |= {"acceptance": [0.9, 0.1], "mean_pixel": 0.16}
    found["floor"]["mean_pixel"] = 0.12
    good, bad = _reached(found).split("Not as good: ")
    assert SAMPLERS["informed"].title in bad
    assert SAMPLERS["reverse_16"].title in good
    assert SAMPLERS["reverse_16"].title not in bad


def test_painted_images_are_joined():
    parts = [{"ours": [0.1, 0.2], "mixture": [0.2, 0.2], "passes": 7}, {"ours": [0.3], "mixture": [0.5], "passes": 7}]
    numbers = figure4.joined(parts)
    assert numbers["pictures"] == 3
    assert numbers["difference"] == pytest.approx(-0.1)
    assert numbers["difference_stderr"] == pytest.approx(0.1 / 3**0.5)
