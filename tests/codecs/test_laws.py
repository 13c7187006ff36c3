"""The law of numbers: what stands out is found, the rest is smooth, and both come near the true law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from concrete_score.codecs import laws
from concrete_score.codecs.laws import learn_law, smooth_rows


def points(law):
    """Expected rows at every grid point of the training range."""
    width = np.diff(np.append(law.starts, law.end))
    return np.repeat(law.rows / width, width)


@given(st.lists(st.integers(-300, 300) | st.sampled_from([0, 7, 100, 200]), min_size=2, max_size=120))
def test_rows_expected_are_positive_and_as_many_as_seen(keys):
    if len(set(keys)) < 2:
        return
    law = learn_law(np.array(keys))
    assert law.starts[0] == min(keys)
    assert law.end == max(keys) + 1
    assert (np.diff(law.starts) > 0).all()
    assert (law.rows > 0).all()
    assert law.rows.sum() == pytest.approx(len(keys), abs=2.0)
    assert (np.diff(np.append(law.starts, law.end))[law.single] == 1).all()


def test_smoothing_maximizes_the_penalized_likelihood(monkeypatch):
    monkeypatch.setattr(laws, "PENALTIES", (10.0,))
    counts, widths = np.array([5.0, 9.0, 2.0, 30.0, 22.0, 1.0, 0.0]), np.array([1.0, 2.0, 1.0, 3.0, 2.0, 1.0, 4.0])
    seen = counts + laws.PRIOR * widths / widths.sum()

    def loss(theta):
        rough = np.diff(theta, 2)
        return -(seen * theta - widths * np.exp(theta)).sum() + 5.0 * (rough**2).sum()

    best = minimize(loss, np.log(seen / widths), method="BFGS", options={"gtol": 1e-9}).x
    assert np.allclose(smooth_rows(counts, widths), widths * np.exp(best), rtol=2e-3)


def test_an_even_law_is_smoothed_to_an_even_one_and_a_jagged_one_is_kept():
    rng = np.random.default_rng(0)
    even = smooth_rows(rng.poisson(50, 100).astype(float))
    assert even.max() / even.min() < 1.2
    jagged = np.tile([10.0, 500.0], 40)
    assert np.allclose(smooth_rows(jagged), jagged, rtol=0.05, atol=2)


def mixture(rng, n):
    kind = rng.random(n)
    numbers = np.where(kind < 0.4, rng.normal(3.0, 1.0, n), np.where(kind < 0.7, rng.poisson(6.0, n), 4.25))
    return np.rint(numbers * 100).astype(np.int64)


def test_counts_and_atoms_among_measurements_stand_out_and_the_law_is_near_the_truth():
    from scipy.stats import norm, poisson

    law = learn_law(mixture(np.random.default_rng(1), 20_000))
    single = law.starts[law.single]
    assert 425 in single
    assert set(np.arange(0, 1300, 100)) <= set(single)
    assert len(single) < 30
    grid = np.arange(law.starts[0], law.end)
    truth = 0.4 * (norm.cdf((grid + 0.5) / 100, 3, 1) - norm.cdf((grid - 0.5) / 100, 3, 1))
    truth += 0.3 * np.where(grid % 100 == 0, poisson.pmf(grid // 100, 6.0), 0.0) + 0.3 * (grid == 425)
    ours = points(law) / law.rows.sum()
    seen = truth > 0
    assert 0 < (truth[seen] * np.log(truth[seen] / ours[seen])).sum() < 0.002


def test_the_error_falls_faster_than_a_histograms():
    """A histogram's divergence falls as N^(-2/3) at best."""
    from scipy.stats import norm

    rng, error = np.random.default_rng(2), []
    for rows in (2_000, 32_000):
        found = []
        for _ in range(5):
            law = learn_law(np.rint(rng.normal(0, 300, rows)).astype(np.int64))
            grid = np.arange(law.starts[0], law.end)
            truth = norm.cdf((grid + 0.5) / 300) - norm.cdf((grid - 0.5) / 300)
            ours = points(law) / law.rows.sum()
            found.append((truth * np.log(truth / ours)).sum())
        error.append(np.mean(found))
    assert error[1] < 0.0005
    assert np.log(error[0] / error[1]) / np.log(16) > 0.67
