"""Exact log-likelihoods."""

import math

import pytest
import torch

from concrete_score.errors import InputError
from concrete_score.likelihood import exact
from concrete_score.likelihood.bounds import log_mean, log_means
from concrete_score.likelihood.views import Views
from concrete_score.neighborhoods import hamming
from concrete_score.spaces import Space
from concrete_score.targets import Ising, from_density, pmf
from tests.likelihood.helpers import Unnormalized


def test_enumeration_agrees_with_the_transfer_matrix_and_the_table():
    model, g = Ising((3, 4), 0.4, field=0.1), torch.Generator().manual_seed(0)
    rows = model.space.uniform(500, g)
    result = exact(model, rows)
    values = model.log_density(rows) - model.log_partition()
    assert result.log_likelihood == pytest.approx(float(values.mean()), abs=1e-12)
    assert result.stderr == pytest.approx(float(values.std()) / 500**0.5)
    assert (result.lower, result.upper, result.gap) == (result.log_likelihood, result.log_likelihood, 0.0)
    by_table = exact(from_density(model), rows)
    assert (result.method, by_table.method) == ("enumeration", "exact")
    assert by_table.log_likelihood == pytest.approx(result.log_likelihood, abs=1e-12)


def test_bits_per_site_of_uniform_bits_is_one():
    model = pmf(torch.full((2,) * 4, 1 / 16))
    assert exact(model, model.space.enumerate()).bits_per_site == pytest.approx(1.0)


def test_an_impossible_row_makes_the_mean_minus_infinity_and_json_null():
    result = exact(pmf([1.0, 0.0]), [[0], [1]])
    assert result.log_likelihood == -math.inf
    assert result.to_json()["log_likelihood"] is None


def test_a_row_of_probability_zero_has_no_ratios_and_is_called_as_the_caller_says():
    p, rows = pmf([0.5, 0.0, 0.5]), torch.tensor([[0], [1]])
    views = Views(p, p.space)
    with pytest.raises(InputError, match=r"^row 1: "):
        views.log_ratios(rows, hamming(p.space))
    with pytest.raises(InputError, match=r"^line 3: "):
        views.log_ratios(rows, hamming(p.space), lambda row: f"line {row + 2}")


def test_a_single_row_has_no_standard_error():
    assert exact(pmf([0.5, 0.5]), [[0]]).to_json()["stderr"] is None


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_broken_densities_are_refused(value):
    table = torch.zeros(4, dtype=torch.float64)
    table[2] = value
    with pytest.raises(InputError, match="row 1"):
        exact(Unnormalized(Space.bits(2), table), [[0, 0], [1, 0]])
    with pytest.raises(InputError, match="line 3"):
        exact(Unnormalized(Space.bits(2), table), [[0, 0], [1, 0]], row_name=lambda row: f"line {row + 2}")
    with pytest.raises(InputError, match="finite sum"):
        exact(Unnormalized(Space.bits(2), table), [[0, 0]])


def test_too_large_a_space_is_refused_before_work():
    with pytest.raises(InputError, match="at most"):
        exact(Ising((5, 5), 0.1), torch.zeros(1, 25, dtype=torch.int64))


def test_log_mean_is_the_mean_in_log_space_without_overflow():
    w = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
    for shift in (0.0, 5000.0, -5000.0):
        result = log_mean(w.log() + shift)
        assert result.value - shift == pytest.approx(math.log(3.0), abs=1e-9)
        assert result.stderr == pytest.approx(float(w.std()) / (3 * 3**0.5))
        assert result.effective == pytest.approx(81 / 41)


def test_the_delta_standard_error_is_the_spread_of_repeated_means():
    g = torch.Generator().manual_seed(0)
    log_w = 0.8 * torch.randn(2000, 100, generator=g, dtype=torch.float64)
    values, stderrs = log_means(log_w)
    assert float(values.std() / stderrs.square().mean().sqrt()) == pytest.approx(1.0, abs=0.08)


def test_heavy_tails_are_told():
    g = torch.Generator().manual_seed(0)
    log_w = torch.randn(100, generator=g, dtype=torch.float64)
    assert log_mean(0.5 * log_w).warning is None
    assert "3." in log_mean(3.5 * log_w / log_w.std()).warning


def test_one_large_weight_among_equal_ones_is_warned_of_though_it_hardly_widens_the_spread():
    log_w = torch.zeros(1000, dtype=torch.float64)
    log_w[0] = torch.tensor(1000.0).log()
    found = log_mean(log_w)
    assert found.spread < 0.3
    assert "1000 chains count as 4.0" in found.warning
