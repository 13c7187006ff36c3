import itertools
import math

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.protocols import DensityModel, Samplable
from concrete_score.targets import RBM, from_density, log_normalizer, random_rbm


def seeded(visible: int, hidden: int, seed: int, scale: float = 1.0) -> RBM:
    return random_rbm(visible, hidden, scale, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("visible", "hidden"), [(1, 1), (3, 2), (2, 4), (4, 4)])
@pytest.mark.parametrize("seed", [0, 1])
def test_log_density_is_the_joint_summed_over_every_hidden_state(visible, hidden, seed):
    model = seeded(visible, hidden, seed, scale=3.0)
    assert isinstance(model, DensityModel)
    assert isinstance(model, Samplable)
    for v in itertools.product((0, 1), repeat=visible):
        total = 0.0
        for h in itertools.product((0, 1), repeat=hidden):
            energy = sum(v[i] * float(model.visible_bias[i]) for i in range(visible))
            energy += sum(h[j] * float(model.hidden_bias[j]) for j in range(hidden))
            energy += sum(v[i] * float(model.weights[i, j]) * h[j] for i in range(visible) for j in range(hidden))
            total += math.exp(energy)
        assert math.isclose(model.log_density(torch.tensor(v)).item(), math.log(total), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize(("visible", "hidden"), [(1, 5), (6, 3), (3, 6), (12, 4), (10, 10), (14, 9)])
@pytest.mark.parametrize(("seed", "scale"), [(0, 0.3), (1, 2.0), (2, 20.0)])
def test_log_partition_equals_enumeration_of_the_visible_bits(visible, hidden, seed, scale):
    model = seeded(visible, hidden, seed, scale)
    assert math.isclose(model.log_partition(), log_normalizer(model).item(), rel_tol=1e-13, abs_tol=1e-10)


def test_a_hidden_layer_too_large_to_enumerate_is_met_from_the_visible_side():
    # The transposed machine has the same partition function, found by enumerating the same small layer.
    model = seeded(3, 22, 4)
    mirrored = RBM(model.weights.T, model.hidden_bias, model.visible_bias)
    assert math.isclose(model.log_partition(), mirrored.log_partition(), rel_tol=1e-14)
    assert math.isclose(model.log_partition(), log_normalizer(mirrored).item(), rel_tol=1e-13)


def test_chunks_do_not_change_the_result(monkeypatch):
    whole = seeded(9, 7, 0).log_partition()
    monkeypatch.setattr("concrete_score.targets.rbm._CHUNK_NUMBERS", 30)
    assert math.isclose(whole, seeded(9, 7, 0).log_partition(), rel_tol=1e-14)


@pytest.mark.parametrize(("visible", "hidden"), [(6, 3), (3, 6)])
def test_samples_follow_the_visible_distribution(goodness_of_fit, generator, visible, hidden):
    model = seeded(visible, hidden, 7, scale=1.5)
    drawn = model.space.index(model.sample(100_000, generator))
    assert goodness_of_fit(drawn, from_density(model).probabilities) > 1e-3
    assert goodness_of_fit(drawn, from_density(seeded(visible, hidden, 8)).probabilities) < 1e-12


def test_bad_machines_are_refused():
    with pytest.raises(InputError, match="at most 20 units to enumerate, got 21 visible and 22 hidden"):
        seeded(21, 22, 0).log_partition()
    with pytest.raises(InputError, match="weights: expected finite numbers"):
        RBM(torch.full((2, 2), math.nan), torch.zeros(2), torch.zeros(2))
    with pytest.raises(InputError, match=r"visible_bias \(V,\) .* got shapes \(\(3, 2\), \(2,\), \(3,\)\)"):
        RBM(torch.zeros(3, 2), torch.zeros(2), torch.zeros(3))
