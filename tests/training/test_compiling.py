"""``torch.compile`` by request or by trial: what is chosen is said and kept, and nothing fails without a compiler."""

import pytest
import torch

from concrete_score import fitting, runs
from concrete_score.errors import InputError
from concrete_score.fitting import Request
from concrete_score.models import Table
from concrete_score.objectives import build
from concrete_score.randomness import generator
from concrete_score.spaces import Space
from concrete_score.training import TrainingSettings, compiling, fit
from concrete_score.training.compiling import Trial, try_out
from concrete_score.training.loop import Loss

SPACE = Space((2, 3))
ROWS = SPACE.uniform(50, generator(0, "rows")).to(torch.uint8)


def trained(**options):
    model = Table(SPACE)
    fit(model, build("maximum_likelihood", SPACE), ROWS, TrainingSettings(steps=5, lr=0.1, **options))
    return model.state_dict()


@pytest.fixture
def compiler(monkeypatch):
    """A compiler that changes nothing, and counts what it compiled."""
    seen = []

    def compile_nothing(module):
        seen.append(module)
        return Calls(module)

    monkeypatch.setattr(torch, "compile", compile_nothing)
    monkeypatch.setattr(compiling, "can_compile", lambda: True)
    return seen


class Calls(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arguments):
        return self.module(*arguments)


def test_a_compiled_training_is_the_same_training(compiler):
    plain, through = trained(), trained(compile="yes")
    assert len(compiler) == 1
    assert all(plain[name].equal(through[name]) for name in plain)


class Breaks(Calls):
    """Fails on the way back, when some gradients are there already."""

    def forward(self, *arguments):
        return Half.apply(super().forward(*arguments))


class Half(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        raise RuntimeError("a compiled kernel failed")


def test_without_a_compiler_or_with_a_broken_one_nothing_fails(monkeypatch):
    plain = trained()
    monkeypatch.setattr(compiling, "can_compile", lambda: False)
    assert trained(compile="yes")["logits"].equal(plain["logits"])

    def broken(module):
        raise RuntimeError("no such header")

    for compiles in (broken, Breaks):
        monkeypatch.setattr(torch, "compile", compiles)
        monkeypatch.setattr(compiling, "can_compile", lambda: True)
        assert trained(compile="yes")["logits"].equal(plain["logits"])


def test_a_trial_moves_no_weight_and_is_not_begun_for_few_steps(compiler, monkeypatch):
    model = Table(SPACE)
    objective = build("maximum_likelihood", SPACE)
    loss, before = Loss(model, objective), model.logits.detach().clone()
    settings = TrainingSettings(batch_size=8)
    feed = fitting.training.examples.Feed(fitting.Examples.of(ROWS), objective, settings)
    assert try_out(loss, lambda step: (feed.at(step, model), 1 / 8), steps=3) is None
    assert not compiler
    monkeypatch.setattr(compiling, "WORTH", 0.0)
    assert try_out(loss, lambda step: (feed.at(step, model), 1 / 8), steps=3) is not None
    assert len(compiler) == 1
    assert model.logits.grad is None
    assert model.logits.detach().equal(before)


@pytest.mark.parametrize(("seconds", "kept"), [(0.5, "yes"), (2.0, "no")])
def test_what_a_trial_chose_is_said_and_kept_in_the_run(seconds, kept, monkeypatch, tmp_path):
    monkeypatch.setattr(fitting, "try_compiled", lambda *about: Trial(1.0, seconds, 1.0))
    said = []
    request = Request(ROWS.numpy(), settings={"compile": "auto"}, training={"steps": 10})
    job = fitting.prepare(request, say=said.append)
    assert any(f"compile {kept}: " in str(line) for line in said)
    run = job.create(tmp_path / "run")
    assert run.config["training"]["compile"] == kept
    again = fitting.prepare(request, runs.open(tmp_path / "run"))
    assert again.plan.settings.compile == kept


def test_another_word_is_refused():
    with pytest.raises(InputError, match="no, auto or yes"):
        TrainingSettings(compile="maybe")
