"""The batched chains against their exact twins: z-tests with the twins' own variances, fixed seeds."""

import pytest
import torch

from concrete_score.likelihood import Annealing, EnumeratedAnnealing, RBMPath, ais, linear, raise_, reverse_ais
from concrete_score.likelihood.bounds import log_means
from concrete_score.targets import from_density, random_rbm
from tests.likelihood.helpers import KERNELS, random_problem

CHAINS = 4000


def rbm_annealing():
    return Annealing(RBMPath(random_rbm(4, 3, 0.7, torch.Generator().manual_seed(1))), linear(6))


def cases():
    made = {name: lambda k=k: Annealing(random_problem((3, 2, 2), 7), linear(6), k) for name, k in KERNELS.items()}
    return {**made, "rbm": rbm_annealing}


@pytest.fixture(params=cases())
def annealing(request):
    return cases()[request.param]()


def z_of_mean(log_mean, first, second):
    """How many standard errors a mean of CHAINS weights is from its exact expectation."""
    deviation = (second - first**2).clamp_min(0).sqrt() / CHAINS**0.5
    return float((torch.as_tensor(log_mean).exp() - first) / deviation)


def test_ais(annealing):
    twin = EnumeratedAnnealing(annealing)
    result = ais(annealing, CHAINS, torch.Generator().manual_seed(0), batch=1500)
    assert result.spread < 1
    assert abs(z_of_mean(result.value, twin.ais_moment(), twin.ais_moment(2))) < 4
    # The reported standard error is the true one, to first order.
    true = (twin.ais_moment(2) / twin.ais_moment() ** 2 - 1).sqrt() / CHAINS**0.5
    assert abs(result.stderr / true - 1) < 0.15


def test_reverse_ais(annealing):
    twin = EnumeratedAnnealing(annealing)
    generator = torch.Generator().manual_seed(1)
    draws = from_density(annealing.path.target).sample(CHAINS, generator)
    result = reverse_ais(annealing, draws, generator, batch=1500)
    assert result.spread < 1
    assert abs(z_of_mean(-result.value, twin.reverse_moment(), twin.reverse_moment(2))) < 4


def test_raise(annealing):
    twin = EnumeratedAnnealing(annealing)
    states = annealing.path.space.enumerate()[:4]
    result = raise_(annealing, states, torch.Generator().manual_seed(2), chains=CHAINS, batch=6000)
    assert result.spread < 1
    for value, first, second in zip(result.values, twin.raise_moment(), twin.raise_moment(2), strict=False):
        assert abs(z_of_mean(value, first, second)) < 4


def test_chains_end_at_the_annealing_approximation(annealing):
    generator = torch.Generator().manual_seed(3)
    end = annealing.up(annealing.path.sample(CHAINS, generator), generator).x
    expected = CHAINS * EnumeratedAnnealing(annealing).annealed()
    counts = torch.bincount(annealing.path.space.index(end), minlength=len(expected)).double()
    chi_square = ((counts - expected).square() / expected).sum()
    assert chi_square < len(expected) + 4 * (2 * len(expected)) ** 0.5


def test_mean_log_weights_match_and_bound_in_the_named_direction(annealing):
    twin, generator = EnumeratedAnnealing(annealing), torch.Generator().manual_seed(4)
    up = annealing.up(annealing.path.sample(CHAINS, generator), generator).log_weight
    down = annealing.down(from_density(annealing.path.target).sample(CHAINS, generator), generator).log_weight
    for values, exact in ((up, twin.ais_mean_log()), (down, twin.reverse_mean_log())):
        assert abs((values.mean() - exact) / (values.std() / CHAINS**0.5)) < 4


def test_few_chains_bound_more_loosely_than_many():
    """``E log w ≤ E log mean of C ≤ log Z``: more chains approach log Z from below."""
    annealing = Annealing(random_problem((3, 2, 2), 8, scale=1.5), linear(2))
    twin, generator = EnumeratedAnnealing(annealing), torch.Generator().manual_seed(5)
    log_weight = annealing.up(annealing.path.sample(40_000, generator), generator).log_weight
    means = [float(twin.ais_mean_log())]
    for chains in (2, 8, 32):
        values = log_means(log_weight.reshape(-1, chains))[0]
        assert values.mean() < twin.log_partition - 3 * values.std() / len(values) ** 0.5
        means.append(float(values.mean()))
    assert means == sorted(means)


def test_batches_only_bound_the_memory_and_progress_is_told():
    annealing = Annealing(random_problem((3, 2)), linear(5))
    seen = []
    result = ais(annealing, 7, torch.Generator().manual_seed(0), 3, lambda done, total: seen.append((done, total)))
    assert result.chains == 7
    assert seen == [(k, 15) for k in range(1, 16)]


def test_sweeps_repeat_the_kernel():
    path = random_problem((3, 2, 2), 9)
    gaps = []
    for sweeps in (1, 4):
        twin = EnumeratedAnnealing(Annealing(path, linear(4), KERNELS["mh"], sweeps))
        gaps.append(float(twin.log_partition - twin.ais_mean_log()))
    assert gaps[1] < 0.8 * gaps[0]
