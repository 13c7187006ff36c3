"""The embedded digits from the command line, small: fit, sample, evaluate and impute, judged by what they must get
right. A sampler that stays at noise, or draws each pixel alone, fails by many standard errors."""

import json

import numpy as np
import pytest

from concrete_score.cli.main import main
from concrete_score.data import load

pytestmark = pytest.mark.slow
STEPS, DRAWS, BLOCKS = 600, 600, 12
HALF = 4


def csm(*words):
    with pytest.raises(SystemExit) as left:
        main([*words, "--quiet"])
    assert not left.value.code


def bits(split):
    return (load(f"digits:{split}").pixels > 8).astype(float)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a short run on the digits."""
    folder = tmp_path_factory.mktemp("digits")
    small = ("--steps", str(STEPS), "--batch-size", "64", "--lr", "0.003", "--set", "model.depth=1")
    csm("fit", "digits", "--out", str(folder / "run"), *small, "--set", "average=0.98", "--set", "valid_every=200")
    return folder


def slope(images, truth):
    """How much of the data's covariances between pixels is there: 1 in the data, 0 where pixels are independent.

    Returns:
        The regression of the images' pixel covariances on the data's, and its standard error over blocks of images.
    """
    wanted = covariances(truth)
    parts = [covariances(part) for part in np.array_split(images, BLOCKS)]
    each = np.array([(part * wanted).sum() / (wanted**2).sum() for part in parts])
    return each.mean(), each.std(ddof=1) / BLOCKS**0.5


def covariances(images):
    found = np.cov(images.reshape(len(images), -1).T)
    return found[np.triu_indices_from(found, 1)]


def sampled(home, name, *words):
    out = home / f"{name}.npy"
    csm("sample", str(home / "run"), "-n", str(DRAWS), "--out", str(out), *words)
    return (np.load(out) > 8).astype(float)


@pytest.fixture(scope="module")
def drawn(home):
    return sampled(home, "drawn")


def test_pixels_are_bright_where_they_are_in_the_data(drawn):
    data, own = np.concatenate([bits("valid"), bits("test")]), drawn.mean(0)
    mean = data.mean(0)
    error = np.sqrt(mean * (1 - mean) * (1 / len(data) + 1 / DRAWS))
    off = np.abs(own - mean)
    assert off.max() < 0.1 + 4 * error.max()  # noise is off by a half at the rim
    assert off.mean() < 0.05


def test_pixels_depend_on_each_other_as_in_the_data(home, drawn):
    truth = bits("train")
    here, error = slope(drawn, truth)
    data, data_error = slope(bits("test"), truth)
    assert (here - 0.6) / error > 3
    assert abs(here - data) < 0.25 + 4 * np.hypot(error, data_error)
    # The same judgement refuses what is broken: noise, and pixels that know nothing of each other.
    alone = sampled(home, "alone", "--passes", "1")
    noise = np.random.default_rng(0).integers(2, size=drawn.shape).astype(float)
    for broken in (alone, noise):
        there, error = slope(broken, truth)
        assert there + 4 * error < 0.3
        assert (0.6 - there) / error > 3


def test_many_sites_at_once_come_down_to_such_images_too(home):
    here, error = slope(sampled(home, "heat_bath", "--sampler", "heat_bath", "--passes", "100"), bits("train"))
    assert (here - 0.4) / error > 3


def test_the_bound_is_above_independent_pixels(home, capsys):
    capsys.readouterr()
    csm("evaluate", str(home / "run"), "digits", "--json")
    shown = json.loads(capsys.readouterr().out)
    train, test = bits("train"), bits("test")
    p = (train.sum(0) + 0.5) / (len(train) + 1)
    alone = np.where(test == 1, np.log(p), np.log(1 - p)).sum((1, 2))
    error = np.hypot(np.hypot(shown["stderr"], shown["bound_stderr"]), alone.std() / len(alone) ** 0.5)
    assert (shown["rows"], shown["method"], shown["upper"]) == (299, "variational", None)
    assert (shown["lower"] - alone.mean()) / error > 4
    assert shown["lower"] < 0


def test_the_lower_half_follows_from_the_upper(home):
    data, draws = load("digits:test").pixels[:200].astype(int), 8
    holed, truth = data.copy(), (data > 8)[:, HALF:]
    holed[:, HALF:] = -1
    np.save(home / "holed.npy", holed)
    words = ("--draws", str(draws), "--passes", "64", "--out", str(home / "whole.npy"))
    csm("impute", str(home / "run"), str(home / "holed.npy"), *words)
    filled = np.load(home / "whole.npy").reshape(draws, *data.shape)
    assert (filled[:, :, :HALF] == data[:, :HALF]).all()
    chance = (filled > 8)[:, :, HALF:].mean(0)
    # The squared error of the probability itself: the mean of a few draws adds its own variance, which is taken off.
    ours = ((chance - truth) ** 2 - chance * (1 - chance) / (draws - 1)).mean((1, 2))
    alone = ((bits("train").mean(0)[HALF:] - truth) ** 2).mean((1, 2))
    gain = alone - ours
    assert gain.mean() / (gain.std(ddof=1) / len(gain) ** 0.5) > 3
