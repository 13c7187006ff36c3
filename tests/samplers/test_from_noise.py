"""Draws from noise as a method: the right chains for the right rows, within the passes allowed, and what is said."""

import pytest
import torch

from concrete_score import registry
from concrete_score.errors import InputError
from concrete_score.fitted import Fitted
from concrete_score.models import mlp
from concrete_score.models.ideal import IdealDenoiser
from concrete_score.neighborhoods import hamming
from concrete_score.noise.families import log_snr
from concrete_score.samplers import from_noise as module
from concrete_score.samplers.from_noise import from_noise
from concrete_score.samplers.methods import REPLICAS, ConditionalMethod
from concrete_score.spaces import Space

SPACE = Space.bits(16)
EITHER = torch.tensor([[0] * 16, [1] * 16])
NOISE = log_snr(SPACE, 12)
IDEAL = IdealDenoiser(EITHER, NOISE, hamming(SPACE), torch.tensor([0.25, 0.75]))
"""All black or all white: whatever is observed decides the rest."""


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def fitted():
    return Fitted(IDEAL, SPACE)


def test_draws_are_those_of_the_model(fitted):
    drawn = fitted.sample(1000, seeded())
    assert drawn.method == "ancestral"
    whole = (drawn.states == drawn.states[:, :1]).all(-1)
    assert whole.double().mean() > 0.97
    white = drawn.states[whole, 0].double().mean().item()
    assert abs(white - 0.75) < 4 * (0.75 * 0.25 / 1000) ** 0.5 + 0.02
    assert drawn.warnings[0].startswith("unadjusted: ")


@pytest.mark.parametrize("name", registry.names("annealing"))
def test_passes_are_kept_to(name):
    for passes in (6, 40):
        way = from_noise(IDEAL, name, passes)
        assert isinstance(way, ConditionalMethod)
        assert way.sampler.run(4, seeded()).passes <= passes + len(way.sampler.schedule)
        assert {0, 11} <= set(way.sampler.schedule) or len(way.sampler.schedule) == 1


def test_observed_sites_stay_and_decide_the_rest(fitted):
    x = EITHER.repeat(3, 1)
    observed = torch.zeros_like(x, dtype=torch.bool)
    observed[:, :8] = True
    done = fitted.impute(x, observed, seeded(), draws=20)
    assert done.states.shape == (20, 6, 16)
    assert (done.states[..., :8] == x[:, :8]).all()
    assert (done.states == x).double().mean() > 0.9
    assert "only through its noise" in done.warnings[0]
    assert len(done.warnings) == 1
    assert torch.equal(fitted.impute(x, observed, seeded()).states, x)
    cells = fitted.conditional_probs(x, observed, seeded())
    assert torch.allclose(cells.log_probs.exp().sum(-1), torch.ones(len(cells.row), dtype=torch.float64))


def test_many_draws_are_made_in_parts_and_progress_is_told(fitted, monkeypatch):
    monkeypatch.setattr(module, "TOGETHER", 5 * 16)
    told, stages = [], []
    drawn = fitted.sample(12, seeded(), progress=lambda done, total: told.append(done / total), watch=stages.append)
    assert drawn.states.shape == (12, 16)
    assert told == sorted(told)
    assert told[-1] == 1
    assert [stage.level for stage in stages] == [*range(11, -1, -1), None]  # of the first part alone
    x = EITHER.repeat(4, 1)
    filled = fitted.impute(x, torch.zeros_like(x, dtype=torch.bool), seeded(), draws=3)
    assert filled.states.shape == (3, 8, 16)
    assert REPLICAS > 5
    assert len(fitted.conditional_probs(x[:2], torch.zeros_like(x[:2], dtype=torch.bool), seeded()).row) == 32


def test_small_spaces_are_enumerated_unless_told_otherwise():
    space = Space.bits(4)
    net = mlp(hamming(space), "denoising", log_snr(space, 4), hidden=4, generator=seeded(), dtype=torch.float64)
    rows = space.enumerate()
    assert Fitted(net, space).evaluate(rows, seeded()).method == "enumeration"
    told = Fitted(net, space, from_noise=True)
    assert told.draws_from_noise
    assert told.evaluate(rows, seeded()).method == "variational"
    assert told.row_log_likelihoods(rows) is None


def test_mistakes(fitted):
    with pytest.raises(InputError, match="did you mean 'informed'"):
        fitted.sample(1, seeded(), sampler="informd")
    with pytest.raises(InputError, match="passes"):
        fitted.sample(1, seeded(), passes=0)
    table = Fitted(IDEAL.at(0), SPACE)
    with pytest.raises(InputError, match="passes: expected a model with noise levels"):
        table.sample(1, seeded(), passes=3)
    with pytest.raises(InputError, match="watch: expected a model with noise levels"):
        table.sample(1, seeded(), watch=print)
