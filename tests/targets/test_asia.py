import math

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from concrete_score.targets import asia

ASIA, TUB, SMOKE, LUNG, BRONC, EITHER, XRAY, DYSP = range(8)


def close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-12)


def test_marginals_equal_hand_arithmetic():
    yes = [float(m[1]) for m in asia().marginals()]
    tub = 0.01 * 0.05 + 0.99 * 0.01
    lung = 0.5 * 0.1 + 0.5 * 0.01
    bronc = 0.5 * 0.6 + 0.5 * 0.3
    either = 1 - (1 - tub) * (1 - lung)
    xray = 0.98 * either + 0.05 * (1 - either)
    # Smoking ties bronchitis to lung cancer: condition on it.
    with_smoke = 1 - (1 - tub) * (1 - 0.1)
    without = 1 - (1 - tub) * (1 - 0.01)
    dysp = 0.5 * (
        0.6 * (0.9 * with_smoke + 0.8 * (1 - with_smoke)) + 0.4 * (0.7 * with_smoke + 0.1 * (1 - with_smoke))
    ) + 0.5 * (0.3 * (0.9 * without + 0.8 * (1 - without)) + 0.7 * (0.7 * without + 0.1 * (1 - without)))
    assert close(yes[ASIA], 0.01)
    assert close(yes[SMOKE], 0.5)
    assert close(yes[TUB], tub)
    assert close(tub, 0.0104)
    assert close(yes[LUNG], lung)
    assert close(lung, 0.055)
    assert close(yes[BRONC], bronc)
    assert close(bronc, 0.45)
    assert close(yes[EITHER], either)
    assert close(either, 0.064828)
    assert close(yes[XRAY], xray)
    assert close(xray, 0.11029004)
    assert close(yes[DYSP], dysp)
    assert close(dysp, 0.4359706)


def test_joint_entries_are_products():
    joint = asia().joint()
    # No trip, no tuberculosis, a smoker with lung cancer and bronchitis, so either; positive x-ray, dyspnoea.
    patient = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1])
    expected = 0.99 * 0.99 * 0.5 * 0.1 * 0.6 * 1.0 * 0.98 * 0.9
    assert close(joint.log_density(patient).exp().item(), expected)
    healthy = 0.99 * 0.99 * 0.5 * 0.99 * 0.7 * 1.0 * 0.95 * 0.9
    assert close(joint.log_density(torch.zeros(8, dtype=torch.int64)).exp().item(), healthy)
    assert joint.log_density(torch.tensor([0, 1, 0, 0, 0, 0, 0, 0])).item() == -math.inf


def test_half_of_the_states_are_impossible_and_flips_split_the_rest_in_two():
    network = asia()
    table = network.joint().probabilities
    possible = table > 0
    assert int(possible.sum()) == 128
    states = network.space.enumerate()[possible]
    one_flip = (states[:, None] != states).sum(-1) == 1
    count, label = connected_components(coo_array(one_flip.numpy()), directed=False)
    assert count == 2
    masses = sorted(np.bincount(label, weights=table[possible].numpy()))
    assert close(masses[0], 0.064828)
    assert close(masses[1], 0.935172)
    # The two are told apart by the or-node alone.
    assert len({(int(c), int(s)) for c, s in zip(label, states[:, EITHER], strict=True)}) == 2


def test_samples_follow_the_joint(goodness_of_fit, generator):
    network = asia()
    drawn = network.space.index(network.sample(200_000, generator))
    assert goodness_of_fit(drawn, network.joint().probabilities) > 1e-3


def test_values_are_named_no_and_yes():
    network = asia()
    assert network.names == ("asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp")
    assert set(network.values) == {("no", "yes")}
