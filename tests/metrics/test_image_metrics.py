"""Fréchet distance, classifier and memorization against closed forms and brute force."""

import pytest
import torch
from scipy.linalg import sqrtm

from concrete_score.errors import InputError
from concrete_score.metrics import images
from concrete_score.metrics.bootstrap import bootstrap
from concrete_score.metrics.images import (
    class_report,
    frechet,
    gaussian_distance,
    memorization,
    nearest_distances,
    train_classifier,
)
from concrete_score.spaces import Space


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def test_the_distance_of_gaussians_is_the_matrix_formula():
    one, other = (normal(5, 5, seed=s) for s in (1, 2))
    cov, other_cov = one @ one.T, other @ other.T
    mean, other_mean = normal(5, seed=3), normal(5, seed=4)
    root = torch.from_numpy(sqrtm((cov @ other_cov).numpy()).real)
    expected = (mean - other_mean).square().sum() + (cov + other_cov - 2 * root).trace()
    found = gaussian_distance(mean, cov, other_mean, other_cov)
    assert found.item() == pytest.approx(expected.item(), rel=1e-8)
    assert gaussian_distance(mean, cov, mean, cov).item() == pytest.approx(0, abs=1e-8)
    flat = torch.diag(torch.tensor([1.0, 0, 0, 0, 0], dtype=torch.float64))
    assert gaussian_distance(mean, flat, mean, cov).isfinite()


def test_a_samples_distance_and_its_error():
    """``N(0, I)`` against ``N(m, 4 I)``: ``|m|² + F``; the floor of equal distributions is far below."""
    shifted = 2 * normal(4000, 4, seed=2) + 0.5
    found = frechet(normal(4000, 4, seed=1), shifted, seeded())
    assert abs(found.value - (4 * 0.25 + 4)) < 4 * found.stderr
    assert 0.02 < found.stderr < 0.3
    floor = frechet(normal(4000, 4, seed=1), normal(4000, 4, seed=5), seeded())
    assert floor.value < 0.02


def test_the_bootstrap_error_of_a_mean_is_the_textbooks():
    x = normal(300, seed=6)
    value, stderr = bootstrap(lambda weight: weight @ x, (x,), seeded(), 2000)
    assert value.item() == pytest.approx(x.mean().item())
    assert stderr.item() == pytest.approx(x.std().item() / 300**0.5, rel=0.08)


def bars(count, seed):
    """6×5 pictures of one noisy bar, upright or lying: two classes anyone can tell apart."""
    g = seeded(seed)
    label = torch.randint(2, (count,), generator=g)
    place = torch.randint(5, (count,), generator=g)
    row, column = torch.meshgrid(torch.arange(6), torch.arange(5), indexing="ij")
    upright = column[None] == place[:, None, None]
    lying = row[None] == place[:, None, None]
    clean = torch.where(label[:, None, None] == 1, upright, lying)
    flips = torch.rand(clean.shape, generator=g) < 0.02
    return (clean ^ flips).flatten(1).to(torch.uint8), label


def test_a_classifier_learns_and_reports():
    x, y = bars(600, 1)
    test, test_y = bars(300, 2)
    net = train_classifier(x, y, Space.bits(30), (6, 5), steps=120, batch_size=64)
    assert net.accuracy(test, test_y) > 0.95
    assert net.features(test).shape == (300, 64)
    again = train_classifier(x, y, Space.bits(30), (6, 5), steps=120, batch_size=64)
    assert torch.equal(again.features(test), net.features(test))
    only = test[test_y == 1]
    report = class_report(net, torch.cat([only, only, test[test_y == 0][: len(only)]]), seeded())
    assert report.most.value == pytest.approx(2 / 3, abs=0.05)
    assert report.most == report.shares[1]
    assert report.least.stderr == pytest.approx((2 / 9 / (3 * len(only))) ** 0.5, rel=0.3)
    assert 0.8 < report.confidence.value <= 1
    assert sum(report.to_json()["shares"]) == pytest.approx(1)


@pytest.mark.parametrize("size", [2, 4])
def test_nearest_distances_are_counted(monkeypatch, size):
    rows, reference = (Space((size,) * 7).uniform(n, seeded(n)) for n in (23, 41))
    expected = (rows[:, None] != reference).sum(-1).amin(1)
    assert torch.equal(nearest_distances(rows, reference), expected)
    monkeypatch.setattr(images, "DISTANCES", 100)
    assert torch.equal(nearest_distances(rows.to(torch.uint8), reference.to(torch.uint8)), expected)
    assert nearest_distances(rows[:0], reference).shape == (0,)


def test_copies_are_caught_and_fresh_draws_pass():
    draw = [Space.bits(40).uniform(400, seeded(seed)) for seed in range(3)]
    honest = memorization(draw[0], draw[1], draw[2], seeded())
    assert honest.passed
    assert honest.copies == 0
    assert abs(honest.samples.value - honest.fresh.value) < 4 * (honest.samples.stderr + honest.fresh.stderr)
    some = torch.cat([draw[1][:40], draw[0][40:]])
    caught = memorization(some, draw[1], draw[2], seeded())
    assert not caught.passed
    assert caught.copies == pytest.approx(0.1)
    assert caught.to_json()["passed"] is False


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: frechet(normal(3, 4), normal(9, 4), seeded()), "one: expected more rows than features"),
        (lambda: frechet(normal(9, 4), normal(9, 3), seeded()), "features: expected as many features"),
        (lambda: frechet(normal(9, 4), normal(9, 4) / 0, seeded()), "other: expected finite features"),
        (lambda: nearest_distances(torch.zeros(2, 3).long(), torch.zeros(0, 3).long()), "two tables of as many sites"),
        (lambda: bootstrap(lambda w: w.sum(), (normal(3),), seeded(), 1), "at least 2 resamples"),
        (
            lambda: train_classifier(torch.zeros(4, 4).long(), torch.zeros(3).long(), Space.bits(4), (2, 2)),
            "labels: expected a label from 0 for every image",
        ),
        (
            lambda: train_classifier(torch.zeros(4, 4).long(), torch.arange(4), Space.bits(4), (2, 3)),
            "shape: expected pixels of one size",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(InputError, match=message):
        call()
