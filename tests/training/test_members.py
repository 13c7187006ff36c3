"""Members of a mixture learn one by one; held-out rows weigh them, and no time makes the mixture worse."""

import pytest
import torch

from concrete_score import objectives
from concrete_score.models.mixture import MixtureModel
from concrete_score.spaces import Space
from concrete_score.targets.bayesian_network import random_network
from concrete_score.training import Checkpoint, Examples, Finished, Snapshot, TrainingSettings, Validated, train
from concrete_score.training.loop import row_log_densities

SPACE = Space((2, 3, 2, 2))
TRUTH = random_network(list(SPACE.sizes), 2, torch.Generator().manual_seed(0))
ROWS, VALID = (TRUTH.sample(n, torch.Generator().manual_seed(n)) for n in (400, 200))
MEMBERS = (
    {"model": "made", "options": {"parents": [[]] * 4, "hidden": 1, "blocks": 0}, "training": None},
    {"model": "made", "options": {"hidden": 8}, "training": {"steps": 60}},
    {"model": "latent", "options": {"components": 4, "hidden": 8}, "training": {"steps": 40, "lr": 0.01}},
)
SETTINGS = TrainingSettings(steps=100, lr=5e-3, valid_every=20, batch_size=32)


def model_of(members=MEMBERS):
    return MixtureModel(SPACE, members, generator=torch.Generator().manual_seed(0))


def run(model, rows=ROWS, valid=VALID, settings=SETTINGS, **options):
    return list(train(model, objectives.build("maximum_likelihood", SPACE), rows, settings, valid, **options))


def test_the_mixture_is_at_least_as_good_as_each_member_on_held_out_rows():
    model = model_of()
    events = run(model)
    ended = events[-1]
    assert isinstance(ended, Finished)
    assert (ended.why, ended.step) == ("steps", 100)
    value = model.log_density(VALID).double().mean().item()
    assert ended.best == pytest.approx(value, abs=1e-5)
    for member in model.members:
        assert value >= member.log_density(VALID).double().mean().item() - 1e-3
    weighed = [event.value for event in events if isinstance(event, Validated) and event.judged is model]
    assert len(weighed) == 3
    assert weighed == pytest.approx(sorted(weighed), abs=1e-3)


def test_rows_weigh_as_they_count():
    weights = torch.rand(200, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    model = model_of()
    ended = run(model, valid=Examples.of(VALID, None, weights))[-1]
    value = (row_log_densities(model, Examples.of(VALID), 0) * weights).sum() / weights.sum()
    assert ended.best == pytest.approx(value.item(), abs=1e-5)


def test_blanks_are_learned_from():
    seen = torch.rand(ROWS.shape, generator=torch.Generator().manual_seed(2)) > 0.2
    ended = run(model_of(), rows=Examples.of(ROWS, seen))[-1]
    independent = run(model_of(MEMBERS[:1]))[-1]
    assert ended.best > independent.best - 0.05


def test_a_training_goes_on_where_it_stopped():
    whole = model_of()
    run(whole)
    for stop in (30, 75):
        asked = iter(range(10**6))
        first = run(model_of(), interrupted=lambda asked=asked, stop=stop: next(asked) >= stop)
        assert first[-1].why == "interrupted"
        saved = [event.snapshot for event in first if isinstance(event, Checkpoint)][-1]
        copied = Snapshot(saved.step, saved.state, {name: value.clone() for name, value in saved.tensors.items()})
        model = model_of()
        assert run(model, start=copied)[-1].why == "steps"
        for name, value in whole.state_dict().items():
            assert torch.equal(value, model.state_dict()[name]), (stop, name)


def test_a_training_that_ended_is_not_trained_again():
    model = model_of()
    events = run(model)
    saved = [event.snapshot for event in events if isinstance(event, Checkpoint)][-1]
    again = run(model_of(), start=saved)
    assert again == [events[-1]]


def test_without_time_the_members_that_need_none_remain():
    model = model_of()
    ended = run(model, settings=TrainingSettings(steps=100, minutes=1e-6, valid_every=20))[-1]
    assert ended.why == "minutes"
    simple = run(model_of(MEMBERS[:1]))[-1]
    assert ended.best >= simple.best - 1e-3
