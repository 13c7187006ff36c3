"""A mixture's rows under evidence and its blanks, by its members' own ways, against its density by enumeration."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concrete_score.fitted import Fitted
from concrete_score.likelihood.observed import observed_log_densities
from concrete_score.models import completing
from concrete_score.models.mixture import MixtureModel
from concrete_score.samplers import conditional, mixed
from concrete_score.samplers.evidence import Evidence
from concrete_score.samplers.mixed import MixedConditioner, Shared, conditioner_of
from concrete_score.samplers.sources import source
from concrete_score.spaces import Space
from tests.models.test_mixture import SPACE, mixture
from tests.models.test_mixture import pmf as pmf_of
from tests.strategies import generators

ROW = torch.tensor([[1, 2, 0]])


def conditional_of(model, observed):
    """``q(x | observed cells of ROW)`` of every state ``(S,)``, and the probability of these cells."""
    fits = (SPACE.enumerate()[:, observed] == ROW[0, observed]).all(-1)
    joint = torch.where(fits, pmf_of(model), 0.0)
    return joint / joint.sum(), joint.sum()


@settings(max_examples=5)
@given(generator=generators())
def test_rows_under_evidence_follow_the_conditional_of_the_mixture(generator):
    model, n = mixture(generator), 4_000
    weights = torch.tensor([0.2, 0.0, 1.0], dtype=torch.float64).log()
    evidence = Evidence.of(SPACE, {1: weights})
    members = tuple(source(member, evidence, n) for member in model.members)
    shared = Shared(members, model.log_weights)
    (batch,) = shared.batches(n, generator)
    joint = pmf_of(model) * weights.exp()[SPACE.enumerate()[:, 1]]
    assert batch.probability.value == pytest.approx(joint.sum().item(), rel=1e-6)
    count = torch.bincount(SPACE.index(batch.states), minlength=SPACE.num_states)
    expected = n * joint / joint.sum()
    assert (count[expected == 0] == 0).all()
    chi = ((count - expected).square() / expected)[expected > 5].sum().item()
    freedom = int((expected > 5).sum()) - 1
    assert (chi - freedom) / (2 * freedom) ** 0.5 < 5


def test_a_wide_mixture_is_asked_member_by_member():
    space = Space.bits(40)
    model = MixtureModel(space, generator=torch.Generator().manual_seed(0)).requires_grad_(False)
    found = source(model, Evidence.of(space, {39: 1}), 10)
    assert isinstance(found, Shared)
    assert found.name == "importance"
    (batch,) = found.batches(50, torch.Generator().manual_seed(1))
    assert (batch.states[:, 39] == 1).all()
    assert 0.05 < batch.probability.value < 0.95


@settings(max_examples=6)
@given(generator=generators(), seen=st.lists(st.booleans(), min_size=3, max_size=3).filter(lambda each: not all(each)))
def test_blanks_follow_the_conditional_of_the_mixture(generator, seen):
    model, observed, draws = mixture(generator), torch.tensor(seen), 4_000
    expected, total = conditional_of(model, observed)
    conditioner = MixedConditioner(model)
    done = conditioner.draw(ROW, observed[None], draws, generator)
    count = torch.bincount(SPACE.index(done.states[:, 0]), minlength=SPACE.num_states)
    assert (count[expected == 0] == 0).all()
    error = (draws * expected * (1 - expected)).sqrt()
    assert ((count - draws * expected).abs() <= 5 * error + 3).all()
    *parts, last = conditioner.cells(ROW, observed[None], generator)
    assert last.method == parts[0].method != "none"
    for cells in (part.cells for part in parts):
        for site, log_probs in zip(cells.site.tolist(), cells.log_probs, strict=True):
            own = torch.zeros(3, dtype=torch.float64).index_add(0, SPACE.enumerate()[:, site], expected)
            torch.testing.assert_close(log_probs.exp(), own, atol=3 * mixed.LEAST, rtol=0)
    found = observed_log_densities(model, ROW, observed[None], generator)
    torch.testing.assert_close(found.values.exp(), total[None])


def test_blanks_of_many_completions_are_weighed_by_members(monkeypatch):
    for room, name in ((conditional, "LISTED_FOR_CELLS"), (conditional, "LISTED"), (completing, "LISTED")):
        monkeypatch.setattr(room, name, 0)
    generator = torch.Generator().manual_seed(0)
    model, observed = mixture(generator), torch.tensor([False, True, False])
    expected, _ = conditional_of(model, observed)
    rows, known = ROW.expand(200, -1), observed.expand(200, -1)
    *parts, _ = MixedConditioner(model).cells(rows, known, generator)
    site = torch.cat([part.cells.site for part in parts])
    probs = torch.cat([part.cells.log_probs for part in parts]).exp()
    assert len(site) == 400
    for d in (0, 2):
        own = torch.zeros(3, dtype=torch.float64).index_add(0, SPACE.enumerate()[:, d], expected)
        torch.testing.assert_close(probs[site == d].mean(0), own, atol=0.02, rtol=0)


def test_rows_without_blanks_stay_and_members_answer_unless_a_sampler_is_named():
    generator = torch.Generator().manual_seed(0)
    model = mixture(generator)
    whole = Fitted(model, SPACE).impute(ROW, torch.ones(1, 3, dtype=torch.bool), generator)
    assert (whole.method, whole.states.tolist()) == ("none", ROW.tolist())
    assert isinstance(conditioner_of(model), MixedConditioner)
    assert not isinstance(conditioner_of(model, sampler="gibbs"), MixedConditioner)
