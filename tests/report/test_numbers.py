"""Reports of tables with numbers: the likelihoods are those of the numbers, as ``csm evaluate`` gives them."""

import numpy as np
import polars as pl
import pytest
import torch

from concrete_score.codecs import TableCodec
from concrete_score.fitting import hold_out
from concrete_score.model import load
from concrete_score.report import Subject
from concrete_score.report.history import read_curves
from concrete_score.report.likelihood import compare
from concrete_score.report.resemblance import resemblance_section
from concrete_score.training.examples import Examples
from tests.report import cases


def measured(blank):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 400)
    size = np.round(rng.normal(3 * kind, 1), 2)
    cells = pl.Series("size", size).set(pl.Series(rng.random(400) < 0.2 * blank), None)
    return pl.DataFrame(
        {"kind": np.array(["a", "b"])[kind], "size": cells, "day": [f"2024-01-{1 + k % 31:02d}" for k in range(400)]}
    )


@pytest.mark.parametrize("blank", [False, True], ids=["whole", "blank"])
@pytest.mark.parametrize("recipe", ["made", "table"])
def test_the_report_and_evaluate_give_the_same_likelihood(tmp_path, recipe, blank):
    if blank and recipe == "table":
        pytest.skip("a table takes no blanks")
    frame = measured(blank)
    codec = TableCodec.fit(frame)
    rows = codec.encode(frame, missing="unobserved")
    run, *_ = cases.make_run(tmp_path / "run", (codec, rows.states), cases.RECIPES[recipe])
    train, held = hold_out(Examples.of(rows.states, rows.observed, None, rows.log_inside), 0.25, 0)
    subject = Subject.of(run, train, held)
    found = compare(subject)
    inside = float(held.log_inside.mean())
    assert inside < -1
    unseen = hold_out(torch.arange(len(frame))[:, None], 0.25, 0)[1][:, 0]
    answer = load(run).evaluate(frame[unseen.tolist()])
    assert found.exact.log_likelihood == pytest.approx(answer.log_likelihood, abs=1e-3 if blank else 1e-9)
    assert found.exact.stderr == pytest.approx(answer.stderr, rel=1e-2)
    if not blank:  # the ranges are the same for all models, so what they add cancels in the gain
        first = found.baselines[0]
        assert first.gain == pytest.approx(found.exact.log_likelihood - first.mean)
    assert read_curves(subject).valid[0][1] == pytest.approx(-5.0 + (inside if recipe == "made" else 0.0))


def test_draws_are_compared_with_the_data(tmp_path):
    frame = measured(False)
    codec = TableCodec.fit(frame)
    rows = codec.encode(frame)
    run, *_ = cases.make_run(tmp_path / "run", (codec, rows.states))
    train, held = hold_out(rows.states, 0.25, 0)
    section = resemblance_section(Subject.of(run, train, held))
    text = str(section.body)
    assert "Columns differ in shape by" in text
    assert "Pairs of columns differ in trend by" in text
    assert "shape error" in text
    assert "size" in text
    (told,) = section.findings  # weights drawn at random are told from the data
    assert told.good is False
    assert "tell synthetic rows from real ones" in told.text
    assert str(resemblance_section(Subject.of(run, train, held)).body) == text
